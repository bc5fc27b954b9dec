"""Line charts: measured lines solid, predicted dashed, limits dotted, a source's figures as marks alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from tilewright.show.report import figures
from tilewright.show.report.charts import scales, style
from tilewright.show.report.charts.drawing import LINE, SIZE, Drawing
from tilewright.show.report.charts.records import Lines, Series

_DASHES = {"measured": "", "counted": "", "predicted": "7 4", "limit": "2 4"}
#: Ratio of the plane's height to the drawing's width.
_HEIGHT = 0.5
_LEAST_HEIGHT = 230
#: Pixels to the right of the plane, for half of the last tick's number.
_RIGHT = 24


def draw(chart: Lines, drawing: Drawing) -> None:
    """Draw the legend, the axes and the lines below the present content."""
    colours = _colours(chart.series)
    _legend(chart.series, colours, drawing)
    points = [point for series in chart.series for point in series.points]
    ends = [end for series in chart.series for band in series.band for end in band]
    top = drawing.height + 2 * LINE
    bottom = top + max(_LEAST_HEIGHT, drawing.width * _HEIGHT)
    y = scales.scale(chart.y, [*(value for _, value in points), *ends], bottom, top, whole=True)
    left = max(style.width(_number(tick), SIZE) for tick in y.ticks()) + 10
    x = scales.scale(chart.x, [value for value, _ in points], left, drawing.width - _RIGHT)
    _axes(chart, x, y, drawing)
    for series, colour in zip(chart.series, colours, strict=True):
        _band(series, colour, x, y, drawing)
    for number, (series, colour) in enumerate(zip(chart.series, colours, strict=True)):
        _line(series, colour, x, y, drawing)
        if series.marked:
            for point in series.points:
                cross = point[0] in series.doubtful
                _mark(number, x(point[0]), y(point[1]), series, colour, drawing, _tooltip(series, point), cross=cross)
    drawing.height = bottom + 2 * LINE + 10


def _colours(series: Sequence[Series]) -> list[str]:
    """A colour for each line; limits are grey."""
    found, number = [], 0
    for one in series:
        if one.kind == "limit":
            found.append("var(--tw-quiet)")
        else:
            found.append(f"var(--tw-line-{number % style.LINES})")
            number += 1
    return found


def _legend(series: Sequence[Series], colours: Sequence[str], drawing: Drawing) -> None:
    x, sample = 0.0, 30
    drawing.height += LINE
    for number, (one, colour) in enumerate(zip(series, colours, strict=True)):
        words = _name(one)
        if x and x + sample + style.width(words, SIZE) > drawing.width:
            x, drawing.height = 0.0, drawing.height + LINE
        middle = drawing.height - SIZE * 0.35
        if one.kind != "stated":
            drawing.add("path", d=f"M{x:.1f},{middle:.1f}h{sample - 6}", **_stroke(one, colour))
        if one.marked:
            _mark(number, x + (sample - 6) / 2, middle, one, colour, drawing)
        drawing.text(x + sample, drawing.height, words)
        x += sample + style.width(words, SIZE) + 18


def _name(series: Series) -> str:
    return f"{series.name} (predicted)" if series.kind == "predicted" else series.name


def _tooltip(series: Series, point: tuple[float, float]) -> str:
    return f"{_name(series)}: {_number(point[0])}, {figures.rate(point[1])}"


def _stroke(series: Series, colour: str) -> dict[str, object]:
    dashes = _DASHES[series.kind]
    return {"fill": "none", "stroke": colour, "stroke_width": 2} | ({"stroke_dasharray": dashes} if dashes else {})


def _axes(chart: Lines, x: scales.Scale, y: scales.Scale, drawing: Drawing) -> None:
    drawing.text(0, y.end - 10, chart.y.title, fill="var(--tw-quiet)")
    for tick in y.ticks():
        drawing.line(x.start, y(tick), x.end, y(tick))
        drawing.text(x.start - 7, y(tick) + SIZE * 0.35, _number(tick), text_anchor="end")
    taken = -1e9
    for tick in x.ticks():
        words, at = _number(tick), x(tick)
        drawing.line(at, y.start, at, y.start + 4, "quiet")
        half = style.width(words, SIZE) / 2
        if at - half > taken:
            drawing.text(at, y.start + LINE, words, text_anchor="middle")
            taken = at + half + 6
    drawing.line(x.start, y.start, x.end, y.start, "quiet")
    drawing.text(x.end, y.start + 2 * LINE, chart.x.title, text_anchor="end", fill="var(--tw-quiet)")


def _band(series: Series, colour: str, x: scales.Scale, y: scales.Scale, drawing: Drawing) -> None:
    if not series.band:
        return
    pairs = list(zip(series.points, series.band, strict=True))
    above = [(at, high) for (at, _), (_, high) in pairs]
    below = [(at, low) for (at, _), (low, _) in reversed(pairs)]
    corners = " ".join(f"{x(at):.1f},{y(max(value, y.least)):.1f}" for at, value in chain(above, below))
    drawing.add("polygon", points=corners, fill=colour, fill_opacity=0.14)


def _line(series: Series, colour: str, x: scales.Scale, y: scales.Scale, drawing: Drawing) -> None:
    places = " L".join(f"{x(at):.1f},{y(value):.1f}" for at, value in series.points)
    if len(series.points) > 1 and series.kind != "stated":
        drawing.add("path", d=f"M{places}", stroke_linejoin="round", **_stroke(series, colour))


def _mark(
    number: int,
    x: float,
    y: float,
    series: Series,
    colour: str,
    drawing: Drawing,
    tooltip: str = "",
    *,
    cross: bool = False,
) -> None:
    """Draw a mark; each line has its own shape, so that colour is not needed; predicted marks are hollow.

    A cross marks a value that is not to be relied on.

    Its tooltip is its value.
    """
    shape = (
        f"M{x - 4:.1f},{y:.1f}a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
        f"M{x - 4:.1f},{y - 4:.1f}h8v8h-8z",
        f"M{x:.1f},{y - 5:.1f}l5,9h-10z",
        f"M{x:.1f},{y - 5.5:.1f}l5.5,5.5l-5.5,5.5l-5.5,-5.5z",
    )[number % 4]
    if cross:
        cut = f"M{x - 4.5:.1f},{y - 4.5:.1f}l9,9m-9,0l9,-9"
        drawing.element("path", tooltip, d=cut, fill="none", stroke=colour, stroke_width=2)
        return
    hollow = {"fill": "var(--tw-ground)", "stroke": colour, "stroke_width": 1.6}
    full = {"fill": colour, "stroke": "var(--tw-ground)", "stroke_width": 1}
    drawing.element("path", tooltip, d=shape, **(hollow if series.kind == "predicted" else full))


def _number(value: float) -> str:
    """A tick's number, without needless digits.

    >>> _number(0.5), _number(4096.0), _number(1e-05)
    ('0.5', '4,096', '1e-05')
    """
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:g}"

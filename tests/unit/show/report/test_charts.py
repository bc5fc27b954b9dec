"""Charts: positions of values, marks of measured and predicted ones, and drawings that other programs can read."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from tilewright.ladder import Climb, Counts, Machine, Product, Rung
from tilewright.machine.alternatives import Demand
from tilewright.profiling import Unit
from tilewright.show.report import styles
from tilewright.show.report.blocks import words
from tilewright.show.report.charts import ladder, occupancy, png, scales, style, svg, terminal
from tilewright.show.report.charts.records import Axis, Bars, Cell, Chart, Heat, Kind, Lines, Series
from tilewright.show.report.page import html_of
from tilewright.simulate.machine import gpu

SVG = "{http://www.w3.org/2000/svg}"
LINES = Lines(
    "Rate <b>&",
    Axis("n", log=True, base=2),
    Axis("G operations/s", least=0),
    (
        Series("numpy", ((8, 1.0), (64, 40.0), (512, 100.0))),
        Series("tiled", ((8, 2.0), (64, 80.0)), "predicted", ((1.5, 2.7), (60.0, 108.0))),
        Series("roof", ((8, 200.0), (512, 200.0)), "limit", marked=False),
    ),
    "A note.",
)
HEAT = Heat(
    "Table", ("8", "16"), ("a", "b"), ((Cell(1, "one"), None), (Cell(2, "two", "predicted"), Cell(4, "four"))), "w", "b"
)
BARS = Bars("Bars", (Cell(4, "4 s", label="x"), Cell(1, "1 s", "predicted", "y"), Cell(0, "0 s", label="z")))
CHARTS = {"lines": LINES, "heat": HEAT, "bars": BARS, "occupancy": occupancy.charts(gpu("a100"), Demand(40, 0, 256))[0]}


def elements(chart: Chart, tag: str, width: int = svg.WIDE) -> list[ET.Element]:
    return ET.fromstring(svg.text(chart, width)).findall(SVG + tag)


def texts(chart: Chart) -> list[str]:
    return [element.text or "" for element in elements(chart, "text")]


@pytest.mark.parametrize("width", [svg.WIDE, svg.NARROW])
@pytest.mark.parametrize("name", CHARTS)
def test_everything_lies_within_the_drawing(name: str, width: int) -> None:
    root = ET.fromstring(svg.text(CHARTS[name], width))
    left, top, wide, high = map(float, root.get("viewBox", "").split())
    for one in root.findall(SVG + "text"):
        long = style.width(one.text or "", float(one.get("font-size", "0")))
        start = float(one.get("x", "nan")) - {"end": long, "middle": long / 2}.get(one.get("text-anchor", ""), 0)
        assert left <= start and start + long <= left + wide + 1, one.text
        assert top < float(one.get("y", "nan")) <= top + high
    for one in root.findall(SVG + "rect"):
        assert float(one.get("width", "nan")) >= 0
        assert float(one.get("x", "nan")) + float(one.get("width", "nan")) <= left + wide + 0.1


@pytest.mark.parametrize("name", CHARTS)
def test_names_from_users_are_escaped(name: str) -> None:
    drawn = svg.text(CHARTS[name])
    assert "<b>" not in drawn
    assert "".join(texts(LINES)[:1]) == "Rate <b>&"


def test_predicted_lines_are_dashed_and_say_so() -> None:
    assert any("tiled (predicted)" in text for text in texts(LINES))
    paths = [path for path in elements(LINES, "path") if path.get("fill") == "none"]
    dashes = {path.get("stroke"): path.get("stroke-dasharray") for path in paths}
    assert dashes == {"var(--tw-line-0)": None, "var(--tw-line-1)": "7 4", "var(--tw-quiet)": "2 4"}


@pytest.mark.parametrize("chart", [HEAT, BARS], ids=["heat", "bars"])
def test_predicted_cells_and_bars_are_dashed_and_say_so(chart: Chart) -> None:
    assert len([one for one in elements(chart, "rect") if one.get("stroke-dasharray")]) == 1
    assert "Dashed: predicted, not measured." in texts(chart)


def test_points_are_at_their_values() -> None:
    (path,) = [
        p for p in elements(LINES, "path") if p.get("stroke") == "var(--tw-line-0)" and (p.get("d") or "").count("L")
    ]
    places = [tuple(map(float, pair.split(","))) for pair in (path.get("d") or "")[1:].split(" L")]
    across = [x for x, _ in places]
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)  # factors of 8
    down = [y for _, y in places]
    assert (down[0] - down[1]) / (down[0] - down[2]) == pytest.approx(39 / 99, abs=0.01)


def test_bars_are_as_long_as_their_values_and_begin_at_0() -> None:
    lengths = [float(one.get("width", "nan")) for one in elements(BARS, "rect")[1:]]
    assert lengths[1] / lengths[0] == pytest.approx(0.25, abs=0.001)
    assert lengths[2] == 0


@pytest.mark.parametrize("most", [0.003, 0.7, 9, 64, 101, 123_456])
def test_ticks_of_linear_axes_are_round_and_evenly_apart(most: float) -> None:
    scale = scales.scale(Axis("", least=0), [most], 0, 400, whole=True)
    ticks = scale.ticks()
    assert ticks[0] == 0 and ticks[-1] == pytest.approx(scale.most) and scale.most >= most
    steps = [after - before for before, after in pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps))
    assert f"{steps[0]:.0e}"[0] in "125"


def test_one_point_and_equal_values_can_be_drawn() -> None:
    for points in (((8, 5.0),), ((8, 5.0), (16, 5.0)), ((8, 0.0),)):
        for log in (False, True):
            chart = Lines("t", Axis("x", log=True, base=2), Axis("y", log=log), (Series("a", points),))
            assert "nan" not in svg.text(chart)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_contrast_with_their_background(dark: bool) -> None:
    named = style.colours(dark=dark, page=True)
    text = {"ink", "quiet", "accent", "good", "bad", *styles.VARIABLES.values()}
    for ground in ("ground", "panel"):
        assert {name for name in text if contrast(named[name], named[ground]) < 4.5} == set()
    assert {name for name in named if name.startswith("line-") and contrast(named[name], named["ground"]) < 3} == set()


def test_text_of_a_page_fits_the_colour_of_its_background() -> None:
    """A notebook sets no colours, so its text has those of a terminal."""
    text = html_of([words(("7 us", styles.PREDICTED), ("bad", styles.ERROR))])
    assert f"color: var(--tw-predicted, {styles.PREDICTED})" in text
    assert f"color: var(--tw-bad, {styles.ERROR_COLOUR})" in text
    for dark in (False, True):
        assert set(styles.VARIABLES.values()) <= set(style.colours(dark=dark, page=True))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_in_cells_can_be_read(dark: bool) -> None:
    values = range(1, 41)
    chart = Heat("", tuple(map(str, values)), ("a",), tuple((Cell(value, "x"),) for value in values))
    named = style.colours(dark=dark)
    cells = [one for one in elements(chart, "rect") if one.get("fill") == "var(--tw-heat)"]
    inks = [one.get("fill", "")[9:-1] for one in elements(chart, "text") if one.text == "x"]
    assert len(cells) == len(inks) == 40
    for cell, ink in zip(cells, inks, strict=True):
        share = float(cell.get("fill-opacity", "nan"))
        pairs = [(int(named["heat"][at : at + 2], 16), int(named["ground"][at : at + 2], 16)) for at in (1, 3, 5)]
        mixed = "#" + "".join(f"{round(share * paint + (1 - share) * under):02x}" for paint, under in pairs)
        assert contrast(named[ink], mixed) >= 4.5


@pytest.mark.parametrize("name", CHARTS)
def test_png_is_the_drawing_in_its_colours(name: str) -> None:
    pytest.importorskip("resvg_py", reason="resvg-py, of the extra `report`, is not installed")
    light, dark = (png.image(CHARTS[name], dark=is_dark) for is_dark in (False, True))
    width = int.from_bytes(light[16:20], "big")
    assert light[:8] == b"\x89PNG\r\n\x1a\n" and light != dark
    assert width == png.ZOOM * int(ET.fromstring(svg.text(CHARTS[name])).get("width", "0"))


def test_plain_drawings_have_no_variables() -> None:
    drawn = style.plain(svg.text(LINES), dark=True)
    assert "var(" not in drawn and style.colours(dark=True)["line-1"] in drawn


def test_occupancy_curves_agree_with_occupancy() -> None:
    on, demand = gpu("a100"), Demand(64, 20_000, 192)
    for chart, field, unit in zip(
        occupancy.charts(on, demand),
        ("registers_per_thread", "shared_bytes", "block_threads"),
        (1, 1024, 1),
        strict=True,
    ):
        curve = dict(chart.series[0].points)  # of two points at a step, the second: it holds from there on
        here = getattr(demand, field)
        assert chart.series[1].points == ((here / unit, demand.on(on).active_warps),)
        below = max(at for at in curve if at <= here / unit)
        assert curve[below] == demand.on(on).active_warps
        for (before, warps), (at, after) in pairwise(chart.series[0].points):
            assert before == at or warps == after  # a staircase of lines along the axes


def test_terminal_has_the_same_lines() -> None:
    shown = [block.text.plain for block in terminal.blocks(LINES)]  # type: ignore[union-attr]
    assert shown[0] == "Rate <b>&"
    drawn = [row.partition("│")[2] for row in shown if "│" in row]
    assert len(drawn) == 16
    assert [number for number, row in enumerate(drawn) if re.search(r"[\u2801-\u28ff]", row)][-1] == 15
    assert re.search(r"[\u2801-\u28ff]", drawn[0])  # the roof
    assert drawn[0][64:] == "3"  # a line's number, at its end: no colour is needed
    assert sorted("".join(row[64:] for row in drawn).replace(",", "")) == ["1", "2", "3"]
    assert {"⠒⠒⠒ 1 numpy (measured)", "⠒ ⠒ 2 tiled (predicted)", "⠂⠂⠂ 3 roof (limit)", "A note."} <= set(shown)


def test_terminal_draws_predicted_lines_with_gaps_and_limits_with_wider_ones() -> None:
    def dots(kind: Kind) -> int:
        line = Series("a", ((0, 1.0), (10, 1.0)), kind)
        shown = terminal.blocks(Lines("", Axis("x"), Axis("y", least=0), (line,)))
        drawn = "".join(block.text.plain for block in shown if "│" in block.text.plain)  # type: ignore[union-attr]
        return sum((ord(letter) - 0x2800).bit_count() for letter in drawn if 0x2800 < ord(letter) < 0x2900)

    assert dots("measured") == 128  # the whole width
    assert 0.5 * 128 < dots("predicted") < 0.7 * 128
    assert 0.2 * 128 < dots("limit") < 0.3 * 128


def test_terminal_marks_what_is_predicted() -> None:
    shown = [block.text.plain for block in terminal.blocks(HEAT)]  # type: ignore[union-attr]
    assert shown[1:] == ["w      a     b", " 8   one      ", "16  two*  four", "* predicted, not measured"]


def rung(name: str, dtype: str, **counts: int) -> Rung:
    limits = (Unit("instruction issue", 1, "instructions", 2e-6),) if counts else ()
    return Rung(name, "", "S9", "fma", False, "simulated", dtype, counts=Counts(**counts), limits=limits)


def climbed(*rungs: Rung) -> Climb:
    machine_ = Machine("A100", "8.0", "A100", "simulated", "host", 2, "0")
    return Climb(machine_, Product(8, 9, 10, ("int32",), None), rungs)


def test_the_ladder_s_bars_are_what_was_counted() -> None:
    found = ladder.charts(
        climbed(
            rung("a", "int32", global_load_sectors=5, shared_load_wavefronts=2, shared_store_wavefronts=3),
            rung("b", "int32"),
            rung("c", "int32", global_load_sectors=1, shared_load_wavefronts=0, shared_store_wavefronts=0),
        )
    )
    assert [chart.title for chart in found] == [
        "Least time on the A100, 8 x 9 x 10",
        "Sectors of 32 bytes loaded from global memory, 8 x 9 x 10",
        "Wavefronts of shared memory, loads and stores, 8 x 9 x 10",
    ]
    assert [(bar.label, bar.value, bar.kind) for bar in found[0].bars] == [(n, 2e-6, "predicted") for n in "ac"]
    assert [(bar.label, bar.value, bar.kind) for bar in found[2].bars] == [("a", 5, "counted"), ("c", 0, "counted")]


def test_the_ladder_names_dtypes_where_they_differ() -> None:
    found = ladder.charts(climbed(rung("a", "int32", warp_instructions=5), rung("b", "float32", warp_instructions=4)))
    assert [bar.label for bar in found[-1].bars] == ["a, int32", "b, float32"]

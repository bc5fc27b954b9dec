"""The chart of `tw.matmul` beside NumPy and PyTorch, drawn from the table on the page of measurements.

`python benchmarks/cpu.py` measures the table; the page says on which host and with which versions.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from tilewright.show.report.charts import svg
from tilewright.show.report.charts.drawing import TITLE_SIZE, Drawing

PAGE = Path(__file__).resolve().parents[1] / "design" / "measurements.md"
#: Rows of the page's table, and their names in the chart: what BLAS does well, what it does not, and what we lose.
WORKS = {
    "float32 1024": "float32, 1024 x 1024",
    "float64 1024": "float64, 1024 x 1024",
    "complex64 512": "complex64, 512 x 512",
    "float32 64": "float32, 64 x 64",
    "10,000 of 4x4": "float32, 10,000 of 4 x 4",
    "bias, gelu 1024x4096x64": "float32, bias and gelu after it",
    "float32 min-plus 512": "float32, shortest paths",
    "int32 512": "int32, 512 x 512",
    "int8 to int32 1024": "int8 into int32, 1024 x 1024",
    "float16 512": "float16, 512 x 512",
    "bfloat16 512": "bfloat16, 512 x 512",
}
#: Name in the legend, its pattern in the table, its colour.
PEERS = (("NumPy", r"NumPy[a-z0-9 ]*?", "line-0"), ("PyTorch", r"(?:PyTorch|torch[.\w]*)[a-z, ]*?", "line-1"))
_THICK, _ROW = 11, 34
_LEAST, _MOST = 0.15, 60_000.0


def ratios(text: str, peer: str) -> tuple[float, float] | None:
    """The least and most median of the peer's time over ours, in a cell of the table.

    >>> ratios("NumPy to int32 16,284 to 16,294, PyTorch 1.01", "NumPy[a-z0-9 ]*?")
    (16284.0, 16294.0)
    """
    found = re.search(rf"{peer} (\d[\d,.]*\d)(?: to (\d[\d,.]*\d))?(?=, |$)", text)
    if found is None:
        return None
    least, most = (float(number.replace(",", "")) for number in (found[1], found[2] or found[1]))
    return least, most


def measured() -> tuple[str, dict[str, str]]:
    """When and where the table was measured, and the cells of the peers by the row's name."""
    page = PAGE.read_text(encoding="utf-8")
    where = re.search(r"^`python benchmarks/cpu.py` on ([^.]*(?:\.\d[^.]*)*)\.", page, re.MULTILINE)
    assert where is not None, "the page says when and where the table was measured"
    rows = re.findall(r"^\| ([^|]*) \| [^|]*op/s \| [^|]* \| ([^|]*) \|", page, re.MULTILINE)
    return where[1].replace("\n", " "), dict(rows)


def chart() -> str:
    """How many times as long as `tw.matmul` its peers take, on a logarithmic scale around 1."""
    title = "Time of NumPy and PyTorch over the time of tw.matmul"
    drawing = Drawing(svg.WIDE)
    drawing.paragraph(title, font_size=TITLE_SIZE, font_weight="bold")
    where, cells = measured()
    words = f"To the right of 1, tw.matmul is faster; to the left, slower. Measured on {where}."
    drawing.paragraph(words, fill="var(--tw-quiet)", font_size=12)
    for number, (name, _, colour) in enumerate(PEERS):
        x, y = 196 + 90 * number, drawing.height + 8
        drawing.add("rect", x=x, y=y, width=_THICK, height=_THICK, fill=f"var(--tw-{colour})")
        drawing.text(x + _THICK + 5, y + 10, name)
    top = drawing.height = drawing.height + 46
    bottom = top + _ROW * len(WORKS)
    for tick in (1, 10, 100, 1_000, 10_000):
        drawing.line(_place(tick), top - 4, _place(tick), bottom - 6, "ink" if tick == 1 else "grid")
        drawing.text(_place(tick), top - 8, f"{tick:,} x", text_anchor="middle", font_size=11)
    for work, shown in WORKS.items():
        drawing.text(186, drawing.height + _ROW / 2 + 1, shown, text_anchor="end")
        for number, (_, pattern, colour) in enumerate(PEERS):
            _bar(drawing, ratios(cells[work], pattern), drawing.height + number * (_THICK + 1), colour)
        drawing.height += _ROW
    drawing.paragraph("No bar: not measured.", fill="var(--tw-quiet)", font_size=12)
    return svg.element(drawing, title)


def _place(ratio: float) -> float:
    """Where a ratio stands."""
    left, right = 212.0, svg.WIDE - 12.0
    return left + (right - left) * math.log(ratio / _LEAST) / math.log(_MOST / _LEAST)


def _bar(drawing: Drawing, found: tuple[float, float] | None, y: float, colour: str) -> None:
    if found is None:
        return
    ratio = math.sqrt(found[0] * found[1])
    start, end = sorted((_place(1.0), _place(ratio)))
    place = {"x": round(start, 1), "y": round(y, 1), "width": round(max(1.5, end - start), 1), "height": _THICK}
    drawing.add("rect", **place, fill=f"var(--tw-{colour})")
    words = f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2g} x"
    if ratio >= 1:
        drawing.text(end + 5, y + 10, words, font_size=11)
    else:
        drawing.text(start - 4, y + 10, words, font_size=11, text_anchor="end")

"""A heat map: a table whose cells are darker for larger values."""

from __future__ import annotations

from tilewright.show.report.charts import style
from tilewright.show.report.charts.drawing import LINE, SIZE, Drawing
from tilewright.show.report.charts.records import Cell, Heat, kinds

_CELL_HEIGHT = 30
_GAP = 3
_MOST_WIDTH = 120
#: Share of the range from which a cell is so dark that its text has the background's colour.
_DARK = 0.55


def draw(chart: Heat, drawing: Drawing) -> None:
    """Draw the table below the present content."""
    left = max(style.width(words, SIZE) for words in (*chart.rows, chart.row_title)) + 14
    each = min(_MOST_WIDTH, (drawing.width - left) / len(chart.columns))
    drawing.height += LINE
    if chart.column_title:
        drawing.text(left, drawing.height, chart.column_title, fill="var(--tw-quiet)")
        drawing.height += LINE
    drawing.text(0, drawing.height, chart.row_title, fill="var(--tw-quiet)")
    for number, words in enumerate(chart.columns):
        drawing.text(left + each * (number + 0.5), drawing.height, words, text_anchor="middle")
    drawing.height += 8
    values = [cell.value for row in chart.cells for cell in row if cell is not None]
    for name, row in zip(chart.rows, chart.cells, strict=True):
        drawing.text(left - 12, drawing.height + _CELL_HEIGHT * 0.63, name, text_anchor="end")
        for number, cell in enumerate(row):
            if cell is not None:
                _cell(cell, max(values), left + each * number, each - _GAP, drawing)
        drawing.height += _CELL_HEIGHT + _GAP
    if "predicted" in kinds(chart):
        drawing.paragraph("Dashed: predicted, not measured.", fill="var(--tw-quiet)", font_size=12)


def _cell(cell: Cell, most: float, left: float, width: float, drawing: Drawing) -> None:
    share = cell.value / most if most else 0.0
    # Opacity of the colour. The middle third is left out: text of neither colour can be read on it.
    opacity = 0.05 + 0.3 * share / _DARK if share < _DARK else 0.75 + 0.25 * (share - _DARK) / (1 - _DARK)
    place = {"x": round(left, 1), "y": drawing.height, "width": round(width, 1), "height": _CELL_HEIGHT, "rx": 3}
    drawing.add("rect", **place, fill="var(--tw-heat)", fill_opacity=round(opacity, 3))
    ink = "var(--tw-ground)" if share >= _DARK else "var(--tw-ink)"
    if cell.kind == "predicted":
        inside = {"x": round(left + 2, 1), "y": drawing.height + 2, "width": round(width - 4, 1), "height": 26, "rx": 2}
        drawing.add("rect", **inside, fill="none", stroke=ink, stroke_opacity=0.6, stroke_dasharray="3 3")
    middle = {"text_anchor": "middle", "fill": ink, "font_size": SIZE if width > 52 else 11}
    drawing.text(left + width / 2, drawing.height + _CELL_HEIGHT * 0.65, cell.text, **middle)

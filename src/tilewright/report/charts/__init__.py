"""Charts: records of what is drawn, and one way to draw them as SVG, PNG and in a terminal.

:mod:`tilewright.report.charts.records` has the records, `svg` draws any of them; `rates`, `occupancy` and `ladder` make
them of results.
"""

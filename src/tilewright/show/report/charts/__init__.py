"""Charts: records, and their drawing as SVG, as PNG and in a terminal.

:mod:`tilewright.show.report.charts.records` has the records, `svg` draws them; `rates`, `occupancy` and `ladder` make
them from results.
"""

"""The page of a report: one file of HTML that needs nothing else.

`page` puts parts together; each part is a module: `partition` and `lanes` are the pictures that a reader steps through,
drawn by the page's own script from numbers; `charts` are SVG.
"""

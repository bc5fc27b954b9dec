"""The page of a report: one file of HTML that needs nothing else.

`page` joins the parts; each part is a module. `partition` and `lanes` are interactive pictures, which the page's script
draws from numbers; `charts` are SVG.
"""

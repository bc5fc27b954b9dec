"""How Sphinx builds these pages: `make docs`."""

from tilewright.version import __version__

project = "Tilewright"
author = copyright = "the authors of Tilewright"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
html_theme = "furo"
pygments_style = "friendly"  # lines of a diff are red and green
html_title = f"Tilewright {__version__}"

myst_heading_anchors = 3  # `matmul.md#devices`, as code hosts have it
suppress_warnings = ["misc.highlighting_failure"]  # a listing of `check` is no program

default_role = "code"  # single backticks of docstrings
smartquotes = False  # names of options are text
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's sections say them
numpydoc_show_class_members = False  # autodoc lists them

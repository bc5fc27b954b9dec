"""How Sphinx builds these pages: `make docs`."""

import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

sys.path.insert(0, str(Path(__file__).parent / "making"))

from built import absent_pictures, faint

from tilewright.version import __version__

project = "Tilewright"
author = copyright = "the authors of Tilewright"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["pages.css"]
pygments_style, pygments_dark_style = "xcode", "monokai"  # each colour can be read: `built.faint` holds it
html_title = f"Tilewright {__version__}"

myst_heading_anchors = 3  # `matmul.md#devices`, as code hosts have it
suppress_warnings = ["misc.highlighting_failure"]  # a listing of `check` is no program

default_role = "code"  # single backticks of docstrings
smartquotes = False  # names of options are text
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc's sections say them
numpydoc_show_class_members = False  # autodoc lists them


def hold(app: Sphinx, failure: Exception | None) -> None:
    """Fail the build where a picture is absent, or code too faint to read."""
    if failure is None and app.builder.format == "html":
        built = Path(app.outdir)
        style = (built / "_static" / "pygments.css").read_text("utf-8") + (built / "_static" / "pages.css").read_text(
            "utf-8"
        )
        if wrong := [*absent_pictures(built), *faint(style)]:
            raise ExtensionError("pages must have their pictures, and code a contrast of 4.5: " + "; ".join(wrong))


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", hold)

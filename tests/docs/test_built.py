"""The build fails where a picture is absent or code is too faint."""

from __future__ import annotations

from pathlib import Path

import pytest
from built import absent_pictures, faint


def test_a_picture_that_is_absent_is_named(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "there.svg").write_text("<svg/>")
    (tmp_path / "deep" / "page.html").write_text(
        '<img alt="" src="../there.svg"><img src="../there.svg#dark"><img src="https://example.org/a.png">'
        '<img src="data:image/png;base64,AA=="><p><img width="5" src="there.svg"></p>'
    )
    assert absent_pictures(tmp_path) == [f"{Path('deep') / 'page.html'}: there.svg"]


def test_faint_words_are_named_in_each_theme() -> None:
    css = """
    .highlight { background: #ffffff; color: #000000 }
    .highlight .c1 { color: #767676 } /* 4.5 to 1 */
    .highlight .go { color: #777777 }
    .highlight .err { color: #fff; background-color: #ff0000 }
    @media (prefers-color-scheme: dark) {
        body .highlight { background: #000 }
        body .highlight .k { color: #006000 }
        body .highlight .c1 { color: #767676 }
    }
    """
    assert faint(css) == [".highlight .go: 4.5", ".highlight .err: 4.0", "body .highlight .k: 2.7"]


@pytest.mark.parametrize("style", ["xcode", "monokai"])
def test_the_styles_of_the_pages_can_be_read(style: str) -> None:
    """Also where Sphinx is not installed, which makes its style sheet from these."""
    from pygments.formatters import HtmlFormatter

    assert faint(HtmlFormatter(style=style).get_style_defs(".highlight")) == []

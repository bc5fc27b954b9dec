"""docs/ptx-support.md agrees with the instruction table."""

from __future__ import annotations

from source_tree import ROOT

from tilewright.show.report import ptx_support
from tilewright.simulate import isa


def test_page_is_current() -> None:
    page = (ROOT / "docs" / "ptx-support.md").read_text(encoding="utf-8")
    assert page == ptx_support.page(isa.table().rows), "run: tilewright ptx-support > docs/ptx-support.md"


def test_page_has_every_row_in_the_manuals_order() -> None:
    row = isa.Row("add{.sat}.s32 d, a|p, b;", "9.7.1.10", lambda: None, note="x|y")
    later = isa.Row("sub.type d, a, b;", "9.7.1.2", lambda: None, where={"type": ("u16", "u32"), "typ": ("s8",)})
    page = ptx_support.page([row, later])
    assert page.index("9.7.1.2:") < page.index("9.7.1.10:")
    assert "| `sub.type d, a, b;` | `.type`: u16, u32 |  |" in page
    assert "| `add{.sat}.s32 d, a\\|p, b;` |  | x\\|y |" in page

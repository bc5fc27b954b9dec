"""docs/intrinsics.md agrees with the records of the intrinsics."""

from __future__ import annotations

from intrinsics import PAGE, page

from tilewright.gpu.intrinsics import records


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(records()), "run: python docs/making/intrinsics.py"

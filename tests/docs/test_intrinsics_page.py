"""docs/intrinsics.md says what the records of the intrinsics say."""

from __future__ import annotations

from intrinsics import PAGE

from tilewright.gpu.documentation import page
from tilewright.gpu.intrinsics import records


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(records()), "run: python docs/making/intrinsics.py"

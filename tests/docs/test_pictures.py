"""The pictures of docs/ are what the code draws."""

from __future__ import annotations

import pytest
from pictures import FOLDER, PICTURES

#: Those that profile every kernel of the ladder: 20 s.
SLOW = ("float32-wavefronts",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.volume] if name in SLOW else []) for name in PICTURES]
)
def test_a_picture_is_current(name: str) -> None:
    assert (FOLDER / f"{name}.svg").read_text(encoding="utf-8") == PICTURES[name]() + "\n", "run: make docs"


def test_no_picture_is_left_over() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(PICTURES)

"""The pictures of docs/ are what the code draws."""

from __future__ import annotations

import pytest
from examples import alike
from pictures import FOLDER, PICTURES

#: Profiles every kernel of the ladder, which takes 20 s; of one NVRTC makes other PTX in some processes.
LADDER = "float32-wavefronts"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.volume] if name == LADDER else []) for name in PICTURES]
)
def test_a_picture_is_current(name: str) -> None:
    shown, drawn = (FOLDER / f"{name}.svg").read_text(encoding="utf-8"), PICTURES[name]() + "\n"
    assert shown == drawn or (name == LADDER and alike(shown, drawn)), "run: make docs"


def test_no_picture_is_left_over() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(PICTURES)

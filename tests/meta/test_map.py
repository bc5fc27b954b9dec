"""The pages that lead through the package name files and folders that exist, and every wing."""

from __future__ import annotations

import re

import pytest
import wings
from source_tree import ROOT, SOURCE

PAGES = ("map.md", "launch.md")
_PATH = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_0-9]+\.[a-z]+)?)`")


def missing(text: str) -> list[str]:
    """The paths of a page that are neither in the package nor in the repository."""
    return [path for path in _PATH.findall(text) if not (SOURCE / path).exists() and not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES)
def test_paths_of_a_page_exist(page: str) -> None:
    text = (ROOT / "docs" / "design" / page).read_text("utf-8")
    assert len(_PATH.findall(text)) > 15
    assert missing(text) == []


def test_the_rule_sees_a_path_that_is_not_there() -> None:
    assert missing("`simulate/run/lunch.py` and `simulate/run/launch.py`, `tests/isa/`") == ["simulate/run/lunch.py"]


def test_the_picture_has_every_wing() -> None:
    assert set(wings.WINGS) == {path.parent.name for path in SOURCE.glob("*/__init__.py")}


@pytest.mark.parametrize("walk", ["From a numba launch to C", "From `tw.check` to the finding"])
def test_a_walk_has_at_most_twelve_steps(walk: str) -> None:
    text = (ROOT / "docs" / "design" / "launch.md").read_text("utf-8")
    section = text.split(f"## {walk}\n")[1].split("\n## ")[0]
    assert 5 < len(re.findall(r"^\d+\. ", section, re.MULTILINE)) <= 12

"""CHANGELOG.md: versions, in each its groups, in each group entries of one line."""

from __future__ import annotations

import re
import tomllib

import pytest
from source_tree import ROOT

#: The form that is tested; "Keep a Changelog" names these groups too.
GROUPS = ("Added", "Changed", "Fixed", "Removed")
LONGEST_ENTRY = 140
#: Lines below a version's heading: a group, an entry, and a line that says what the next entries are about.
_LINE = re.compile(r"### (?P<group>.+)|- (?P<entry>.+)|(?P<topic>[^-#\s].*:)|")


def mistakes(text: str) -> list[str]:
    """What does not have the form, a line each."""
    found, group = [], -1
    for number, line in enumerate(text[text.index("\n## ") + 1 :].splitlines()):
        if line.startswith("## "):
            group = -1
        elif not (match := _LINE.fullmatch(line)):
            found.append(f"{number}: {line!r} is no heading, entry or topic")
        elif name := match["group"]:
            if name not in GROUPS[group + 1 :]:
                found.append(f"{number}: {name} is no group, or not in order")
            group = GROUPS.index(name) if name in GROUPS else group
        elif (match["entry"] or match["topic"]) and group < 0:
            found.append(f"{number}: {line!r} stands in no group")
        elif len(line) > LONGEST_ENTRY:
            found.append(f"{number}: an entry has at most {LONGEST_ENTRY} characters ({len(line)})")
    return found


def test_entries_are_one_line_in_a_group() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert mistakes(text[: text.index("\n## 0.1.0")]) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("- One.", "no group"),
        ("### Added\n\n- One,\n  and the rest.", "no heading"),
        ("### Fixed\n\n- One.\n\n### Added", "not in order"),
        ("### New: words", "is no group"),
        (f"### Added\n\n- {'word ' * 30}", "at most"),
    ],
)
def test_another_form_is_found(lines: str, said: str) -> None:
    assert any(said in mistake for mistake in mistakes(f"# Changelog\n\n## Unreleased\n\n{lines}\n"))


def test_the_first_version_is_the_project_s() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (\d+\.\d+\.\d+)", text, re.MULTILINE)
    assert found[0] == version
    assert found == sorted(found, key=lambda text: [int(part) for part in text.split(".")], reverse=True)

"""The corpus is what it says: a twin beside each defect, a defect for each code, and lines that can be reported."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import corpus
import pytest

from tilewright.observe.instruments.findings import codes
from tilewright.programs import Program

#: What stands on a line that a code is reported for, as PTX; a launch has no instruction.
_SHARED = r"(ld|st)matrix|wgmma|(ld|st|atom|red)\S*\.shared|(ld|st|atom)\.(?!global|local|param)"
INSTRUCTIONS = {
    "TW101": r"(ld|st|atom|red)\S*\.global",
    "TW102": r"ld\.global\.(nc\.)?v4|cp\.async|ldmatrix",
    "TW103": _SHARED,
    "TW104": r"(ld|st)\S*.*\.local",
    "TW106": r"st\.",
    "TW107": r"(ld|st)\.global",
    "TW108": r"(ld|st)\.shared::cluster|cp\.async\.bulk\.shared::cluster",
    "TW110": r"call",
    "TW111": r"call",
    "TW201": r"ld\.global",
    "TW202": rf"{_SHARED}|cp\.async\.bulk",
    "TW203": r"ld\..*\.local|ld\.local",
    "TW204": r"add",
    "TW301": _SHARED,
    "TW109": r"tcgen05\.(ld|st|mma|cp)",
    "TW206": r"tcgen05\.(ld|mma)",
    "TW302": r"(st|atom|red)\S*\.global",
    "TW303": r"(st|atom|red)\S*\.global|st\.release",
    "TW304": rf"{_SHARED}|(ld|st)\.global",
    "TW306": rf"{_SHARED}|cp\.async|(ld|st)\.global",
    "TW307": _SHARED,
    "TW308": _SHARED,
    "TW310": r"ld\S*\.nc\b",
    "TW311": r"(ld|st)\.volatile",
    "TW312": r"st\.(shared|global)",
    "TW313": r"(ld|st)\.volatile|atom\.\S*exch",
    "TW314": r"(ld|st)\.global",
    "TW401": r"bar(rier)?\.sync",
    "TW402": r"bar(rier)?\.sync",
    "TW403": r"bar(rier)?\.sync",
    "TW404": r"(shfl|vote)\.sync",
    "TW405": r"shfl\.sync",
    "TW406": r"mbarrier\.",
    "TW407": r"mbarrier\.(try|test)_wait",
    "TW408": r"mbarrier\.",
    "TW409": r"mbarrier\.",
    "TW410": _SHARED,
    "TW411": _SHARED,
    "TW412": r"cp\.async\.bulk|wgmma",
    "TW413": r"wgmma|mul|add|st\.",
    "TW414": r"mma\.sync|wgmma",
    "TW415": r"wgmma|tcgen05\.mma",
    "TW416": r"tcgen05\.(ld|mma)",
    "TW417": r"tcgen05\.st|st\.shared",
    "TW418": r"st\.",
    "TW419": r"tcgen05\.(de)?alloc",
    "TW420": r"tcgen05|mbarrier\.arrive",
    "TW509": r"trap",
    "TW601": r"\.f64",
    "TW602": r"(mul|mad)\S*\.(lo\.)?[su]32",
    "TW603": r"(div|sqrt|rcp|st)\.",
    "TW604": r"cvt\.rn\.f32\.f64",
    "TW701": r"(ld|st)\.shared",
    "TW702": r"(ld|st)\.global",
    "TW801": r"st\.param",
}
#: Codes of local arrays, which the compiler may keep in registers.
OF_ARRAYS = ("TW104", "TW203")
DEFECTS = corpus.files("defects")


def instructions(program: Program, path: Path, line: int) -> list[str]:
    """The PTX of a line of the source; PTX that was written by hand is its own source."""
    ptx = program.ptx.splitlines()
    places = program.source_lines
    if not places:
        return [ptx[line - 1]]
    return [ptx[number - 1] for number, place in places.items() if place == f"{path}:{line}"]


@pytest.mark.parametrize("path", DEFECTS, ids=lambda p: p.stem)
def test_lines_to_report_have_instructions_that_can_be(path: Path) -> None:
    for case in corpus.cases(path):
        for line, code in sorted(corpus.expected(case)):
            if not code.startswith("TW5"):
                program = case.program()
                text = instructions(program, case.path, line)
                if code in OF_ARRAYS and not any(re.search(INSTRUCTIONS[code], one) for one in text):
                    text = [f"{one} .local" for one in instructions(program.with_arrays(), case.path, line)]
                assert any(re.search(INSTRUCTIONS[code], one) for one in text), f"{case.path}:{line} {code} {text}"


@pytest.mark.parametrize("path", DEFECTS, ids=lambda p: p.stem)
def test_each_defect_has_a_twin_and_something_to_find(path: Path) -> None:
    cases = corpus.cases(path)
    assert [case.defective for case in cases].count(True) == 1
    assert any(not case.defective for case in cases)
    assert all(bool(corpus.expected(case)) == case.defective for case in cases)


def test_every_code_has_a_defect() -> None:
    found = {code for path in DEFECTS for case in corpus.cases(path) for _, code in corpus.expected(case)}
    scripts = {code for path in corpus.files("scripts") for _, code in corpus.commented(path)}
    assert found | scripts == set(codes())


def test_every_mistake_has_a_defect() -> None:
    mistakes = tomllib.loads((corpus.HERE / "mistakes.toml").read_text(encoding="utf-8"))
    assert {name for names in mistakes.values() for name in names} <= {path.stem for path in DEFECTS}
    assert len(mistakes) == 35


def test_names_are_unique() -> None:
    names = [
        case.name for folder in ("correct", "defects") for path in corpus.files(folder) for case in corpus.cases(path)
    ]
    assert len(names) == len(set(names))


def test_comments_are_read() -> None:
    path = corpus.HERE / "defects" / "race_in_place_scan.py"
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "s[t - shift]  #" in text)
    assert corpus.commented(path) == {(line, "TW304")}

"""The labelled kernels of `verdicts/`: those whose wrong verdict is known are all that have one."""

from __future__ import annotations

from pathlib import Path

import corpus
import precision
import pytest
from precision import Verdict

KINDS = corpus.files("verdicts")


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.stem)
@pytest.mark.parametrize("part", [slice(0, None, 3), pytest.param(slice(1, None), marks=pytest.mark.volume)], ids=str)
def test_check_gives_the_labels_verdict_or_one_that_is_known_as_wrong(path: Path, part: slice) -> None:
    for case in corpus.cases(path)[part]:
        verdict = precision.of_case(path, case)
        assert verdict.right or case.known, (case.name, verdict.found, case.why)


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.stem)
def test_each_kind_has_kernels_with_a_defect_and_without(path: Path) -> None:
    cases = corpus.cases(path)
    assert {bool(case.codes) for case in cases} == {True, False}
    assert len({case.name for case in cases}) == len(cases)
    assert all(case.why.endswith(".") for case in cases)


def test_the_labelled_kernels_are_many_and_half_of_them_are_correct() -> None:
    cases = [case for path in corpus.files("verdicts") for case in corpus.cases(path)]
    defects = [path for path in corpus.files("defects") if path.stem.split("_")[0] in precision.KINDS]
    cases += [case for path in defects for case in corpus.cases(path)]
    correct = sum(not (case.codes or case.defective) for case in cases)
    assert len(cases) >= 200
    assert 0.45 < correct / len(cases) < 0.6


def test_the_table_counts_found_missed_and_false() -> None:
    def verdict(due: str, found: str) -> Verdict:
        return Verdict("kind", "name", frozenset(due.split()), frozenset(found.split()), "", "")

    some = [
        verdict("TW301", "TW301"),
        verdict("TW301 TW302", "TW302 TW501"),
        verdict("TW303", ""),
        verdict("", "TW304"),
    ]
    assert [one.right for one in some] == [True, False, False, False]
    line = list(precision.table([*some, verdict("", "")]))[-1]
    assert line.split() == ["all", "5", "3", "2", "1", "2", "0.500", "0.667"]

"""The checker finds every marked line, with its code, and nothing else; on correct kernels it finds nothing."""

from __future__ import annotations

from pathlib import Path

import corpus
import numpy as np
import pytest
from case import Case

import tilewright as tw
from tilewright.ladder import operands
from tilewright.simt import Memory

#: Orders of blocks and warps; what is found must not depend on them.
SEEDS = (None, 1, 2)
DEFECTS = corpus.files("defects")


def found(case: Case, seed: int | None = None) -> set[tuple[str, int, str]]:
    """(file, line, code) of each finding; PTX that was written by hand has PTX lines.

    What a correct kernel computes while it is checked is compared with its reference.
    """
    arguments, before = case.device_arguments(Memory())
    findings = tw.check(
        case.launchable(), case.grid, case.block, arguments, shared_bytes=case.shared_bytes, seed=seed,
        gpu=case.gpu, cooperative=case.cooperative, strict=case.strict,
    )  # fmt: skip
    if not case.defective:
        case.compare(arguments, before, f"checked, seed {seed}")
    return {
        (one.source, one.line, one.code) if one.source else (str(case.path), one.ptx_line, one.code) for one in findings
    }


def due(case: Case, *, profile: bool) -> set[tuple[str, int, str]]:
    """What `check`, or `profile`, must find: TW7xx are of `profile` alone."""
    marks = corpus.expected(case)
    return {(str(case.path), line, code) for line, code in marks if code.startswith("TW7") == profile}


@pytest.mark.parametrize("path", corpus.files("correct"), ids=lambda p: p.stem)
def test_nothing_is_found_on_a_correct_kernel(path: Path) -> None:
    for case in corpus.cases(path):
        assert found(case) == set(), case.name


@pytest.mark.parametrize("path", DEFECTS, ids=lambda p: p.stem)
@pytest.mark.parametrize("seeds", [SEEDS[:2], pytest.param(SEEDS[2:], marks=pytest.mark.volume)], ids=str)
def test_each_defect_is_found_at_its_lines_and_its_twin_is_clean(path: Path, seeds: tuple[int | None, ...]) -> None:
    for case in corpus.cases(path):
        for seed in seeds if case.defective else seeds[:1]:
            assert found(case, seed) == due(case, profile=False), f"{case.name}, seed {seed}"


COSTS = [path for path in DEFECTS if path.stem.startswith("cost_")]


@pytest.mark.parametrize("path", COSTS, ids=lambda p: p.stem)
def test_what_costs_time_is_named_by_profile(path: Path) -> None:
    for case in corpus.cases(path):
        arguments, _ = case.device_arguments(Memory())
        seen = tw.profile(case.launchable(), case.grid, case.block, arguments, shared_bytes=case.shared_bytes)
        assert {(one.source, one.line, one.code) for one in seen.findings} == due(case, profile=True), case.name


#: Those of tensor cores are checked in all their dtypes by tests/unit/multiply/kernels/test_tensor_cores.py.
RECORDS = [r for r in tw.catalogue.records() if r.backend == "gpu" and not r.published and r.source != "TC"]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_nothing_is_found_on_a_kernel_of_the_catalogue(record: tw.catalogue.Record) -> None:
    for m, n, k in ((33, 20, 45), (129, 132, 20)):  # off every tile; whole tiles and parts, rows of whole float4
        a, b = operands(m, n, k, record.dtypes[0])
        c = np.zeros((m, n), a.dtype)
        shape = record.launch_rule(m, n, k)
        program, given = record.program(a.dtype.name), record.arguments(a, b, c)
        assert tw.check(program, shape.grid, shape.block, given, shared_bytes=shape.shared_bytes) == ()

"""Correct kernels give what NumPy gives, in every order of warps and blocks.

So do the clean twins of defective ones, which `make volume` launches; `test_expected` compares what a check leaves.
"""

from __future__ import annotations

from pathlib import Path

import corpus
import pytest
from case import Case

from tilewright.simt import Limits, Memory, launch

SEEDS = (None, 1, 2)


def run(case: Case, seed: int | None) -> None:
    """Launch a case and compare every array that its reference gives."""
    memory = Memory()
    arguments, before = case.device_arguments(memory)
    limits = Limits(seconds=60)
    launch(
        case.launchable(), case.grid, case.block, arguments, case.shared_bytes, limits=limits, seed=seed, memory=memory,
        gpu=case.gpu, cooperative=case.cooperative,
    )  # fmt: skip
    case.compare(arguments, before, f"seed {seed}")


@pytest.mark.parametrize("path", corpus.files("correct"), ids=lambda p: p.stem)
@pytest.mark.parametrize("seeds", [SEEDS[:2], pytest.param(SEEDS[2:], marks=pytest.mark.volume)], ids=str)
def test_what_is_correct_gives_its_reference(path: Path, seeds: tuple[int | None, ...]) -> None:
    for case in corpus.cases(path):
        for seed in seeds:
            run(case, seed)


@pytest.mark.volume
@pytest.mark.parametrize("path", corpus.files("defects"), ids=lambda p: p.stem)
def test_clean_twins_give_their_reference(path: Path) -> None:
    for case in corpus.cases(path):
        for seed in () if case.defective else SEEDS:
            run(case, seed)


def test_the_comparison_sees_a_wrong_result() -> None:
    case = corpus.cases(corpus.HERE / "correct" / "reduction_tree.py")[0]
    wrong = Case("wrong", case.kernel, case.grid, case.block, case.arguments, lambda x, sums: {1: sums + 1})
    with pytest.raises(AssertionError, match="wrong, argument 1"):
        run(wrong, None)


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(corpus.files("correct")) >= 36

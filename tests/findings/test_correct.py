"""Correct kernels and the clean twins of defective ones give what NumPy gives, in every order of warps and blocks."""

from __future__ import annotations

from pathlib import Path

import corpus
import numpy as np
import pytest
from case import Case

from tilewright.simt import DeviceArray, Limits, Memory, launch

SEEDS = (None, 1, 2)


def run(case: Case, seed: int | None) -> None:
    """Launch a case and compare every array that its reference gives."""
    memory = Memory()
    arguments, before = case.device_arguments(memory)
    limits = Limits(seconds=60)
    launch(
        case.launchable(), case.grid, case.block, arguments, case.shared_bytes, limits=limits, seed=seed, memory=memory,
        cooperative=case.cooperative,
    )  # fmt: skip
    assert case.reference is not None, f"{case.name}: a correct kernel must have a reference"
    for position, wanted in case.reference(*before).items():
        value = arguments[position]
        came = case.settled(value.to_host() if isinstance(value, DeviceArray) else value)
        due = case.settled(np.asarray(wanted))
        message = f"{case.name}, argument {position}, seed {seed}"
        if case.rtol:
            np.testing.assert_allclose(came, due, rtol=case.rtol, err_msg=message)
        else:
            np.testing.assert_array_equal(came, due, err_msg=message)


@pytest.mark.parametrize("path", corpus.files("correct") + corpus.files("defects"), ids=lambda p: p.stem)
@pytest.mark.parametrize("seeds", [SEEDS[:2], pytest.param(SEEDS[2:], marks=pytest.mark.volume)], ids=str)
def test_what_is_correct_gives_its_reference(path: Path, seeds: tuple[int | None, ...]) -> None:
    for case in corpus.cases(path):
        if not case.defective:
            for seed in seeds:
                run(case, seed)


def test_the_comparison_sees_a_wrong_result() -> None:
    case = corpus.cases(corpus.HERE / "correct" / "reduction_tree.py")[0]
    wrong = Case("wrong", case.kernel, case.grid, case.block, case.arguments, lambda x, sums: {1: sums + 1})
    with pytest.raises(AssertionError, match="wrong, argument 1"):
        run(wrong, None)


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(corpus.files("correct")) >= 36

"""An LLVM program gives the same bits as PTX on the machine and as host code, at every optimisation level."""

from __future__ import annotations

import levels
import llvm_programs
import numpy as np
import pytest
import two_backends

import tilewright as tw

THREADS, BLOCK = 144, 48  # three blocks of a warp and a half


def on_machine(ptx: str, inputs: np.ndarray, seed: int | None = None) -> np.ndarray:
    outputs = np.zeros((len(inputs), llvm_programs.OUTPUTS), np.uint64)
    program = tw.programs.Program.from_ptx(ptx)
    arguments = [inputs.reshape(-1), outputs.reshape(-1)]
    limits = tw.simt.Limits(seconds=60)
    with levels.launches(optimised=bool(seed and seed // 4 % 2)):
        tw.simt.launch(program, len(inputs) // BLOCK, BLOCK, arguments, limits=limits, seed=seed)
    return outputs


def check(seed: int, level: int) -> None:
    text = llvm_programs.program(seed)
    inputs = two_backends.records(seed, THREADS)
    expected = two_backends.on_host(text, inputs)
    found = on_machine(two_backends.to_ptx(text, level), inputs, seed=seed)
    wrong = np.argwhere(found != expected)
    assert not len(wrong), f"program {seed}, level {level}: (thread, word) {wrong[:5].tolist()} of {len(wrong)} differ"


@pytest.mark.parametrize("seed", [*range(16), 3433])  # the last has the larger of a converted integer and a NaN
def test_programs(seed: int) -> None:
    check(seed, seed % 4)


@pytest.mark.volume
@pytest.mark.parametrize("first", range(1000, 5000, 20))
def test_many_programs(first: int) -> None:
    for seed in range(first, first + 20):
        check(seed, seed % 4)


@pytest.mark.parametrize(("right", "wrong"), [(" = add i", " = sub i"), ("= fsub ", "= fadd "), ("= ashr ", "= lshr ")])
def test_the_comparison_sees_a_wrong_instruction(right: str, wrong: str) -> None:
    seen = 0
    for seed in range(8):
        text, inputs = llvm_programs.program(seed), two_backends.records(seed, THREADS)
        changed = on_machine(two_backends.to_ptx(text.replace(right, wrong), 1), inputs)
        seen += int((changed != two_backends.on_host(text, inputs)).any())
    assert seen >= 2


def test_inputs_make_lanes_diverge() -> None:
    """The programs are useful only if threads of a warp get different results."""
    text = llvm_programs.program(3)
    outputs = two_backends.on_host(text, two_backends.records(3, THREADS))
    assert len(np.unique(outputs, axis=0)) > THREADS // 2

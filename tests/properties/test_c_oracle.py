"""The same C function by NVRTC on the machine and by the host's C compiler: the same bits.

Contraction into fused multiply-adds is off on both sides, so floats must agree exactly.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import c_programs
import numpy as np
import pytest
import two_backends

import tilewright as tw

THREADS, BLOCK = 96, 48
COMPILER = shutil.which(os.environ.get("CC", "cc"))
#: NVRTC options: optimised; every variable in local memory; and optimised with what a debugger needs.
WAYS = {"optimised": (), "debug": ("-G",), "debug, optimised": ("-G", "--dopt=on")}
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="not run: there is no C compiler"),
    pytest.mark.filterwarnings("ignore"),
]


def on_host(text: str, inputs: np.ndarray, folder: Path) -> np.ndarray:
    source, library = folder / "program.c", folder / "program.so"
    source.write_text(c_programs.for_host(text))
    assert COMPILER is not None
    options = ["-O1", "-w", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-shared", "-fPIC"]
    subprocess.run([COMPILER, *options, "-o", library, source, "-lm"], check=True)
    run = ctypes.CDLL(str(library)).run
    outputs = np.zeros((len(inputs), c_programs.OUTPUTS), np.uint64)
    run(ctypes.c_void_p(inputs.ctypes.data), ctypes.c_void_p(outputs.ctypes.data), ctypes.c_uint64(len(inputs)))
    return outputs


def on_machine(text: str, inputs: np.ndarray, options: tuple[str, ...], seed: int | None) -> np.ndarray:
    pytest.importorskip("cuda.bindings.nvrtc", reason="not run: the gpu extra is not installed")
    program = tw.programs.Program.from_cuda(c_programs.for_device(text), "k", options=("--fmad=false", *options))
    outputs = np.zeros((len(inputs), c_programs.OUTPUTS), np.uint64)
    arguments = [inputs.reshape(-1), outputs.reshape(-1)]
    limits = tw.simt.Limits(seconds=60)
    tw.simt.launch(program, len(inputs) // BLOCK, BLOCK, arguments, limits=limits, seed=seed)
    return outputs


def check(seed: int, folder: Path, way: str) -> None:
    text = c_programs.program(seed, small=way == "debug")  # unoptimised code is long
    inputs = np.ascontiguousarray(two_backends.records(seed, THREADS)[:, : c_programs.INPUTS])
    expected = on_host(text, inputs, folder)
    found = on_machine(text, inputs, WAYS[way], seed)
    wrong = np.argwhere(found != expected)
    assert not len(wrong), f"program {seed}, {way}: (thread, word) {wrong[:5].tolist()} of {len(wrong)} differ"


@pytest.mark.parametrize("seed", range(12))
def test_programs(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, list(WAYS)[seed % 3])


@pytest.mark.volume
@pytest.mark.parametrize("first", range(1000, 2000, 10))
def test_many_programs(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 10):
        folder = tmp_path / str(seed)  # a library of its own: a loaded one is not loaded again
        folder.mkdir()
        check(seed, folder, list(WAYS)[seed % 3])


def test_the_comparison_sees_a_wrong_operator(tmp_path: Path) -> None:
    text = c_programs.program(1)
    inputs = np.ascontiguousarray(two_backends.records(1, THREADS)[:, : c_programs.INPUTS])
    assert (on_machine(text.replace(" ^ ", " | "), inputs, (), None) != on_host(text, inputs, tmp_path)).any()

"""A C function gives the same bits by NVRTC on the machine and by the host's C compiler.

Contraction into fused multiply-adds is off on both sides, so floats must agree exactly.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import c_programs
import levels
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
    """Half of the programs run quick code, half optimised."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="not run: the gpu extra is not installed")
    program = tw.programs.Program.from_cuda(c_programs.for_device(text), "k", options=("--fmad=false", *options))
    outputs = np.zeros((len(inputs), c_programs.OUTPUTS), np.uint64)
    arguments = [inputs.reshape(-1), outputs.reshape(-1)]
    limits = tw.simt.Limits(seconds=60)
    with levels.launches(optimised=bool(seed and seed // 3 % 2)):
        tw.simt.launch(program, len(inputs) // BLOCK, BLOCK, arguments, limits=limits, seed=seed)
    return outputs


def written(seed: int, way: str) -> tuple[str, np.ndarray]:
    """A program, and the records that it reads."""
    text = c_programs.program(seed, small=way == "debug")  # unoptimised code is long
    return text, np.ascontiguousarray(two_backends.records(seed, THREADS)[:, : c_programs.INPUTS])


def check(seed: int, folder: Path, way: str) -> None:
    text, inputs = written(seed, way)
    expected = on_host(text, inputs, folder)
    found = on_machine(text, inputs, WAYS[way], seed)
    wrong = np.argwhere(found != expected)
    assert not len(wrong), f"program {seed}, {way}: (thread, word) {wrong[:5].tolist()} of {len(wrong)} differ"


@pytest.mark.parametrize("seed", range(8))
def test_programs(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, list(WAYS)[seed % 3])


@pytest.mark.volume
@pytest.mark.parametrize("first", range(1000, 2000, 10))
def test_many_programs(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 10):
        folder = tmp_path / str(seed)  # its own library, because a loaded one is not loaded again
        folder.mkdir()
        check(seed, folder, list(WAYS)[seed % 3])


#: Reads the records of all threads and runs the program on them.
MAIN = f"""
#include <stdio.h>
int main(void) {{
  static u64 in[{THREADS * c_programs.INPUTS}], out[{THREADS * c_programs.OUTPUTS}];
  if (fread(in, sizeof in, 1, stdin) != 1) return 1;
  run(in, out, {THREADS});
  return 0;
}}"""
#: A trap needs no library; signed integers wrap on both sides.
TRAPS = [
    "-fsanitize=undefined,float-cast-overflow",
    "-fno-sanitize=signed-integer-overflow",
    "-fsanitize-undefined-trap-on-error",
]


def ends_by_a_trap(seed: int, way: str, folder: Path) -> bool:
    """Whether a program does what C leaves undefined, such as an index below 0."""
    text, inputs = written(seed, way)
    source, program = folder / "undefined.c", folder / "undefined"
    source.write_text(c_programs.for_host(text) + MAIN)
    assert COMPILER is not None
    subprocess.run([COMPILER, "-O1", "-w", "-fno-strict-aliasing", *TRAPS, "-o", program, source, "-lm"], check=True)
    return subprocess.run([program], input=inputs.tobytes(), check=False).returncode != 0


@pytest.mark.parametrize(
    ("first", "count"), [(1034, 6), *(pytest.param(i, 50, marks=pytest.mark.volume) for i in range(1000, 2000, 50))]
)
def test_programs_have_no_undefined_behaviour(first: int, count: int, tmp_path: Path) -> None:
    wrong = [seed for seed in range(first, first + count) if ends_by_a_trap(seed, list(WAYS)[seed % 3], tmp_path)]
    assert not wrong


def test_the_comparison_sees_a_wrong_operator(tmp_path: Path) -> None:
    text = c_programs.program(1)
    inputs = np.ascontiguousarray(two_backends.records(1, THREADS)[:, : c_programs.INPUTS])
    assert (on_machine(text.replace(" ^ ", " | "), inputs, (), None) != on_host(text, inputs, tmp_path)).any()

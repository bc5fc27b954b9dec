"""A race says which access overtakes which, in which step of a loop, and where the barrier goes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import racing_kernels

import tilewright as tw
from tilewright.observe.instruments.findings import Finding
from tilewright.programs import Program

#: Kernel -> how its remedy begins, and which access overtakes which, with `{name}` for the line with that comment.
REMEDIES = {
    "by_for": (
        "Put `cuda.syncthreads()` at the end of the loop at line {loop}: after line {read}, outside the loop at line "
        "{inner}.",
        "the write of step k + 1 (line {write}) overtakes the read of step k (line {read})",
    ),
    "by_while": (
        "Put `cuda.syncthreads()` at the end of the loop at line {loop}: after line {read}, in the loop's body.",
        "the write of step k + 1 (line {write}) overtakes the read of step k (line {read})",
    ),
    "unrolled": (
        "Put `cuda.syncthreads()` at the end of the loop at line {loop}: after line {read}, in the loop's body.",
        "the write of step k + 1 (line {write}) overtakes the read of step k (line {read})",
    ),
    "double_buffered": (
        "Put `cuda.syncthreads()` at the end of the loop at line {loop}: after line {write}, in the loop's body.",
        "the read of step k + 1 (line {read}) overtakes the write of step k (line {write})",
    ),
    "called": (
        "Put `cuda.syncthreads()` at the end of the loop at line {loop}: after line {read}, in the loop's body.",
        "the write of step k + 1 (line {write}) overtakes the read of step k (line {read})",
    ),
    "straight": (
        "Put `cuda.syncthreads()` after line {write}, before line {read} and outside the `if` at line {if}.",
        "the read at line {read} overtakes the write at line {write}",
    ),
    "tree": (
        "Put `cuda.syncthreads()` at the end of the loop at line {loop}: after line {write}, outside the `if` at line "
        "{if}. If a thread also reads",
        "the read of step k + 1 (line {write}) overtakes the write of step k (line {write})",
    ),
    "histogram": ("Several threads update one element at line {write}: use `cuda.atomic.add`", ""),
}


def lines(kernel: Any) -> dict[str, int]:
    """The lines of a kernel that have a comment, by the comment."""
    code = kernel.py_func.__code__
    text = Path(code.co_filename).read_text().splitlines()
    last = max(line for _, _, line in code.co_lines() if line)
    numbered = {number: text[number - 1] for number in range(code.co_firstlineno, last + 1)}
    return {match[1]: number for number, line in numbered.items() if (match := re.search(r"# (\w+)$", line))}


def races(kernel: Any) -> tuple[Finding, ...]:
    a, c = np.ones(256, np.float32), np.zeros(64, np.float32)
    return tw.check(kernel, 1, racing_kernels.T, (a, c))


@pytest.mark.parametrize("name", REMEDIES)
def test_a_race_names_step_and_place_of_its_barrier_and_its_twin_has_none(name: str) -> None:
    kernel = getattr(racing_kernels, name)
    found, places = races(kernel), lines(kernel)
    remedy, step = (text.format_map(places) for text in REMEDIES[name])
    assert {one.code for one in found} <= {"TW301", "TW304"}
    assert any(one.remedy.startswith(remedy) for one in found), [one.remedy for one in found]
    assert any(step in one.message for one in found), [one.message for one in found]
    assert races(getattr(racing_kernels, f"{name}_mended")) == ()


def test_both_accesses_have_their_thread_and_the_array_its_name() -> None:
    (found,) = races(racing_kernels.by_while)
    assert (found.block, found.thread, found.details["other_thread"]) == ((0, 0, 0), (32, 0, 0), [31, 0, 0])
    assert "of `tile` in shared memory races with a read by another warp, thread (31, 0, 0), at " in found.message


CUDA = r"""
__global__ void tiled(const float *a, float *c, int n) {
    __shared__ float tile[64];
    float total = 0;
    for (int k = 0; k < n; k += 64) {
        tile[threadIdx.x] = a[k + threadIdx.x];
        __syncthreads();
        for (int i = 0; i < 8; i++)
            total += tile[(threadIdx.x + 8 * i) % 64];
    }
    c[threadIdx.x] = total;
}
__global__ void moved(const float *a, float *c, int n) {
    __shared__ float tile[64];
    tile[threadIdx.x] = a[threadIdx.x];
    float total = 0;
    int i = 0;
    while (i < n) {
        total += tile[threadIdx.x ^ 32] * a[i];
        i++;
    }
    c[threadIdx.x] = total;
}
"""


def of_cuda(entry: str, text: str, tmp_path: Path) -> tuple[Finding, ...]:
    file = tmp_path / "kernel.cu"
    file.write_text(text)
    program = Program.from_cuda(file, entry)
    return tw.check(program, 1, 64, (np.ones(256, np.float32), np.zeros(64, np.float32), np.int32(256)))


def test_cuda_cpp_has_its_own_words_and_names(tmp_path: Path) -> None:
    (found,) = of_cuda("tiled", CUDA, tmp_path)
    assert found.remedy == (
        "Put `__syncthreads()` at the end of the loop at line 5: after line 9, outside the loop at line 8."
    )
    assert "of `tile` in shared memory" in found.message
    assert "the write of step k + 1 (line 6) overtakes the read of step k (line 9)" in found.message
    mended = CUDA.replace("% 64];\n", "% 64];\n        __syncthreads();\n")
    assert of_cuda("tiled", mended, tmp_path) == ()


def test_a_read_that_was_moved_out_of_a_loop_is_placed_where_the_source_reads(tmp_path: Path) -> None:
    (found,) = of_cuda("moved", CUDA, tmp_path)
    assert found.details["others"] == [f"{tmp_path}/kernel.cu:19"]
    assert found.remedy == "Put `__syncthreads()` between lines 15 and 19."


VOLATILE = r"""
__global__ void place(const unsigned *count, unsigned *first) {
    __shared__ volatile unsigned total;
    if (threadIdx.x == blockDim.x - 1)
        total = count[blockIdx.x];
    first[blockIdx.x * blockDim.x + threadIdx.x] = total + threadIdx.x;
}
"""


def test_volatile_orders_nothing(tmp_path: Path) -> None:
    file = tmp_path / "volatile.cu"
    for text, codes in ((VOLATILE, ["TW301"]), (VOLATILE.replace("    first", "    __syncthreads();\n    first"), [])):
        file.write_text(text)
        given = (np.arange(4, dtype=np.uint32), np.zeros(512, np.uint32))
        found = tw.check(Program.from_cuda(file, "place"), 4, 128, given)
        assert [one.code for one in found] == codes
        for one in found:
            assert (one.line, one.details["others"]) == (5, [f"{file}:6"])
            assert one.message.endswith("; volatile orders nothing between threads")
            assert one.remedy == "Put `__syncthreads()` after line 5, before line 6 and outside the `if` at line 4."


ELEMENTS = r"""
__global__ void update(float *c, int n) {
    c[0] += threadIdx.x;
}
__global__ void past(float *c, int n) {
    int i = blockIdx.x * (blockDim.x - 1) + threadIdx.x;
    c[i] = blockIdx.x;
}
__global__ void next(float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = c[(i + blockDim.x) % n];
}
__global__ void locked(float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = c[(i + blockDim.x) % n];
    if (n < 0) __threadfence();
}
"""
#: Kernel -> the line of its race between blocks, and what its remedy says and does not say.
OF_ELEMENTS = {
    "update": (3, "Several blocks update one element at line 3: use `atomicAdd`", "guard"),
    "past": (7, "Several blocks store to one element at line 7: correct its index or the guard", "tomic"),
    "next": (11, "Let each block use only elements that it writes itself", "lock or flag"),
    "locked": (15, "Put `__threadfence()` after acquiring", "tomic"),
}


@pytest.mark.parametrize("entry", OF_ELEMENTS)
def test_the_remedy_of_blocks_that_use_one_element_follows_from_what_they_do_with_it(
    entry: str, tmp_path: Path
) -> None:
    line, said, unsaid = OF_ELEMENTS[entry]
    file = tmp_path / "kernel.cu"
    file.write_text(ELEMENTS)
    found = tw.check(Program.from_cuda(file, entry), 2, 32, (np.ones(64, np.float32), np.int32(64)))
    between = [one for one in found if one.code == "TW303"]
    assert [one.line for one in between] == [line]
    assert said in between[0].remedy
    assert unsaid not in between[0].remedy
    assert "of `c` in global memory" in between[0].message


OVERRUN = r"""
__global__ void k(float *c, int n) {
    __shared__ float first[8], tile[8];
    first[threadIdx.x % 8] = n;
    tile[threadIdx.x + n] = n;
    __syncthreads();
    float own[4];
    for (int i = 0; i <= n; i++) own[i & 7] = first[threadIdx.x];
    c[threadIdx.x] = own[n & 3] + tile[n];
}
"""


@pytest.mark.parametrize(("size", "codes"), [(4, {"TW103": "tile", "TW104": "own"}), (3, {})])
def test_overruns_of_a_blocks_and_a_threads_arrays_have_their_names(
    size: int, codes: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "kernel.cu"
    file.write_text(OVERRUN)
    found = tw.check(Program.from_cuda(file, "k"), 1, 5, (np.zeros(5, np.float32), np.int32(size)))
    assert {one.code: one.details.get("variable") for one in found} == codes
    assert all(f"; the array is `{codes[one.code]}`" in one.message for one in found)

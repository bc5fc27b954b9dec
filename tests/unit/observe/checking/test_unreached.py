"""Programs whose grids leave out elements, by mistake and on purpose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checked_programs import added, checked, flipped
from numba import cuda

import tilewright as tw
from tilewright.checking import Checks
from tilewright.frontends.session import simulated_gpu
from tilewright.programs import Program


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@cuda.jit
def nothing(a, out):
    pass


@cuda.jit
def lost(a, out):
    i = cuda.grid(1)
    if i < out.size:
        total = a[i] * 2
        total += 1


@cuda.jit
def by_thread(a, out):
    i = cuda.threadIdx.x
    if i < out.size:
        out[i] = a[i] + 10


@cuda.jit
def by_thread_unguarded(a, out):
    out[cuda.threadIdx.x] = a[cuda.threadIdx.x] + 10


@cuda.jit
def added_unguarded(a, b, out):
    i = cuda.grid(1)
    out[i] = a[i] + b[i]


@cuda.jit
def added_first(a, b, out, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] + b[i]


@cuda.jit
def added_from(a, b, out, start):
    i = start + cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def in_place(x):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] *= 2


@cuda.jit
def same_index(a, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    j = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = a[i, j] + 10


@cuda.jit
def unused_index(a, out):
    i, _ = cuda.grid(2)
    if i < out.shape[0]:
        out[i, i] = a[i, i] + 10


@cuda.jit
def in_place_2d(x):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] *= 2


@cuda.jit
def row_of_blocks(a, out):
    i = cuda.blockIdx.x
    if i < out.size:
        out[i] = a[i] * 2


@cuda.jit
def counted_by_block(a, out):
    cuda.atomic.add(out, cuda.blockIdx.x, 1)


CPP = """extern "C" __global__ void k(const float* a, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] * 2;
}"""

#: A launch -> the text of its one finding.
DEFECTS: dict[str, tuple[Callable[[], object], str]] = {
    "threadIdx alone": (lambda: by_thread[3, 4](ones(9), zeros(9)), "all 3 blocks in x process the same elements"),
    "threadIdx alone, no guard": (lambda: by_thread_unguarded[3, 4](ones(9), zeros(9)), "5 of the 9 elements"),
    "one block": (lambda: added[1, 32](ones(100), ones(100), zeros(100)), "elements from 32 of axis 0"),
    "one block, no guard": (lambda: added_unguarded[1, 32](ones(100), ones(100), zeros(100)), "from 32 of axis 0"),
    "one block, on the device": (
        lambda: added[1, 32](*(cuda.to_device(ones(100)) for _ in range(3))), "elements from 32 of axis 0"
    ),
    "one block, the extent as a number": (
        lambda: added_first[1, 32](ones(100), ones(100), zeros(100), 100), "elements from 32 of axis 0"
    ),
    "one block, in place": (lambda: in_place[1, 32](ones(100)), "elements from 32 of axis 0"),
    "rows as few as columns": (lambda: in_place_2d[1, (8, 8)](ones(256, 8)), "from 8 of axis 0"),
    "one thread a block": (lambda: row_of_blocks[4, 1](ones(100), zeros(100)), "elements from 4 of axis 0"),
    "no store": (lambda: lost[4, 32](ones(100), zeros(100)), "the kernel writes nothing"),
    "one index for both axes": (lambda: same_index[(2, 2), (16, 16)](ones(32, 32), zeros(32, 32)), "`blockIdx.y`"),
    "one index in one block": (lambda: same_index[1, (4, 4)](ones(4, 4), zeros(4, 4)), "all 4 threads in y process"),
    "an index not used": (lambda: unused_index[(2, 2), (4, 4)](ones(8, 8), zeros(8, 8)), "56 of the 64 elements"),
    "32 times too small": (lambda: added[1, 32](ones(1024), ones(1024), zeros(1024)), "from 32 of axis 0"),
    "two dimensions, divided once too often": (
        lambda: flipped[(2, 2), (8, 8)](ones(64, 64), zeros(64, 64)), "from 16 of axis 0 and 16 of axis 1"
    ),
    "the second of two launches": (
        lambda: [added[g, 32](ones(100), ones(100), zeros(100)) for g in (4, 1)], "from 32 of axis 0"
    ),
}  # fmt: skip


def found(program: Callable[[], object]) -> list[tuple[str, str]]:
    return [(one.code, one.message) for one in checked(program)]


@pytest.mark.parametrize("name", DEFECTS)
def test_elements_that_the_grid_never_reaches_are_reported(name: str) -> None:
    program, said = DEFECTS[name]
    ((code, message),) = found(program)
    assert code == "TW501"
    assert said in message


def test_a_grid_that_is_too_small_is_reported_of_one_launch() -> None:
    (one,) = tw.check(added, 1, 32, (ones(100), ones(100), zeros(100)))
    assert one.code == "TW501"
    pytest.importorskip("cuda.bindings.nvrtc")
    program = tw.programs.Program.from_cuda(CPP, "k")
    assert [f.code for f in tw.check(program, 1, 32, (ones(100), zeros(100), 100))] == ["TW501"]
    assert [f.code for f in tw.check(program, 1, 32, (ones(100), zeros(100), 32))] == []
    assert [f.code for f in tw.check(program, 1, 64, (ones(100), zeros(100), 50))] == []


# -- on purpose -------------------------------------------------------------------------------------------------


@cuda.jit
def differences(x, out):
    i = cuda.grid(1)
    if i < out.size - 1:
        out[i] = x[i + 1] - x[i]


@cuda.jit
def inner(x, out):
    i = cuda.grid(1)
    if 0 < i < out.size - 1:
        out[i] = x[i - 1] + x[i + 1]


@cuda.jit
def scattered(x, index, out):
    i = cuda.grid(1)
    if i < x.size:
        out[index[i]] = x[i]


@cuda.jit
def counted(x, bins):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, int(x[i]) % 4, 1)


@cuda.jit
def count_up(counters):
    cuda.atomic.add(counters, 0, 1)


@cuda.jit
def blocks_sum(x, partial):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(partial, cuda.blockIdx.x, x[i])


@cuda.jit
def compacted(x, out, count):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0:
        out[cuda.atomic.add(count, 0, 1)] = x[i]


@cuda.jit
def flagged(x, flags):
    i = cuda.grid(1)
    if i < x.size and x[i] > 3:
        flags[1] = 1


@cuda.jit
def strided(x, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = x[i]


@cuda.jit
def even(x, out):
    i = cuda.grid(1)
    if 2 * i < out.size:
        out[2 * i] = x[i]


@cuda.jit
def prefix(x, out, count):
    i = cuda.grid(1)
    if i < count[0]:
        out[i] = x[i]


@cuda.jit
def diagonal(out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i, i] = 1


@cuda.jit
def lower(out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1] and j <= i:
        out[i, j] = 1


@cuda.jit
def prints(x):
    if cuda.grid(1) == 0:
        print(x.size)


@cuda.jit
def correlated(x, taps, out):
    i = cuda.grid(1)
    if i + taps.size <= x.size:
        out[i] = x[i] * taps[0]


@cuda.jit
def correlated_before(x, taps, out):
    i = cuda.grid(1)
    if i < x.size - taps.size + 1:
        out[i] = x[i] * taps[0]


@cuda.jit
def first_64(x, out):
    i = cuda.grid(1)
    if i < 64:
        out[i] = x[i]


@cuda.jit
def taken_in_turn(turn, x, out, n):
    mine = cuda.shared.array(1, np.int32)
    while True:
        if cuda.threadIdx.x == 0:
            mine[0] = cuda.atomic.add(turn, 0, 1)
        cuda.syncthreads()
        i = mine[0] * cuda.blockDim.x + cuda.threadIdx.x
        cuda.syncthreads()
        if i - cuda.threadIdx.x >= n:
            break
        if i < n:
            out[i] = x[i]


@cuda.jit
def rows_from(a, b, start):
    i, j = start + cuda.blockIdx.y, cuda.grid(1)
    a[i, j] = 1
    b[i, j] = 1


@cuda.jit
def queued(front, many, following, count, neighbours):
    i = cuda.grid(1)
    if i < many[0]:
        for k in range(neighbours.shape[1]):
            following[cuda.atomic.add(count, 0, 1)] = neighbours[front[i], k]


def breadth() -> None:
    front, count = np.arange(100), np.zeros(1, np.int32)
    queued[1, 32](front, np.array([32]), np.zeros(100, np.int64), count, np.zeros((100, 2), np.int64))


def halves(make: Callable[[np.ndarray], object]) -> None:
    x, y, out = make(ones(100)), make(ones(100)), make(zeros(100))
    added_from[1, 32](x, y, out, 0)
    added_from[1, 96](x, y, out, 32)


def rows(make: Callable[[np.ndarray], object]) -> None:
    out = make(zeros(8, 8))
    for start in (0, 4):
        flipped[1, (8, 4)](ones(8, 4), out[start : start + 4])


def warm_up() -> None:
    x, y, out = ones(100), ones(100), zeros(100)
    added[1, 32](x, y, out)
    added[4, 32](x, y, out)


def double_buffer() -> None:
    x, y = cuda.to_device(ones(64)), cuda.device_array(64, np.float32)
    for _ in range(3):
        added[2, 32](x, x, y)
        x, y = y, x


def views() -> None:
    x, out = cuda.to_device(ones(100)), cuda.device_array(100, np.float32)
    added[1, 32](x, x, out)
    added[3, 32](x[32:], x[32:], out[32:])


CORRECT: dict[str, Callable[[], object]] = {
    "counted by each block": lambda: counted_by_block[2, 32](ones(64), zeros(64)),
    "differences": lambda: differences[4, 32](ones(100), zeros(100)),
    "a border left alone": lambda: inner[4, 32](ones(128), zeros(128)),
    "scatter": lambda: scattered[1, 32](ones(32), np.arange(32) * 3, zeros(100)),
    "histogram": lambda: counted[2, 32](ones(64), np.zeros(100, np.int32)),
    "a counter": lambda: count_up[4, 32](np.zeros(8, np.int32)),
    "a sum a block": lambda: blocks_sum[4, 32](ones(128), zeros(1024)),
    "compaction": lambda: compacted[2, 32](ones(64), zeros(100), np.zeros(1, np.int32)),
    "a flag": lambda: flagged[2, 32](ones(64) * 4, zeros(8)),
    "a stride of the grid": lambda: strided[2, 32](ones(1000), zeros(1000)),
    "every other element": lambda: even[2, 32](ones(100), zeros(128)),
    "as many as memory says": lambda: prefix[1, 32](ones(100), zeros(100), np.full(1, 20)),
    "as many as a number says": lambda: added_first[1, 32](ones(100), ones(100), zeros(100), 32),
    "a diagonal": lambda: diagonal[1, 32](zeros(32, 32)),
    "a triangle": lambda: lower[(2, 2), (16, 16)](zeros(32, 32)),
    "empty": lambda: nothing[4, 32](ones(100), zeros(100)),
    "only printing": lambda: prints[2, 32](ones(100)),
    "two launches, the host's arrays": lambda: halves(lambda x: x),
    "two launches, the device's": lambda: halves(cuda.to_device),
    "rows of the host's": lambda: rows(lambda x: x),
    "rows of the device's": lambda: rows(cuda.to_device),
    "a launch to warm up": warm_up,
    "two buffers": double_buffer,
    "views of one array": views,
    "where a window fits": lambda: correlated[2, 32](ones(68), ones(5), zeros(68)),
    "where a window fits, in whole blocks": lambda: correlated[3, 32](ones(100), ones(5), zeros(100)),
    "as far as is computed": lambda: correlated_before[3, 32](ones(100), ones(5), zeros(100)),
    "as far as a literal says": lambda: first_64[2, 32](ones(80), zeros(80)),
    "blocks that take work in turn": lambda: taken_in_turn[3, 32](np.zeros(1, np.int32), ones(100), zeros(128), 100),
    "rows from one on": lambda: rows_from[(2, 5), 32](zeros(10, 64), zeros(10, 64), 0),
    "a queue that is filled in part": breadth,
    "two dimensions": lambda: flipped[(3, 3), (16, 16)](ones(40, 40), zeros(40, 40)),
}


@pytest.mark.parametrize("name", CORRECT)
def test_elements_left_out_on_purpose_are_not_reported(name: str) -> None:
    assert found(CORRECT[name]) == []


@cuda.jit
def record_filled(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i].a = 1  # and neither b nor the bytes between


PADDED = np.dtype([("a", np.int8), ("b", np.float64)], align=True)


def copied(array: object) -> object:
    return array.copy_to_host()


def filled_from(size: int, start: int, grid: int) -> object:
    out = cuda.device_array(size, np.float32)
    added_from[grid, 32](cuda.to_device(ones(size)), cuda.to_device(ones(size)), out, start)
    return out


def set_and_filled() -> None:
    out = cuda.device_array(100, np.float32)
    out[:] = 0
    added_from[1, 32](ones(100), ones(100), out, 90)
    copied(out)


def structures() -> None:
    out = cuda.device_array(9, PADDED)
    record_filled[1, 32](out)
    copied(out)


#: A copy to the host -> the beginning of its one TW205, "" if there is none.
COPIES: dict[str, tuple[Callable[[], object], str]] = {
    "never written": (lambda: copied(cuda.device_array(100)), "100 of the 100 elements read (8 bytes each)"),
    "two dimensions": (lambda: copied(cuda.device_array((3, 5))), "15 of the 15 elements read (8 bytes each)"),
    "the end alone": (lambda: copied(filled_from(100, 90, 1)), "90 of the 100 elements"),
    "one element": (lambda: cuda.device_array(9)[3], "1 of the 1 elements"),
    "an element of two dimensions": (lambda: cuda.device_array((9, 9))[3, 4], "1 of the 1 elements"),
    "into an array": (lambda: cuda.device_array(9).copy_to_host(np.empty(9)), "9 of the 9"),
    "into pinned memory": (
        lambda: cuda.device_array(9).copy_to_host(cuda.pinned_array(9), stream=cuda.stream()), "9 of the 9"
    ),
    "a stream's": (lambda: cuda.device_array(9).copy_to_host(stream=cuda.stream()), "9 of the 9"),
    "in Fortran's order": (lambda: copied(cuda.device_array((3, 5), order="F")), "15 of the 15"),
    "the part that was written": (lambda: copied(filled_from(100, 90, 1)[90:]), ""),
    "all": (lambda: copied(filled_from(100, 0, 4)), ""),
    "from the host": (lambda: copied(cuda.to_device(ones(9))), ""),
    "set by the host": (set_and_filled, ""),
    "nothing": (lambda: copied(cuda.device_array(0)), ""),
    "a member of a structure": (structures, ""),
    "an argument given back": (lambda: added[1, 32](ones(9), ones(9), cuda.Out(zeros(9))), ""),
    "an argument given back in part": (
        lambda: added_from[1, 32](ones(100), ones(100), cuda.Out(zeros(100)), 90), "90 of the 100"
    ),
    "an argument given back in part, of a stream": (
        lambda: added_from[1, 32, cuda.stream()](ones(100), ones(100), cuda.Out(zeros(100)), 90), "90 of the 100"
    ),
    "an argument that is copied both ways": (
        lambda: added_from[1, 32](ones(100), ones(100), cuda.InOut(zeros(100)), 90), ""
    ),
    "an argument of the device": (
        lambda: added_from[1, 32](ones(100), ones(100), cuda.Out(cuda.to_device(zeros(100))), 90), ""
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_unwritten_elements_are_reported_where_the_host_copies_them(name: str) -> None:
    program, said = COPIES[name]
    shown = found(program)
    assert [code for code, _ in shown] == ["TW205"] * bool(said)
    assert all(message.startswith(said) for _, message in shown)


def test_a_grid_that_is_too_small_is_reported_once() -> None:
    assert [code for code, _ in found(lambda: copied(filled_from(100, 0, 1)))] == ["TW501"]


def test_an_array_that_the_program_has_freed_has_no_further_launch() -> None:
    checks = Checks()
    with simulated_gpu(observers=[checks]):
        whole = zeros(200)
        added[1, 32](ones(100), ones(100), whole[:100])
        assert checks.fresh().findings == ()
        del whole
        assert [one.code for one in checks.fresh().findings] == ["TW501"]


SWAPPED = """
__global__ void scaled(const float *a, float *out, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < columns)
        out[row * columns + col] = 2 * a[row * columns + col];
}
"""
MENDED = SWAPPED.replace("Idx.x", "Idx.z").replace("Idx.y", "Idx.x").replace("Idx.z", "Idx.y")
MENDED = (
    MENDED.replace("blockDim.x +", "blockDim.z +").replace("blockDim.y +", "blockDim.x +").replace("Dim.z", "Dim.y")
)


@cuda.jit
def scaled(a, out):
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    col = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = 2 * a[row, col]


@cuda.jit
def scaled_mended(a, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = 2 * a[row, col]


@pytest.mark.parametrize(("rows", "columns"), [(96, 64), (40, 100)])
@pytest.mark.parametrize("flat", [False, True])
def test_a_row_that_follows_x_of_a_grid_made_for_columns(rows: int, columns: int, flat: bool, tmp_path: Path) -> None:
    a, out = np.ones((rows, columns), np.float32), np.zeros((rows, columns), np.float32)
    grid, block = (-(-columns // 16), -(-rows // 8)), (16, 8)
    kernels = [scaled, scaled_mended]
    given: tuple[Any, ...] = (a, out)
    if flat:
        files = [tmp_path / "swapped.cu", tmp_path / "mended.cu"]
        for file, text in zip(files, (SWAPPED, MENDED), strict=True):
            file.write_text(text)
        kernels = [Program.from_cuda(file, "scaled") for file in files]
        given = (a.ravel(), out.ravel(), np.int32(rows), np.int32(columns))
    (found,) = tw.check(kernels[0], grid, block, given)
    assert (found.code, found.details["how"], found.details["shape"]) == ("TW501", "swapped", [rows, columns])
    assert found.remedy.startswith(
        "Let `col` follow the indices in x (`threadIdx.x`, `blockIdx.x`), and `row` those in y"
    )
    assert tw.check(kernels[1], grid, block, given) == ()

"""Intrinsics on the simulated GPU, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fragments import extents, gathered, spread
from intrinsic_kernels import RUN, assembled

import tilewright as tw
from tilewright.gpu.intrinsics import find, records
from tilewright.programs import Program
from tilewright.simulate import isa
from tilewright.simulate.intrinsics.operands import Record

cuda = pytest.importorskip("numba.cuda")
LANES = np.arange(32)


def launched(name: str, offsets: Any, *arrays: Any) -> None:
    """Run the kernel of a record on one warp; `offsets[which, lane]` are the indices of its addresses."""
    record = find(name)
    assert name.startswith(RUN)
    tw.simt.launch(assembled(record), 1, 32, (*arrays, np.ascontiguousarray(offsets, np.int64)))


def randoms(*shape: int, dtype: str = "uint8") -> Any:
    random = np.random.default_rng(sum(shape))
    return random.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("name", [r.name for r in records() if r.name.startswith("ld_global")])
def test_a_vector_load_has_the_bytes_of_its_address(name: str) -> None:
    values = find(name).result
    assert values is not None
    dtype = np.dtype({"b32": np.uint32, "b64": np.uint64}[values.type])
    size = values.count * dtype.itemsize
    source, found = randoms(32 * size), np.zeros((values.count, 32), dtype)
    places = np.random.default_rng(0).permutation(32) * size
    launched(name, places[None], source, found)
    assert (found == source.view(dtype).reshape(32, -1)[places // size].T).all()


@pytest.mark.parametrize("name", [r.name for r in records() if r.name.startswith("st_global")])
def test_a_vector_store_writes_the_bytes_of_its_values(name: str) -> None:
    values = find(name).operands[1]
    dtype = np.dtype(np.uint32 if name.endswith("b32") else np.uint64)
    count = values.count  # type: ignore[union-attr]
    size = count * dtype.itemsize
    given, target = randoms(count, 32, dtype=dtype.name), np.zeros(32 * size, np.uint8)
    places = np.random.default_rng(1).permutation(32) * size
    launched(name, places[None], target, given)
    assert (target.view(dtype).reshape(32, -1)[places // size].T == given).all()


@pytest.mark.parametrize("vector", ["v2_b32", "v4_b32", "v2_b64"])
def test_vectors_go_through_shared_memory(vector: str) -> None:
    from tilewright.gpu import intrinsics

    load, store = (getattr(intrinsics, f"{what}_shared_{vector}") for what in ("ld", "st"))
    dtype = np.dtype("float32" if vector.endswith("32") else "float64")
    count = int(vector[1])

    def turned(x: Any, out: Any) -> None:
        tile = cuda.shared.array((32, count), dtype, alignment=16)
        i = cuda.threadIdx.x
        if count == 2:
            store(tile, (i, 0), (x[i, 0], x[i, 1]))
        else:
            store(tile, (i, 0), (x[i, 0], x[i, 1], x[i, 2], x[i, 3]))
        cuda.syncthreads()
        values = load(tile, (31 - i, 0))
        for k in range(count):
            out[i, k] = values[k]  # elements of the array's dtype, not of its bits

    x = np.random.default_rng(2).random((32, count)).astype(dtype)
    out = np.zeros_like(x)
    tw.simt.launch(Program.from_python(turned, f"void({dtype}[:, ::1], {dtype}[:, ::1])"), 1, 32, (x, out))
    assert (out == x[::-1]).all()


def test_a_warp_waits_for_another_at_a_named_barrier() -> None:
    from tilewright.gpu.intrinsics import barrier_arrive, barrier_sync

    def handed(x: Any, out: Any) -> None:
        tile = cuda.shared.array(32, np.int32)
        i = cuda.threadIdx.x
        if i < 32:
            tile[i] = 2 * x[i]
            barrier_arrive(1, 64)
        else:
            barrier_sync(1, 64)
            out[i - 32] = tile[63 - i]

    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    program = Program.from_python(handed, "void(int32[::1], int32[::1])")
    assert tw.check(program, 1, 64, (x, out)) == ()
    tw.simt.launch(program, 1, 64, (x, out))
    assert (out == 2 * x[::-1]).all()


def encoded(values: Any, of: str) -> Any:
    """Small integers as bit patterns of a format."""
    if of in ("e4m3", "e5m2", "bf16"):
        import ml_dtypes

        names = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "bf16": "bfloat16"}
        found = values.astype(getattr(ml_dtypes, names[of]))
    else:
        numpy = {"f16": "f2", "tf32": "f4", "f32": "f4", "f64": "f8", "s8": "i1", "u8": "u1", "s32": "i4"}
        found = values.astype(numpy[of])
    return found.view(f"u{found.itemsize}")


@pytest.mark.parametrize("name", [r.name for r in records() if r.name.startswith("mma_")])
def test_a_tensor_core_product_of_small_integers_is_exact(name: str) -> None:
    _, shape, sums, of = name.split("_")
    m, n, k = extents(shape)
    random = np.random.default_rng(3)
    a, b, c = (random.integers(0 if of == "u8" else -4, 5, (1, *s)) for s in ((m, k), (k, n), (m, n)))
    arrays = []
    for matrix, values, kind in (("a", a, of), ("b", b, of), ("c", c, sums)):
        patterns = encoded(values, kind)
        arrays.append(np.ascontiguousarray(spread(patterns, shape, matrix, 8 * patterns.itemsize)[0]))
    wide = {"f32": "f4", "f64": "f8", "s32": "i4"}.get(sums, "u4")
    arrays[2] = arrays[2].view(wide)
    if of == "f64":
        arrays = [array.view("f8") for array in arrays]
    found = np.zeros_like(arrays[2])
    launched(name, np.zeros((1, 32)), *arrays, found)
    expected = encoded(a @ b + c, sums)
    bits = 8 * expected.itemsize
    patterns = gathered(found.view(f"u{found.itemsize}")[None], shape, "d", bits)
    assert (patterns == expected).all()


@pytest.mark.parametrize("name", [r.name for r in records() if r.name.startswith(("cp_async_ca", "cp_async_cg"))])
def test_a_copy_brings_its_bytes_and_zeros(name: str) -> None:
    from tilewright.gpu import intrinsics

    copy, size, filled = getattr(intrinsics, name), int(name.split("_")[3]), name.endswith("zfill")
    from tilewright.gpu.intrinsics import cp_async_commit_group, cp_async_wait_group

    def there_and_back(source: Any, places: Any, valid: Any, out: Any) -> None:
        tile = cuda.shared.array(512, np.uint8, alignment=16)
        i = cuda.threadIdx.x
        if filled:
            copy(tile, size * i, source, places[i], valid[i])
        else:
            copy(tile, size * i, source, places[i])
        cp_async_commit_group()
        cp_async_wait_group(0)
        cuda.syncthreads()
        for byte in range(i, 32 * size, 32):
            out[byte] = tile[byte]

    source, out = randoms(32 * size), np.zeros(32 * size, np.uint8)
    places = np.random.default_rng(4).permutation(32) * size
    valid = LANES % (size + 1) if filled else np.full(32, size)
    program = Program.from_python(there_and_back, "void(uint8[::1], int64[::1], int64[::1], uint8[::1])", (8, 0))
    assert tw.check(program, 1, 32, (source, places, valid, out)) == ()
    tw.simt.launch(program, 1, 32, (source, places, valid, out))
    expected = source.reshape(32, size)[places // size] * (np.arange(size) < valid[:, None])
    assert (out.reshape(32, size) == expected).all()


def named(prefix: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [record.name for record in records() if record.name.startswith(prefix)])


def in_lanes(matrices: Any, trans: bool) -> Any:
    """The registers of 8 x 8 matrices of halves: lane l has elements 2 (l % 4) and the next of row l // 4."""
    turned = matrices.transpose(0, 2, 1) if trans else matrices
    return np.ascontiguousarray(turned).reshape(-1, 32, 2).view(np.uint32)[..., 0]


def matrix_move(name: str) -> tuple[Any, int]:
    """An intrinsic, and how many matrices it moves."""
    from tilewright.gpu import intrinsics

    return getattr(intrinsics, name), int(name.split("_")[1][1])


@named("ldmatrix")
def test_ldmatrix_brings_rows_of_any_address(name: str) -> None:
    load, count = matrix_move(name)

    def kernel(x: Any, rows: Any, out: Any) -> None:
        tile = cuda.shared.array((32, 8), np.uint16, alignment=16)
        i = cuda.threadIdx.x
        for j in range(8):
            tile[i, j] = x[i, j]
        cuda.syncthreads()
        values = load(tile, (rows[i], 0))
        if count == 1:
            out[0, i] = values
        else:
            for j in range(count):
                out[j, i] = values[j]

    x, rows = randoms(32, 8, dtype="uint16"), np.random.default_rng(5).permutation(32)
    out = np.zeros((count, 32), np.uint32)
    program = Program.from_python(kernel, "void(uint16[:, ::1], int64[::1], uint32[:, ::1])")
    assert tw.check(program, 1, 32, (x, rows, out)) == ()
    tw.simt.launch(program, 1, 32, (x, rows, out))
    assert (out == in_lanes(x[rows[: 8 * count]].reshape(count, 8, 8), "trans" in name)).all()


@named("stmatrix")
def test_stmatrix_is_the_way_back(name: str) -> None:
    store, count = matrix_move(name)

    def kernel(x: Any, rows: Any, out: Any) -> None:
        i, tile = cuda.threadIdx.x, cuda.shared.array((32, 8), np.uint16, alignment=16)
        if count == 1:
            store(tile, (rows[i], 0), x[0, i])
        elif count == 2:
            store(tile, (rows[i], 0), (x[0, i], x[1, i]))
        else:
            store(tile, (rows[i], 0), (x[0, i], x[1, i], x[2, i], x[3, i]))
        cuda.syncthreads()
        for place in range(8 * count):
            if i < 8:
                out[place, i] = tile[rows[place], i]

    matrices, rows = randoms(count, 8, 8, dtype="uint16"), np.random.default_rng(6).permutation(32)
    out = np.zeros((8 * count, 8), np.uint16)
    program = Program.from_python(kernel, "void(uint32[:, ::1], int64[::1], uint16[:, ::1])", (9, 0))
    given = np.ascontiguousarray(in_lanes(matrices, "trans" in name))
    assert tw.check(program, 1, 32, (given, rows, out)) == ()
    tw.simt.launch(program, 1, 32, (given, rows, out))
    assert (out == matrices.reshape(-1, 8)).all()


def test_movmatrix_transposes() -> None:
    matrix = randoms(1, 8, 8, dtype="uint16")
    found = np.zeros((1, 32), np.uint32)
    launched("movmatrix_trans", np.zeros((1, 32)), np.ascontiguousarray(in_lanes(matrix, False)), found)
    assert (found == in_lanes(matrix, True)).all()


@pytest.mark.parametrize("wait", ["test_wait", "test_wait_parity", "try_wait", "try_wait_parity"])
def test_an_mbarrier_orders_earlier_writes(wait: str) -> None:
    from tilewright.gpu import intrinsics
    from tilewright.gpu.intrinsics import mbarrier_arrive, mbarrier_init

    done, by_state = getattr(intrinsics, f"mbarrier_{wait}"), not wait.endswith("parity")

    def kernel(x: Any, out: Any) -> None:
        barrier = cuda.shared.array(1, np.uint64)
        tile = cuda.shared.array(64, np.int32)
        i = cuda.threadIdx.x
        if i == 0:
            mbarrier_init(barrier, 0, 64)
        cuda.syncthreads()
        tile[i] = 2 * x[i]
        state = mbarrier_arrive(barrier, 0)
        if by_state:
            while not done(barrier, 0, state):
                pass
        else:
            while not done(barrier, 0, 0):
                pass
        out[i] = tile[63 - i]

    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    program = Program.from_python(kernel, "void(int32[::1], int32[::1])", find(f"mbarrier_{wait}").cc)
    assert tw.check(program, 1, 64, (x, out)) == ()
    tw.simt.launch(program, 1, 64, (x, out))
    assert (out == 2 * x[::-1]).all()


def test_bulk_copies_bring_rows_and_take_them_back() -> None:
    from tilewright.gpu.intrinsics import (
        cp_async_bulk_commit_group,
        cp_async_bulk_load,
        cp_async_bulk_store,
        cp_async_bulk_wait_group,
        fence_proxy_async_shared,
        mbarrier_arrive_expect_tx,
        mbarrier_init,
        mbarrier_try_wait_parity,
    )

    def doubled(x: Any, out: Any) -> None:
        barrier = cuda.shared.array(1, np.uint64)
        tile = cuda.shared.array((2, 64), np.float32, alignment=16)
        i = cuda.threadIdx.x
        if i == 0:
            mbarrier_init(barrier, 0, 1)
            fence_proxy_async_shared()
        cuda.syncthreads()
        for row in range(2):
            if i == 0:
                mbarrier_arrive_expect_tx(barrier, 0, 256)
                cp_async_bulk_load(tile, (row, 0), x, (row, 0), 256, barrier, 0)
            while not mbarrier_try_wait_parity(barrier, 0, row):
                pass
            tile[row, i] *= 2
            fence_proxy_async_shared()
            cuda.syncthreads()
            if i == 0:
                cp_async_bulk_store(out, (row, 0), tile, (row, 0), 256)
                cp_async_bulk_commit_group()
                cp_async_bulk_wait_group(0)

    x, out = np.random.default_rng(7).random((2, 64), np.float32), np.zeros((2, 64), np.float32)
    program = Program.from_python(doubled, "void(float32[:, ::1], float32[:, ::1])", (9, 0))
    assert tw.check(program, 1, 64, (x, out)) == ()
    tw.simt.launch(program, 1, 64, (x, out))
    assert (out == 2 * x).all()


def test_one_lane_is_elected() -> None:
    chosen = np.zeros((1, 32), np.uint32)
    launched("elect_sync", np.zeros((1, 32)), np.full((1, 32), 0xFFFFFFFF, np.uint32), chosen)
    assert chosen.sum() == 1


@pytest.mark.parametrize("record", records(), ids=lambda record: record.name)
def test_the_machine_has_a_row_for_every_intrinsic(record: Record) -> None:
    assert isa.table().find(record.opcode) is not None

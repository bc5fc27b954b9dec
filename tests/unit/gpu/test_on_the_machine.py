"""What intrinsics do on the simulated GPU, compared with NumPy. Those that the machine has no row for are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from intrinsic_kernels import kernel, signature

import tilewright as tw
from tilewright.gpu.intrinsics import find, records
from tilewright.programs import Program

cuda = pytest.importorskip("numba.cuda")
LANES = np.arange(32)


def launched(name: str, offsets: Any, *arrays: Any) -> None:
    """Run the kernel of a record on one warp; `offsets[which, lane]` are the indices of its addresses."""
    record = find(name)
    program = Program.from_python(kernel(record), signature(record), record.cc)
    tw.simt.launch(program, 1, 32, (*arrays, np.ascontiguousarray(offsets, np.int64)))


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

"""Copies of boxes and products of a warpgroup from kernels of numba-cuda, compared with NumPy."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_on_the_machine import encoded
from test_warpgroups import SHARED_BYTES, gathered, put, spread

import tilewright as tw
from tilewright.errors import ArgumentValueError
from tilewright.gpu import intrinsics
from tilewright.gpu.intrinsics import find, matrix_layout, records
from tilewright.gpu.tensor_maps import TensorMap
from tilewright.programs import Program

cuda = pytest.importorskip("numba.cuda")
from tilewright.gpu.intrinsics import (  # noqa: E402  (they need numba-cuda)
    cp_async_bulk_commit_group,
    cp_async_bulk_tensor_2d_load,
    cp_async_bulk_wait_group,
    fence_proxy_async,
    mbarrier_arrive_expect_tx,
    mbarrier_init,
    mbarrier_try_wait_parity,
    wgmma_commit_group,
    wgmma_descriptor,
    wgmma_fence,
    wgmma_m64n64k16_f32_bf16,
    wgmma_wait_group,
)

K_STEP, STAGES, TILE_BYTES = 64, 2, 64 * 64 * 2
LAYOUT = matrix_layout(128, 16, 1024)
ZEROS = (np.float32(0),) * 32


def product(a_map: Any, b_map: Any, c: Any, steps: Any) -> None:
    """C = A B of bfloat16, 64 x 64 a block; B's map is of its transpose. Two stages of copies, one warpgroup."""
    a = cuda.shared.array((STAGES, 64, K_STEP), np.uint16, alignment=1024)
    b = cuda.shared.array((STAGES, 64, K_STEP), np.uint16, alignment=1024)
    full = cuda.shared.array(STAGES, np.uint64)
    t, row, column = cuda.threadIdx.x, 64 * cuda.blockIdx.x, 64 * cuda.blockIdx.y
    if t == 0:
        for stage in range(STAGES):
            mbarrier_init(full, stage, 1)
    cuda.syncthreads()
    sums = ZEROS
    for step in range(steps + STAGES - 1):
        if t == 0 and step < steps:
            stage = step % STAGES
            mbarrier_arrive_expect_tx(full, stage, 2 * TILE_BYTES)
            cp_async_bulk_tensor_2d_load(a, (stage, 0, 0), a_map, 0, (K_STEP * step, row), full, stage)
            cp_async_bulk_tensor_2d_load(b, (stage, 0, 0), b_map, 0, (K_STEP * step, column), full, stage)
        done = step - STAGES + 1
        if done >= 0:
            stage = done % STAGES
            while not mbarrier_try_wait_parity(full, stage, done // STAGES % 2):
                pass
            wgmma_fence()
            for k in range(0, K_STEP, 16):
                left, right = wgmma_descriptor(a, (stage, 0, k), LAYOUT), wgmma_descriptor(b, (stage, 0, k), LAYOUT)
                sums = wgmma_m64n64k16_f32_bf16(sums, left, right, True, 0, 0)
            wgmma_commit_group()
            wgmma_wait_group(0)
            cuda.syncthreads()
    lane, warp = t % 32, t // 32
    for i in range(32):
        c[row + 16 * warp + lane // 4 + 8 * (i // 2 % 2), column + i // 4 * 8 + lane % 4 * 2 + i % 2] = sums[i]


@functools.cache
def product_program() -> Program:
    return Program.from_python(product, "void(uint64[::1], uint64[::1], float32[:, ::1], int64)", (9, 0))


@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (128, 192, 320)])
def test_a_product_of_bfloat16_by_copies_of_boxes(m: int, n: int, k: int) -> None:
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    c = np.zeros((m, n), np.float32)
    maps = [TensorMap(x.view(np.uint16), (64, K_STEP), swizzle=128) for x in (a, b)]
    program = product_program()
    assert tw.check(program, (m // 64, n // 64), 128, (*maps, c, k // K_STEP), gpu="h100") == ()
    wide, other = a.astype(np.float64), b.astype(np.float64).T
    # Products are exact; each of the k sums may lose 2^-23 of the largest term, and cuts off at float32's last bit.
    assert (np.abs(c - wide @ other) <= k * 2.0**-22 * (np.abs(wide) @ np.abs(other))).all()
    assert program.resources((9, 0)).spill_load_bytes == 0


def test_no_lane_uses_sums_before_the_wait() -> None:
    program = product_program()
    early = Program.from_ptx(program.ptx.replace("wgmma.wait_group.sync.aligned 0;", ""), program.entry)
    text = str(tw.check(early, 1, 128, ptx_arguments(program), gpu="h100"))
    assert "TW413" in text


def ptx_arguments(program: Program) -> tuple[Any, ...]:
    """Arguments of the kernel where only its PTX is known: numba-cuda's fields of each array."""
    zeros = np.zeros((64, 64), np.uint16)
    tensor = TensorMap(zeros, (64, K_STEP), swizzle=128)
    c = np.zeros((64, 64), np.float32)
    words = (None, None, 16, 8, tensor, 16, 8)
    return (*words, *words, None, None, c.size, 4, c, 64, 64, 256, 4, 1)


@pytest.mark.parametrize("rank", range(1, 6))
def test_boxes_go_there_and_back(rank: int) -> None:
    load, store = (getattr(intrinsics, f"cp_async_bulk_tensor_{rank}d_{what}") for what in ("load", "store"))
    prefetch = getattr(intrinsics, f"cp_async_bulk_prefetch_tensor_{rank}d")
    shape, box, dtype = (4, 3, 5, 4, 16)[-rank:], (2, 1, 3, 2, 8)[-rank:], np.dtype(np.int32)
    size = int(np.prod(box)) * dtype.itemsize

    def moved(source: Any, target: Any, corners: Any) -> None:
        tile = cuda.shared.array(4096, np.uint8, alignment=128)
        full = cuda.shared.array(1, np.uint64)
        if cuda.threadIdx.x == 0:
            mbarrier_init(full, 0, 1)
            first, second = corners[0], corners[1]
            if rank == 1:
                first, second = corners[0, 0], corners[1, 0]
            prefetch(source, 0, first)
            mbarrier_arrive_expect_tx(full, 0, size)
            load(tile, 0, source, 0, first, full, 0)
            while not mbarrier_try_wait_parity(full, 0, 0):
                pass
            store(target, 0, second, tile, 0)
            cp_async_bulk_commit_group()
            cp_async_bulk_wait_group(0)

    source, target = np.random.default_rng(rank).integers(1, 1000, shape, np.int32), np.zeros(shape, np.int32)
    corners = np.zeros((2, rank), np.int64)
    corners[0, 0], corners[1, 0] = -4, 8  # the innermost axis: half of the box lies outside of the source
    program = Program.from_python(moved, "void(uint64[::1], uint64[::1], int64[:, ::1])", (9, 0))
    assert tw.check(program, 1, 1, (TensorMap(source, box), TensorMap(target, box), corners), gpu="h100") == ()
    wanted = np.zeros(shape, np.int32)
    inner = tuple(slice(0, extent) for extent in box[:-1])
    wanted[(*inner, slice(12, 16))] = source[(*inner, slice(0, 4))]
    assert np.array_equal(target, wanted)


PRODUCTS = [r.name for r in records() if r.name.startswith(("wgmma_m64n8", "wgmma_m64n64k16_f32_f16"))]


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_small_integers_is_exact(name: str) -> None:
    multiply, record = getattr(intrinsics, name), find(name)
    _, shape, sums, of = name.removesuffix("_held").split("_")
    n, k = int(shape[4:].partition("k")[0]), int(shape.partition("k")[2])
    across, start = sum(operand.name.endswith("across") for operand in record.operands), SHARED_BYTES // 2

    def kernel(image: Any, a: Any, c: Any, keeps: Any, d: Any) -> None:
        shared = cuda.shared.array(SHARED_BYTES, np.uint8, alignment=1024)
        t = cuda.threadIdx.x
        for byte in range(t, SHARED_BYTES, 128):
            shared[byte] = image[byte]
        fence_proxy_async()
        cuda.syncthreads()
        left, right = wgmma_descriptor(shared, 0, layout), wgmma_descriptor(shared, start, layout)
        wgmma_fence()
        if across == 2:
            found = multiply(c[t], left, right, keeps, 0, 0)
        elif across == 1:
            found = multiply(c[t], a[t], right, keeps, 0)
        else:
            found = multiply(c[t], left, right, keeps)
        wgmma_commit_group()
        wgmma_wait_group(0)
        for i in range(len(found)):
            d[t, i] = found[i]

    layout = matrix_layout(32, 16, 256)
    random = np.random.default_rng(n)
    low = 0 if of == "u8" else -4
    a, b, c = (random.integers(low, 5, size) for size in ((64, k), (n, k), (64, n)))
    left, right = encoded(a, of), encoded(b, of)
    image, bits = np.zeros(SHARED_BYTES, np.uint8), 16 if sums == "f16" else 32
    assert put(image, 0, left, 2) == layout
    assert put(image, start, right, 2) == layout | start >> 4
    thread, i = np.arange(128)[:, None], np.arange(8)[None, :]
    rows = thread // 32 * 16 + thread % 32 // 4 + i // 2 % 2 * 8
    held = left.astype(np.uint32)[rows, (thread % 4 * 2 + i % 2 + i // 4 * 8) % k]
    kind = {"f32": "float32", "s32": "int32", "f16": "uint32"}[sums]
    given = spread(encoded(c, sums), bits).view(kind)
    signature = f"void(uint8[::1], uint32[:, ::1], {kind}[:, ::1], boolean, {kind}[:, ::1])"
    program = Program.from_python(kernel, signature, (9, 0))
    for keeps in (False, True):
        found = np.zeros_like(given)
        tw.simt.launch(program, 1, 128, (image, held[:, ::2] | held[:, 1::2] << 16, given, keeps, found), gpu="h100")
        wanted = encoded(a @ b.T + c * keeps, sums)
        assert np.array_equal(gathered(found.view(np.uint32), n, bits), wanted), keeps


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((96, 16, 256), "`swizzle` must be"),
        ((32, 8, 256), "`leading` must be"),
        ((32, 16, 1 << 18), "`stride` must be"),
    ],
)
def test_a_layout_that_no_descriptor_has_is_refused(given: tuple[int, int, int], words: str) -> None:
    with pytest.raises(ArgumentValueError, match=words):
        matrix_layout(*given)


def test_an_array_that_a_map_refers_to_is_checked_as_it_lies() -> None:
    from tilewright.simulate.run.staging import SpacedArray, spaced

    def kernel(tensor: Any, x: Any) -> None:
        x[0, 0] = tensor[0]

    x = np.zeros((64, 64), np.float32)
    tensor = TensorMap(x, (8, 8))
    assert spaced(kernel, (tensor, x))[1][1] is x
    assert isinstance(spaced(kernel, (tensor, x.copy()))[1][1], SpacedArray)


def test_blocks_add_to_memory_and_to_a_tensor() -> None:
    add, add_box = intrinsics.cp_reduce_async_bulk_add_f32, intrinsics.cp_reduce_async_bulk_tensor_2d_add

    def added(x: Any, total: Any, tensor: Any) -> None:
        tile = cuda.shared.array((4, 32), np.float32, alignment=128)
        i = cuda.threadIdx.x
        for row in range(4):
            tile[row, i] = x[cuda.blockIdx.x, row, i]
        fence_proxy_async()
        cuda.syncthreads()
        if i == 0:
            add(total, 0, tile, (1, 0), 128)
            add_box(tensor, 0, (0, 2), tile, (0, 0))
            cp_async_bulk_commit_group()
            cp_async_bulk_wait_group(0)

    x = np.random.default_rng(8).integers(-9, 9, (20, 4, 32)).astype(np.float32)
    total, whole = np.ones(32, np.float32), np.ones((5, 32), np.float32)
    program = Program.from_python(added, "void(float32[:, :, ::1], float32[::1], uint64[::1])", (9, 0))
    assert tw.check(program, 20, 32, (x, total, TensorMap(whole, (4, 32))), gpu="h100") == ()
    assert np.array_equal(total, 1 + x[:, 1].sum(axis=0))
    assert np.array_equal(whole[2:], 1 + x[:, :3].sum(axis=0))
    assert (whole[:2] == 1).all()

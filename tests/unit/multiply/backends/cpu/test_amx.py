"""Tile registers: exact products of bytes, bfloat16 within its bound, and their text compiled on any host."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import multiprocessing
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from callers import at_once

import tilewright as tw
from tilewright.ground.native.compiler import compiler
from tilewright.ground.native.tile_registers import tile_registers_granted
from tilewright.multiply.backends.cpu import choice
from tilewright.multiply.backends.cpu.amx_loops import amx_kernel_text
from tilewright.multiply.backends.cpu.choice import Part, amx_fits, grid_parts, kernel_key
from tilewright.multiply.backends.cpu.contexts import KernelKey, tile_of
from tilewright.multiply.backends.cpu.layout import Layout
from tilewright.multiply.backends.cpu.product import Product, multiply_into, product
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import canonical, error_bound, same_bits
from tilewright.problem.functions import trace

Array = np.ndarray[Any, Any]
BYTES = ["int8", "uint8"]
SIGNS = [(a, b) for a in BYTES for b in BYTES]
#: Around the rows of a tile (16), its bytes along k (64), the tiles of a step (32), and the blocks of k and n (1024).
SHAPES = [
    (33, 32, 64), (32, 32, 65), (31, 47, 64), (16, 17, 127), (65, 15, 128), (48, 33, 1023), (33, 64, 1025),
    (40, 1056, 70), (64, 1023, 129), (9, 70, 3100), (100, 31, 192),
]  # fmt: skip
SAPPHIRE_RAPIDS = "+amx-tile,+amx-int8,+amx-bf16,+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx512vnni"


def has(instructions: str) -> bool:
    return f"+{instructions}" in compiler().features.split(",") and tile_registers_granted()


needs_int8 = pytest.mark.skipif(not has("amx-int8"), reason="this host has no AMX tiles for bytes, or forbids them")
needs_bf16 = pytest.mark.skipif(not has("amx-bf16"), reason="this host has no AMX tiles for bfloat16, or forbids them")


def whole_range(random: np.random.Generator, shape: tuple[int, ...], name: str) -> Array:
    info = np.iinfo(name)
    return random.integers(info.min, info.max, shape, name, endpoint=True)


def layouts(x: Array) -> list[Array]:
    """The same matrix: by rows, by columns, spread out, reversed, and away from cache lines."""
    wide = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
    wide[::2, ::3] = x
    raw = np.empty(x.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + 3 * x.itemsize
    astray = raw[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    astray[:] = x
    return [x, np.asfortranarray(x), wide[::2, ::3], x[::-1, ::-1].copy()[::-1, ::-1], astray]


def bfloat16(random: np.random.Generator, shape: tuple[int, ...], spread: float = 0) -> Array:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = random.standard_normal(shape) * 2.0 ** random.uniform(-spread, spread, shape)
    return values.astype(ml_dtypes.bfloat16)


@needs_int8
@pytest.mark.parametrize("names", SIGNS)
def test_bytes_of_any_signs_are_exact_for_every_layout_and_extent(names: tuple[str, str]) -> None:
    random = np.random.default_rng(1)
    for m, n, k in SHAPES:
        a, b = whole_range(random, (m, k), names[0]), whole_range(random, (k, n), names[1])
        truth = a.astype(np.int64) @ b.astype(np.int64)
        assert kernel_key(*names, "int32", "int32", extents=(m, n, k)).family == "amx"
        for x, y in zip(layouts(a), reversed(layouts(b)), strict=True):
            for out in (np.full((m, n), 7, np.int32), np.full((2 * m, 3 * n), 7, np.int32)[::2, ::3]):
                multiply_into(x, y, out, Kind(*names, "int32", "int32"), threads=1)
                np.testing.assert_array_equal(out, truth)
        for name in ("uint32", "int8", "uint8", "int16", "int64"):
            out = np.full((n, m), 7, name).T if name == "int8" else np.full((m, n), 7, name)
            register = "uint32" if name == "uint32" else "int32"
            multiply_into(a, b, out, Kind(*names, name, register), threads=2)
            np.testing.assert_array_equal(out, truth.astype(name))


@needs_int8
@pytest.mark.parametrize("names", SIGNS)
def test_sums_continue_those_of_earlier_panels(names: tuple[str, str]) -> None:
    random = np.random.default_rng(3)
    a, b = whole_range(random, (67, 1500), names[0]), whole_range(random, (1500, 131), names[1])
    sums = np.full((67, 131), 7, np.int32)
    kind = Kind(*names, "int32", "int32", continues=True)
    for first, last in ((0, 0), (0, 1101), (1101, 1500), (1500, 1500)):
        if last - first > 64:
            assert product(
                (67, last - first), (1500, 1), (last - first, 131), (131, 1), (67, 131), sums.strides, kind, 1
            ).path == "tile registers"  # fmt: skip
        multiply_into(a[:, first:last], b[first:last], sums, kind._replace(continues=last > 0))
    np.testing.assert_array_equal(sums, a.astype(np.int64) @ b.astype(np.int64))


@needs_int8
def test_a_byte_result_is_numpys_own_product() -> None:
    random = np.random.default_rng(2)
    a, b = whole_range(random, (3, 65, 1500), "int8"), whole_range(random, (1500, 80), "int8")
    assert tw.plan(a.shape, b.shape, "int8").kernel.family == "amx"
    assert same_bits(tw.matmul(a[0], b), canonical(a[0], b))
    np.testing.assert_array_equal(tw.matmul(a, b), a @ b)
    np.testing.assert_array_equal(tw.matmul(a > 0, b > 0), (a > 0) @ (b > 0))


@needs_int8
@pytest.mark.parametrize("extents", [(33, 40, 100), (70, 1100, 1500), (64, 64, 2048)])
def test_an_epilogue_follows_the_last_block_of_k(extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    random = np.random.default_rng(15)
    a, b = whole_range(random, (m, k), "int8"), whole_range(random, (k, n), "int8")
    row, column = random.integers(-99, 99, n, np.int32), random.integers(-99, 99, (m, 1), np.int32)
    sums = a.astype(np.int32) @ b.astype(np.int32)
    found = tw.matmul(a, b, dtype="int32", epilogue=lambda s, x, y: tw.relu(s - x) + y, epilogue_args=(row, column))
    np.testing.assert_array_equal(found, np.maximum(sums - row, 0) + column)
    scaled = tw.matmul(a, b, epilogue=lambda total: tw.requantise(total, 0.01))
    assert tw.plan(a.shape, b.shape, "int8", epilogue=lambda total: tw.requantise(total, 0.01)).kernel.family == "amx"
    thin = [tw.matmul(a[i : i + 8], b, epilogue=lambda total: tw.requantise(total, 0.01)) for i in range(0, m, 8)]
    np.testing.assert_array_equal(scaled, np.concatenate(thin))
    out = sums.copy()
    tw.matmul(a, b, out, dtype="int32", alpha=3, beta=-2)
    np.testing.assert_array_equal(out, sums)


@needs_int8
def test_sums_wrap_modulo_two_to_the_thirty_two() -> None:
    a = np.full((16, 40_000), 255, np.uint8)
    out = tw.matmul(a, a.T, dtype="uint32")
    assert (out == np.uint32(40_000 * 255 * 255)).all()
    assert int(a.shape[1]) * 255 * 255 < 2**32
    long = np.full((16, 70_000), 255, np.uint8)
    assert (tw.matmul(long, long.T, dtype="uint32") == np.uint32(70_000 * 255 * 255 % 2**32)).all()


@needs_int8
def test_only_the_result_is_written() -> None:
    random = np.random.default_rng(3)
    a, b = whole_range(random, (37, 90), "int8"), whole_range(random, (90, 41), "int8")
    for dtype in ("int32", "int16"):
        frame = np.full((39, 45), 99, dtype)
        tw.matmul(a, b, frame[1:-1, 2:-2], dtype=dtype)
        np.testing.assert_array_equal(frame[1:-1, 2:-2], (a.astype(int) @ b.astype(int)).astype(dtype))
        frame[1:-1, 2:-2] = 99
        assert (frame == 99).all()


def _fenced(x: Array) -> Array:
    """A copy that ends just before memory that may not be read."""
    pages = -(-x.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    region = mmap.mmap(-1, pages + mmap.PAGESIZE)
    whole = np.frombuffer(region, np.uint8)
    call = ctypes.CDLL(None).mprotect
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert call(whole.ctypes.data + pages, mmap.PAGESIZE, 0) == 0
    order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
    made = whole[pages - x.nbytes : pages].view(x.dtype).reshape(x.shape, order=order)
    made[...] = x
    return made


def _multiply_fenced(extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    random = np.random.default_rng(14)
    a, b = whole_range(random, (m, k), "int8"), whole_range(random, (k, n), "int8")
    for x, y in ((a, b), (np.asfortranarray(a), np.asfortranarray(b))):
        out = _fenced(np.zeros((m, n), np.int32))
        multiply_into(_fenced(x), _fenced(y), out, Kind("int8", "int8", "int32", "int32"), threads=1)
        np.testing.assert_array_equal(out, a.astype(int) @ b.astype(int))


@needs_int8
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("extents", [(33, 35, 67), (47, 40, 130), (20, 1030, 70), (32, 32, 64), (31, 31, 1029)])
def test_nothing_beyond_the_operands_is_touched(extents: tuple[int, int, int]) -> None:
    child = multiprocessing.get_context("fork").Process(target=_multiply_fenced, args=(extents,))
    child.start()
    child.join(60)
    assert child.exitcode == 0


@needs_int8
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_threads_and_batches_do_not_change_a_bit(dtype: str) -> None:
    random = np.random.default_rng(4)
    a, b = whole_range(random, (5, 300, 1100), "int8"), whole_range(random, (5, 1100, 270), "int8")
    truth = (a.astype(np.int64) @ b.astype(np.int64)).astype(dtype)
    for threads in (1, 2, 3, 8):
        np.testing.assert_array_equal(tw.matmul(a, b, dtype=dtype, threads=threads), truth)
        np.testing.assert_array_equal(tw.matmul(a[1], b[1], dtype=dtype, threads=threads), truth[1])


@needs_int8
def test_python_threads_started_before_and_after_use_tiles_immediately() -> None:
    random = np.random.default_rng(5)
    a = whole_range(random, (8, 200, 300), "int8")
    truth = a.astype(np.int32) @ a.swapaxes(1, 2).astype(np.int32)
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(tw.matmul(a[i], a[i].T, dtype="int32", threads=2), truth[i]):
                wrong.append(i)

    at_once(work, 8)
    assert wrong == []


def _in_child(a: Array, results: Any) -> None:
    results.put((tw.plan(a.shape, a.shape, "int8").kernel.family, tw.matmul(a, a, dtype="int32").tobytes()))


@needs_int8
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_its_parents_permission() -> None:
    a = whole_range(np.random.default_rng(6), (300, 300), "int8")
    truth = tw.matmul(a, a, dtype="int32").tobytes()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_child, args=(a, results))
    child.start()
    found = results.get(timeout=60)
    child.join(60)
    assert found == ("amx", truth)


@needs_bf16
@pytest.mark.parametrize("spread", [0, 8, 60])
def test_fast_bfloat16_lies_within_its_bound(spread: float) -> None:
    random = np.random.default_rng(7)
    for m, n, k in [*SHAPES, (33, 40, 2), (32, 64, 1500)]:
        a, b = bfloat16(random, (m, k), spread), bfloat16(random, (k, n), spread)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        for dtype in ("float32", "bfloat16"):
            bound = error_bound(a, b, acc_dtype="float32", out_dtype=dtype, flushes=True)
            found = [
                tw.matmul(x, y, dtype=dtype, order="fast")
                for x, y in zip(layouts(a), reversed(layouts(b)), strict=True)
            ]
            assert (np.abs(found[0].astype(np.float64) - exact) <= bound).all()
            assert all(same_bits(x, found[0]) for x in found)


@needs_bf16
def test_fast_bfloat16_has_the_same_bits_for_any_threads_and_batch() -> None:
    random = np.random.default_rng(8)
    a, b = bfloat16(random, (4, 150, 1300)), bfloat16(random, (4, 1300, 200))
    truth = tw.matmul(a, b, order="fast", threads=1)
    assert not same_bits(tw.matmul(a, b, dtype="float32"), tw.matmul(a, b, dtype="float32", order="fast"))
    for threads in (2, 3, 8):
        assert same_bits(tw.matmul(a, b, order="fast", threads=threads), truth)
        assert same_bits(tw.matmul(a[2], b[2], order="fast", threads=threads), truth[2])


@needs_bf16
def test_fast_bfloat16_takes_subnormals_as_zeros_and_keeps_infinities_and_nans() -> None:
    a, b = bfloat16(np.random.default_rng(9), (32, 64)), bfloat16(np.random.default_rng(10), (64, 32))
    a[:], b[:] = 0, 0
    a[0, 0], b[0, :] = 2.0**-130, 2.0**100
    a[1, 1], b[1, 3] = np.inf, 1
    a[2, 2], b[2, 5] = np.inf, 0
    a[3, 4], b[4, 5] = 2.0**-70, 2.0**-70
    found = tw.matmul(a, b, dtype="float32", order="fast")
    assert found[0, 0] == 0
    assert tw.matmul(a, b, dtype="float32")[0, 0] == 2.0**-30
    assert error_bound(a[:1], b, acc_dtype="float32", flushes=True)[0, 0] >= 2.0**-30
    assert found[1, 3] == np.inf
    assert np.isnan(found[2, 5])
    assert found[3, 5] == 0


def test_the_bound_with_flushing_is_tight() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    ones = np.ones((1, 64), ml_dtypes.bfloat16)
    plain = error_bound(ones, ones.T, acc_dtype="float32", out_dtype="float32")[0, 0]
    assert error_bound(ones, ones.T, acc_dtype="float32", out_dtype="float32", flushes=True)[0, 0] == plain
    tiny = np.full((1, 1), 2.0**-130, ml_dtypes.bfloat16)
    large = np.full((1, 1), 2.0**100, ml_dtypes.bfloat16)
    found = error_bound(tiny, large, acc_dtype="float32", out_dtype="float32", flushes=True)[0, 0]
    assert 2.0**-30 <= found < 2.0**-29


def test_a_plan_states_the_order_that_is_used() -> None:
    pytest.importorskip("ml_dtypes")
    shapes = (256, 256), (256, 256)
    expected = "fast" if has("amx-bf16") else "canonical"
    assert tw.plan(*shapes, "bfloat16", order="fast").order == expected
    for name, order in [("bfloat16", "canonical"), ("float32", "fast"), ("int8", "fast"), ("float16", "fast")]:
        assert tw.plan(*shapes, name, order=order).order == "canonical"
    assert tw.plan(*shapes, "bfloat16", acc_dtype="float32", order="fast").order == expected
    assert tw.plan((2, 256), (256, 256), "bfloat16", order="fast").order == expected
    assert tw.plan((256, 31), (31, 256), "bfloat16", order="fast").order == "canonical"
    assert tw.plan(*shapes, "bfloat16", algebra="min-plus", order="fast").order == "canonical"
    fused = tw.plan(*shapes, "bfloat16", epilogue=tw.relu, order="fast")
    assert fused.order == expected
    a = bfloat16(np.random.default_rng(16), (256, 256))
    assert same_bits(fused(a, a), np.maximum(tw.matmul(a, a, order="fast"), a.dtype.type(0)))
    with pytest.raises(tw.errors.ArgumentValueError, match="one of canonical, tf32x3, fast"):
        tw.plan(*shapes, order="quick")


def test_a_plan_multiplies_in_its_order() -> None:
    a, b = bfloat16(np.random.default_rng(11), (100, 700)), bfloat16(np.random.default_rng(12), (700, 90))
    for order in ("canonical", "fast"):
        plan = tw.plan(a.shape, b.shape, a.dtype, order=order, threads=2)
        assert same_bits(plan(a, b), tw.matmul(a, b, order=order, threads=2))


@pytest.mark.parametrize("order", ["canonical", "fast"])
def test_other_dtypes_stay_canonical(order: str) -> None:
    random = np.random.default_rng(13)
    a, b = random.standard_normal((70, 300)), random.standard_normal((300, 60))
    for name in ("float32", "float64", "float16"):
        x, y = a.astype(name), b.astype(name)
        assert same_bits(tw.matmul(x, y, order=order), canonical(x, y))


@pytest.mark.parametrize("names", [*SIGNS, ("bfloat16", "bfloat16")])
def test_kernels_compile_for_a_processor_with_tiles(names: tuple[str, str]) -> None:
    """On any host: the text is valid, and compiles to the intended instruction."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    register = "float" if names[0] == "bfloat16" else "i32"
    for out in (names[0], "float32" if register == "float" else "int32"):
        text = amx_kernel_text(KernelKey(*names, out, register, "amx", 64))
        module = llvm.parse_assembly(text)
        module.verify()
        target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
        code = target.create_target_machine(cpu="sapphirerapids").emit_assembly(module)
        wanted = "tdpbf16ps" if register == "float" else f"tdpb{names[0][0]}{names[1][0]}d".replace("i", "s")
        assert code.count(wanted) == 4
        assert code.count("ldtilecfg") == code.count("tilerelease") == 1


def test_tiles_are_chosen_by_features_dtypes_and_order() -> None:
    for a, b in SIGNS:
        assert amx_fits(a, b, "int32", "canonical", SAPPHIRE_RAPIDS)
        assert amx_fits(a, b, "uint32", "fast", SAPPHIRE_RAPIDS)
        assert not amx_fits(a, b, "int64", "canonical", SAPPHIRE_RAPIDS)
        assert not amx_fits(a, b, "int32", "canonical", SAPPHIRE_RAPIDS.replace("+amx-int8", "-amx-int8"))
    assert amx_fits("bfloat16", "bfloat16", "float32", "fast", SAPPHIRE_RAPIDS)
    assert not amx_fits("bfloat16", "bfloat16", "float32", "canonical", SAPPHIRE_RAPIDS)
    assert not amx_fits("bfloat16", "bfloat16", "float64", "fast", SAPPHIRE_RAPIDS)
    assert not amx_fits("int8", "int16", "int32", "canonical", SAPPHIRE_RAPIDS)
    assert not amx_fits("int8", "int8", "int32", "canonical", "+avx2")


@pytest.mark.parametrize("finish", [False, True])
def test_for_floats_only_k_decides_on_tiles(finish: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "compiler", lambda: SimpleNamespace(features=SAPPHIRE_RAPIDS, cpu="sapphirerapids"))
    monkeypatch.setattr(choice, "tile_registers_granted", lambda: True)
    epilogue = trace(tw.relu, {"sums": "float32"}) if finish else None
    kind = Kind("bfloat16", "bfloat16", "float32", "float32", finish=epilogue, order="fast")
    extents = (1, 2, 8, 9, 31, 64, 1000)
    for k, order in ((1, "canonical"), (31, "canonical"), (32, "fast"), (33, "fast"), (4096, "fast")):
        for m, n, count in itertools.product(extents, extents, (1, 3)):
            strides = (m * k * 2, k * 2, 2), (k * n * 2, n * 2, 2), (m * n * 2, n * 2, 2)
            of = Layout.strided((count, m, k), strides[0], (count, k, n), strides[1], (count, m, n), strides[2])
            found = Product(of, kind, 2)
            assert (found.key.order, found.path == "tile registers") == (order, order == "fast"), (m, n, k)


@needs_bf16
@pytest.mark.parametrize("k", [32, 100, 1500])
def test_fast_bfloat16_has_the_same_bits_alone_and_among_others(k: int) -> None:
    random = np.random.default_rng(17)
    a, b = bfloat16(random, (3, 70, k)), bfloat16(random, (3, k, 90))
    truth = tw.matmul(a, b, order="fast")
    for rows, columns in ((1, 1), (1, 90), (70, 1), (7, 5), (8, 64), (33, 33)):
        part = tw.matmul(a[1, :rows], b[1, :, :columns], order="fast")
        assert same_bits(part, truth[1, :rows, :columns])
    assert same_bits(tw.matmul(a[2, 3], b[2, :, 4], order="fast"), truth[2, 3, 4])


def test_small_products_keep_their_vectors() -> None:
    for extents in [(8, 512, 512), (16, 16, 16), (512, 512, 63)]:
        assert kernel_key("int8", "int8", "int32", "int32", extents=extents).family != "amx"


def test_a_setting_forbids_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_AMX", "0")
    assert not tile_registers_granted.__wrapped__()


@needs_int8
def test_permission_is_requested_if_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_AMX", "")
    assert tile_registers_granted.__wrapped__()
    monkeypatch.setattr("sys.platform", "win32")
    assert not tile_registers_granted.__wrapped__()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("in_place", [True, False])
def test_a_grid_covers_c_once(threads: int, in_place: bool) -> None:
    tile = tile_of(KernelKey("int8", "int8", "int32", "i32", "amx", 64))
    for m, n in [(1, 1), (5000, 70), (40, 4000), (999, 1001), (3000, 3000)]:
        found = grid_parts(m, n, tile, threads, in_place=in_place, sum_bytes=4)
        seen = np.zeros((m, n), np.int8)
        for p in found:
            seen[p.row : p.row + p.rows, p.column : p.column + p.columns] += 1
            assert in_place or p.rows * p.columns * 4 <= 12 << 20
        assert (seen == 1).all()
        assert not in_place or len(found) <= threads


def test_threads_share_rows_of_a_grid_before_columns() -> None:
    """Two threads that write parts of the same row write to the same cache line."""
    tile = tile_of(KernelKey("int8", "int8", "int32", "i32", "amx", 64))
    first = {
        (m, n, threads): grid_parts(m, n, tile, threads, in_place=True, sum_bytes=4)[0]
        for m, n, threads in [(1024, 1024, 4), (4096, 64, 2), (64, 4096, 2), (64, 4096, 8)]
    }
    assert first == {
        (1024, 1024, 4): Part(0, 256, 0, 1024),
        (4096, 64, 2): Part(0, 2048, 0, 64),
        (64, 4096, 2): Part(0, 64, 0, 2048),
        (64, 4096, 8): Part(0, 64, 0, 512),
    }


@needs_int8
def test_buffers_stay_within_the_engines_bound() -> None:
    plan = tw.plan((4096, 4096), (4096, 4096), "int8", threads=2)
    assert plan.kernel.family == "amx"
    assert plan.buffer_bytes <= plan.threads * (16 << 20)

"""The engine's products, in every dtype, layout, width and number of threads, against the canonical product."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from tilewright.multiply.backends.cpu import pool, product as product_module
from tilewright.multiply.backends.cpu.choice import kernel_key, parts
from tilewright.multiply.backends.cpu.contexts import KernelKey, tile_of
from tilewright.multiply.backends.cpu.layout import Layout
from tilewright.multiply.backends.cpu.loops import SCRATCH, kernel_text
from tilewright.multiply.backends.cpu.product import THREAD_WORK, Product, multiply_into, product
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import canonical, same_bits

SHAPES = [(1, 1, 1), (7, 9, 8), (31, 33, 32), (64, 64, 64), (100, 37, 61), (13, 530, 700), (6, 64, 0), (0, 5, 3)]
FLOATS = ["float32", "float64", "float16"]
ACCUMULATORS = {"float16": "float32", "int8": "int32", "uint16": "uint32"}
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def matrix(random: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return random.uniform(-1, 1, shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same matrix, stored in several ways."""
    wide = np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)
    return [x, np.asfortranarray(x), wide[::2, ::3], x[::-1, ::-1].copy()[::-1, ::-1]]


def expected(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    if dtype.startswith("float"):
        return canonical(a, b, acc_dtype="float32" if dtype == "float16" else dtype, out_dtype=dtype)
    return _wrapped(a, b)


def _wrapped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers modulo 2^64, then truncated: an oracle that does not depend on the order."""
    wide = a.astype(np.int64).astype(np.uint64) @ b.astype(np.int64).astype(np.uint64)
    return wide.astype(a.dtype)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_every_dtype_gives_the_canonical_bits_in_every_layout(dtype: str) -> None:
    random = np.random.default_rng(1)
    for m, n, k in SHAPES:
        a, b = matrix(random, (m, k), dtype), matrix(random, (k, n), dtype)
        truth = expected(a, b, dtype)
        for index, (x, y) in enumerate(zip(layouts(a), reversed(layouts(b)), strict=True)):
            out = np.empty((m, n), dtype) if index % 2 else np.empty((n, m), dtype).T
            multiply_into(x, y, out, Kind(*(dtype,) * 3, dtype), threads=2 if index else 1)
            np.testing.assert_array_equal(out, truth)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_threads_do_not_change_a_bit(dtype: str) -> None:
    random = np.random.default_rng(2)
    a, b = matrix(random, (70, 600), dtype), matrix(random, (600, 333), dtype)
    found = []
    for threads in (1, 2, 3, 8):
        out = np.empty((70, 333), dtype)
        multiply_into(a, b, out, Kind(*(dtype,) * 3, dtype), threads=threads)
        found.append(out.tobytes())
    assert len(set(found)) == 1


def test_nan_infinity_and_negative_zero_are_as_ieee_says() -> None:
    a = np.array([[np.inf, 1, -0.0], [np.nan, 0, 1]], np.float32)
    b = np.array([[0, 1], [2, -0.0], [3, np.inf]], np.float32)
    out = np.empty((2, 2), np.float32)
    multiply_into(a, b, out, Kind(*("float32",) * 3, "float32"), threads=1)
    np.testing.assert_array_equal(out, canonical(a, b))


def test_a_wider_output_holds_the_exact_sums() -> None:
    random = np.random.default_rng(3)
    a, b = matrix(random, (20, 500), "int8"), matrix(random, (500, 90), "int8")
    out = np.empty((20, 90), np.int32)
    multiply_into(a, b, out, Kind(*("int8", "int8", "int32"), "int32"), threads=1)
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("vector_bytes", [64, 32, 16])
@pytest.mark.parametrize("register", ["float", "double", "i32", "i64"])
def test_every_vector_width_makes_a_module(vector_bytes: int, register: str) -> None:
    name = {"float": "float32", "double": "float64", "i32": "int32", "i64": "int64"}[register]
    key = KernelKey(name, name, name, register, "integer" if register.startswith("i") else "fma", vector_bytes)
    assert f"<{tile_of(key).width} x {register}>" in kernel_text(key)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("in_place", [True, False])
def test_parts_cover_c_once(threads: int, in_place: bool) -> None:
    tile = tile_of(kernel_key("float32", "float32", "float32", "float32"))
    for m, n in [(1, 1), (5000, 70), (6, 4000), (999, 1001)]:
        seen = np.zeros((m, n), np.int8)
        for p in parts(m, n, tile, threads, in_place=in_place, sum_bytes=4):
            seen[p.row : p.row + p.rows, p.column : p.column + p.columns] += 1
        assert (seen == 1).all()


def test_every_accumulator_has_a_register() -> None:
    assert all(element(name).register for name in (*FLOATS, *INTEGERS, "bfloat16"))


@pytest.mark.parametrize("names", [("int8", "uint8"), ("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("k", [1, 3, 4, 130, 1500])
def test_bytes_of_any_signs_are_summed_exactly(names: tuple[str, str], k: int) -> None:
    random = np.random.default_rng(4)
    a, b = matrix(random, (13, k), names[0]), matrix(random, (k, 70), names[1])
    truth = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    for x, y in zip(layouts(a), layouts(b), strict=True):
        out = np.empty((13, 70), np.int32)
        multiply_into(x, y, out, Kind(*(*names, "int32"), "int32"), threads=1)
        np.testing.assert_array_equal(out, truth)


def test_words_at_the_end_of_their_range_wrap_only_modulo_the_sum() -> None:
    a = np.full((3, 600), -32768, np.int16)
    out = np.empty((3, 5), np.int32)
    multiply_into(a, a[:1].T.repeat(5, axis=1), out, Kind(*("int16", "int16", "int32"), "int32"), threads=1)
    assert (out == np.int64(600 * 32768**2).astype(np.int32)).all()


@pytest.mark.parametrize("extents", [(4, 4, 4), (40, 30, 20), (90, 70, 80)])
def test_threads_share_a_batch_of_every_size(extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    kind = Kind(*("float32",) * 4)
    batch = 2 * THREAD_WORK // (m * n * k) + 3
    random = np.random.default_rng(2)
    a, b = random.normal(size=(batch, m, k)).astype(np.float32), random.normal(size=(batch, k, n)).astype(np.float32)
    first = np.empty((batch, m, n), np.float32)
    multiply_into(a, b, first, kind, 1)
    for _ in range(2):  # the second has the kernel of exact extents
        out = np.zeros_like(first)
        multiply_into(a, b, out, kind, 3)
        assert same_bits(out, first)
    assert same_bits(first[-1], canonical(a[-1], b[-1]))


def _complex_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Complex sums, one fused multiply-add of parts after the other, in Python's own numbers."""
    part = np.float32 if a.dtype == np.complex64 else np.float64
    re, im = np.zeros((2, a.shape[0], b.shape[1]), part)
    for p in range(a.shape[1]):
        x, y = a[:, p, None], b[None, p, :]
        re = fused(x.imag, -y.imag, fused(x.real, y.real, re, part), part)
        im = fused(x.imag, y.real, fused(x.real, y.imag, im, part), part)
    return np.array(re + 1j * im).astype(a.dtype)


def same_parts(x: np.ndarray, y: np.ndarray) -> bool:
    return same_bits(np.ascontiguousarray(x).view(x.real.dtype), np.ascontiguousarray(y).view(x.real.dtype))


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray, part: type) -> np.ndarray:
    """x y + z rounded once, with fractions."""
    values = [np.broadcast_to(v, z.shape) for v in (x, y, z)]
    exact = [
        Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r))
        for p, q, r in zip(*(v.flat for v in values), strict=True)
    ]
    return np.array([_rounded(value, part) for value in exact], part).reshape(z.shape)


def _rounded(value: Fraction, part: type) -> float:
    if part is np.float64:
        return float(value)  # Fraction rounds to nearest even
    near = np.float32(float(value))
    # Rounding to 64 bits first may give the midpoint of two floats, so choose by the exact distance.
    around = [near, np.nextafter(near, np.float32(-np.inf)), np.nextafter(near, np.float32(np.inf))]
    even = [int(np.asarray(v).view(np.uint32)) % 2 for v in around]
    return float(
        min(zip(around, even, strict=True), key=lambda pair: (abs(Fraction(float(pair[0])) - value), pair[1]))[0]
    )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4), (7, 33, 9), (4, 20, 140)])
def test_complex_products_go_part_by_part_along_k(dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    random = np.random.default_rng(4)
    a = (random.normal(size=(m, k)) + 1j * random.normal(size=(m, k))).astype(dtype)
    b = (random.normal(size=(k, n)) + 1j * random.normal(size=(k, n))).astype(dtype)
    truth = _complex_product(a, b)
    kind = Kind(*(dtype,) * 4)
    for x in layouts(a):
        for y in layouts(b):
            for out in layouts(np.zeros((m, n), dtype)):
                multiply_into(x, y, out, kind, 2)
                assert same_parts(out, truth)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_products_of_several_blocks_and_threads(dtype: str) -> None:
    random = np.random.default_rng(4)
    a = (random.normal(size=(3, 70, 300)) + 1j * random.normal(size=(3, 70, 300))).astype(dtype)
    b = (random.normal(size=(1, 300, 90)) + 1j * random.normal(size=(1, 300, 90))).astype(dtype)
    kind, outs = Kind(*(dtype,) * 4), [np.empty((3, 70, 90), dtype) for _ in range(3)]
    for threads, out in enumerate(outs, start=1):
        multiply_into(a, b, out, kind, threads)
        assert same_parts(out, outs[0])
    np.testing.assert_allclose(outs[0], a @ b, rtol=2e-4 if dtype == "complex64" else 1e-11)


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint16", "int32", "int64"])
@pytest.mark.parametrize("extents", [(1, 300, 500), (3, 130, 1100), (8, 4099, 17), (5, 40, 4500)])
def test_skinny_products_are_canonical(dtype: str, extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    random = np.random.default_rng(6)
    a, b = matrix(random, (m, k), dtype), matrix(random, (k, n), dtype)
    truth = expected(a, b, dtype)
    for x, y in zip(layouts(a), (b, np.asfortranarray(b), b, np.asfortranarray(b)), strict=True):
        for threads in (1, 3):
            out = np.empty((m, n), dtype)
            multiply_into(x, y, out, Kind(dtype, dtype, dtype, ACCUMULATORS.get(dtype, dtype)), threads)
            assert same_bits(out, truth)
            turned = np.empty((n, m), dtype)
            multiply_into(y.T, x.T, turned, Kind(dtype, dtype, dtype, ACCUMULATORS.get(dtype, dtype)), threads)
            assert same_bits(turned.T, truth)


def test_the_skinny_kernels_are_used_where_they_should_be() -> None:
    wide = ((8, 4096), (4 * 4096, 4), (4096, 4096), (4 * 4096, 4), (8, 4096), (4 * 4096, 4))
    kind = Kind(*("float32",) * 4)
    assert product(*wide, kind, 2).skinny.along == "rows"
    turned = ((4096, 4096), (4 * 4096, 4), (4096, 8), (32, 4), (4096, 8), (32, 4))
    assert product(*turned, kind, 2).skinny.along == "columns"
    assert product((9, 64), (256, 4), (64, 64), (256, 4), (9, 64), (256, 4), kind, 2).skinny is None


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex64", "complex128"])
def test_only_the_operands_are_read(dtype: str) -> None:
    """Operands are next to protected pages, at either end."""
    script = GUARDED.format(dtype=dtype)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "untouched"), done.stderr


GUARDED = """
import ctypes, mmap
import numpy as np
from tilewright.multiply.backends.cpu.product import multiply_into
from tilewright.multiply.problem.kind import Kind

libc = ctypes.CDLL(None, use_errno=True)
dtype = np.dtype("{dtype}")


def guarded(rows, columns, at_end):
    size = -(-rows * columns * dtype.itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + 2 * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (start, start + mmap.PAGESIZE + size):
        assert libc.mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, 0) == 0
    offset = mmap.PAGESIZE + (size - rows * columns * dtype.itemsize if at_end else 0)
    made = np.frombuffer(memory, dtype, rows * columns, offset).reshape(rows, columns)
    made[...] = 1
    return made


kind = Kind(*(dtype.name,) * 3, {{"float16": "float32", "int8": "int32"}}.get(dtype.name, dtype.name))
for m, n, k in ((5, 33, 17), (70, 64, 32), (7, 300, 300)):
    for at_end in (False, True):
        for step in (1, 2, 3, -1, -2):
            wide = abs(step)
            # The last element of the matrix is the last of its memory.
            a = guarded(m, (k - 1) * wide + 1, at_end)[:, ::step]
            b = guarded(k, (n - 1) * wide + 1, at_end)[:, ::step]
            out = guarded(m, n, at_end)
            for x in (a, guarded(k, m, at_end).T):
                for y in (b, guarded(n, k, at_end).T):
                    for threads in (1, 2):
                        multiply_into(x, y, out, kind, threads)
                        assert (out == np.array(k).astype(dtype)).all()
print("untouched")
"""


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_a_panel_of_fewer_columns_has_no_leftovers(dtype: str) -> None:
    """Leftovers of other products may be subnormal, and very slow."""
    parts = 2 if dtype == "complex64" else 1
    real = {"float64": "float64"}.get(dtype, "float32")
    a, b = np.ones((9, 70), dtype), np.ones((70, 13), dtype)
    out = np.empty((9, 13), dtype)
    kind = Kind(*(dtype,) * 3, {"float16": "float32"}.get(dtype, dtype))
    made = product(a.shape, a.strides, b.shape, b.strides, out.shape, out.strides, kind, 1)
    ready = made._prepare()
    code, records = ready.code, ready.records
    least = np.nextafter(np.zeros(1, real), np.ones(1, real))
    buffers = [np.full(size // least.itemsize + 64, least[0], real) for size in records.buffers]
    aligned = [x[-x.ctypes.data % 64 // x.itemsize :] for x in buffers]
    table = np.array([x.ctypes.data for x in aligned], np.int64)
    code.call(records.address, table.ctypes.data, a.ctypes.data, b.ctypes.data, out.ctypes.data, 0)
    assert (out == 70).all()
    panel = aligned[SCRATCH.index("b_pack")][: parts * 70 * made.tile.nr].reshape(-1, made.tile.nr)
    assert (panel[:, : parts * 13] != least).all() and not panel[:, parts * 13 :].any()


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64", "int64"])
def test_long_products_are_cut_into_calls(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of bounded work together are C; Ctrl-C is checked between them."""
    monkeypatch.setattr(product_module, "_PART_EFFORT", 200_000)
    monkeypatch.setattr(product_module, "_CALL_EFFORT", 400_000)
    monkeypatch.setattr(product_module, "crew", crew := Calls())
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (150, 70)).astype(dtype), random.integers(-3, 4, (70, 333)).astype(dtype)
    out = np.zeros((150, 333), dtype)
    kind = Kind(*(dtype,) * 3, {"int8": "int32"}.get(dtype, dtype))
    made = Product(Layout.strided(a.shape, a.strides, b.shape, b.strides, out.shape, out.strides, ()), kind, 2)
    made.run_arrays(a, b, out)
    assert (out == np.matmul(a, b)).all()
    assert crew.calls > 5
    whole = made.tile.mr * made.tile.nr
    assert all(p.rows * p.columns <= max(whole, 200_000 // 70) for p in made.pieces)
    assert sum(p.rows * p.columns for p in made.pieces) == 150 * 333 * made.pairs


class Calls:
    """A pool that counts its work."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Calls:
        return self

    def run(self, job: int, threads: int) -> None:
        self.calls += 1
        pool.crew().run(job, threads)

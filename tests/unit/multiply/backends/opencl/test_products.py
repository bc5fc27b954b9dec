"""Products on an OpenCL device: the canonical product's bits for every dtype, layout, batch, algebra and epilogue."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from bitwise import same_bits

import tilewright as tw
from tilewright.multiply.backends.opencl import OpenclDevice, host_products, product
from tilewright.multiply.backends.opencl.product import HostProducts
from tilewright.multiply.backends.opencl.source import Tile
from tilewright.multiply.problem.algebra import ALGEBRAS
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import canonical

Array = npt.NDArray[Any]
#: Floats, the narrowest signed and the widest unsigned integer; the ladder's test has all dtypes in one shape.
_REAL = ("float32", "float64", "float16", "int8", "uint64")
_OTHERS = ("int16", "int32", "int64", "uint8", "uint16", "uint32")
#: Extents around a tile's edges, and the ladder's own.
_SHAPES = ((1, 1, 1), (3, 5, 7), (16, 16, 16), (31, 33, 32), (64, 64, 64), (65, 130, 67), (129, 63, 1), (17, 40, 200))


def values(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Array:
    if name == "bool":
        return rng.random(shape) < 0.3
    if name.startswith(("float", "bfloat")):
        return rng.standard_normal(shape).astype(tw.problem.dtypes.dtype(name).numpy)
    if name.startswith("complex"):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(name)
    info = np.iinfo(name)
    return rng.integers(info.min, info.max, shape, name, endpoint=True)


# `make test` runs all four layouts with one dtype, and with some others the two that have each operand in both layouts.
@pytest.mark.parametrize(("name", "all_layouts"), [
    ("float32", True), *((name, False) for name in _REAL[1:]),
    *(pytest.param(name, True, marks=pytest.mark.volume) for name in (*_REAL[1:], *_OTHERS)),
])  # fmt: skip
def test_every_shape_and_layout_gives_the_canonical_product(device: OpenclDevice, name: str, all_layouts: bool) -> None:
    rng = np.random.default_rng(2)
    for m, n, k in _SHAPES:
        a, b = values(rng, (m, k), name), values(rng, (k, n), name)
        expected = canonical(a, b)
        layouts = itertools.product((np.ascontiguousarray, np.asfortranarray), repeat=2)
        for left, right in layouts if all_layouts else [*layouts][1:3]:
            found = tw.matmul(left(a), right(b), dtype=expected.dtype, device="opencl")
            assert same_bits(found, expected), (name, m, n, k, left.__name__, right.__name__)


CUTS = (
    Tile("naive"), Tile("tiled"), Tile("tiled", bm=8, bn=32, bk=8), Tile("register_tiled", 32, 32, 8, 4, 4, 4),
    Tile("register_tiled", 16, 64, 32, 2, 16, 8), Tile("register_tiled", 64, 16, 4, 8, 2, 1),
)  # fmt: skip


# `make test` runs every tile with float32, and with one other dtype in turn.
@pytest.mark.parametrize(("name", "cut"), [
    pytest.param(name, cut, id=f"{name}-cut{i}",
                 marks=[] if name in ("float32", ("int8", "complex64")[i % 2]) else [pytest.mark.volume])
    for name in ("float32", "int8", "complex64") for i, cut in enumerate(CUTS)
])  # fmt: skip
def test_no_tile_changes_a_bit(device: OpenclDevice, cut: Tile, name: str) -> None:
    if name == "complex64":
        cut = Tile(cut.form, cut.bm, cut.bn, cut.bk, cut.tm, cut.tn, 1)
    rng = np.random.default_rng(3)
    products = host_products(device)
    kind = Kind(*[name] * 4) if name != "int8" else Kind("int8", "int8", "int32", "int32")
    for m, n, k in _SHAPES:
        a, b = values(rng, (m, k), name), values(rng, (k, n), name)
        out: Array = np.empty((m, n), kind.out)
        products.multiply_into(a, b, out, kind, cut=cut)
        assert same_bits(out, tw.matmul(a, b, dtype=kind.out)), (cut, m, n, k)


@pytest.mark.parametrize("form", ["naive", "tiled", "register_tiled"])
def test_padding_of_a_tile_is_not_summed(device: OpenclDevice, form: Any) -> None:
    a, b = np.full((20, 3), 1e-30, np.float32), np.full((3, 18), -1e-30, np.float32)
    expected = canonical(a, b)
    assert np.signbit(expected).all()  # -0, which becomes +0 where a zero is added
    assert same_bits(host_products(device).timed(a, b, Kind(*["float32"] * 4), form)[0], expected)


@pytest.mark.parametrize("name", ["bool", "bfloat16", "complex64", "complex128"])
def test_dtypes_that_are_lowered_to_other_products(device: OpenclDevice, name: str) -> None:
    rng = np.random.default_rng(4)
    for m, n, k in _SHAPES:
        a, b = values(rng, (m, k), name), values(rng, (k, n), name)
        assert same_bits(tw.matmul(a, b, device="opencl"), tw.matmul(a, b)), (name, m, n, k)


def test_strides_batches_and_vectors(device: OpenclDevice) -> None:
    rng = np.random.default_rng(5)
    big = values(rng, (6, 80, 90), "float32")
    pairs = [
        (big[0, ::-2, ::3], big[1, 5:65:2, ::-4]),
        (big[:, :20, :30], big[::-1, 10:40, ::5]),
        (big[:3, None, :7, :9], big[None, :2, 1:10, :4]),
        (np.broadcast_to(big[0, 0], (40, 90)), big[1, 0][:, None]),
        (big[0, 0], big[1, :, 0][:90][:80].repeat(2)[:90]),
        (big[0, :5, :0], big[1, :0, :6]),
        (big[:0, :5, :4], big[:0, :4, :6]),
    ]
    for a, b in pairs:
        assert same_bits(tw.matmul(a, b, device="opencl"), tw.matmul(a, b)), (a.shape, b.shape)


def test_bytes_at_odd_addresses_and_packed_records(device: OpenclDevice) -> None:
    raw = np.zeros(4 * 48 + 3, np.uint8)
    a = raw[3:].view(np.float32).reshape(6, 8)
    a[...] = np.arange(48).reshape(6, 8)
    records = np.zeros((8, 5), [("tag", "u1"), ("x", "f4")])
    records["x"] = np.random.default_rng(0).standard_normal((8, 5))
    assert same_bits(tw.matmul(a, records["x"], device="opencl"), tw.matmul(a, records["x"]))


@pytest.mark.parametrize("extent", ["two dtypes", pytest.param("all", marks=pytest.mark.volume)])
@pytest.mark.parametrize("algebra", ALGEBRAS)
def test_algebras(device: OpenclDevice, algebra: str, extent: str) -> None:
    rng = np.random.default_rng(6)
    logic = algebra in ("or-and", "xor-and")
    names = ["bool", "uint32", "int8"] if logic else ["float32", "float64", "int16", "uint64"]
    if algebra == "log-sum-exp":
        names = ["float32", "float64"]
    if extent == "two dtypes":  # the first, and the others in turn
        names = [names[0], names[1 + [*ALGEBRAS].index(algebra) % (len(names) - 1)]]
    for name, (m, n, k) in zip(names, [(40, 70, 33), *[(9, 5, 7)] * 3], strict=False):
        a, b = values(rng, (m, k), name), values(rng, (k, n), name)
        found, expected = (tw.matmul(a, b, algebra=algebra, device=where) for where in ("opencl", "cpu"))
        assert same_bits(found, expected), (algebra, name, m, n, k)


@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
def test_epilogues(device: OpenclDevice, name: str) -> None:
    rng = np.random.default_rng(7)
    a, b = values(rng, (33, 20), name), values(rng, (20, 9), name)
    row, column = values(rng, (9,), "float32"), values(rng, (33, 1), "int16")
    functions = [
        tw.relu, tw.gelu, tw.sigmoid, tw.exp, tw.tanh, tw.log,
        lambda x: 1 / x, lambda x: tw.sqrt(abs(x)), lambda x: tw.astype(x * 300, "int8"),
        lambda x: tw.where(x > 0, tw.astype(x, "float16"), 0),
    ]  # fmt: skip
    for function in {"float32": functions, "float64": functions[::3], "float16": functions[4:5]}[name]:
        found, expected = (tw.matmul(a, b, epilogue=function, device=where) for where in ("opencl", "cpu"))
        assert same_bits(found, expected)
    found, expected = (
        tw.matmul(a, b, epilogue=lambda x, u, v: x * u + v, epilogue_args=[row, column], device=where)
        for where in ("opencl", "cpu")
    )
    assert same_bits(found, expected)


def test_an_epilogue_after_a_tile(device: OpenclDevice) -> None:
    rng = np.random.default_rng(10)
    a, b, bias = (values(rng, shape, "float32") for shape in ((70, 20), (20, 130), (130,)))
    found, expected = (
        tw.matmul(a, b, epilogue=lambda x, bias: tw.relu(x + bias), epilogue_args=[bias], device=where)
        for where in ("opencl", "cpu")
    )
    assert same_bits(found, expected)


def test_alpha_beta_and_out(device: OpenclDevice) -> None:
    rng = np.random.default_rng(8)
    a, b, c = (values(rng, shape, "float32") for shape in ((33, 20), (20, 50), (66, 100)))
    results = []
    for where in ("opencl", "cpu"):
        out = c.copy()
        returned = tw.matmul(a, b, out=out[::2, ::2], alpha=1.5, beta=-2, device=where)
        assert np.shares_memory(returned, out)
        results.append(out)
    assert same_bits(*results)


@pytest.fixture
def restless() -> Iterator[None]:
    """The interpreter switches threads after a microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_threads_of_the_host_share_a_device(device: OpenclDevice) -> None:
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(9)
    pairs = [(values(rng, (20 + i, 30), "float32"), values(rng, (30, 40), "float32")) for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda pair: tw.matmul(*pair, device="opencl"), pairs * 10))
    assert all(same_bits(c, tw.matmul(*pair)) for c, pair in zip(found, pairs * 10, strict=True))


def test_a_device_with_memory_of_its_own(device: OpenclDevice) -> None:
    rng = np.random.default_rng(11)
    products = HostProducts(dataclasses.replace(device, unified=False))
    kind = Kind(*["float32"] * 4)
    big = values(rng, (80, 90), "float32")
    for a, b in ((big, big.T), (big[::2, ::-3], big[:30, 5:50:4]), (big[:, ::40], big[:3])):
        out = np.empty((a.shape[0], b.shape[1]), np.float32)
        products.multiply_into(a, b, out, kind)
        assert same_bits(out, tw.matmul(a, b))
    found, *seconds = products.timed(big, big.T, kind, "tiled")
    assert same_bits(found, tw.matmul(big, big.T)) and min(seconds) > 0


def test_few_elements_of_a_large_array_need_no_large_buffer(device: OpenclDevice) -> None:
    a = np.zeros((40, 1 << 16), np.float32)
    a[:, 7] = np.arange(40)
    a[:, 40_000] = 1
    products = HostProducts(dataclasses.replace(device, allocation_bytes=1 << 20))
    out = np.empty((40, 40), np.float32)
    view = a[:, 7:40_001:39_993]
    products.multiply_into(view, view.T, out, Kind(*["float32"] * 4))
    assert same_bits(out, tw.matmul(view, view.T))
    context = products.context
    assert product.place(context, products.device, view, shared=True).buffer.size == view.nbytes


@pytest.mark.parametrize("empty", range(3))
def test_products_with_an_empty_axis_are_planned_and_multiplied(device: OpenclDevice, empty: int) -> None:
    m, n, k = (0 if axis == empty else 5 for axis in range(3))
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    assert tw.plan(a.shape, b.shape, "float32", device="opencl").ranking
    assert same_bits(tw.matmul(a, b, device="opencl"), a @ b)

"""Products by blocks: for every dtype, algebra, epilogue and cut, the bits of the whole product."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bitwise import same_bits
from hypothesis import given, settings, strategies as st

import tilewright as tw
from tilewright.errors import DeviceError, TilewrightError
from tilewright.multiply.engine import partial
from tilewright.multiply.engine.partial import Partial
from tilewright.multiply.engine.request import Request
from tilewright.multiply.problem.algebra import ALGEBRAS
from tilewright.multiply.problem.dtypes import COMPOSED, DTYPES, is_float8

Array = np.ndarray[Any, Any]
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
NAMES = [*(x.name for x in (*DTYPES, *COMPOSED)), *FLOAT8]
#: Extents of a product, of its tiles, and where k is cut.
SHAPE, TILE, CUTS = (37, 29, 90), (16, 20), (1, 8, 60)


def as_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def drawn(name: str, *shape: int, seed: int = 0) -> Array:
    random, dtype = np.random.default_rng(seed), as_dtype(name)
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return random.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    if dtype.kind == "b":
        return random.random(shape) < 0.1
    values: Array = random.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def cut(extent: int, at: Sequence[int]) -> Iterator[slice]:
    for first, last in itertools.pairwise((0, *(x for x in at if 0 < x < extent), extent)):
        yield slice(first, last)


def by_blocks(
    a: Array, b: Array, out: Array | None = None, cuts: Sequence[int] = CUTS, tile: tuple[int, int] = TILE,
    **options: Any,
) -> Array:  # fmt: skip
    """The product as blocks of C, each of panels along k."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if out is None else out.shape[:-2]
    (m, k), n = a.shape[-2:], b.shape[-1]
    work = Partial.of(a.dtype, b.dtype, (*batch, m, n), Request(**options), None if out is None else out.dtype)
    left, right = np.broadcast_to(a, (*batch, m, k)), np.broadcast_to(b, (*batch, k, n))
    found: Array = np.empty((*batch, m, n), work.out)
    rows, columns = (list(cut(extent, range(0, extent, step))) for extent, step in zip((m, n), tile, strict=True))
    for at, i, j in itertools.product(np.ndindex(batch), rows, columns):
        sums: Array = np.full((i.stop - i.start, j.stop - j.start), 1, work.sums)
        for p in cut(k, cuts) if work.splits_k else [slice(0, k)]:
            work.add(left[at][i, p], right[at][p, j], sums, first=p.start == 0)
        old = out[at][i, j] if work.reads_out and out is not None else None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partial, "_STRIP", 70)  # a few rows at a time
            found[at][i, j] = work.finish(sums, at, i, j, old)
    return found


def plain(x: Array) -> Array:
    """Values in a dtype that allows comparison to the bit."""
    return x.astype(np.float32 if is_float8(x.dtype.name) else x.dtype.newbyteorder("="))


def check_same(
    a: Array, b: Array, out: Array | None = None, cuts: Sequence[int] = CUTS, tile: tuple[int, int] = TILE,
    **options: Any,
) -> bool:  # fmt: skip
    """Assert that the product by blocks equals the whole one or has the same error; returns whether there is one."""
    try:
        expected = tw.matmul(a, b, None if out is None else out.copy(), **options)
    except TilewrightError as error:
        with pytest.raises(type(error)) as caught:
            by_blocks(a, b, out, cuts, tile, **options)
        assert str(caught.value) == str(error)
        return False
    found = by_blocks(a, b, out, cuts, tile, **options)
    assert found.dtype == expected.dtype
    assert same_bits(plain(found), plain(expected))
    return True


def slow_unless(quick: bool) -> Any:
    return [] if quick else [pytest.mark.volume]


#: Left operands whose products `make test` runs too: each row takes seconds to compile.
QUICK = ("float16", "complex64")


@pytest.mark.parametrize("left", [pytest.param(x, marks=slow_unless(x in QUICK)) for x in NAMES])
def test_every_pair_of_dtypes(left: str) -> None:
    m, n, k = SHAPE
    a = drawn(left, m, k, seed=1)
    known = [check_same(a, drawn(right, k, n, seed=2)) for right in NAMES]
    assert sum(known) >= 8


#: Dtypes of A and B, and further arguments.
ASKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bytes in 32 bits": ("int8", "int8", {"dtype": "int32"}),
    "sums as narrow as their elements": ("int8", "uint8", {"dtype": "int8", "acc_dtype": "int8", "casting": "unsafe"}),
    "wide integer sums": ("int16", "int16", {"acc_dtype": "int64"}),
    "long integers as halves": ("int64", "int64", {"dtype": "float16"}),
    "halves in float64": ("float16", "float16", {"acc_dtype": "float64"}),
    "bfloat16 in float64": ("bfloat16", "bfloat16", {"acc_dtype": "float64"}),
    "doubles as bfloat16": ("float64", "float64", {"dtype": "bfloat16"}),
    "floats in float64": ("float32", "float16", {"acc_dtype": "float64"}),
    "floats as integers": ("float32", "float64", {"dtype": "int16", "casting": "unsafe"}),
    "float8 as halves": ("float8_e4m3fn", "float8_e5m2", {"dtype": "float16"}),
    "float8 in float64": ("float8_e4m3fn", "float8_e4m3fn", {"dtype": "float64"}),
    "truth values as floats": ("bool", "bool", {"dtype": "float32"}),
    "truth values as bytes": ("bool", "uint8", {"dtype": "uint8"}),
    "bytes as truth values": ("uint8", "int8", {"dtype": "bool", "casting": "unsafe"}),
    "complex in more": ("complex64", "complex64", {"acc_dtype": "complex128"}),
    "real as complex": ("float64", "complex64", {"dtype": "complex64"}),
    "real as complex in more": ("float64", "float32", {"dtype": "complex64", "acc_dtype": "complex128"}),
    "complex in less": ("complex128", "complex128", {"acc_dtype": "complex64"}),
    "no such rule": ("float64", "float64", {"dtype": "int8"}),
    "no such order": ("float64", "float64", {"order": "random"}),
    "no such algebra": ("float64", "float64", {"algebra": "plus-plus"}),
    "operands without a function": ("float64", "float64", {"epilogue_args": (1.0,)}),
    "nothing to scale": ("float64", "float64", {"beta": 2}),
    "a complex factor": ("float64", "float64", {"alpha": 2j}),
}


@pytest.mark.parametrize("case", ASKED)
def test_every_combination_of_arguments(case: str) -> None:
    (m, n, k), (left, right, options) = SHAPE, ASKED[case]
    given = drawn(left, m, k, seed=1), drawn(right, k, n, seed=2)
    assert check_same(*given, **options) != case.startswith(("no", "operands", "a complex", "complex in less"))
    swapped = [x.astype(x.dtype.newbyteorder(">")) if element_of(x) else x for x in given]
    check_same(*swapped, **options)


def element_of(x: Array) -> bool:
    """Whether NumPy has the dtype in another byte order."""
    return x.dtype.kind in "iufc" and x.dtype.itemsize > 1


@pytest.mark.parametrize(("algebra", "name"), [
    pytest.param(algebra, name, marks=slow_unless(name in ("float32", "bool", ("float64", "int16", "uint64")[i % 3])))
    for i, algebra in enumerate(ALGEBRAS) for name in ("float32", "float64", "int16", "uint64", "bool")
])  # fmt: skip
def test_every_algebra(algebra: str, name: str) -> None:
    m, n, k = SHAPE
    check_same(drawn(name, m, k, seed=1), drawn(name, k, n, seed=2), algebra=algebra)


def test_a_custom_algebra_whose_sums_have_an_order() -> None:
    m, n, k = SHAPE
    fading = tw.Algebra(add=lambda total, x: total * 0.5 + x, multiply=lambda x, y: x - y, zero=3)
    assert check_same(drawn("float32", m, k), drawn("float32", k, n), algebra=fading)
    implies = tw.Algebra(add=lambda total, x: ~total | x, multiply=lambda x, y: x ^ y, zero=1)
    assert check_same(drawn("bool", m, k), drawn("bool", k, n), algebra=implies)
    assert check_same(np.asfortranarray(drawn("bool", m, k)), drawn("bool", k, n), algebra=implies)


def bent(total: Any, *others: Any) -> Any:
    for x in others:
        total = tw.where(total > 0, total * x, total - x)
    return total


M, N = SHAPE[:2]
EPILOGUES: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("float32", {"epilogue": tw.relu}),
    "row": ("float32", {"epilogue": bent, "epilogue_args": [drawn("float32", N)]}),
    "column": ("float32", {"epilogue": bent, "epilogue_args": [drawn("float64", M, 1)]}),
    "full": ("float32", {"epilogue": bent, "epilogue_args": [drawn("float16", M, N), drawn("float32", N, M).T]}),
    "scalar": ("float64", {"epilogue": bent, "epilogue_args": [0.3, np.float32(2)]}),
    "batch": (
        "float32",
        {"epilogue": bent, "epilogue_args": [drawn("float32", 3, 1, N), drawn("float32", 2, 1, M, 1)]},
    ),
    "named": (
        "float32",
        {"epilogue": lambda total, *, bias: total + bias, "epilogue_args": {"bias": drawn("int8", N)}},
    ),
    "narrow": ("int8", {"dtype": "int32", "epilogue": lambda total: tw.requantise(total, 0.01)}),
    "narrow sums": ("int8", {"acc_dtype": "int8", "epilogue": lambda total: total >> 1}),
    "wide": ("float32", {"epilogue": lambda total: tw.astype(total, "float64") / 3}),
    "truth": ("float64", {"epilogue": lambda total, x: total > x, "epilogue_args": [drawn("float64", N)]}),
    "half": ("float16", {"epilogue": tw.gelu}),
    "scaled": ("bfloat16", {"alpha": 0.7}),
    "scaled and bent": ("float32", {"alpha": 3, "epilogue": bent, "epilogue_args": [drawn("float32", N)]}),
    "algebra": ("float32", {"algebra": "max-plus", "alpha": 3, "epilogue": tw.tanh}),
    "integers": ("uint16", {"alpha": 7}),
    "complex": ("complex64", {"alpha": 1 - 2j}),
    "complex in more": ("complex64", {"alpha": 1 - 2j, "acc_dtype": "complex128"}),
    "truth values": ("bool", {"alpha": 0}),
    "too long": ("float32", {"epilogue": bent, "epilogue_args": [drawn("float32", N + 1)]}),
    "of complex numbers": ("complex64", {"epilogue": tw.relu}),
    "of truth values": ("bool", {"epilogue": tw.relu}),
    "of another library": ("float32", {"epilogue": np.linalg.norm}),
}
#: Epilogues that `make test` runs with values in C; the others differ from them in the shapes of operands.
QUICK_EPILOGUES = (
    "row", "batch", "wide", "half", "narrow sums", "scaled", "scaled and bent", "algebra", "integers", "complex",
    "complex in more", "truth values",
)  # fmt: skip
#: And with C of another dtype: every such dtype once.
QUICK_HELD = {"row": ("float16", ">f4"), "integers": ("int8",), "complex": ("float8_e5m2", "complex128")}
REFUSED = ("too long", "of complex numbers", "of truth values", "of another library")


@pytest.mark.parametrize("case", EPILOGUES)
def test_every_epilogue(case: str) -> None:
    (m, n, k), (name, options) = SHAPE, EPILOGUES[case]
    a, b = drawn(name, 2, 1, m, k, seed=1), drawn(name, 3, k, n, seed=2)
    assert check_same(a, b, **options) == (case not in REFUSED)


@pytest.mark.parametrize(("case", "out"), [
    *(pytest.param(x, "same", marks=slow_unless(x in QUICK_EPILOGUES))
      for x in EPILOGUES if x not in REFUSED and x != "truth"),
    *(pytest.param(x, out, marks=slow_unless(out in QUICK_HELD.get(x, ())))
      for x in ("row", "integers", "complex", "truth values")
      for out in ("float16", ">f4", "float8_e5m2", "int8", "complex128")),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:Casting complex values|invalid value|overflow")
def test_every_epilogue_with_values_in_c(case: str, out: str) -> None:
    (m, n, k), (name, options) = SHAPE, EPILOGUES[case]
    a, b = drawn(name, 3, m, k, seed=1), drawn(name, 3, k, n, seed=2)
    held = drawn(name if out == "same" else out, 2, 3, m, n, seed=3)
    beta = 1 if name == "bool" else 5
    check_same(a, b, held, **options, beta=beta, casting="unsafe")
    check_same(a, b, held[0], **options, casting="same_kind")


def test_products_of_vectors() -> None:
    m, _, k = SHAPE
    a, b, x = drawn("float32", m, k), drawn("float32", k), drawn("float32", m)
    work = Partial.of(a.dtype, b.dtype, (m,), Request(epilogue=bent, epilogue_args=[x]), ndims=(2, 1))
    sums = np.empty((m, 1), work.sums)
    for p in cut(k, CUTS):
        work.add(a[:, p], b[p, None], sums, first=p.start == 0)
    found = work.finish(sums, (), slice(0, m), slice(0, 1))
    assert same_bits(found[:, 0], tw.matmul(a, b, epilogue=bent, epilogue_args=[x]))


def test_sums_that_are_the_result_are_returned() -> None:
    for name in ("float32", "int32", "complex128", "bool"):
        work = Partial.of(as_dtype(name), as_dtype(name), (4, 5), Request())
        sums = np.zeros((4, 5), work.sums)
        assert work.finish(sums, (), slice(0, 4), slice(0, 5)) is sums
    work = Partial.of(as_dtype("float16"), as_dtype("float16"), (4, 5), Request())
    sums = np.ones((4, 5), work.sums)
    assert np.shares_memory(work.finish(sums, (), slice(0, 4), slice(0, 5)), sums)


#: `make test` runs one whose sums are wider, and one without an order.
@pytest.mark.parametrize("name", [pytest.param(x, marks=slow_unless(x in ("float16", "bool")))
                                  for x in ("float32", "float16", "int8", "bool")])  # fmt: skip
def test_a_device_that_continues_no_sums_takes_the_whole_of_k(name: str) -> None:
    a, b = drawn(name, 20, 40), drawn(name, 40, 30)
    work = Partial.of(a.dtype, b.dtype, (20, 30), Request(device="simulated"))
    assert not work.splits_k
    assert Partial.of(a.dtype, b.dtype, (20, 30), Request()).splits_k
    assert check_same(a, b, device="simulated")
    assert check_same(a, b, device="simulated", epilogue=tw.relu) == (name != "bool")  # which has no order
    with pytest.raises(DeviceError, match="multiply the whole of k at once"):
        work.add(a, b, np.empty((20, 30), work.sums), first=False)


# Any product

extents = st.integers(1, 70)


any_case = given(
    st.tuples(extents, extents, extents),
    st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.lists(st.integers(1, 69), max_size=6).map(sorted),
    st.tuples(st.integers(1, 70), st.integers(1, 70)),
    st.tuples(st.sampled_from("CF"), st.sampled_from("CF")),
    st.sampled_from(["plus-times", "plus-times", "min-plus", "xor-and"]),
    st.tuples(st.sampled_from([1, 1, 3, -0.5]), st.sampled_from([0, 0, 2])),
    st.booleans(),
)


def check_any_cut(
    shape: tuple[int, int, int], names: tuple[str, str], cuts: list[int], tile: tuple[int, int],
    orders: tuple[Any, Any], algebra: str, scale: tuple[float, float], bends: bool,
) -> None:  # fmt: skip
    m, n, k = shape
    a, b = np.asarray(drawn(names[0], m, k), order=orders[0]), np.asarray(drawn(names[1], k, n), order=orders[1])
    options: dict[str, Any] = {"algebra": algebra, "alpha": scale[0], "beta": scale[1], "cuts": cuts, "tile": tile}
    if bends:
        options |= {"epilogue": bent, "epilogue_args": [drawn("float32", m, 1)]}
    held = drawn("float32", 2, m, n, seed=4) if scale[1] else None
    check_same(a, b, held, **options)


# Memory

MB = 1 << 20
#: Dtypes of A and B, and further arguments; `out` is the dtype of the array that takes C.
MEASURED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "nothing to do": ("float32", "float32", {}),
    "integers": ("int8", "int8", {}),
    "operands converted": ("float64", ">f8", {"dtype": "float32"}),
    "operands rounded": ("float64", "float64", {"dtype": "bfloat16"}),
    "float8": ("float8_e4m3fn", "float8_e4m3fn", {"out": "float8_e5m2"}),
    "sums rounded": ("float64", "float64", {"out": "bfloat16"}),
    "a wider result": ("float32", "float32", {"epilogue": lambda total: tw.astype(total, "float64")}),
    "scaled": ("float32", "float32", {"alpha": 2, "beta": 3, "out": ">f4"}),
    "complex": ("complex64", "complex64", {"alpha": 2, "beta": 3, "out": "complex64"}),
    "complex in more": ("complex64", "complex64", {"acc_dtype": "complex128", "beta": 3, "out": "complex64"}),
    "booleans": ("bool", "bool", {}),
    "bytes as booleans": ("uint8", "uint8", {"dtype": "bool", "casting": "unsafe", "algebra": "xor-and"}),
}


def peak_bytes(call: Callable[[], object]) -> int:
    """The peak of memory of a call, made in its own thread, because threads keep buffers of their products."""
    found = []

    def measured() -> None:
        tracemalloc.start()
        call()
        found.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    for _ in range(2):  # the second has its kernels
        thread = threading.Thread(target=measured)
        thread.start()
        thread.join()
    return found[1]


#: Long and thin products; `make test` runs every second case of each, because their operands take long to convert.
THIN = ((5, 100_000, 70), (100_000, 3, 70))


@pytest.mark.parametrize(("case", "shape"), [
    pytest.param(case, shape, marks=slow_unless(shape not in THIN or i % 2 == THIN.index(shape)))
    for i, case in enumerate(MEASURED) for shape in ((700, 900, 400), *THIN, (600, 40, 4000))
])  # fmt: skip
def test_no_more_memory_is_taken_than_stated(case: str, shape: tuple[int, int, int]) -> None:
    (m, n, k), (left, right, options) = shape, MEASURED[case]
    out = as_dtype(options["out"]) if "out" in options else None
    asked = Request(**{name: x for name, x in options.items() if name != "out"})
    work = Partial.of(as_dtype(left), as_dtype(right), (m, n), asked, out)
    said = work.extra_bytes(m, n, k)
    sums = np.zeros((m, n), work.sums)
    old = np.zeros((m, n), out) if work.reads_out else None
    for order in ("C", "F"):
        a, b = (np.zeros(x, as_dtype(name), order=order) for x, name in (((m, k), left), ((k, n), right)))
        taken = peak_bytes(lambda a=a, b=b: [work.add(a, b, sums, first=x) for x in (True, False)])
        finishing = peak_bytes(lambda: work.finish(sums, (), slice(0, m), slice(0, n), old))
        assert taken + finishing <= said <= 2 * (taken + finishing) + 20 * MB


test_any_cut_of_any_product = settings(max_examples=30, deadline=None)(any_case(check_any_cut))
test_many_cuts_of_any_product = pytest.mark.volume(settings(max_examples=400, deadline=None)(any_case(check_any_cut)))

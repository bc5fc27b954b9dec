"""Products that continue sums in place: panels of k, for any cut, give the bits of the whole product."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentTypeError
from tilewright.multiply.backends.cpu import product as product_module
from tilewright.multiply.backends.cpu.contexts import KernelKey
from tilewright.multiply.backends.cpu.product import Product, multiply_into, product
from tilewright.multiply.backends.inventory import opened
from tilewright.multiply.problem.algebra import ALGEBRAS, semiring
from tilewright.multiply.problem.dtypes import COMPOSED, DTYPES, element
from tilewright.multiply.problem.kind import Kind

Array = np.ndarray[Any, Any]
#: m, n, k and the cuts of k: before a panel of one step, and off a dot product's groups and the kernels' blocks of k.
CASES = {
    "packed": ((67, 131, 1300), (1, 6, 600)),
    "rows": ((5, 300, 900), (7, 8, 300, 300)),
    "row": ((1, 3000, 90), (31,)),
    "columns": ((300, 5, 90), (40,)),
    "column": ((300, 1, 900), (300, 899)),
    "exact extents": ((8, 9, 10), (3,)),
}
#: Dtypes that compile kernels for the exact extents of every case.
EXACT = ("float32", "int8", "complex64")
PLAIN = [x.name for x in (*DTYPES, *COMPOSED) if x.kind != "bool"]


def kind_of(name: str, algebra: str = "") -> Kind:
    total = name if algebra else element(name).accumulator
    return Kind(name, name, total, total, semiring(algebra, total) if algebra else None)


def drawn(name: str, shape: tuple[int, int], seed: int) -> Array:
    random, kind = np.random.default_rng(seed), element(name)
    if kind.kind in ("signed", "unsigned"):
        ends = np.iinfo(name)
        return random.integers(ends.min, ends.max, shape, name, endpoint=True)
    values: Array = random.standard_normal(shape)
    if kind.pairs == 2:
        values = values + 1j * random.standard_normal(shape)
    return values.astype(kind.numpy)


def continued(a: Array, b: Array, kind: Kind, cuts: Sequence[int], threads: int = 2) -> Array:
    """The product by panels of k."""
    sums: Array = np.full((a.shape[0], b.shape[1]), 77, element(kind.out).numpy)
    for first, last in itertools.pairwise((0, *cuts, a.shape[1])):
        x, y = a[:, first:last], b[first:last]
        multiply_into(x, y, sums, kind._replace(continues=first > 0), threads)
    return sums


def whole(a: Array, b: Array, kind: Kind) -> Array:
    out: Array = np.empty((a.shape[0], b.shape[1]), element(kind.out).numpy)
    multiply_into(a, b, out, kind, threads=1)
    return out


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PLAIN)
def test_panels_give_the_bits_of_the_whole(name: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in EXACT or case == "exact extents":  # a first panel has a kernel for exact extents, the others have none
        for limit in ("_HOT", "_HOT_KEPT"):
            monkeypatch.setattr(product_module, limit, 1)
    (m, n, k), cuts = CASES[case]
    kind = kind_of(name)
    a, b = drawn(name, (m, k), 1), drawn(name, (k, n), 2)
    expected = whole(a, b, kind).tobytes()
    assert continued(a, b, kind, cuts).tobytes() == expected
    assert continued(np.asfortranarray(a), np.asfortranarray(b), kind, cuts, threads=1).tobytes() == expected


def allowed(algebra: str, name: str) -> bool:
    try:
        return semiring(algebra, name).dtype == name
    except ArgumentTypeError:  # floats have no logic, integers no logarithm
        return False


#: Dtypes that `make test` runs with every algebra, and others, one for each algebra in turn.
ALWAYS, IN_TURN = ("float32", "int16"), ("float64", "uint32", "int64")


@pytest.mark.parametrize(("algebra", "name"), [
    pytest.param(algebra, name, marks=[] if name in (*ALWAYS, IN_TURN[i % len(IN_TURN)]) else [pytest.mark.volume])
    for i, algebra in enumerate(ALGEBRAS) for name in (*ALWAYS, *IN_TURN) if allowed(algebra, name)
])  # fmt: skip
def test_panels_of_an_algebra_do_too(algebra: str, name: str) -> None:
    for (m, n, k), cuts in (CASES["packed"], CASES["rows"]):
        a, b = drawn(name, (m, k), 1), drawn(name, (k, n), 2)
        kind = kind_of(name, algebra)
        assert continued(a, b, kind, cuts).tobytes() == whole(a, b, kind).tobytes()


def test_a_panel_without_steps_leaves_the_sums_as_they_are() -> None:
    for name in ("float32", "int8", "complex64"):
        kind = kind_of(name)
        sums = drawn(kind.out, (30, 50), 3)
        expected = sums.tobytes()
        multiply_into(drawn(name, (30, 0), 1), drawn(name, (0, 50), 2), sums, kind._replace(continues=True))
        assert sums.tobytes() == expected


def test_a_batch_continues_each_of_its_sums() -> None:
    kind = kind_of("float32")
    a, b = (np.stack([drawn("float32", (40, 40), i) for i in range(first, first + 6)]) for first in (0, 6))
    sums, out = np.empty((2, 6, 40, 40), np.float32)
    for first, last in ((0, 7), (7, 40)):
        multiply_into(a[..., first:last], b[:, first:last], sums, kind._replace(continues=first > 0))
    multiply_into(a, b, out, kind)
    assert sums.tobytes() == out.tobytes()


def made(kind: Kind, m: int, n: int, k: int, out_strides: tuple[int, int] | None = None) -> Product:
    sizes = [element(name).bytes for name in (kind.a, kind.b, kind.out)]
    strides = [(columns * size, size) for columns, size in zip((k, n, n), sizes, strict=True)]
    return product((m, k), strides[0], (k, n), strides[1], (m, n), out_strides or strides[2], kind, 1)


def test_panels_run_on_the_kernels_of_whole_products() -> None:
    kind = kind_of("float32")._replace(continues=True)
    assert [made(kind, *extents).path for extents in ((67, 131, 1300), (5, 3000, 90), (300, 5, 90), (8, 9, 10))] == [
        "packed", "skinny", "packed", "packed",
    ]  # fmt: skip
    whole_key, panel_key = (made(kind._replace(continues=x), 67, 131, 1300).key for x in (False, True))
    assert isinstance(whole_key, KernelKey)
    assert panel_key == whole_key  # nothing is compiled for it


@pytest.mark.parametrize(("kind", "out_strides"), [
    (Kind("float16", "float16", "float16", "float32"), None),
    (Kind("int8", "int8", "int8", "int32"), None),
    (Kind("float64", "float64", "float32", "float64"), None),
    (kind_of("float32"), (400, 8)),
], ids=["narrower float", "narrower integer", "rounded", "rows with gaps"])  # fmt: skip
def test_sums_that_are_not_in_rows_of_the_register_type_are_refused(
    kind: Kind, out_strides: tuple[int, int] | None
) -> None:
    made(kind, 30, 50, 20, out_strides)
    with pytest.raises(AssertionError, match="continued sums must be rows of the accumulator's register type"):
        made(kind._replace(continues=True), 30, 50, 20, out_strides)


def test_the_simulated_gpu_refuses() -> None:
    kind = kind_of("float32")
    assert opened("cpu").refusal(kind._replace(continues=True)) == opened("simulated").refusal(kind) == ""
    assert "multiply the whole of k at once" in opened("simulated").refusal(kind._replace(continues=True))

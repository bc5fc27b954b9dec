"""Batches: each product of a launch has the bits of a launch of its own, for every kernel that takes them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from family import gpu_of

import tilewright as tw
from tilewright import simt
from tilewright.errors import ArgumentValueError
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.catalogue import Record
from tilewright.multiply.problem.expression import Expression, identity
from tilewright.multiply.problem.reference import same_bits
from tilewright.problem.functions import trace

Array = npt.NDArray[Any]
VOLUME = pytest.mark.volume
#: A kernel of each kind of operands: elements, vectors, copies and boxes; the volume tests try all.
FIRST = ("shared_memory_16", "results_8", "semiring", "tensor_core_64", "blackwell_pairs")
CASES = [
    pytest.param(r, d, id=f"{r.name}-{d}", marks=[] if r.name in FIRST and d == r.dtypes[0] else [VOLUME])
    for r in catalogue.records() if "batch" in r.takes for d in r.dtypes
]  # fmt: skip
OUTER, INNER, M, N, K = 2, 3, 35, 40, 33


def drawn(dtype: str) -> tuple[Array, Array]:
    """Different matrices, at even distances that leave gaps after rows and matrices."""
    a, b = operands(OUTER * (INNER + 1) * M, N, K, dtype, seed=2)
    apart = np.zeros((len(a), K + 31), a.dtype)[:, :K]
    apart[...] = a
    of_b = np.stack([np.roll(b, i, axis=0) for i in range(OUTER * INNER)])
    return apart.reshape(OUTER, INNER + 1, M, K)[:, :INNER], of_b.reshape(OUTER, INNER, K, N)


def layouts(a: Array, b: Array) -> Iterator[tuple[str, Array, Array]]:
    yield "apart", a, b
    yield "one B", a, np.broadcast_to(b[1, 2], b.shape)
    yield "one A in each group", np.broadcast_to(a[:, :1], a.shape), b
    yield "descending", a[::-1, ::-1], b[:, ::-1]
    yield "heads", a.copy().swapaxes(1, 2).copy().swapaxes(1, 2), b
    yield "axes exchanged", a.swapaxes(0, 1).copy().swapaxes(0, 1), b
    yield "by columns", a, b.mT.copy().mT


def alone(record: Record, a: Array, b: Array, finish: Expression | None = None, *more: Array) -> Array:
    """One product by the kernel of one product."""
    c = np.full((M, N), 77, record.blank(M, N, a.dtype.name).dtype if finish is None else finish.dtype)
    shape, program = record.launch_rule(M, N, K), record.program(a.dtype.name, finish=finish)
    given = record.arguments(a, b, c, more)
    simt.launch(program, shape.grid, shape.block, given, shape.shared_bytes, gpu=gpu_of(record))
    return c


def together(record: Record, a: Array, b: Array, c: Array, finish: Expression | None = None, *more: Array) -> None:
    shape = record.launch_rule(M, N, K, math.prod(c.shape[:2]))
    program = record.program(a.dtype.name, finish=finish, batch=True)
    given = record.arguments(a, b, c, more)
    grid = shape.grid if not record.resident else (4, 1, 1)  # two blocks take two products in turn
    simt.launch(program, grid, shape.block, given, shape.shared_bytes, gpu=gpu_of(record))


@pytest.mark.parametrize(("record", "dtype"), CASES)
def test_a_batch_has_the_bits_of_its_products(record: Record, dtype: str) -> None:
    own: dict[bytes, Array] = {}
    for name, a, b in layouts(*drawn(dtype)):
        c = np.full((OUTER, 2 * INNER, M, N), 77, record.blank(M, N, dtype).dtype)
        together(record, a, b, c[:, 1::2])
        for y, x in np.ndindex(OUTER, INNER):
            key = a[y, x].tobytes() + b[y, x].tobytes()
            own[key] = own[key] if key in own else alone(record, a[y, x].copy(), b[y, x].copy())
            assert same_bits(c[y, 2 * x + 1], own[key]), (name, y, x)
        assert (c[:, ::2] == np.full((), 77, c.dtype)).all(), "what lies between the matrices of C stays"


@pytest.mark.parametrize(("record", "dtype"), CASES)
def test_nothing_is_found_in_a_batch(record: Record, dtype: str) -> None:
    a, b = drawn(dtype)
    c = np.zeros((OUTER, INNER, M, N), record.blank(M, N, dtype).dtype)
    shape, given = record.launch_rule(M, N, K, OUTER * INNER), record.arguments(a, np.broadcast_to(b[0, 1], b.shape), c)
    assert math.prod(shape.grid[::2]) % (OUTER * INNER) == 0, "blocks for each product"
    program, gpu = record.program(dtype, batch=True), gpu_of(record)
    assert tw.check(program, shape.grid, shape.block, given, shared_bytes=shape.shared_bytes, gpu=gpu) == ()


def test_a_wrong_distance_of_matrices_is_found() -> None:
    """What the tests above see, if a kernel goes to a wrong matrix."""
    record = catalogue.find("semiring")
    a, b = (np.ascontiguousarray(x) for x in drawn("float32"))
    c = np.zeros((OUTER, INNER, M, N), np.float32)
    shape, given = record.launch_rule(M, N, K, OUTER * INNER), list(record.arguments(a, b, c))
    assert [int(x) for x in given[6:]] == [OUTER, INNER, *(step // 4 for x in (a, b, c) for step in x.strides[:2])]
    given[10] += N  # of B, along the outer axis: its last matrices begin a row too late, and end after B
    program = record.program("float32", batch=True)
    assert "TW101" in {one.code for one in tw.check(program, shape.grid, shape.block, given)}
    assert same_bits(c[0, 0], alone(record, a[0, 0], b[0, 0]))
    assert not same_bits(c[1, 0], alone(record, a[1, 0], b[1, 0]))


#: Kernels of tensor cores take long to translate with each epilogue.
EPILOGUES = [
    pytest.param(*case.values, id=case.id, marks=[VOLUME] if case.values[0].bound else case.marks)  # type: ignore[attr-defined]
    for case in CASES if "epilogue" in case.values[0].takes  # type: ignore[attr-defined]
]  # fmt: skip


@pytest.mark.parametrize(("record", "dtype"), EPILOGUES)
def test_operands_of_an_epilogue_are_those_of_the_product(record: Record, dtype: str) -> None:
    (a, b), total = drawn(dtype), record.sums(dtype)
    random = np.random.default_rng(4)
    shape = (OUTER, INNER, M, N)
    row, scale, held = (random.standard_normal(x).astype("f4") for x in ((INNER, 1, N), (OUTER, 1, 1, 1), shape))
    more = [np.broadcast_to(row, shape), np.broadcast_to(scale, shape), held[::-1]]
    finish = trace(
        lambda s, r, f, h: tw.astype(tw.astype(s, "float32") * f + r - h, "float32"),
        {"sum": total, "row": "float32", "factor": "float32", "held": "float32"},
    )
    c = np.full(shape, 77, np.float32)
    together(record, a, b, c, finish, *more)
    for at in np.ndindex(OUTER, INNER):
        sums = alone(record, a[at].copy(), b[at].copy(), identity(total, total))
        assert same_bits(c[at], finish.evaluate(sums, *(x[at] for x in more))), at


def test_a_kernel_of_one_product_says_so() -> None:
    with pytest.raises(ArgumentValueError, match="takes no batch"):
        catalogue.find("split_k").program("float16", batch=True)
    a, b, c = np.zeros((2, 2, 3, 4), "f4"), np.zeros((2, 2, 4, 5), "f4"), np.zeros((2, 2, 3, 5), "f4")
    with pytest.raises(ArgumentValueError, match="`c` must be row-major"):
        catalogue.find("coalesced").arguments(a, b, c)
    with pytest.raises(ArgumentValueError, match="`c` must be row-major"):
        catalogue.find("semiring").arguments(a, b, c.mT.copy().mT)

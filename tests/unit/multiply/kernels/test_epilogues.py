"""Epilogues of kernels of tensor cores: the bits of the processor's, of the same sums."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from family import gpu_of

import tilewright as tw
from tilewright import simt
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.catalogue import Record, find
from tilewright.multiply.problem.algebra import semiring
from tilewright.multiply.problem.expression import Expression, identity
from tilewright.multiply.problem.reference import same_bits
from tilewright.problem.functions import trace

Array = npt.NDArray[Any]
VOLUME = pytest.mark.volume
RECORDS = [r for r in catalogue.records() if r.source == "TC" and r.takes]
#: Instances of other tiles, that are compiled and translated in less time.
SMALL = "<TYPE, 64, 64, 32, 32, 16, 2>"


def small(name: str) -> Record:
    compiler = functools.partial(catalogue._cuda, f"{name}.cu", name + SMALL)
    return replace(find(name), tile=(64, 64), block=(256, 1), compiler=compiler)


def product(record: Record, a: Array, b: Array, finish: Expression, *more: Array) -> Array:
    """A record's product of two operands, with an epilogue; unwritten elements stay recognisable."""
    c = np.full((a.shape[-2], b.shape[-1]), 77, np.dtype(finish.dtype))
    shape = record.launch_rule(*c.shape, a.shape[-1])
    program = record.program(a.dtype.name, finish=finish)
    given = record.arguments(a, b, c, [np.broadcast_to(x, c.shape) for x in more])
    simt.launch(program, shape.grid, shape.block, given, shape.shared_bytes, gpu=gpu_of(record))
    return c


def of_sums(function: Any, sums: Array, *more: Array) -> Array:
    """What the processor makes of sums, by its own machine code: a product of nothing, whose epilogue reads them."""
    nothing = np.zeros((len(sums), 0), sums.dtype), np.zeros((0, sums.shape[1]), sums.dtype)
    return tw.matmul(*nothing, epilogue=lambda _, *given: function(*given), epilogue_args=(sums, *more))


def gelu_of(total: Any, row: Any, residual: Any) -> Any:
    return tw.astype(tw.gelu(total * 0.25 + row) + residual, "float16")


def clamped(total: Any, row: Any, residual: Any) -> Any:
    return tw.astype(tw.clip(total * 3 + row / residual, -5, 5), "float16")


def within(record: Record, sums: Array, a: Array, b: Array) -> bool:
    """Whether sums, not rounded to the operands' dtype yet, are what the record states: its bound, or its bits."""
    if sums.dtype.kind in "iu":
        return same_bits(sums, (a.astype(np.int64) @ b.astype(np.int64)).astype(sums.dtype))
    if record.bound is None:
        return record.wrong_elements(sums, a, b) == 0
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    reach = (record.bound.a_step * a.shape[1] + record.bound.more) * 2.0**-23 * (np.abs(wide_a) @ np.abs(wide_b))
    return bool((np.abs(sums - wide_a @ wide_b) <= reach).all())


def check(record: Record, dtype: str, function: Any, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = operands(m, n, k, dtype, seed=3)
    total, random = record.sums(dtype), np.random.default_rng(1)
    row, residual = (random.standard_normal(extents).astype(np.float32) for extents in ((1, n), (m, 2 * n)))
    residual = residual[::-1, 1::2].astype(np.float16)
    kinds = {"sum": total, "row": "float32", "residual": "float16"}
    sums = product(record, a, b, identity(total, total))
    assert within(record, sums, a, b), "the sums that the epilogue reads keep the kernel's bound"
    found = product(record, a, b, trace(function, kinds), row, residual)
    assert same_bits(found, of_sums(function, sums, row, residual))
    assert same_bits(found, trace(function, kinds).evaluate(sums, row, residual)), "NumPy, a step at a time"


@pytest.mark.parametrize(("name", "function", "shape"), [
    ("tensor_core", clamped, (66, 71, 40)),
    pytest.param("tensor_core", gelu_of, (66, 71, 40), marks=VOLUME),
    pytest.param("split_k", clamped, (33, 70, 1100), marks=VOLUME),
])  # fmt: skip
def test_the_bits_are_the_processors(name: str, function: Any, shape: tuple[int, int, int]) -> None:
    check(small(name), "float16", function, shape)


@VOLUME
def test_an_epilogue_follows_the_sums_of_digits() -> None:
    check(find("hopper_digits"), "int32", clamped, (70, 33, 40))


@VOLUME
@pytest.mark.parametrize("function", [gelu_of, clamped])
@pytest.mark.parametrize(
    ("record", "dtype"), [pytest.param(r, d, id=f"{r.name}-{d}") for r in RECORDS for d in r.dtypes]
)
def test_every_kernel_that_says_so_takes_epilogues(record: Record, dtype: str, function: Any) -> None:
    check(record, dtype, function, (130, 301, 67))


@VOLUME
def test_without_an_epilogue_sums_are_rounded_as_by_one_that_only_casts() -> None:
    record = small("tensor_core")
    a, b = operands(66, 71, 40, "float16")
    c = np.full((66, 71), 77, np.float16)
    shape = record.launch_rule(66, 71, 40)
    simt.launch(record.program("float16"), shape.grid, shape.block, record.arguments(a, b, c))
    assert same_bits(c, product(record, a, b, identity("float32", "float16")))


def test_nothing_is_found_where_c_is_read_and_written() -> None:
    record, finish = small("tensor_core"), trace(lambda s, c: s * 0.5 + c * 2, {"sum": "float32", "c": "float32"})
    a, b = operands(66, 71, 40, "float16")
    c = np.random.default_rng(0).standard_normal((66, 71)).astype(np.float32)
    expected = finish.evaluate(product(record, a, b, identity("float32", "float32")), c)
    shape = record.launch_rule(66, 71, 40)
    program, given = record.program("float16", finish=finish), record.arguments(a, b, c, [c])
    assert tw.check(program, shape.grid, shape.block, given) == ()
    assert same_bits(c, expected)


@pytest.mark.parametrize(("record", "dtype", "function"), [
    pytest.param(find("tensor_core"), "float16", clamped, id="clamped"),
    *(pytest.param(r, d, gelu_of, id=f"{r.name}-{d}", marks=VOLUME) for r in RECORDS for d in r.dtypes),
])  # fmt: skip
def test_the_assembler_keeps_all_in_registers(record: Record, dtype: str, function: Any) -> None:
    finish = trace(function, {"sum": record.sums(dtype), "row": "float32", "residual": "float16"})
    for cc in {record.cc} if record.family or function is clamped else {record.cc, (9, 0)}:
        resources = record.program(dtype, cc, finish=finish).resources()
        # Two blocks of a multiprocessor that spill a few words are faster than one.
        few = 32 if record.name == "turing_s8" else 0
        assert max(resources.spill_store_bytes, resources.spill_load_bytes, resources.stack_bytes) <= few, cc


def test_products_and_sums_of_an_epilogue_are_not_fused() -> None:
    finish = trace(lambda s, x: s * x + x, {"sum": "float32", "x": "float32"})
    ptx = find("semiring").program("float32", finish=finish, algebra=semiring("min-plus", "float32")).ptx
    assert "fma." not in ptx
    assert "mul.f32" in ptx or "mul.rn.f32" in ptx


def test_epilogues_that_a_record_does_not_take_are_refused() -> None:
    plus = identity("float32", "float32")
    with pytest.raises(ArgumentValueError, match="'warp_tiled' takes no epilogue; choose one whose record says so"):
        find("warp_tiled").program("float32", finish=plus)
    with pytest.raises(ArgumentTypeError, match=r"'tensor_core_f64' sums float64 in float64 \(got float32\)"):
        find("tensor_core_f64").program("float64", finish=plus)


#: Algebras whose sums have one answer in any order, by NumPy's functions.
OF_NUMPY = {
    "min-plus": (np.minimum, np.add), "max-plus": (np.maximum, np.add), "max-times": (np.maximum, np.multiply),
    "min-max": (np.minimum, np.maximum), "max-min": (np.maximum, np.minimum),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=[] if (name, dtype) == ("max-min", "int32") else VOLUME)
        for name in OF_NUMPY
        for dtype in find("semiring").dtypes
    ],
)
def test_sums_of_algebras_are_numpys(name: str, dtype: str) -> None:
    record, (add, multiply) = find("semiring"), OF_NUMPY[name]
    low, high = (0, 12) if dtype.startswith("uint") else (-11, 12)  # no product of two of 8 bits wraps
    random = np.random.default_rng(len(name))
    a, b = (random.integers(low, high, extents).astype(dtype) for extents in ((67, 70), (70, 65)))
    algebra, c = semiring(name, dtype), np.full((67, 65), 77, dtype)
    shape = record.launch_rule(67, 65, 70)
    program = record.program(dtype, finish=identity(dtype, dtype), algebra=algebra)
    simt.launch(program, shape.grid, shape.block, record.arguments(a, b, c), shape.shared_bytes)
    assert same_bits(c, add.reduce(multiply(a[:, :, None], b[None]), axis=1))

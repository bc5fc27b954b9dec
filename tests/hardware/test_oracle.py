"""NumPy's oracle of a borrowed GPU against the reference in compiled C."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest

from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.bounds import Bound
from tilewright.multiply.problem.reference import same_bits

#: A record of each order and dtype.
CASES = sorted({
    (dtype, record.order): record.name
    for record in catalogue.records()
    for dtype in record.dtypes
    if record.backend == "gpu" and record.bound is None
}.items())  # fmt: skip


@pytest.mark.parametrize(("of", "name"), CASES, ids=[f"{dtype}-{order}" for (dtype, order), _ in CASES])
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 18, 200)])
def test_it_has_the_bits_of_the_reference(of: tuple[str, str], name: str, shape: tuple[int, int, int]) -> None:
    dtype, order = of
    record, (a, b) = catalogue.find(name), operands(*shape, dtype)
    reference = record.reference(a, b)
    found = oracle.expected(dtype, shape, order)
    wanted = record.blank(*shape[:2], dtype).dtype
    if found.dtype.kind in "iu":
        reference = (a.astype(np.int64) @ b.astype(np.int64)).astype(wanted)
    assert same_bits(found, reference)
    assert oracle.wrong_elements(record, found, dtype, shape) == 0
    wrong = found.copy()
    wrong[0, 0] = not wrong[0, 0] if dtype == "bool" else np.nextafter(wrong[0, 0], 9) if wrong.dtype.kind == "f" else 7
    assert oracle.wrong_elements(record, wrong, dtype, shape) == 1


def test_doubles_are_rounded_once_a_step() -> None:
    """Products and sums in two roundings would have other bits, so the test above can fail."""
    shape = 33, 18, 200
    a, b = operands(*shape, "float64")
    twice = np.zeros(shape[:2])
    for step in range(shape[2]):
        twice = twice + a[:, step, None] * b[None, step, :]
    assert not same_bits(oracle.expected("float64", shape), twice)


def test_a_kernel_with_a_bound_may_differ_within_it() -> None:
    record, shape = catalogue.find("tensor_core"), (33, 18, 200)
    a, b = operands(*shape, "float16")
    c = (a.astype(np.float64) @ b.astype(np.float64)).astype(record.blank(*shape[:2], "float16").dtype)
    assert oracle.wrong_elements(record, c, "float16", shape) == 0
    c[0, 0] += 1
    assert oracle.wrong_elements(record, c, "float16", shape) == 1
    assert oracle.wrong_elements(replace(record, bound=Bound(1e9, 1e9)), c, "float16", shape) == 0

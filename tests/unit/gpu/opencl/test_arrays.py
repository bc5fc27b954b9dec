"""Products of arrays that lie on an OpenCL device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bitwise import same_bits

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.gpu.opencl import OpenclDevice

cla = pytest.importorskip("pyopencl.array", reason="not run: pyopencl is not installed")


@pytest.fixture(scope="module")
def queue(device: OpenclDevice) -> Any:
    import pyopencl

    context = pyopencl.Context([device.handle])
    found = pyopencl.CommandQueue(context, device.handle)
    found.kept = context
    return found


def random(shape: tuple[int, ...], name: str = "float32") -> Any:
    rng = np.random.default_rng(sum(shape))
    if name.startswith("complex"):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(name)
    return (10 * rng.standard_normal(shape)).astype(name)


@pytest.mark.parametrize("shapes", [
    ((3, 4), (4, 5)), ((70, 33), (33, 90)), ((7,), (7, 4)), ((4, 7), (7,)), ((7,), (7,)), ((2, 1, 5, 6), (3, 6, 4)),
    ((5, 0), (0, 4)), ((0, 3), (3, 4)),
])  # fmt: skip
def test_the_result_lies_beside_the_operands(queue: Any, shapes: Any) -> None:
    a, b = random(shapes[0]), random(shapes[1])
    x, y = (cla.to_device(queue, v) for v in (a, b))
    c = tw.matmul(x, y)
    assert isinstance(c, cla.Array) and c.queue is queue
    assert same_bits(c.get(), tw.matmul(a, b))


@pytest.mark.parametrize("name", ["float64", "float16", "int8", "int32", "int64", "uint16", "complex64", "complex128"])
def test_dtypes(queue: Any, name: str) -> None:
    a, b = random((33, 20), name), random((20, 40), name)
    c = tw.matmul(cla.to_device(queue, a), cla.to_device(queue, b))
    assert same_bits(c.get(), tw.matmul(a, b))


def test_mixed_dtypes_and_a_wider_result(queue: Any) -> None:
    a, b = random((9, 20), "int8"), random((20, 7), "float32")
    x, y = (cla.to_device(queue, v) for v in (a, b))
    assert same_bits(tw.matmul(x, y).get(), tw.matmul(a, b))
    assert same_bits(tw.matmul(x, x.T, dtype="int32").get(), tw.matmul(a, a.T, dtype="int32"))


def test_views_are_read_where_they_are(queue: Any) -> None:
    a, b = random((40, 60)), random((60, 50))
    x, y = (cla.to_device(queue, v) for v in (a, b))
    assert same_bits(tw.matmul(x[4:20, 2:30], y[2:30].T[3:9].T).get(), tw.matmul(a[4:20, 2:30], b[2:30, 3:9]))
    assert same_bits(tw.matmul(x[::2], y[:, ::-3]).get(), tw.matmul(a[::2], b[:, ::-3]))


def test_out_alpha_beta_and_epilogue(queue: Any) -> None:
    a, b, c, bias = random((20, 30)), random((30, 40)), random((20, 40)), random((40,))
    x, y, z, w = (cla.to_device(queue, v) for v in (a, b, c, bias))
    found = tw.matmul(x, y, out=z, alpha=2, beta=-0.5)
    assert found is z
    expected = tw.matmul(a, b, out=c.copy(), alpha=2, beta=-0.5)
    assert same_bits(z.get(), expected)
    for argument in (w, bias):
        found = tw.matmul(x, y, epilogue=lambda s, bias: tw.relu(s + bias), epilogue_args={"bias": argument})
        assert same_bits(found.get(), tw.matmul(a, b, epilogue=lambda s, bias: tw.relu(s + bias), epilogue_args=[bias]))


def test_out_may_be_an_operand(queue: Any) -> None:
    a, b = random((30, 30)), random((30, 30))
    x, y = (cla.to_device(queue, v) for v in (a, b))
    assert tw.matmul(x, y, out=x) is x
    assert same_bits(x.get(), tw.matmul(a, b))


def test_algebras_and_booleans(queue: Any) -> None:
    a, b = random((20, 30)), random((30, 40))
    x, y = (cla.to_device(queue, v) for v in (a, b))
    assert same_bits(tw.matmul(x, y, algebra="min-plus").get(), tw.matmul(a, b, algebra="min-plus"))
    p, q = a > 5, b > 5
    found = tw.matmul(cla.to_device(queue, p), cla.to_device(queue, q))
    assert found.dtype == bool
    assert same_bits(found.get(), tw.matmul(p, q))


def test_wrong_use_is_told(queue: Any) -> None:
    a, b = random((4, 5)), random((5, 6))
    x, y = (cla.to_device(queue, v) for v in (a, b))
    with pytest.raises(ArgumentTypeError, match=r"`b` must be an OpenCL array as the other operand is \(got ndarray\)"):
        tw.matmul(x, b)
    with pytest.raises(ArgumentValueError, match="`device` must be left out"):
        tw.matmul(x, y, device="cpu")
    with pytest.raises(ArgumentValueError, match="must equal"):
        tw.matmul(x, x)
    with pytest.raises(ArgumentValueError, match="`out` must have the product's shape"):
        tw.matmul(x, y, out=x)
    with pytest.raises(ArgumentValueError, match="must have a queue"):
        tw.matmul(x.with_queue(None), y.with_queue(None))
    with pytest.raises(ArgumentTypeError, match="`beta` must be a number"):
        tw.matmul(x, y, beta=x)

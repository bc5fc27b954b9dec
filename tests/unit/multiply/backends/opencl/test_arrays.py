"""Products of arrays on an OpenCL device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bitwise import same_bits

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError, DeviceError
from tilewright.multiply.backends.opencl import OpenclDevice

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
def test_the_result_is_on_the_operands_device(queue: Any, shapes: Any) -> None:
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


def test_out_may_overlap_operands_and_what_the_epilogue_reads(queue: Any) -> None:
    c, b = random((300, 300)), random((300, 300))
    z, y = cla.to_device(queue, c), cla.to_device(queue, b)
    expected = tw.matmul(c[:150], b)
    assert same_bits(tw.matmul(z[:150], y, out=z[75:225]).get(), expected)
    for reads in (lambda c: c[0], lambda c: c.T, lambda c: c[::-1], lambda c: c):
        z = cla.to_device(queue, c)
        found = tw.matmul(y, y, out=z, epilogue=lambda s, r: s + r, epilogue_args=[reads(z)])
        assert found is z
        assert same_bits(z.get(), tw.matmul(b, b, epilogue=lambda s, r: s + r, epilogue_args=[reads(c)]))


def test_out_may_overlap_an_operand_at_other_strides(queue: Any) -> None:
    c, b = random((60, 60)), random((30, 30))
    z = cla.to_device(queue, c)
    tw.matmul(z[:30, :30].T, cla.to_device(queue, b), out=z[15:45, ::2])
    expected = c.copy()
    expected[15:45, ::2] = tw.matmul(c[:30, :30].T, b)
    assert same_bits(z.get(), expected)


def test_out_may_be_another_region_of_an_operands_buffer(queue: Any) -> None:
    import pyopencl

    a = random((200, 200))
    buffer = pyopencl.Buffer(queue.context, pyopencl.mem_flags.READ_WRITE, 2 * a.nbytes)
    x, z = (cla.Array(queue, a.shape, a.dtype, data=buffer.get_sub_region(0, a.nbytes)) for _ in range(2))
    x.set(a)
    assert same_bits(tw.matmul(x, x, out=z).get(), tw.matmul(a, a))
    # Regions with different starts, so equal offsets are different places.
    late = cla.Array(queue, a.shape, a.dtype, data=buffer.get_sub_region(4096, a.nbytes))
    late.set(a)
    y = cla.to_device(queue, a)
    found = tw.matmul(y, y, out=x, epilogue=lambda s, r: s + r, epilogue_args=[late])
    assert same_bits(found.get(), tw.matmul(a, a, epilogue=lambda s, r: s + r, epilogue_args=[a]))


def test_the_hosts_operands_of_an_epilogue_may_change_when_the_call_returns(queue: Any) -> None:
    a, bias = random((500, 500)), random((500, 500))
    x = cla.to_device(queue, a)
    expected = tw.matmul(a, a, epilogue=lambda s, r: s + r, epilogue_args=[bias])
    found = tw.matmul(x, x, epilogue=lambda s, r: s + r, epilogue_args=[bias])
    bias[...] = 0
    assert same_bits(found.get(), expected)


def test_booleans_among_complex_numbers(queue: Any) -> None:
    a, b = random((9, 8)) > 0, random((8, 7), "complex64")
    assert same_bits(tw.matmul(cla.to_device(queue, a), cla.to_device(queue, b)).get(), tw.matmul(a, b))


@pytest.mark.parametrize("place", ["a", "b", "out", "epilogue"])
def test_a_product_waits_for_its_arrays(queue: Any, place: str) -> None:
    import pyopencl

    other, gate = pyopencl.CommandQueue(queue.context), pyopencl.UserEvent(queue.context)
    a, late = random((40, 40)), random((41, 41))[1:, 1:].copy()
    arrays = {name: cla.to_device(queue, a) for name in ("a", "b", "out", "epilogue")}
    arrays[place].add_event(gate)
    found = tw.matmul(
        arrays["a"], arrays["b"], out=arrays["out"], beta=1, epilogue=lambda s, r: s - r,
        epilogue_args=[arrays["epilogue"]],
    )  # fmt: skip
    pyopencl.enqueue_copy(other, arrays[place].base_data, late)  # its contents when its event completes
    gate.set_status(pyopencl.command_execution_status.COMPLETE)
    host = {name: late if name == place else a for name in arrays}
    expected = tw.matmul(
        host["a"], host["b"], out=host["out"].copy(), beta=1, epilogue=lambda s, r: s - r,
        epilogue_args=[host["epilogue"]],
    )  # fmt: skip
    assert same_bits(found.get(), expected)


def test_queues_of_one_context_wait_for_each_other(queue: Any) -> None:
    import pyopencl

    ordered = pyopencl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    others = [pyopencl.CommandQueue(queue.context, properties=flags) for flags in (0, ordered)]
    a = random((200, 200))
    expected = tw.matmul(tw.matmul(a, a), tw.matmul(a, a))
    for other in others:
        x = cla.to_device(other, a)
        first = tw.matmul(x, x)
        assert same_bits(tw.matmul(first, tw.matmul(x.with_queue(queue), x)).get(), expected)


def test_a_result_comes_from_the_operands_allocator(queue: Any) -> None:
    from pyopencl.tools import ImmediateAllocator, MemoryPool, SVMAllocator

    a = random((30, 30))
    for allocator in (MemoryPool(ImmediateAllocator(queue)), SVMAllocator(queue.context, queue=queue)):
        x = cla.to_device(queue, a, allocator=allocator)
        found = tw.matmul(x, x)
        assert found.allocator is allocator
        assert same_bits(found.get(), tw.matmul(a, a))
        tw.matmul(x[5:].T, x[5:], out=x)
        assert same_bits(x.get(), tw.matmul(a[5:].T, a[5:]))


def test_algebras_and_booleans(queue: Any) -> None:
    a, b = random((20, 30)), random((30, 40))
    x, y = (cla.to_device(queue, v) for v in (a, b))
    assert same_bits(tw.matmul(x, y, algebra="min-plus").get(), tw.matmul(a, b, algebra="min-plus"))
    p, q = a > 5, b > 5
    found = tw.matmul(cla.to_device(queue, p), cla.to_device(queue, q))
    assert found.dtype == bool
    assert same_bits(found.get(), tw.matmul(p, q))


def test_wrong_use_is_reported(queue: Any) -> None:
    a, b = random((4, 5)), random((5, 6))
    x, y = (cla.to_device(queue, v) for v in (a, b))
    with pytest.raises(ArgumentTypeError, match=r"`b` must be an OpenCL array like the other operand \(got ndarray\)"):
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


def test_arrays_that_no_kernel_can_read_are_reported(queue: Any) -> None:
    import pyopencl

    x = cla.to_device(queue, random((4, 4)))
    context = pyopencl.Context(queue.context.devices)
    far = cla.to_device(pyopencl.CommandQueue(context), random((4, 4)))
    for call in (
        lambda: tw.matmul(x, far),
        lambda: tw.matmul(x, x, out=far),
        lambda: tw.matmul(x, x, epilogue=lambda s, r: s + r, epilogue_args=[far]),
    ):
        with pytest.raises(ArgumentValueError, match="must be in the OpenCL context of the first operand"):
            call()
    odd = cla.to_device(queue, np.zeros(65, np.uint8))[1:].view(np.float32).reshape(4, 4)
    with pytest.raises(ArgumentValueError, match=r"`b` must have offset and strides of whole elements, 4 bytes"):
        tw.matmul(x, odd)
    with pytest.raises(ArgumentTypeError, match="`a` must have this machine's byte order"):
        tw.matmul(cla.to_device(queue, np.zeros((4, 4), ">f4")), x)
    halves = cla.to_device(queue, np.zeros((4, 4), np.float16))
    with pytest.raises(ArgumentTypeError, match="`a` must have a dtype that pyopencl casts to complex64"):
        tw.matmul(halves, x.astype(np.complex64))


def test_a_result_too_large_for_the_device_is_reported(queue: Any) -> None:
    x = cla.zeros(queue, (1 << 22, 1), np.float32)
    with pytest.raises(DeviceError, match=r"placing the result must fit its memory.*\(got 67,108,864\.0 MiB"):
        tw.matmul(x, x.reshape(1, 1 << 22))

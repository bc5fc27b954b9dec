"""Objects that outlive their simulated GPU, or its reset: use is an error, and never reaches another GPU."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

import tilewright as tw
from tilewright.errors import DeviceError

HOST = np.arange(5)
SAID = "must be used on the simulated GPU that it was made on, until that ends or is reset"


@cuda.jit
def summed(pair, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = pair[0][i] + pair[1][i]


@cuda.jit
def doubled(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + x[i]


class Alias:
    """A device array as another library sees it: an address."""

    def __init__(self, array: Any) -> None:
        self.__cuda_array_interface__ = dict(array.__cuda_array_interface__)


class Things:
    """Objects that a program makes on a device."""

    def __init__(self) -> None:
        self.array = cuda.to_device(HOST)
        doubled[1, 32](self.array, cuda.device_array(5, np.int64))  # numba-cuda notes its address for launches
        self.fresh = cuda.to_device(HOST)
        self.part = cuda.to_device(np.arange(10))[2:7]
        self.alias = Alias(self.array)
        self.of_alias = cuda.as_cuda_array(self.alias)
        self.rows = cuda.to_device(np.ones((3, 5), np.int64))
        self.managed = cuda.managed_array(5, np.int64)
        self.mapped = cuda.mapped_array(5, np.int64)
        self.pinned = cuda.pinned_array(5, np.int64)
        for one in (self.managed, self.mapped, self.pinned):
            one[:] = HOST
        self.stream, self.event = cuda.stream(), cuda.event()
        self.event.record()


def out() -> Any:
    return cuda.device_array(5, np.int64)


USES: dict[str, Callable[[Things], object]] = {
    "launch": lambda t: doubled[1, 32](t.array, out()),
    "first launch": lambda t: doubled[1, 32](t.fresh, out()),
    "output": lambda t: doubled[1, 32](HOST, t.array),
    "copy to the host": lambda t: t.array.copy_to_host(),
    "copy into": lambda t: t.array.copy_to_device(HOST),
    "copy from": lambda t: out().copy_to_device(t.array),
    "item": lambda t: t.array[2],
    "slice": lambda t: doubled[1, 32](t.array[1:], out()),
    "slice made before": lambda t: doubled[1, 32](t.part, out()),
    "alias": lambda t: doubled[1, 32](t.alias, out()),
    "array of an alias": lambda t: t.of_alias.copy_to_host(),
    "reshaped": lambda t: t.rows.reshape(15).copy_to_host(),
    "in a tuple": lambda t: summed[1, 32]((cuda.to_device(HOST), t.array), out()),
    "numpy": lambda t: np.asarray(t.array),
    "managed": lambda t: doubled[1, 32](t.managed, out()),
    "mapped": lambda t: doubled[1, 32](t.mapped, out()),
    "launch in a stream": lambda t: doubled[1, 32, t.stream](HOST, out()),
    "stream": lambda t: t.stream.synchronize(),
    "copy in a stream": lambda t: cuda.to_device(HOST, stream=t.stream),
    "event": lambda t: t.event.record(),
    "time between events": lambda t: cuda.event().elapsed_time(t.event),
}


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_objects_of_an_ended_gpu_are_refused(check: bool) -> None:
    with tw.simulated_gpu("a100"):
        things = Things()
    with tw.simulated_gpu(check=check) as gpu:
        other, stream = cuda.to_device(2 * HOST), cuda.stream()
        for name, use in USES.items():
            with pytest.raises((DeviceError, CudaAPIError), match=SAID):
                pytest.fail(f"{name}: {use(things)!r}")
        doubled[1, 32, stream](things.pinned, result := out())  # its kernel and memory of the host are good for both
        assert result.copy_to_host().tolist() == (2 * HOST).tolist()
        assert other.copy_to_host().tolist() == (2 * HOST).tolist()
        assert not gpu.findings
    assert things.managed.tolist() == things.mapped.tolist() == HOST.tolist()
    with pytest.raises(DeviceError, match="a device array must be used"):
        things.array.__cuda_array_interface__  # noqa: B018


def reset() -> None:
    cuda.current_context().device.reset()


@pytest.mark.parametrize("end", [cuda.close, reset])
def test_objects_from_before_a_reset_are_refused(end: Callable[[], None]) -> None:
    with tw.simulated_gpu():
        things = Things()
        end()
        other = cuda.to_device(2 * HOST)
        for name, use in USES.items():  # numba-cuda itself has no parts of such an array any more
            with pytest.raises((CudaAPIError, ReferenceError), match=f"{SAID}|object no longer exists"):
                pytest.fail(f"{name}: {use(things)!r}")
        del things
        assert other.copy_to_host().tolist() == (2 * HOST).tolist()


def test_a_gpu_within_another_has_its_own_addresses() -> None:
    with tw.simulated_gpu():
        outer = cuda.to_device(HOST)
        with tw.simulated_gpu():
            inner = cuda.to_device(2 * HOST)
            with pytest.raises(CudaAPIError, match=SAID):
                doubled[1, 32](outer, inner)
        after = cuda.to_device(3 * HOST)
        with pytest.raises(DeviceError, match=SAID):
            doubled[1, 32](inner[1:], after)
        assert (outer.copy_to_host().tolist(), after.copy_to_host()[1]) == (HOST.tolist(), 3)


def test_a_gpu_s_own_memory_is_freed_when_it_ends() -> None:
    with tw.simulated_gpu() as gpu:
        things = Things()
        with cuda.mapped(HOST.copy()):
            cuda.to_device(HOST)
    assert len(gpu.memory.allocations()) == 3, "managed, mapped and pinned memory of the host's arrays"
    assert things.pinned.tolist() == HOST.tolist()


@pytest.mark.parametrize("check", [False, True])
def test_a_kernel_does_not_keep_the_gpu_that_it_ran_on(check: bool) -> None:
    """An ended GPU has memory, and a check's shadow of it: 512 GiB of addresses."""
    with tw.simulated_gpu("h100", check=check) as gpu:
        doubled[1, 32](HOST, np.zeros(5, np.int64))
    ended = weakref.ref(gpu)
    del gpu
    gc.collect()
    assert ended() is None

"""Driver calls: their results, and the codes of wrong ones."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as real
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

from tilewright.errors import TilewrightError
from tilewright.frontends.driver_binding import Binding
from tilewright.frontends.libcuda.marshalling import driver_error
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu
from tilewright.simulate.device.linking import ObjectCode
from tilewright.simulate.device.modules import Library


@pytest.fixture
def binding(gpu: SimulatedGpu) -> Binding:
    binding = Binding(gpu)
    binding.cuCtxPushCurrent(0xC0DE)
    return binding


def code(result: tuple[Any, ...]) -> str:
    return str(result[0].name.removeprefix("CUDA_"))


WRONG = {
    "cuMemFree": (((1 << 36) + 77,), "ERROR_INVALID_VALUE"),
    "cuMemAlloc": ((0,), "ERROR_INVALID_VALUE"),
    "cuMemAllocManaged": ((1 << 60, 1), "ERROR_OUT_OF_MEMORY"),
    "cuMemFreeHost": ((5,), "ERROR_INVALID_VALUE"),
    "cuMemHostUnregister": ((5,), "ERROR_HOST_MEMORY_NOT_REGISTERED"),
    "cuMemHostGetDevicePointer": ((5, 0), "ERROR_INVALID_VALUE"),
    "cuMemGetAddressRange": ((5,), "ERROR_NOT_FOUND"),
    "cuMemsetD8": ((5, 1, 1), "ERROR_INVALID_VALUE"),
    "cuStreamSynchronize": ((99,), "ERROR_INVALID_HANDLE"),
    "cuStreamDestroy": ((0,), "ERROR_INVALID_HANDLE"),
    "cuEventRecord": ((99, 0), "ERROR_INVALID_HANDLE"),
    "cuLibraryUnload": ((99,), "ERROR_INVALID_HANDLE"),
    "cuDeviceGetName": ((9, 1), "ERROR_INVALID_DEVICE"),
    "cuCtxPushCurrent": ((5,), "ERROR_INVALID_CONTEXT"),
    "cuTexRefCreate": ((), "ERROR_NOT_SUPPORTED"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_have_the_driver_s_code(binding: Binding, name: str) -> None:
    arguments, expected = WRONG[name]
    assert code(getattr(binding, name)(*arguments)) == expected


def test_a_name_that_no_driver_has(binding: Binding) -> None:
    with pytest.raises(AttributeError):
        _ = binding.cuMemAllocate
    assert binding.CUresult is real.CUresult


def test_calls_without_a_context_are_refused(gpu: SimulatedGpu) -> None:
    binding = Binding(gpu)
    gpu.contexts.clear()
    for result in (binding.cuMemAlloc(8), binding.cuStreamCreate(0), binding.cuMemGetInfo(), binding.cuCtxPopCurrent()):
        assert code(result) == "ERROR_INVALID_CONTEXT"
    assert int(binding.cuCtxGetCurrent()[1]) == 0


def test_memory_is_the_host_s_at_the_same_address(binding: Binding) -> None:
    _, pointer = binding.cuMemAlloc(64)
    source, target = ctypes.create_string_buffer(b"0123456789"), ctypes.create_string_buffer(10)
    binding.cuMemcpyHtoD(pointer, ctypes.addressof(source), 10)
    binding.cuMemcpyDtoD(int(pointer) + 10, int(pointer), 10)
    binding.cuMemsetD8(int(pointer) + 12, 0x141, 2)
    binding.cuMemcpyDtoH(ctypes.addressof(target), int(pointer) + 10, 10)
    assert target.raw == b"01AA456789"
    assert ctypes.string_at(int(pointer), 10) == b"0123456789"
    base, size = binding.cuMemGetAddressRange(int(pointer) + 63)[1:]
    assert (int(base), size) == (int(pointer), 64)
    assert code(binding.cuMemcpyHtoD(int(pointer) + 60, ctypes.addressof(source), 10)) == "ERROR_INVALID_VALUE"
    assert code(binding.cuMemFree(pointer)) == "SUCCESS"
    assert code(binding.cuMemFree(pointer)) == "ERROR_INVALID_VALUE"


def test_registering_twice_is_refused(binding: Binding) -> None:
    held = ctypes.create_string_buffer(100)
    start = ctypes.addressof(held)
    assert code(binding.cuMemHostRegister(start, 100, 0)) == "SUCCESS"
    assert code(binding.cuMemHostRegister(start + 50, 100, 0)) == "ERROR_HOST_MEMORY_ALREADY_REGISTERED"
    assert code(binding.cuMemHostUnregister(start)) == "SUCCESS"


def test_a_copy_to_mapped_host_memory_stays(binding: Binding) -> None:
    """The device has a copy of such memory, which is written back after each use, so the copy must reach it too."""
    held, source = ctypes.create_string_buffer(b"-" * 12, 12), ctypes.create_string_buffer(b"0123456789", 10)
    _, pointer = binding.cuMemAlloc(10)
    start = ctypes.addressof(held)
    binding.cuMemcpyHtoD(pointer, ctypes.addressof(source), 10)
    assert code(binding.cuMemHostRegister(start + 2, 8, real.CU_MEMHOSTREGISTER_DEVICEMAP)) == "SUCCESS"
    for target, size in ((start + 4, 4), (start + 1, 10)):  # within, and on both sides of it
        assert code(binding.cuMemcpyDtoH(target, pointer, size)) == "SUCCESS"
        assert ctypes.string_at(target, size) == b"0123456789"[:size]
        binding.cuMemsetD8(pointer, ord("0"), 1)
        assert ctypes.string_at(target, size) == b"0123456789"[:size]
    binding.cuMemHostUnregister(start + 2)


def test_events_that_keep_no_time(binding: Binding) -> None:
    _, plain = binding.cuEventCreate(0)
    _, mute = binding.cuEventCreate(int(real.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    assert code(binding.cuEventElapsedTime(plain, plain)) == "ERROR_INVALID_HANDLE"
    binding.cuEventRecord(plain, 0)
    binding.cuEventRecord(mute, 0)
    assert code(binding.cuEventElapsedTime(plain, mute)) == "ERROR_INVALID_HANDLE"
    assert binding.cuEventElapsedTime(plain, plain)[1] == 0


def test_resetting_the_device_frees_everything(gpu: SimulatedGpu, binding: Binding) -> None:
    binding.cuMemAlloc(1000)
    _, stream = binding.cuStreamCreate(0)
    binding.cuDevicePrimaryCtxReset(0)
    assert gpu.memory.allocated_bytes == 0
    with pytest.raises(CudaAPIError, match="a stream must be used on the simulated GPU that it was made on"):
        binding.cuStreamQuery(stream)


@cuda.jit
def far(x: Any, at: Any) -> None:
    x[at] = 1


def test_a_broken_device_refuses_work_until_a_reset(gpu: SimulatedGpu, binding: Binding) -> None:
    x = cuda.to_device(np.zeros(4, np.int8))
    _, pointer = binding.cuMemAlloc(64)
    with pytest.raises(CudaAPIError, match="CUDA_ERROR_ILLEGAL_ADDRESS: far: out of bounds"):
        far[1, 1](x, 1 << 30)
    for use in (lambda: far[1, 1](x, 0), x.copy_to_host, cuda.synchronize, cuda.stream):
        with pytest.raises(CudaAPIError, match=r"700.*an earlier launch failed"):
            use()
    assert code(binding.cuMemFree(pointer)) == code(binding.cuDeviceGetCount()) == "SUCCESS"
    binding.cuDevicePrimaryCtxReset(0)
    assert code(binding.cuMemAlloc(64)) == "SUCCESS"


def test_memory_can_be_freed_while_another_thread_holds_the_lock(gpu: SimulatedGpu, binding: Binding) -> None:
    """Python may collect an array on one of the machine's threads, while a launch waits for that thread."""
    import threading

    _, pointer = binding.cuMemAlloc(64)
    codes: list[str] = []
    with gpu.lock:
        thread = threading.Thread(target=lambda: codes.append(code(binding.cuMemFree(pointer))))
        thread.start()
        thread.join(10)
        assert codes == ["SUCCESS"]
        assert gpu.memory.allocated_bytes == 256
    assert code(binding.cuMemFree(pointer)) == "ERROR_INVALID_VALUE"
    _, again = binding.cuMemAlloc(64)
    assert (int(again), gpu.memory.allocated_bytes) == (int(pointer), 256)


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        (f".global .b8 a[{90 * 10**9}];", "CUDA_ERROR_OUT_OF_MEMORY"),
        (".const .b8 a[65537];", "CUDA_ERROR_INVALID_PTX"),
    ],
)
def test_variables_that_do_not_fit(gpu: SimulatedGpu, declaration: str, expected: str) -> None:
    text = f".version 8.0\n.target sm_90\n.address_size 64\n{declaration}\n.visible .entry k() {{ ret; }}\n"
    gpu.contexts.append(0xC0DE)
    with pytest.raises((TilewrightError, DriverError)) as raised:
        Library.of(gpu, ObjectCode(text.encode(), "ptx"))
    assert driver_error(raised.value).code == expected

"""Launches on a real GPU, with a fake driver: host memory stands for the GPU's, a function for the kernel.

Tests with the real cuda.core are in tests/hardware, and need a GPU.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentTypeError, CompileError, DeviceError, LaunchError
from tilewright.multiply.backends.cuda import current, device, resident
from tilewright.multiply.backends.cuda.device import launch
from tilewright.multiply.kernels import catalogue
from tilewright.programs import Program

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .f32 x, .param .u16 h) { ret; }
"""


#: The GPU's own context.
PRIMARY = 0xC0DE


class Timed:
    """An event, in milliseconds."""

    def __init__(self) -> None:
        self.time = 0.0


class Buffer:
    def __init__(self, size: int) -> None:
        self.memory = (ctypes.c_char * size)()
        self.handle = ctypes.addressof(self.memory)
        self.size = size
        self.closed = False

    def close(self, stream: Any) -> None:
        self.closed = True


class Gpu:
    """Stands for cuda.core, its Device and its stream, and for the driver's bindings."""

    def __init__(self) -> None:
        self.name, self.device_id, self.compute_capability = "stand-in", 0, (9, 0)
        self.buffers: list[Buffer] = []
        self.launched: list[tuple[Any, ...]] = []
        self.kernel: Callable[..., None] = lambda *words: None
        self.handle = "stream"
        self.clock, self.events, self.context = 0.0, 0, 0
        self.brought_bytes = 0

    # the device
    def allocate(self, size: int, *, stream: Any) -> Buffer:
        self.buffers.append(Buffer(size))
        return self.buffers[-1]

    def create_stream(self) -> Gpu:
        return self

    # the stream
    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass

    # the driver
    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, self.context

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:
        self.context = context
        return (0,)

    def cuEventCreate(self, flags: int) -> tuple[int, Timed]:
        self.events += 1
        return 0, Timed()

    def cuEventRecord(self, event: Timed, stream: Any) -> tuple[int]:
        assert stream == self.handle
        self.clock += 2.0
        event.time = self.clock
        return (0,)

    def cuEventSynchronize(self, event: Timed) -> tuple[int]:
        return (0,)

    def cuEventElapsedTime(self, start: Timed, end: Timed) -> tuple[int, float]:
        return 0, end.time - start.time

    def cuEventDestroy(self, event: Timed) -> tuple[int]:
        self.events -= 1
        return (0,)

    def cuMemcpyHtoDAsync(self, to: int, source: int, size: int, stream: Any) -> tuple[int]:
        ctypes.memmove(to, source, size)
        return (0,)

    def cuMemcpyDtoHAsync(self, to: int, source: int, size: int, stream: Any) -> tuple[int]:
        self.brought_bytes += size
        ctypes.memmove(to, source, size)
        return (0,)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    stand_in = Gpu()

    def run(stream: Any, config: Any, kernel: Any, *words: Any) -> None:
        stand_in.launched.append((config.grid, config.block, config.shmem_size, words))
        stand_in.kernel(*words)

    core = SimpleNamespace(launch=run, LaunchConfig=SimpleNamespace)
    modules = {"cuda.core": core, "cuda.bindings.driver": stand_in}
    monkeypatch.setattr(device, "require", lambda module, purpose: modules[module])
    monkeypatch.setattr(device, "unavailable", lambda: "")

    def made_current() -> Gpu:
        stand_in.context = PRIMARY
        return stand_in

    monkeypatch.setattr(device, "current", made_current)
    monkeypatch.setattr(device, "_loaded", lambda ptx, entry, device_id, cc: entry)
    return stand_in


def at(address: Any, dtype: str, count: int) -> Any:
    """The stand-in's memory as an array."""
    size = np.dtype(dtype).itemsize * count
    return np.frombuffer((ctypes.c_char * size).from_address(int(address)), dtype)


def test_parameters_arrays_and_time(gpu: Gpu) -> None:
    def kernel(a: Any, b: Any, n: Any, x: Any, h: Any) -> None:
        at(b, "f4", 4)[:] = at(a, "f4", 4) * 2 + n

    gpu.kernel = kernel
    a, b = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    run = launch(Program.from_ptx(PTX), (2, 3), 8, (a, b, 7, 0.5, 9), shared_bytes=16)
    assert b.tolist() == [7, 9, 11, 13]
    assert run.seconds == pytest.approx(0.002)
    ((grid, block, shared, words),) = gpu.launched
    assert (grid, block, shared) == ((2, 3, 1), (8, 1, 1), 16)
    assert [word.dtype.name for word in words] == ["uint64", "uint64", "uint32", "uint32", "uint16"]
    assert int(words[3]) == 0x3F000000
    assert all(buffer.closed for buffer in gpu.buffers)


@pytest.mark.parametrize(("before", "after"), [(0, PRIMARY), (PRIMARY, PRIMARY), (77, 77)])
def test_a_launch_leaves_the_caller_s_own_context(gpu: Gpu, before: int, after: int) -> None:
    gpu.context, seen = before, []
    gpu.kernel = lambda *_: seen.append(gpu.context)
    launch(Program.from_ptx(PTX), 1, 1, (np.zeros(1), np.zeros(1), 0, 0.0, 0))
    assert (seen, gpu.context) == ([PRIMARY], after)
    gpu.context = before
    with pytest.raises(LaunchError):
        launch(Program.from_ptx(PTX), 0, 1, ())
    assert gpu.context == after


def test_strided_arrays_keep_the_bytes_between_their_elements(gpu: Gpu) -> None:
    def kernel(a: Any, *_: Any) -> None:
        # The element [0] is the last in memory: the array runs backwards in steps of two.
        whole = at(int(a) - 8 * 4, "i4", 9)
        assert whole.tolist() == list(range(1, 10))
        whole[:] = -whole

    gpu.kernel = kernel
    base = np.arange(12, dtype=np.int32)
    view = base[9:0:-2]
    launch(Program.from_ptx(PTX), 1, 1, (view, view, 0, 0.0, 0))
    assert base.tolist() == [0, -1, 2, -3, 4, -5, 6, -7, 8, -9, 10, 11]
    assert len(gpu.buffers) == 1  # the same array twice is one copy


def test_views_that_share_elements_are_one_copy(gpu: Gpu) -> None:
    def kernel(part: Any, whole: Any, *_: Any) -> None:
        assert int(part) - int(whole) == 8 * 4
        assert int(whole) % 256 == int(gpu.buffers[0].handle) % 256, "aligned as in the whole"
        at(part, "i4", 4)[:] = 7

    gpu.kernel = kernel
    base = np.arange(16, dtype=np.int32)
    launch(Program.from_ptx(PTX), 1, 1, (base[8:12], base, 0, 0.0, 0))
    assert base.tolist() == [*range(8), 7, 7, 7, 7, *range(12, 16)]
    assert len(gpu.buffers) == 1
    assert all(buffer.closed for buffer in gpu.buffers)


def test_views_that_begin_inside_an_array_are_copied_back_whole(gpu: Gpu) -> None:
    def kernel(low: Any, high: Any, *_: Any) -> None:
        assert (int(low) - gpu.buffers[0].handle, int(high) - int(low)) == (4 * 4, 2 * 4)
        at(low, "i4", 8)[:] = range(90, 98)

    gpu.kernel = kernel
    base = np.arange(16, dtype=np.int32)
    launch(Program.from_ptx(PTX), 1, 1, (base[4:10], base[6:12], 0, 0.0, 0))
    assert base.tolist() == [0, 1, 2, 3, *range(90, 98), 12, 13, 14, 15]


def test_read_only_and_empty_arrays(gpu: Gpu) -> None:
    def kernel(a: Any, *_: Any) -> None:
        at(a, "i4", 2)[:] = 5

    gpu.kernel = kernel
    a = np.array([1, 2], np.int32)
    a.flags.writeable = False
    launch(Program.from_ptx(PTX), 1, 1, (a, np.zeros((0, 3)), 0, 0.0, 0))
    assert a.tolist() == [1, 2]


def test_input_only_arrays_are_not_copied_back(gpu: Gpu) -> None:
    def kernel(a: Any, b: Any, *_: Any) -> None:
        at(a, "i4", 4)[:], at(b, "i4", 1)[:] = 5, 6

    gpu.kernel = kernel
    out, row = np.zeros(4, np.int32), np.array([1], np.int32)
    every = np.lib.stride_tricks.as_strided(row, (8,), (0,))  # its elements share their bytes
    launch(Program.from_ptx(PTX), 1, 1, (out, every, 0, 0.0, 0))
    assert (out.tolist(), row.tolist()) == ([5] * 4, [1])
    assert gpu.brought_bytes == out.nbytes
    with pytest.raises(ArgumentTypeError, match=r"plain dtype \(got object\)"):
        launch(Program.from_ptx(PTX), 1, 1, (np.array([None]), out, 0, 0.0, 0))
    assert all(buffer.closed for buffer in gpu.buffers)


def test_arrays_of_another_kind_are_refused(gpu: Gpu) -> None:
    class Elsewhere:
        dtype, shape, strides = np.dtype(np.int32), (4,), (4,)

    with pytest.raises(ArgumentTypeError, match=r"must be NumPy's or have __cuda_array_interface__ \(got Elsewhere"):
        launch(Program.from_ptx(PTX), 1, 1, (Elsewhere(), np.zeros(4, np.int32), 0, 0.0, 0))


def test_arrays_of_the_gpu_are_used_where_they_are(gpu: Gpu) -> None:
    class OnGpu:
        def __init__(self) -> None:
            self.__cuda_array_interface__ = {"typestr": "<f4", "shape": (4,), "strides": None, "data": (4096, False)}

    launch(Program.from_ptx(PTX), 1, 1, (OnGpu(), OnGpu(), 0, 0.0, 0))
    assert [int(word) for word in gpu.launched[0][3][:2]] == [4096, 4096]
    assert gpu.buffers == []


def test_the_driver_s_errors_are_raised(gpu: Gpu) -> None:
    def kernel(*_: Any) -> None:
        raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

    gpu.kernel = kernel
    with pytest.raises(DeviceError, match="k failed on stand-in: CUDA_ERROR_ILLEGAL_ADDRESS"):
        launch(Program.from_ptx(PTX), 1, 1, (np.zeros(1), np.zeros(1), 0, 0.0, 0))
    assert all(buffer.closed for buffer in gpu.buffers)
    assert gpu.events == 0, "no event is left"


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"grid": 0}, LaunchError, "`grid` must have at least 1 of its blocks in x"),
        ({"block": 2048}, LaunchError, "`block` must have at most 1,024 threads"),
        ({"shared_bytes": -1}, LaunchError, "`shared_bytes` must be at least 0"),
        ({"args": (1,)}, LaunchError, "takes 5 arguments"),
        ({"args": ("a", 1, 2, 3.0, 4)}, ArgumentTypeError, "argument 0"),
        ({"seed": 3}, LaunchError, "`seed` is for the simulated GPU"),
        ({"seed": 0}, LaunchError, "`seed` is for the simulated GPU"),
        ({"sede": None}, TypeError, "unexpected keyword argument 'sede'"),
        ({"gpu": "v100"}, LaunchError, "`gpu` is for the simulated GPU"),
        ({"instruments": (object(),)}, LaunchError, "`instruments` is for the simulated GPU"),
    ],
)
def test_wrong_use(gpu: Gpu, change: dict[str, Any], error: type[Exception], text: str) -> None:
    arguments = {"grid": 1, "block": 1, "args": (np.zeros(1), np.zeros(1), 0, 0.0, 0)} | change
    with pytest.raises(error, match=text):
        launch(Program.from_ptx(PTX), **arguments)
    assert gpu.launched == []


def test_parameters_have_the_bytes_that_cuda_core_lays_out() -> None:
    """cuda.core itself lays out these bytes; this needs no driver."""
    holder = importlib.import_module("cuda.core._kernel_arg_handler").ParamHolder
    program = Program.from_ptx(PTX)
    values = program.marshal((2**63 + 1, 5, -1, 0.5, 77), lambda array: 0)
    words = device.words_of(program, values)
    held = holder(words)
    pointers = (ctypes.c_void_p * len(words)).from_address(held.ptr)
    assert [ctypes.string_at(p, len(v)) for p, v in zip(pointers, values, strict=True)] == list(values)


@pytest.mark.skipif(device.available(), reason="there is a GPU: tests/hardware launches on it")
def test_without_a_gpu_the_error_is_one_clear_line() -> None:
    with pytest.raises(DeviceError) as caught:
        launch(Program.from_ptx(PTX), 1, 1, ())
    assert str(caught.value).startswith("a launch on a real GPU needs one (no NVIDIA driver")
    assert "\n" not in str(caught.value)
    with pytest.raises(DeviceError):
        device.compute_capability()


def test_compile_errors_are_not_the_devices(gpu: Gpu) -> None:
    def kernel(x: Any) -> None:
        x.nothing()

    with pytest.raises(CompileError):
        launch(kernel, 1, 1, (np.zeros(1),))


def test_names_are_the_vendors_without_a_simulated_gpu() -> None:
    core = pytest.importorskip("cuda.core", reason="not run: cuda.core is not installed")
    with tw.simulated_gpu():
        assert current.is_replaced() and current.names() is not core
    assert current.names() is core and not current.is_replaced()
    assert current.driver().__name__ == "cuda.bindings.driver"


def test_launches_by_configurations_of_older_releases_of_cuda_core() -> None:
    calls = pytest.importorskip("cuda.bindings.driver", reason="not run: cuda.bindings is not installed")
    plain = {"grid": (2, 1, 1), "block": (8, 1, 1), "shmem_size": 0, "cluster": None}
    stream = SimpleNamespace(handle=0)
    for options, attributes in (
        ({}, 0), ({"cooperative_launch": False}, 0), ({"cooperative_launch": True}, 1), ({"is_cooperative": True}, 1),
    ):  # fmt: skip
        made = current._driver_config(calls, stream, SimpleNamespace(**plain, **options))
        assert (made.gridDimX, made.numAttrs) == (2, attributes)


def test_a_tuner_s_product_leaves_the_caller_s_own_context(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    core = SimpleNamespace(Device=lambda: SimpleNamespace(set_current=lambda: gpu.cuCtxSetCurrent(PRIMARY)))
    monkeypatch.setattr(resident, "require", lambda module, purpose: core)
    monkeypatch.setattr(current, "driver", lambda: gpu)
    monkeypatch.setattr(current, "timed", lambda *_: seen.append(gpu.context))
    monkeypatch.setattr(resident.Resident, "_prepare", lambda *_: seen.append(gpu.context))
    monkeypatch.setattr(resident.Resident, "_stream", None, raising=False)
    a, gpu.context = np.zeros((1, 1)), 77
    product = resident.Resident(catalogue.find("coalesced"), Program.from_ptx(PTX), a, a, a.dtype)
    assert gpu.context == 77
    product()
    assert (seen, gpu.context) == ([PRIMARY] * 2, 77)


class Older(SimpleNamespace):
    """A configuration of cuda.core below 1.0."""

    cooperative_launch = False


@pytest.mark.parametrize(("config", "option"), [(Older, "cooperative_launch"), (SimpleNamespace, "is_cooperative")])
def test_a_cooperative_launch_has_the_option_of_each_release(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, config: Any, option: str
) -> None:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(device.require("cuda.core", ""), "LaunchConfig", config)
    monkeypatch.setattr(device, "_run", lambda at, program, extents, args: seen.append(extents))
    launch(Program.from_ptx(PTX), 1, 1, (), cooperative=True)
    launch(Program.from_ptx(PTX), 1, 1, ())
    options = [{key for key in one if "cooperative" in key} for one in seen]
    assert options == [{option}, set()]


def test_gpus_are_counted_by_the_driver_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuda.core may count them by a library that is missing, or that knows nothing of CUDA_VISIBLE_DEVICES."""
    core = pytest.importorskip("cuda.core", reason="not run: cuda.core is not installed")
    pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

    class Counted:
        @staticmethod
        def get_all_devices() -> Any:
            raise RuntimeError("no nvml")

    with tw.simulated_gpu("a100"):
        monkeypatch.setattr(core, "Device", Counted)
        assert device.unavailable() == ""
    assert device.unavailable() == "no NVIDIA driver (libcuda.so.1) is installed"

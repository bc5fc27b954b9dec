"""Programs of numba.cuda on the simulated GPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import cuda, vectorize
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

import tilewright as tw
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.views import HostPointer

pytestmark = [
    pytest.mark.usefixtures("gpu"),
    pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning"),
]


@cuda.jit
def saxpy(a: float, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


def length(a: float, b: float) -> float:
    return math.sqrt(a * a + b * b)


@cuda.jit
def stray(x: Any) -> None:
    x[cuda.grid(1) + 1_000_000] = 1


def test_arrays_are_copied_or_stay_on_the_device() -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    saxpy[8, 128](2, x, y)
    assert (y == 2 * x + 1).all()
    device = cuda.to_device(x)
    out = cuda.device_array_like(device)
    out.copy_to_device(np.zeros_like(x))
    saxpy[8, 128](3, device, out)
    assert (out.copy_to_host() == 3 * x).all()
    assert (out[10:20].copy_to_host() == 3 * x[10:20]).all()
    assert (device.reshape(10, 100).copy_to_host() == x.reshape(10, 100)).all()


def test_managed_and_mapped_memory_are_the_same_on_both_sides() -> None:
    managed = cuda.managed_array(64, np.float32)
    mapped = cuda.mapped_array(64, np.float32)
    managed[:], mapped[:] = 1, 2
    saxpy[1, 64](10, managed, mapped)
    cuda.synchronize()
    assert (mapped == 12).all()
    assert managed.ctypes.data == managed.device_ctypes_pointer.value


def test_registered_host_memory_is_mapped() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with cuda.mapped(x, y) as (device_x, device_y):
        saxpy[1, 64](2, device_x, device_y)
        y[0] = 5
        saxpy[1, 64](1, device_x, device_y)
        assert y.tolist() == [5.0, *(3 * x[1:]).tolist()]
    with cuda.pinned(x):
        assert (cuda.to_device(x).copy_to_host() == x).all()


def test_streams_and_events() -> None:
    stream = cuda.stream()
    start, end, heard = cuda.event(), cuda.event(), []
    start.record(stream)
    x = cuda.to_device(np.ones(100, np.float32), stream=stream)
    saxpy[1, 128, stream](1, x, x)
    end.record(stream)
    stream.add_callback(lambda _, status, arg: heard.append((status, arg)), "done")
    stream.synchronize()
    assert heard == [(0, "done")]
    assert start.elapsed_time(end) > 0
    assert end.query()
    end.synchronize()


def test_a_callback_may_wait_for_the_program() -> None:
    import threading

    shown, stream = threading.Event(), cuda.stream()
    stream.add_callback(lambda *_: shown.wait(10))
    x = cuda.to_device(np.arange(3))
    shown.set()
    stream.synchronize()
    assert x.copy_to_host().tolist() == [0, 1, 2]


def test_dynamic_shared_memory() -> None:
    @cuda.jit
    def reverse(x: Any) -> None:
        tile = cuda.shared.array(0, np.int64)
        t = cuda.threadIdx.x
        tile[t] = x[t]
        cuda.syncthreads()
        x[t] = tile[cuda.blockDim.x - 1 - t]

    x = np.arange(64)
    reverse[1, 64, 0, 64 * 8](x)
    assert x.tolist() == list(range(63, -1, -1))


def test_the_grid_waits_for_itself() -> None:
    @cuda.jit
    def rounds(x: Any) -> None:
        grid, n = cuda.cg.this_grid(), cuda.gridsize(1)
        i = cuda.grid(1)
        for step in range(4):
            value = x[step, (i + 33) % n]
            x[step + 1, i] = value + 1
            grid.sync()

    x = np.zeros((5, 256), np.int64)
    x[0] = np.arange(256)
    for _ in range(2):
        rounds[4, 64](x)
        assert (x[4] == (np.arange(256) + 4 * 33) % 256 + 4).all()
    most = rounds.overloads[rounds.signatures[0]].max_cooperative_grid_blocks(64)
    assert most == 132 * 32
    with pytest.raises(Exception, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        rounds[most + 1, 64](x)


def test_printing_goes_to_standard_output(capsys: Any) -> None:
    @cuda.jit
    def tell(x: Any) -> None:
        print("value", x[cuda.threadIdx.x], 2.5)

    tell[1, 2](np.array([3, 4]))
    assert capsys.readouterr().out == "value 3 2.500000\nvalue 4 2.500000\n"


def test_random_numbers_reductions_and_ufuncs() -> None:
    @cuda.jit
    def roll(states: Any, out: Any) -> None:
        i = cuda.grid(1)
        out[i] = xoroshiro128p_uniform_float32(states, i)

    out = np.zeros(64, np.float32)
    roll[1, 64](create_xoroshiro128p_states(64, seed=1), out)
    assert len(set(out.tolist())) > 60
    assert 0 <= out.min() < out.max() < 1

    total = cuda.reduce(lambda a, b: a + b)
    assert total(np.arange(1000.0)) == 499500

    hypot = vectorize(["float64(float64, float64)"], target="cuda")(length)
    assert hypot(np.full(7, 3.0), 4.0).tolist() == [5.0] * 7


def test_the_device_describes_itself(gpu: SimulatedGpu, capsys: Any) -> None:
    assert cuda.is_available()
    assert cuda.detect()
    assert "NVIDIA H100" in capsys.readouterr().out
    device = cuda.get_current_device()
    assert (device.compute_capability, device.MULTIPROCESSOR_COUNT, device.WARP_SIZE) == ((9, 0), 132, 32)
    assert cuda.select_device(0).id == 0
    free, total = cuda.current_context().get_memory_info()
    assert total == 80 * 10**9
    held = cuda.device_array(1 << 20, np.uint8)
    assert free - cuda.current_context().get_memory_info().free == 1 << 20
    del held


def test_a_stray_access_names_line_block_and_thread() -> None:
    x = cuda.to_device(np.zeros(4))
    with pytest.raises(
        tw.KernelError, match=r"\[700\].*stray: out of bounds.*block \(0, 0, 0\).*test_programs"
    ) as raised:
        stray[1, 32](x)
    assert isinstance(raised.value, cuda.cudadrv.driver.CudaAPIError)
    assert raised.value.code.name == "CUDA_ERROR_ILLEGAL_ADDRESS"
    line = stray.py_func.__code__.co_firstlineno + 2
    assert raised.value.line.endswith(f"test_programs.py:{line}")
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="an earlier launch failed"):
        saxpy[1, 32](1, x, x)


@pytest.mark.parametrize(
    ("grid", "block", "shared"), [(1, 1025, 0), (1, (32, 64), 0), ((1, 65536), 1, 0), (1, (1, 1, 65), 0), (1, 1, 49153)]
)
def test_launches_that_no_gpu_accepts(grid: Any, block: Any, shared: int) -> None:
    x = cuda.to_device(np.zeros(4))
    with pytest.raises(cuda.cudadrv.driver.CudaAPIError, match="INVALID_VALUE"):
        saxpy[grid, block, 0, shared](1, x, x)


def test_host_arrays_are_copied_within_their_own_memory(tmp_path: Any) -> None:
    """numba-cuda itself would access contiguous memory from the first element on, of the size of all elements."""

    @cuda.jit
    def first(x, out):
        out[0] = x[0] + 1

    file = tmp_path / "values"
    np.arange(4096.0).tofile(file)
    locked = np.memmap(file, mode="r", dtype=np.float64, shape=(512,))
    base = np.arange(30.0)
    backward, wide = base[10:20][::-1], np.lib.stride_tricks.as_strided(base[:1], (1 << 22,), (0,))
    for x in (locked, np.zeros(1 << 22)[::-1], backward, wide, np.broadcast_to(base[:1], 1 << 22)):
        out = np.zeros(1)
        first[1, 1](x, out)
        assert out[0] >= 1
    assert base.tolist() == list(range(30))
    pointers = [HostPointer.of(x) for x in (backward, wide, locked)]
    assert [p - base.ctypes.data for p in pointers[:2]] == [80, 0]
    assert [(p.readable_bytes, p.writable_bytes) for p in pointers] == [(80, 80), (8, 8), (4096, 0)]

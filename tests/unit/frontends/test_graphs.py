"""Stream capture and graphs of the driver: kept work, forks and joins of streams, and what a capture forbids."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.launching import LaunchConfig, Launcher
from tilewright.simulate.device.linking import ObjectCode
from tilewright.simulate.device.modules import Kernel, cuLibraryUnload

calls: Any = pytest.importorskip("cuda.bindings.driver", reason="not run: cuda.bindings is not installed")

NON_BLOCKING = 1
MODE_RELAXED = 2
MOVE = 1


class Driver:
    """Calls that must succeed, by their results."""

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            code, *results = getattr(calls, name)(*given)
            assert int(code) == 0, f"{name}: {code.name}"
            return results[0] if len(results) == 1 else tuple(results)

        return call

    def code(self, name: str, *given: Any) -> str:
        """The name of a call's code."""
        return str(getattr(calls, name)(*given)[0].name.removeprefix("CUDA_ERROR_"))

    def read(self, address: Any) -> int:
        """A byte of the device."""
        found = ctypes.create_string_buffer(1)
        self.cuMemcpyDtoH(ctypes.addressof(found), int(address), 1)
        return found.raw[0]


@pytest.fixture
def gpu() -> Iterator[SimulatedGpu]:
    pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    with tw.simulated_gpu("a100") as found:
        yield found


@pytest.fixture
def driver(gpu: SimulatedGpu) -> Driver:
    found = Driver()
    found.cuInit(0)
    found.cuCtxPushCurrent(found.cuDevicePrimaryCtxRetain(0))
    return found


def captured(driver: Driver, stream: Any, *work: Any) -> Any:
    driver.cuStreamBeginCapture(stream, 0)
    for name, *given in work:
        getattr(driver, name)(*given, stream)
    return driver.cuStreamEndCapture(stream)


def test_captured_work_is_done_at_each_launch(driver: Driver) -> None:
    x, y, stream = driver.cuMemAlloc(4), driver.cuMemAlloc(4), driver.cuStreamCreate(NON_BLOCKING)
    driver.cuMemsetD8(x, 1, 4)
    driver.cuMemsetD8(y, 9, 4)
    graph = captured(driver, stream, ("cuMemcpyDtoDAsync", y, x, 4), ("cuMemsetD8Async", x, 3, 4))
    assert (driver.read(x), driver.read(y)) == (1, 9), "a capture does nothing"
    ready = driver.cuGraphInstantiate(graph, 0)
    driver.cuGraphDestroy(graph)
    driver.cuGraphUpload(ready, stream)
    driver.cuGraphLaunch(ready, stream)
    assert (driver.read(x), driver.read(y)) == (3, 1)
    driver.cuGraphLaunch(ready, stream)
    assert driver.read(y) == 3
    driver.cuGraphExecDestroy(ready)
    assert driver.code("cuGraphLaunch", ready, stream) == "INVALID_VALUE"


def test_streams_join_a_capture_by_events(driver: Driver) -> None:
    x, (stream, other) = driver.cuMemAlloc(4), (driver.cuStreamCreate(NON_BLOCKING) for _ in range(2))
    forked, joined = (driver.cuEventCreate(2) for _ in range(2))
    driver.cuMemsetD8(x, 0, 4)
    driver.cuStreamBeginCapture(stream, 0)
    assert [int(driver.cuStreamIsCapturing(one)) for one in (stream, other)] == [1, 0]
    driver.cuEventRecord(forked, stream)
    driver.cuStreamWaitEvent(other, forked, 0)
    driver.cuMemsetD8Async(x, 5, 4, other)
    assert int(driver.cuStreamIsCapturing(other)) == 1
    driver.cuEventRecord(joined, other)
    driver.cuStreamWaitEvent(stream, joined, 0)
    ready = driver.cuGraphInstantiate(driver.cuStreamEndCapture(stream), 0)
    assert driver.read(x) == 0
    driver.cuGraphLaunch(ready, stream)
    assert driver.read(x) == 5
    driver.cuMemsetD8Async(x, 6, 4, other)
    assert driver.read(x) == 6, "a stream is captured until the end alone"


@pytest.mark.parametrize("later", [False, True], ids=["no event", "work after the event"])
def test_a_stream_that_is_not_joined_is_an_error(driver: Driver, later: bool) -> None:
    x, (stream, other) = driver.cuMemAlloc(4), (driver.cuStreamCreate(NON_BLOCKING) for _ in range(2))
    forked, joined = (driver.cuEventCreate(2) for _ in range(2))
    driver.cuStreamBeginCapture(stream, 0)
    driver.cuEventRecord(forked, stream)
    driver.cuStreamWaitEvent(other, forked, 0)
    if later:
        driver.cuEventRecord(joined, other)
        driver.cuMemsetD8Async(x, 5, 4, other)
        driver.cuStreamWaitEvent(stream, joined, 0)
    assert driver.code("cuStreamEndCapture", stream) == "STREAM_CAPTURE_UNJOINED"
    assert int(driver.cuStreamIsCapturing(stream)) == 0


INCREMENT = b"""
.version 8.0 .target sm_80 .address_size 64
.visible .entry increment(.param .u64 x) {
    .reg .b32 %r1; .reg .b64 %rd1;
    ld.param.u64 %rd1, [x]; ld.global.u32 %r1, [%rd1]; add.s32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; ret;
}"""


def test_a_launch_that_repeats_one_in_another_stream_is_captured(driver: Driver, gpu: SimulatedGpu) -> None:
    x, (stream, other) = driver.cuMemAlloc(4), (driver.cuStreamCreate(NON_BLOCKING) for _ in range(2))
    kernel, launcher = Kernel(ObjectCode(INCREMENT, "ptx"), "increment"), Launcher(gpu)

    def launch(where: Any) -> None:
        launcher.launch(int(where), LaunchConfig(grid=1, block=1), kernel, int(x))

    driver.cuMemsetD8(x, 0, 4)
    launch(other)
    driver.cuStreamBeginCapture(stream, MODE_RELAXED)
    launch(other)
    launch(stream)
    graph = driver.cuStreamEndCapture(stream)
    assert driver.read(x) == 2
    driver.cuGraphLaunch(driver.cuGraphInstantiate(graph, 0), stream)
    assert driver.read(x) == 3
    assert gpu.accepted
    cuLibraryUnload(gpu, kernel.code.library.handle)
    assert not gpu.accepted, "nothing of an unloaded module is kept"


def test_what_a_capture_forbids(driver: Driver) -> None:
    stream, other = (driver.cuStreamCreate(NON_BLOCKING) for _ in range(2))
    assert driver.code("cuStreamBeginCapture", 0, 0) == "STREAM_CAPTURE_UNSUPPORTED"
    assert driver.code("cuStreamEndCapture", stream) == "ILLEGAL_STATE"
    driver.cuStreamBeginCapture(stream, 0)
    assert driver.code("cuStreamBeginCapture", stream, 0) == "ILLEGAL_STATE"
    assert driver.code("cuStreamEndCapture", other) == "ILLEGAL_STATE"
    forked = driver.cuEventCreate(2)
    driver.cuEventRecord(forked, stream)
    driver.cuStreamWaitEvent(other, forked, 0)
    assert driver.code("cuStreamSynchronize", other) == "STREAM_CAPTURE_UNSUPPORTED"
    assert int(driver.cuStreamIsCapturing(stream)) == 2, "the capture is invalid"
    assert driver.code("cuMemsetD8Async", driver.cuMemAlloc(4), 1, 4, stream) == "STREAM_CAPTURE_INVALIDATED"
    assert driver.code("cuStreamEndCapture", stream) == "STREAM_CAPTURE_INVALIDATED"
    assert int(driver.cuStreamIsCapturing(stream)) == 0


def test_memory_that_a_capture_frees_stays_until_its_graph_is_gone(driver: Driver, gpu: SimulatedGpu) -> None:
    stream, before = driver.cuStreamCreate(NON_BLOCKING), gpu.memory.allocated_bytes
    driver.cuStreamBeginCapture(stream, 0)
    x = driver.cuMemAllocAsync(4, stream)
    driver.cuMemsetD8Async(x, 7, 4, stream)
    driver.cuMemFreeAsync(x, stream)
    graph = driver.cuStreamEndCapture(stream)
    ready = driver.cuGraphInstantiate(graph, 0)
    driver.cuGraphDestroy(graph)
    driver.cuGraphLaunch(ready, stream)
    assert gpu.memory.allocated_bytes > before
    driver.cuGraphExecDestroy(ready)
    gc.collect()
    assert gpu.memory.allocated_bytes == before


def test_objects_of_a_program_live_as_long_as_their_graphs(driver: Driver) -> None:
    gone: list[int] = []
    destroyed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(gone.append)
    address = ctypes.cast(destroyed, ctypes.c_void_p).value
    stream = driver.cuStreamCreate(NON_BLOCKING)
    graph = captured(driver, stream)
    kept = driver.cuUserObjectCreate(77, address, 1, 1)
    driver.cuGraphRetainUserObject(graph, kept, 1, 0)
    driver.cuUserObjectRelease(kept, 1)
    ready = driver.cuGraphInstantiate(graph, 0)
    driver.cuGraphDestroy(graph)
    assert gone == []
    driver.cuGraphExecDestroy(ready)
    assert gone == [77]


def test_a_graph_forgets_objects_that_it_has_released(driver: Driver) -> None:
    gone: list[int] = []
    destroyed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(gone.append)
    graph = captured(driver, driver.cuStreamCreate(NON_BLOCKING))
    kept = driver.cuUserObjectCreate(77, ctypes.cast(destroyed, ctypes.c_void_p).value, 2, 1)
    driver.cuGraphRetainUserObject(graph, kept, 2, MOVE)
    for count in (1, 2):
        driver.cuGraphReleaseUserObject(graph, kept, 1)
        assert gone == [77] * (count - 1)
    driver.cuGraphDestroy(graph)
    assert gone == [77]


def filled(driver: Driver, graph: Any, before: list[Any], address: Any, value: int) -> Any:
    """A node that sets four bytes."""
    how = calls.CUDA_MEMSET_NODE_PARAMS()
    how.dst, how.value, how.elementSize, how.width, how.height = int(address), value, 1, 4, 1
    return driver.cuGraphAddMemsetNode(graph, before, len(before), how, driver.cuCtxGetCurrent())


def test_single_nodes_run_in_the_order_of_their_edges(driver: Driver) -> None:
    x, graph = driver.cuMemAlloc(4), driver.cuGraphCreate(0)
    last, first = filled(driver, graph, [], x, 2), filled(driver, graph, [], x, 1)
    driver.cuGraphAddDependencies(graph, [first], [last], None, 1)
    assert driver.cuGraphGetEdges(graph, 1)[3] == 1
    ready = driver.cuGraphInstantiate(graph, 0)
    driver.cuGraphLaunch(ready, 0)
    assert driver.read(x) == 2
    child = driver.cuGraphAddChildGraphNode(driver.cuGraphCreate(0), None, 0, graph)
    assert driver.cuGraphNodeGetType(child) == calls.CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH
    driver.cuGraphAddDependencies(graph, [last], [first], None, 1)
    assert driver.code("cuGraphInstantiate", graph, 0) == "INVALID_VALUE", "a cycle"
    driver.cuGraphRemoveDependencies(graph, [first], [last], None, 1)
    driver.cuGraphLaunch(driver.cuGraphInstantiate(graph, 0), 0)
    assert driver.read(x) == 1, "the other way around"


def test_an_executable_takes_the_work_of_a_graph_of_its_form_alone(driver: Driver) -> None:
    x, one, other = driver.cuMemAlloc(4), driver.cuGraphCreate(0), driver.cuGraphCreate(0)
    filled(driver, one, [], x, 1)
    node = filled(driver, other, [], x, 7)
    ready = driver.cuGraphInstantiate(one, 0)
    driver.cuGraphExecUpdate(ready, other)
    driver.cuGraphLaunch(ready, 0)
    assert driver.read(x) == 7
    filled(driver, other, [node], x, 8)
    assert driver.code("cuGraphExecUpdate", ready, other) == "GRAPH_EXEC_UPDATE_FAILURE"
    driver.cuGraphLaunch(ready, 0)
    assert driver.read(x) == 7


def test_captures_that_meet_wait_or_are_waited_for_outside(driver: Driver) -> None:
    stream, other = (driver.cuStreamCreate(NON_BLOCKING) for _ in range(2))
    event, before, x = driver.cuEventCreate(2), driver.cuEventCreate(2), driver.cuMemAlloc(4)
    driver.cuEventRecord(before, stream)
    for begun, waits in ((1, "MERGE"), (0, "ISOLATION")):
        driver.cuStreamBeginCapture(stream, 0)
        if begun:
            driver.cuStreamBeginCapture(other, 0)
            driver.cuEventRecord(event, other)
        given = event if begun else before
        assert driver.code("cuStreamWaitEvent", stream, given, 0) == f"STREAM_CAPTURE_{waits}"
        assert driver.code("cuStreamEndCapture", stream) == "STREAM_CAPTURE_INVALIDATED"
        if begun:
            assert driver.code("cuEventSynchronize", event) == "CAPTURED_EVENT"
            driver.cuStreamEndCapture(other)
    blocking = driver.cuStreamCreate(0)
    driver.cuStreamBeginCapture(blocking, 0)
    assert driver.code("cuMemsetD8", x, 1, 4) == "STREAM_CAPTURE_IMPLICIT"
    assert driver.code("cuStreamEndCapture", blocking) == "STREAM_CAPTURE_INVALIDATED"


def test_a_call_that_is_not_there_says_so_by_name(driver: Driver) -> None:
    code = calls.cuGraphDebugDotPrint(driver.cuGraphCreate(0), b"graph", 0)[0]
    assert code == calls.CUresult.CUDA_ERROR_NOT_SUPPORTED
    assert b"cuGraphDebugDotPrint is not implemented" in driver.cuGetErrorString(code)


PROGRAM = """
import numpy as np
import tilewright as tw

with tw.simulated_gpu("a100"):
    import cupy
    a = cupy.asarray(np.arange(1024, dtype="f4").reshape(32, 32) % 7)
    b, first, second, total = a * 2, cupy.zeros_like(a), cupy.zeros_like(a), cupy.zeros_like(a)
    tw.matmul(a, b, first), tw.matmul(a[:, ::2], b[::2], second)
    expected = first.get(), second.get()
    first[...], second[...] = 0, 0
"""
BY_CUPY = (
    PROGRAM
    + """
    stream, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    event = lambda stream: stream.record(cupy.cuda.Event(disable_timing=True))
    with stream:
        stream.begin_capture()
        other.wait_event(event(stream))
        tw.matmul(a, b, first)
        with other:
            tw.matmul(a[:, ::2], b[::2], second)
        stream.wait_event(event(other))
        cupy.add(first, second, total)
        graph = stream.end_capture()
    launch = lambda: (graph.launch(stream), stream.synchronize())
"""
)
BY_CUDA_CORE = (
    PROGRAM
    + """
    from cuda.core import Device
    device = Device()
    device.set_current()
    stream = device.create_stream()
    building = stream.create_graph_builder()
    building.begin_building()
    with cupy.cuda.ExternalStream(int(building.stream.handle)):
        tw.matmul(a, b, first), tw.matmul(a[:, ::2], b[::2], second)
        cupy.add(first, second, total)
    building.end_building()
    graph = building.complete()
    launch = lambda: (graph.launch(stream), stream.sync())
"""
)
REPLAYED = """
    assert not first.get().any() and not total.get().any(), "a capture does nothing"
    for times in (1, 2):
        launch()
        assert (first.get() == times * expected[0]).all() and (second.get() == times * expected[1]).all()
        assert (total.get() == times * (expected[0] + expected[1])).all()
        a *= 2
    print("replayed")
"""


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="not run: CuPy is not installed")
@pytest.mark.parametrize("text", [BY_CUPY, BY_CUDA_CORE], ids=["CuPy", "cuda.core"])
def test_products_are_captured_and_replayed(text: str, tmp_path: Path) -> None:
    """In a process of its own: CuPy must be imported while the simulated GPU is in place."""
    (script := tmp_path / "script.py").write_text(text + REPLAYED)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "replayed\n", done.stderr

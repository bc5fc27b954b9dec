"""The simulated libcuda: programs that call the driver in C, as `cuda.bindings` and `cuda.core` do."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import re
import shutil
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontends.libcuda import prototypes, runtime
from tilewright.frontends.libcuda.errors import errors
from tilewright.frontends.libcuda.prototypes import prototype
from tilewright.frontends.libcuda.served import DriverLibrary
from tilewright.frontends.libcuda.shared_object import MACHINES, NOTHING, SLOTS, shared_object
from tilewright.simulate.device.gpu import SimulatedGpu

driver: Any = pytest.importorskip("cuda.bindings.driver")
nvrtc: Any = pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.skipif(platform.machine() not in MACHINES or os.name != "posix", reason="not run: no library")

SAXPY = b"""
extern "C" __constant__ float offset = 3;
extern "C" __global__ void saxpy(float a, const float *x, float *y, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i] + offset;
}
"""


def given(result: Any) -> Any:
    """The result of a call of the driver, which must succeed."""
    code, *values = result
    assert int(code) == 0, driver.cuGetErrorString(code)
    return values[0] if len(values) == 1 else tuple(values)


def compiled(source: bytes, *flags: bytes) -> bytes:
    program = given(nvrtc.nvrtcCreateProgram(source, b"kernel.cu", 0, None, None))
    options = [b"--gpu-architecture=compute_90", *flags]
    given(nvrtc.nvrtcCompileProgram(program, len(options), options))
    text = bytes(given(nvrtc.nvrtcGetPTXSize(program)))
    given(nvrtc.nvrtcGetPTX(program, text))
    return text


@pytest.fixture(scope="module")
def ptx() -> bytes:
    return compiled(SAXPY, b"-lineinfo")


@pytest.fixture
def context(gpu: SimulatedGpu) -> Iterator[SimulatedGpu]:
    given(driver.cuInit(0))
    device = given(driver.cuDeviceGet(0))
    given(driver.cuCtxSetCurrent(given(driver.cuDevicePrimaryCtxRetain(device))))
    yield gpu
    given(driver.cuDevicePrimaryCtxRelease(device))


class Saxpy:
    """The kernel, loaded, with operands on the device."""

    def __init__(self, ptx: bytes, count: int) -> None:
        self.count = count
        self.module = given(driver.cuModuleLoadData(ptx))
        self.kernel = given(driver.cuModuleGetFunction(self.module, b"saxpy"))
        self.x, self.y = np.arange(count, dtype=np.float32), np.ones(count, np.float32)
        self.on_device = [given(driver.cuMemAlloc(array.nbytes)) for array in (self.x, self.y)]
        for address, array in zip(self.on_device, (self.x, self.y), strict=True):
            given(driver.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))

    def launch(self, count: int, threads: int = 64) -> Any:
        values = (2.0, *self.on_device, count)
        blocks = -(-count // threads)
        types = (ctypes.c_float, None, None, ctypes.c_size_t)
        return driver.cuLaunchKernel(self.kernel, blocks, 1, 1, threads, 1, 1, 0, 0, (values, types), 0)

    @property
    def result(self) -> Any:
        found = np.empty_like(self.y)
        given(driver.cuMemcpyDtoH(found.ctypes.data, self.on_device[1], found.nbytes))
        return found


def test_occupancy_suggests_a_block_and_the_room_of_shared_memory(context: SimulatedGpu, ptx: bytes) -> None:
    kernel, record = Saxpy(ptx, 4).kernel, context.record
    blocks, threads = given(driver.cuOccupancyMaxPotentialBlockSize(kernel, driver.CUoccupancyB2DSize(0), 0, 33))
    assert (threads, blocks) == (33, 32 * record.multiprocessors)  # the limit is tried before whole warps
    held = given(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 1024, 0))
    room = given(driver.cuOccupancyAvailableDynamicSMemPerBlock(kernel, held, 1024))
    assert given(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 1024, room)) == held
    assert given(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 1024, room + 1)) == held - 1
    for blocks, threads in ((held + 1, 1024), (1, 0)):
        refused, _ = driver.cuOccupancyAvailableDynamicSMemPerBlock(kernel, blocks, threads)
        assert refused == driver.CUresult.CUDA_ERROR_INVALID_VALUE


def test_a_made_library_jumps_to_its_slots_and_is_found_by_its_name() -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    functions = [kind(lambda x: x + 1), kind(lambda x: 2 * x)]
    descriptor = os.memfd_create("test")
    os.write(descriptor, shared_object("libtilewright_test.so.3", ["first", "second"], platform.machine()))
    library = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    slots = (ctypes.c_size_t * 2).in_dll(library, SLOTS)
    slots[:] = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    found = ctypes.CDLL("libtilewright_test.so.3")
    assert (found.first(20), found.second(20), getattr(found, NOTHING)()) == (21, 40, 0)
    assert not hasattr(found, "third")


def test_prototypes_are_those_of_the_headers() -> None:
    """Every row has the header's parameters, with the same number of bytes, and pointers where the header has them."""
    headers = list(Path(driver.__file__).parents[2].glob("nvidia/*/include/cuda_runtime_api.h"))
    if not headers:
        pytest.skip("not run: the vendor's headers are not installed")
    names = ("cuda.h", "cuda_runtime_api.h", "cudaProfiler.h", "cuda_profiler_api.h")
    text = "\n".join(
        re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for path in (headers[0].with_name(name) for name in names)
        if path.exists()
    )
    seen = 0
    for row in (text for text, _ in (*prototypes.DRIVER_CALLS, *prototypes.RUNTIME_CALLS)):
        wanted = prototype(row)
        declared = re.findall(rf"(?:CUDAAPI|CUDARTAPI)\s+{wanted.name.partition('_v')[0]}(?:_v\d)?\(([^;]*)\);", text)
        forms = [[] if one.strip() == "void" else [p.strip() for p in one.split(",")] for one in declared]
        shapes = {tuple(parameter.count("*") > 0 for parameter in form) for form in forms}
        ours = tuple(p.native is ctypes.c_void_p for p in wanted.parameters)
        seen += bool(shapes)
        assert not shapes or ours in shapes, row
    assert seen > 150


def test_a_program_of_the_driver_runs(context: SimulatedGpu, ptx: bytes) -> None:
    saxpy = Saxpy(ptx, 100)
    given(saxpy.launch(100))
    assert saxpy.result.tolist() == [2.0 * i + 4 for i in range(100)]
    address, size = given(driver.cuModuleGetGlobal(saxpy.module, b"offset"))
    given(driver.cuMemsetD32(address, int(np.float32(0).view(np.uint32)), size // 4))
    given(saxpy.launch(100))
    assert saxpy.result.tolist() == [4.0 * i + 4 for i in range(100)]
    given(driver.cuModuleUnload(saxpy.module))
    assert driver.cuModuleGetFunction(saxpy.module, b"saxpy")[0] == driver.CUresult.CUDA_ERROR_INVALID_HANDLE


def test_parameters_may_come_in_a_buffer_and_a_configuration(context: SimulatedGpu, ptx: bytes) -> None:
    saxpy = Saxpy(ptx, 32)
    config = driver.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
    config.blockDimX = 32
    types = (ctypes.c_float, None, None, ctypes.c_size_t)
    given(driver.cuLaunchKernelEx(config, saxpy.kernel, ((1.0, *saxpy.on_device, 32), types), 0))
    assert saxpy.result.tolist() == [i + 4.0 for i in range(32)]
    offsets = [given(driver.cuFuncGetParamInfo(saxpy.kernel, at)) for at in range(4)]
    assert offsets == [(0, 4), (8, 8), (16, 8), (24, 8)]


def test_clusters_of_no_blocks_are_refused_and_large_ones_want_an_attribute(context: SimulatedGpu, ptx: bytes) -> None:
    saxpy = Saxpy(ptx, 32)
    config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
    config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1
    values = (1.0, *saxpy.on_device, 32), (ctypes.c_float, None, None, ctypes.c_size_t)

    def status(blocks: int) -> str:
        attribute.value.clusterDim.x, config.gridDimX = blocks, max(blocks, 1)
        config.attrs, config.numAttrs = [attribute], 1
        return str(driver.cuLaunchKernelEx(config, saxpy.kernel, values, 0)[0].name)

    refused = "CUDA_ERROR_INVALID_CLUSTER_SIZE"
    assert [status(blocks) for blocks in (0, 8, 16)] == [refused, "CUDA_SUCCESS", refused]
    large = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    given(driver.cuFuncSetAttribute(saxpy.kernel, large, 1))
    assert given(driver.cuFuncGetAttribute(large, saxpy.kernel)) == 1
    assert [status(blocks) for blocks in (16, 32)] == ["CUDA_SUCCESS", refused]
    given(driver.cuFuncSetAttribute(saxpy.kernel, large, 0))
    assert status(16) == refused


def test_values_that_a_call_does_not_have_are_refused(context: SimulatedGpu, ptx: bytes) -> None:
    kernel = given(driver.cuModuleGetFunction(given(driver.cuModuleLoadData(ptx)), b"saxpy"))
    largest, address = (
        driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        given(driver.cuMemAlloc(64)),
    )
    for code, *_ in (
        driver.cuFuncSetAttribute(kernel, largest, -1), driver.cuMemsetD32(int(address) + 1, 0, 4),
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, 0, 0), driver.cuStreamCreate(8),
        driver.cuEventCreate(256), driver.cuMemHostAlloc(16, 256),
    ):  # fmt: skip
        assert code == driver.CUresult.CUDA_ERROR_INVALID_VALUE
    assert driver.cuCtxSetCurrent(driver.CUcontext(8))[0] == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT
    given(driver.cuMemFree(address))


def test_an_error_says_where_in_the_source(context: SimulatedGpu, ptx: bytes) -> None:
    saxpy = Saxpy(ptx, 100)
    (code,) = saxpy.launch(100_000)
    assert code == driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    text = driver.cuGetErrorString(code)[1].decode()
    assert text.startswith("an illegal memory access was encountered: saxpy: out of bounds")
    assert "kernel.cu:5" in text
    assert driver.cuGetErrorString(driver.CUresult.CUDA_ERROR_INVALID_VALUE)[1] == b"invalid argument"


class Held:
    """An object of a caller, which a weak reference can follow."""


def test_a_call_that_fails_keeps_nothing_of_its_caller_alive(context: SimulatedGpu) -> None:
    """Else arrays of the program would be freed only when Python collects cycles."""

    def calling(call: Any, *arguments: int) -> tuple[int, weakref.ref[Held]]:
        held = Held()
        code, *_ = call(*arguments)
        return int(code), weakref.ref(held)

    gc.disable()
    try:
        for call, arguments, fails in ((driver.cuStreamQuery, (77,), True), (driver.cuStreamQuery, (0,), False)):
            code, held = calling(call, *arguments)
            assert (code != 0) is fails and held() is None
    finally:
        gc.enable()


def test_machine_code_is_refused(context: SimulatedGpu) -> None:
    code, _ = driver.cuModuleLoadData(b"\x7fELF" + bytes(100))
    assert code == driver.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU
    assert "the simulated GPU runs PTX" in errors().last(int(code))


def test_a_module_lives_on_the_next_gpu(ptx: bytes) -> None:
    kernels = []
    for _ in range(2):
        with tw.simulated_gpu("h100"):
            given(driver.cuInit(0))
            given(driver.cuCtxSetCurrent(given(driver.cuDevicePrimaryCtxRetain(0))))
            saxpy = Saxpy(ptx, 8)
            saxpy.kernel = kernels[0] if kernels else saxpy.kernel
            kernels.append(saxpy.kernel)
            given(saxpy.launch(8))
            assert saxpy.result[1] == 6.0
    assert int(driver.cuCtxSynchronize()[0]) != 0  # no GPU is in place


def test_memory_calls(context: SimulatedGpu) -> None:
    address, pitch = given(driver.cuMemAllocPitch(30, 4, 4))
    assert pitch >= 30
    given(driver.cuMemsetD16(address, 0x1234, 2 * pitch))
    copy = driver.CUDA_MEMCPY2D()
    found = np.zeros((4, 30), np.uint8)
    copy.srcMemoryType, copy.srcDevice, copy.srcPitch = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, address, pitch
    copy.dstMemoryType, copy.dstHost, copy.dstPitch = driver.CUmemorytype.CU_MEMORYTYPE_HOST, found.ctypes.data, 30
    copy.WidthInBytes, copy.Height = 30, 4
    given(driver.cuMemcpy2D(copy))
    assert (found.view(np.uint16) == 0x1234).all()
    stream = given(driver.cuStreamCreateWithPriority(1, -9))
    assert (given(driver.cuStreamGetPriority(stream)), given(driver.cuStreamGetFlags(stream))) == (-5, 1)
    other = given(driver.cuMemAllocAsync(64, stream))
    given(driver.cuMemcpyAsync(other, address, 64, stream))
    given(driver.cuMemFreeAsync(other, stream))
    assert driver.cuMemFree(other)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE
    host = given(driver.cuMemHostAlloc(16, 0))
    kinds = [driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_RANGE_SIZE]
    assert given(driver.cuPointerGetAttributes(1, kinds, host)) == [16]
    assert given(driver.cuCtxGetLimit(driver.CUlimit.CU_LIMIT_STACK_SIZE)) == 1024
    pending = driver.CUlimit.CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT
    given(driver.cuCtxSetLimit(pending, 1 << 20))
    assert driver.cuCtxSetLimit(pending, (1 << 20) + 1)[0] == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert given(driver.cuCtxGetLimit(pending)) == 1 << 20


def test_cuda_core_compiles_launches_and_explains(gpu: SimulatedGpu) -> None:
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    source = """template <typename T> __global__ void put(T *out) { out[threadIdx.x] = T(threadIdx.x); }"""
    program = Program(source, "c++", ProgramOptions(std="c++17", arch=f"sm_{device.arch}"))
    kernel = program.compile("cubin", name_expressions=("put<float>",)).get_kernel("put<float>")
    program.close()  # else cuda.core leaves a file of the source in the temporary folder
    memory = device.allocate(128, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=32), kernel, memory)
    stream.sync()
    assert np.ctypeslib.as_array((ctypes.c_float * 32).from_address(int(memory.handle))).tolist() == list(range(32))
    with pytest.raises(Exception, match=r"out of bounds global store .*test_libcuda.py:\d+ "):
        launch(stream, LaunchConfig(grid=1, block=1024), kernel, memory)
    memory.close()
    stream.close()


def test_the_runtime_in_python(gpu: SimulatedGpu) -> None:
    from cuda.bindings import runtime as names

    address = given(names.cudaMalloc(40))
    here, there = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    given(names.cudaMemcpy(address, here.ctypes.data, 40, names.cudaMemcpyKind.cudaMemcpyHostToDevice))
    given(names.cudaMemcpy(there, address, 40, names.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    assert there.tolist() == here.tolist()
    properties = given(names.cudaGetDeviceProperties(0))
    assert (properties.name, properties.multiProcessorCount) == (b"NVIDIA H100 SXM5 80GB", 132)
    assert given(names.cudaPointerGetAttributes(address)).type == names.cudaMemoryType.cudaMemoryTypeDevice
    assert names.cudaFree(123)[0] == names.cudaError_t.cudaErrorInvalidValue
    assert names.cudaGetLastError()[0] == names.cudaError_t.cudaErrorInvalidValue
    assert names.cudaGetLastError()[0] == names.cudaError_t.cudaSuccess
    (refused,) = names.cudaGraphDebugDotPrint(0, b"graph", 0)
    assert b"cudaGraphDebugDotPrint is not implemented" in names.cudaGetErrorString(refused)[1]
    given(names.cudaFree(address))


def test_properties_have_the_layout_of_the_header() -> None:
    headers = list(Path(driver.__file__).parents[2].glob("nvidia/*/include/driver_types.h"))
    if not headers:
        pytest.skip("not run: the vendor's headers are not installed")
    body = re.search(r"struct __device_builtin__ cudaDeviceProp\s*\{(.*?)\n\};", headers[0].read_text(), re.DOTALL)
    assert body is not None
    declared = re.findall(r"^\s+([\w ]+?)\s+(\w+)(?:\[(\d+)\])?;", body[1], re.MULTILINE)
    kinds = {"int": "i", "unsigned int": "I", "size_t": "Q", "char": "s", "cudaUUID_t": "16s"}
    ours = [(name, kind) for name, kind in runtime.properties_type()._fields_]
    for (kind, name, count), (mine, type_) in zip(declared, ours, strict=False):
        size = ctypes.sizeof(
            {"i": ctypes.c_int, "I": ctypes.c_uint, "Q": ctypes.c_size_t}.get(kinds[kind], ctypes.c_char)
        )
        size = 16 if kind == "cudaUUID_t" else size * int(count or 1)
        assert (name, size) == (mine, ctypes.sizeof(type_))


@pytest.mark.volume
def test_launches_leave_nothing(context: SimulatedGpu, ptx: bytes) -> None:
    """10,000 launches: the process is not larger than after the first thousand."""
    saxpy = Saxpy(ptx, 32)
    sizes = []
    for at in range(11_000):
        given(saxpy.launch(32))
        if at % 10_000 == 999:
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]))
    assert sizes[1] - sizes[0] < 512  # pages: 2 MiB


def test_numba_cuda_mlir_runs_with_lines(tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda_mlir", reason="not run: numba-cuda-mlir is not installed")
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nfrom numba_cuda_mlir import cuda\n\n\n@cuda.jit\ndef double(x):\n"
        "    i = cuda.grid(1)\n    x[i] *= 2\n\n\nx = cuda.to_device(np.arange(32))\ndouble[1, 64](x)\n"
        "print(x.copy_to_host()[3])\n"
    )
    arguments = [sys.executable, "-m", "tilewright", "check", str(script)]
    found = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False).stdout
    assert found.startswith("6\nTW101")
    assert "script.py:8" in found


def test_a_driver_of_the_vendor_s_answers_while_no_simulated_gpu_is_in_place(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("not run: there is no C compiler")
    (tmp_path / "vendor.c").write_text(
        "int cuInit(unsigned f) { return 7; }\nint cuOther(int x) { return x + 1; }\n"
        "int cuGetExportTable(void **t, void *i) { *t = i; return 0; }\n"
    )
    path = str(tmp_path / "vendor.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, str(tmp_path / "vendor.c")], check=True)
    library = DriverLibrary(ctypes.CDLL(path, mode=os.RTLD_LOCAL), "libtilewright_vendor.so.1")
    found = ctypes.CDLL("libtilewright_vendor.so.1")
    assert library.found
    table = ctypes.c_size_t()
    assert (found.cuInit(0), found.cuOther(4), found.cuGetExportTable(ctypes.byref(table), 5)) == (7, 5, 0)
    assert table.value == 5
    other = ctypes.c_void_p()
    assert found.cuGetProcAddress(b"cuOther", ctypes.byref(other), 13000, ctypes.c_ulonglong(0)) == 0
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(other.value or 0)(1) == 2
    with tw.simulated_gpu():
        assert (found.cuInit(0), found.cuOther(4)) == (0, 5)
        assert found.cuGetExportTable(ctypes.byref(table), 5) != 0

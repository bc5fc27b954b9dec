"""CuPy on the simulated GPU. CuPy must be imported while one is in place, so programs run in their own processes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="not run: CuPy is not installed")

KERNEL = """import cupy
import numpy as np

add = cupy.RawKernel(r'''
extern "C" __global__
void add(const float *a, const float *b, float *c, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    GUARDc[i] = a[i] + b[i];
}
''', 'add')
x = cupy.arange(100, dtype='f4')
y = cupy.empty_like(x)
add((1,), (128,), (x, x, y, 100))
"""
GUARDED, UNGUARDED = KERNEL.replace("GUARD", "if (i < n) "), KERNEL.replace("GUARD", "")


def ran(folder: Path, command: str, text: str) -> subprocess.CompletedProcess[str]:
    """A program under one of the commands."""
    script = folder / "script.py"
    script.write_text(text)
    arguments = [sys.executable, "-m", "tilewright", command, str(script)]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)


def test_kernels_of_all_kinds_agree_with_numpy(tmp_path: Path) -> None:
    text = """
assert (y.get() == 2 * np.arange(100, dtype='f4')).all()
squares = cupy.ElementwiseKernel('T x', 'T y', 'y = x * x', 'squares')
assert (squares(x).get() == np.arange(100, dtype='f4') ** 2).all()
norm = cupy.ReductionKernel('T x', 'T y', 'x * x', 'a + b', 'y = sqrt(a)', '0', 'l2')
assert np.isclose(norm(x[:4]).get(), np.sqrt(14))
assert (x.reshape(10, 10).sum(axis=1).get() == np.arange(100, dtype='f4').reshape(10, 10).sum(axis=1)).all()
module = cupy.RawModule(code='''
__device__ int count;
template <typename T> __global__ void fill(T *out) { out[threadIdx.x] = count + threadIdx.x; }
''', name_expressions=['fill<double>'])
count = cupy.ndarray(1, 'i4', cupy.cuda.MemoryPointer(module.get_global('count').mem, 0))
count[...] = 5
out = cupy.zeros(8)
module.get_function('fill<double>')((1,), (8,), (out,))
assert out.tolist() == [5., 6., 7., 8., 9., 10., 11., 12.]
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    z = cupy.asarray(np.arange(6)) + 1
stream.synchronize()
assert z.tolist() == [1, 2, 3, 4, 5, 6]
cupy.random.seed(3)
first = cupy.random.rand(5)
cupy.random.seed(3)
assert (first == cupy.random.rand(5)).all() and (0 <= first.get()).all()
print('done')
"""
    found = ran(tmp_path, "run", GUARDED + text)
    assert (found.stdout, found.stderr, found.returncode) == ("done\n", "", 0)


def test_findings_and_counts_are_at_the_lines_of_the_kernel_s_text(tmp_path: Path) -> None:
    found = ran(tmp_path, "check", UNGUARDED)
    assert "TW101" in found.stdout
    assert "script.py:8" in found.stdout
    assert "8 |     c[i] = a[i] + b[i];" in found.stdout
    assert "1 finding " in found.stdout
    assert ran(tmp_path, "check", GUARDED).returncode == 0
    counted = ran(tmp_path, "profile", GUARDED)
    assert "launched at" in counted.stdout
    assert "if (i < n) c[i] = a[i] + b[i];" in counted.stdout


def test_errors_have_the_machine_s_message_and_closed_gpus_are_named(tmp_path: Path) -> None:
    text = """
try:
    add((1000,), (128,), (x, x, y, 1_000_000))
except cupy.cuda.driver.CUDADriverError as error:
    print(error)
from cupy.cuda import cublas
for work in (lambda: cublas.sgetrfBatched, lambda: cupy.fft.fft(x)):
    try:
        work()
    except Exception as error:
        print(type(error).__name__, error)
"""
    found = ran(tmp_path, "run", GUARDED + text)
    first, *others = found.stdout.splitlines()
    assert "an illegal memory access was encountered: add: out of bounds global" in first
    assert "script.py:8" in first
    for line, name in zip(others, ("sgetrfBatched of cuBLAS", "cuFFT"), strict=True):
        assert name in line
        assert "machine code" in line


def test_products_agree_with_numpy(tmp_path: Path) -> None:
    text = """
import itertools

def made(shape, dtype):
    values = np.random.default_rng(1).integers(-9, 9, shape)
    return cupy.asarray((values + 1j * values[..., ::-1] if dtype in "FD" else values).astype(dtype))

shapes = [((4,), (4,)), ((3, 4), (4,)), ((5, 8), (8, 3)), ((2, 5, 4), (2, 4, 3)), ((2, 1, 5, 4), (3, 4, 7))]
for dtype, (left, right) in [*itertools.product("efD", shapes), *zip("HbdF", shapes[1:])]:
    a, b = made(left, dtype), made(right, dtype)
    expected = a.get() @ b.get()
    assert (a @ b).dtype == expected.dtype
    assert np.array_equal((a @ b).get(), expected), (dtype, left, right)
    if len(left) == 2 == len(right):
        assert np.array_equal((a.T.copy().T @ b.T.copy().T).get(), expected), (dtype, left, right)
        out = cupy.empty(expected.shape, dtype)
        assert np.array_equal(cupy.matmul(a, b, out=out).get(), expected)
a, b, ones = made((3, 4), "F"), made((2, 4), "F"), cupy.ones((3, 2), "F", order="F")
z = cupy.cublas.gemm("N", "H", a, b, alpha=2, beta=3, out=ones)
assert np.array_equal(z.get(), 2 * a.get() @ b.get().conj().T + 3)
print("done")
"""
    found = ran(tmp_path, "run", "import cupy.cublas\n" + GUARDED + text)
    assert (found.stdout, found.stderr) == ("done\n", ""), found.stdout + found.stderr


def test_products_of_unset_memory_are_findings(tmp_path: Path) -> None:
    text = "\nunset = cupy.empty((4, 4), 'f4')\nz = unset @ x[:16].reshape(4, 4)\n"
    found = ran(tmp_path, "check", GUARDED + text)
    assert "TW205" in found.stdout, found.stdout
    assert "script.py:16" in found.stdout
    assert ran(tmp_path, "check", GUARDED + text.replace("empty", "ones")).returncode == 0


def test_graphs_have_kernels_and_products(tmp_path: Path) -> None:
    text = """
import cupy
import tilewright as tw

a, b = cupy.arange(64, dtype="f4").reshape(8, 8), cupy.eye(8, dtype="f4")
stream, out = cupy.cuda.Stream(non_blocking=True), cupy.zeros((8, 8), "f4")
with stream:
    stream.begin_capture()
    tw.matmul(a, b, out)
    twice = out * 2
    graph = stream.end_capture()
    assert not out.get().any()
    for scale in (1, 3):
        b *= scale
        graph.launch(stream)
        assert (out == a * scale).all() and (twice == out * 2).all()
"""
    assert ran(tmp_path, "run", text).returncode == 0


def test_the_host_sorts(tmp_path: Path) -> None:
    text = """
import cupy
import numpy as np

random = np.random.default_rng(0)
for kind in ("f4", "f2", "i1", "?", "D"):
    for shape in ((40,), (3, 8), (2, 0)):
        x = np.round(random.standard_normal(shape) * 3).astype(kind)
        if kind[0] == "f":
            x[..., :1] = np.nan
        for axis in (-1, 0):
            there = cupy.asarray(x)
            assert cupy.argsort(there, axis).tolist() == np.argsort(x, axis, "stable").tolist()
            assert cupy.sort(there, axis).get().tobytes() == np.sort(x, axis, "stable").tobytes()
            assert there.get().tobytes() == x.tobytes()
keys = np.round(random.standard_normal((2, 40)))
assert cupy.lexsort(cupy.asarray(keys)).tolist() == np.lexsort(keys).tolist()
"""
    done = ran(tmp_path, "check", text)
    assert done.returncode == 0, done.stdout + done.stderr


def test_arrays_are_shared_with_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="not run: torch is not installed")
    text = """
import cupy
import torch

x = torch.arange(12.0, device="cuda").reshape(3, 4)[:, ::2]
y = cupy.from_dlpack(x)
assert y.data.ptr == x.data_ptr() and y.tolist() == [[0, 2], [4, 6], [8, 10]]
assert torch.from_dlpack(y).data_ptr() == torch.as_tensor(y, device="cuda").data_ptr() == x.data_ptr()
assert (torch.from_dlpack(y.T) @ x).tolist() == [[80, 104], [104, 140]]
for found in (torch.as_tensor(y), torch.utils.dlpack.from_dlpack(y.__dlpack__()), torch.utils.dlpack.from_dlpack(y)):
    assert found.is_cuda and found.data_ptr() == x.data_ptr() and (found + 1).tolist() == [[1, 3], [5, 7], [9, 11]]
"""
    done = ran(tmp_path, "run", text)
    assert done.returncode == 0, done.stderr


def test_the_runtime_in_the_module_that_cupy_imports_late_is_ours(tmp_path: Path) -> None:
    text = """
import ctypes
from pathlib import Path
from cupy_backends.cuda.libs import nvrtc
import cupy
from tilewright.frontends.libcuda import entries

nvrtc.getVersion()  # loads NVRTC, which the module needs
from cupy.cuda import jitify
library = Path(jitify.__file__)
at = entries._base(library) + entries.functions(library)["cudaGetDevice"]
ordinal = ctypes.c_int(-1)
print(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(at)(ctypes.addressof(ordinal)), ordinal.value)
"""
    found = ran(tmp_path, "run", text)
    assert (found.stdout, found.stderr) == ("0 0\n", "")


def test_each_simulated_gpu_and_each_child_has_its_own_memory(tmp_path: Path) -> None:
    text = """
import tilewright as tw
held = []
for name in ("h100", "a100"):
    with tw.simulated_gpu(name):
        import cupy
        x = cupy.arange(5) * 2
        held.append(x)
        print(cupy.cuda.runtime.getDeviceProperties(0)['name'].decode(), x.sum().item())
"""
    script = tmp_path / "script.py"
    script.write_text(text)
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert found.stderr == ""
    assert found.stdout.splitlines() == ["NVIDIA H100 SXM5 80GB 20", "NVIDIA A100 SXM4 80GB 20"]
    code = "import cupy; print(cupy.arange(5).sum())"
    child = f"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {code!r}]).returncode)"
    assert ran(tmp_path, "run", child).stdout.split() == ["10", "0"]


TEXTURES_AND_GRAPHS = """
import ctypes

import numpy as np
import tilewright as tw

TEXT = r'''
extern "C" __global__ void sample(cudaTextureObject_t picture, float *out, int width) {
    int x = threadIdx.x, y = threadIdx.y;
    out[y * width + x] = tex2D<float>(picture, x + 1.0f, y + 0.5f);
}
extern "C" __global__ void add(float *out, float value) { out[threadIdx.x] += value; }
'''

with tw.simulated_gpu("a100"):
    import cupy
    from cuda.bindings import driver
    from cupy.cuda import runtime, texture

    def done(result):
        code, *found = result
        assert int(code) == 0, code
        return found[0] if len(found) == 1 else found

    # a texture, by CuPy
    numbers = np.arange(12, dtype="f4").reshape(3, 4) ** 2
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, 4, 3)
    array.copy_from(numbers)
    resource = texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array)
    sampling = texture.TextureDescriptor(
        (runtime.cudaAddressModeClamp,) * 2, runtime.cudaFilterModeLinear, runtime.cudaReadModeElementType
    )
    picture = texture.TextureObject(resource, sampling)
    module = cupy.RawModule(code=TEXT)
    out = cupy.zeros((3, 4), "f4")
    module.get_function("sample")((1,), (4, 3), (picture, out, 4))
    right = np.minimum(np.arange(4) + 1, 3)
    assert (out.get() == (numbers + numbers[:, right]) / 2).all(), out

    # a graph of single nodes, by the driver that CuPy uses: set, then add, then copy
    stream = cupy.cuda.Stream(non_blocking=True)
    target, copy = cupy.zeros(32, "f4"), np.zeros(32, "f4")
    graph = done(driver.cuGraphCreate(0))
    clear = driver.CUDA_MEMSET_NODE_PARAMS()
    clear.dst, clear.value, clear.elementSize, clear.width, clear.height = target.data.ptr, 0, 4, 32, 1
    context = done(driver.cuCtxGetCurrent())
    cleared = done(driver.cuGraphAddMemsetNode(graph, None, 0, clear, context))
    pointer, value = ctypes.c_size_t(target.data.ptr), ctypes.c_float(2.5)
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(value))
    launch = driver.CUDA_KERNEL_NODE_PARAMS()
    launch.func = driver.CUfunction(module.get_function("add").kernel.ptr)
    launch.gridDimX = launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1
    launch.blockDimX, launch.kernelParams = 32, ctypes.addressof(arguments)
    added = done(driver.cuGraphAddKernelNode(graph, [cleared], 1, launch))
    again = done(driver.cuGraphAddKernelNode(graph, [added], 1, launch))
    assert done(driver.cuGraphGetNodes(graph, 3))[1] == 3
    ready = done(driver.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        done(driver.cuGraphLaunch(ready, stream.ptr))
    stream.synchronize()
    assert (target.get() == 5).all(), target
    value.value = 10
    done(driver.cuGraphExecKernelNodeSetParams(ready, again, launch))
    done(driver.cuGraphLaunch(ready, stream.ptr))
    stream.synchronize()
    assert (target.get() == 12.5).all(), target
    print("textures and graphs")
"""


def test_textures_and_graphs_of_single_nodes(tmp_path: Path) -> None:
    (script := tmp_path / "script.py").write_text(TEXTURES_AND_GRAPHS)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "textures and graphs\n", done.stderr


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("k((1,), (8,), (f, cupy.float32(2), 8))", ""),
        ("k((1,), (8,), (f, 2.0, 8))", "parameter `v` is `float`, and the launch passes 2.0 (float64)"),
        ("k((1,), (8,), (f.astype('f8'), cupy.float32(2), 8))", "an array of float64"),
        ("g((1,), (8,), (f, cupy.float32(2), 8))", ""),
        ("g((1,), (8,), (f, 2, 8))", "parameter `v` is `float`, and the launch passes 2 (int64)"),
        ("m((1,), (8,), (f,))", "the kernel has 3 parameters, and the launch passes 1 argument"),
    ],
)
def test_arguments_of_other_types_than_the_kernel_s_parameters_are_found(
    tmp_path: Path, line: str, wanted: str
) -> None:
    text = f"""
import cupy

code = 'extern "C" __global__ void put(float* f, float v, int n) {{ if (threadIdx.x < n) f[threadIdx.x] = v; }}'
f, k, made = cupy.zeros(8, cupy.float32), cupy.RawKernel(code, "put"), cupy.RawModule(code=code)
g, m = made.get_function("put"), cupy.RawModule(code="#define Q\\n" + code).get_function("put")
assert isinstance(g, cupy.RawKernel) and g.num_regs and k.name == "put"
try:
    {line}
except cupy.cuda.driver.CUDADriverError:
    pass
"""
    found = ran(tmp_path, "check", text)
    assert found.returncode == bool(wanted), found.stdout + found.stderr
    assert ("TW511" in found.stdout) == bool(wanted)
    assert wanted in " ".join(found.stdout.split())

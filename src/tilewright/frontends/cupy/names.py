"""A table of the names of CuPy that are replaced while a simulated GPU is installed.

CuPy's own code runs. It calls the driver through `libcuda.so.1`, which is ours, and the runtime linked into its
modules, whose entry points jump to our functions. Its kernels are compiled to PTX with source lines.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tilewright.errors import DeviceError
from tilewright.frontends import vendor_libraries
from tilewright.frontends.cupy.products import HostProducts
from tilewright.frontends.cupy.random_numbers import HostGenerators
from tilewright.frontends.cupy.sorting import HostSorting
from tilewright.frontends.kernel_sources import at_its_lines
from tilewright.frontends.libcuda.served import driver_library, vendors_driver
from tilewright.frontends.libcuda.static_runtime import static_runtime
from tilewright.ground.native.replaced_names import Row, replaced
from tilewright.simulate.device.gpu import SimulatedGpu

_COMPILER = "cupy.cuda.compiler"
#: Modules that contain the vendor's runtime, and that CuPy imports when it is imported.
_WITH_RUNTIME = ("cupy_backends.cuda.api.runtime", "cupy.cuda.cub", "cupy.cuda.thrust")
#: Functions for which CuPy contains machine code, by module.
_MACHINE_CODE = {
    "cupy.cuda.cub": ("device_reduce", "device_segmented_reduce", "device_scan", "device_histogram", "device_csrmv")
}
_OLDEST_BUILD = 12000


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    compiler = importlib.import_module(_COMPILER)
    yield _COMPILER, "_use_ptx", True
    yield _COMPILER, "_compile_module_with_cache", _with_lines(compiler._compile_module_with_cache)
    yield _COMPILER, "compile_using_nvcc", _to_ptx(compiler.compile_using_nvcc)
    cupy, kernels = importlib.import_module("cupy"), importlib.import_module("tilewright.frontends.cupy.kernels")
    yield from (("cupy", kind.__name__, kind) for kind in (kernels.RawKernel, kernels.RawModule))
    yield "cupy", "from_dlpack", _from_dlpack(cupy.from_dlpack, cupy.asarray)
    own = {"curand": HostGenerators(gpu), "cublas": HostProducts(gpu)}
    for package in ("cupy_backends.cuda.libs", "cupy.cuda"):
        yield package, "__getattr__", _libraries(importlib.import_module(package).__getattr__, own)
    yield from (("cupy.cuda.thrust", name, function) for name, function in HostSorting(gpu).functions().items())
    for module, names in _MACHINE_CODE.items():
        for name in names:
            if hasattr(importlib.import_module(module), name):
                yield module, name, _refused(f"{module}.{name}")


def _with_lines(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces CuPy's compilation: the code has source lines, those of the program's file if the text is in one."""

    @functools.wraps(original)
    def compile_(source: str, options: Any = (), **named: Any) -> Any:
        if named.get("backend", "nvrtc") == "nvrtc" and "-lineinfo" not in options:
            source, options = at_its_lines(source), (*options, "-lineinfo")
        return original(source, options, **named)

    return compile_


def _to_ptx(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces CuPy's use of the vendor's command-line compiler: the output is PTX."""

    @functools.wraps(original)
    def compile_(source: str, options: Any = (), *given: Any, **named: Any) -> Any:
        named |= {"code_type": "ptx", "separate_compilation": False}
        return original(at_its_lines(source), (*options, "-lineinfo"), *given, **named)

    return compile_


def _from_dlpack(original: Callable[..., Any], as_array: Callable[[Any], Any]) -> Callable[..., Any]:
    """Replaces CuPy's reader of DLPack: torch's tensors on the simulated GPU say there that they are on the host."""

    @functools.wraps(original)
    def read(array: Any, *given: Any, **named: Any) -> Any:
        on_gpu = hasattr(array, "__cuda_array_interface__")
        return as_array(array) if on_gpu else original(array, *given, **named)

    return read


def _libraries(original: Callable[[str], Any], own: Mapping[str, Any]) -> Callable[[str], Any]:
    """Replaces the function that loads CuPy's modules for the vendor's libraries; some are ours."""

    def library(name: str) -> Any:
        if name in own:
            return own[name]
        if library_name := vendor_libraries.LIBRARIES.get(name):
            raise ImportError(
                f"{library_name} is machine code for GPUs, but the simulated GPU runs PTX; use your own kernels, or "
                "work on the host (`cupy.asnumpy`)"
            )
        return original(name)

    return library


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(
            f"{name} runs machine code that is part of CuPy, but the simulated GPU runs PTX; use your own kernels, or "
            "work on the host (`cupy.asnumpy`)"
        )

    return refuse


@contextmanager
def runtime_in(modules: Sequence[str]) -> Iterator[None]:
    """Let the entries of the vendor's runtime in modules jump to ours."""
    with ExitStack() as stack:
        for name in modules:
            module = importlib.import_module(name)
            redirected = static_runtime().redirect(Path(str(module.__file__)))
            if vendors_driver() is not None:  # otherwise the entries are of no use
                stack.callback(redirected.put_back)
        yield


@contextmanager
def installed(gpu: SimulatedGpu) -> Iterator[None]:
    """Install our runtime in CuPy with the table's names, and give each array its own memory.

    Raises DeviceError: CuPy is for another version of CUDA, or the vendor's driver was loaded first.
    """
    import cupy

    build = cupy.cuda.driver.get_build_version()
    if build < _OLDEST_BUILD:
        raise DeviceError(
            f"CuPy must be built for CUDA 12 or 13 (got {build // 1000}.{build % 1000 // 10}); install `cupy-cuda13x`"
        )
    if not driver_library().found:
        raise DeviceError(
            "CuPy must find the simulated GPU's driver (got the vendor's, which was loaded first); enter "
            "`tilewright.simulated_gpu()` before anything loads the vendor's, or use `tilewright run`"
        )
    with replaced(rows(gpu)), ExitStack() as stack:
        stack.callback(_allocators())
        stack.callback(_accelerators())
        stack.enter_context(runtime_in(_WITH_RUNTIME))
        yield


def _allocators() -> Callable[[], None]:
    """Disable CuPy's memory pools, which would keep memory for the next GPU and hide where arrays end."""
    import cupy

    before = cupy.cuda.get_allocator()
    pinned = cupy.get_default_pinned_memory_pool().malloc
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)

    def put_back() -> None:
        cupy.cuda.set_allocator(before)
        cupy.cuda.set_pinned_memory_allocator(pinned)

    return put_back


def _accelerators() -> Callable[[], None]:
    """Make CuPy use its own kernels where it would use machine code."""
    import cupy

    kinds = ("elementwise", "reduction", "routine")
    before = {kind: getattr(cupy._core, f"get_{kind}_accelerators")() for kind in kinds}

    def put(values: Callable[[str], Any]) -> None:
        for kind in kinds:
            getattr(cupy._core, f"set_{kind}_accelerators")(values(kind))

    put(lambda kind: [])
    return lambda: put(lambda kind: before[kind])

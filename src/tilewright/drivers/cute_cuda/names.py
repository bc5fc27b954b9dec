"""The names of CuTe DSL that are replaced while a simulated GPU is in place: a table.

Its compiler runs as it is and keeps the PTX that it makes; what it compiles for the host finds functions of ours.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from tilewright.drivers.cute_cuda.host_calls import HostCalls
from tilewright.drivers.gpu import SimulatedGpu
from tilewright.programs.numba_names import Row, owner_of

_ENVIRONMENT, _EXECUTOR = "cutlass.base_dsl.env_manager", "cutlass.cutlass_dsl.cuda_jit_executor"
_COMPILED, _RUNS = "CudaDialectJitCompiledFunction", "cutlass.base_dsl.jit_executor"


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    calls = HostCalls()
    major, minor = gpu.record.compute_capability
    settings = {
        "arch": f"sm_{major}{minor}{'a' * (major >= 9)}", "keep_ptx": True, "lineinfo": True,
        "disable_file_caching": True,
    }  # fmt: skip
    for name, value in settings.items():
        yield _ENVIRONMENT, f"EnvironmentVarManager.{name}", _always(value)
    yield _ENVIRONMENT, "EnvironmentVarManager.dump_dir", property(_Folder(), lambda manager, value: None)
    yield "cutlass.base_dsl.compiler", "Compiler.jit", _registering(calls)
    yield _EXECUTOR, "cuda_runtime", _runtime()
    yield _EXECUTOR, f"{_COMPILED}._load_cuda_library", _loading(calls)
    yield _RUNS, "JitExecutor.run_compiled_program", _running(calls)
    yield "cutlass.utils.hardware_info", "HardwareInfo.__init__", lambda info, device_id=0: None
    yield "cutlass.utils.hardware_info", "HardwareInfo.get_max_active_clusters", _clusters(gpu)
    asked = {"get_device_multiprocessor_count": "multiprocessors", "get_l2_cache_size_in_bytes": "l2_bytes"}
    for name, field in asked.items():
        yield "cutlass.utils.hardware_info", f"HardwareInfo.{name}", functools.partial(int, getattr(gpu.record, field))


class _Folder:
    """Where the compiler puts what it makes: a folder that goes with the program."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __call__(self, manager: Any) -> str:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="tilewright-")
        return self._folder.name


def _always(value: Any) -> property:
    """A setting that the program's environment does not change."""
    return property(lambda manager: value, lambda manager, _: None)


def _registering(calls: HostCalls) -> Callable[..., Any]:
    """Stands for `Compiler.jit`: the engine gets our functions, and not the vendor's library."""
    owner, name = owner_of("cutlass.base_dsl.compiler", "Compiler.jit")
    original = getattr(owner, name)

    @functools.wraps(original)
    def jit(compiler: Any, module: Any, opt_level: int = 2, shared_libs: Any = ()) -> Any:
        engine = original(compiler, module, opt_level, ())
        calls.register(engine)
        return engine

    return jit


def _runtime() -> Any:
    """Stands for `cuda.bindings.runtime` where libraries are loaded."""
    from cuda.bindings import runtime

    done = runtime.cudaError_t.cudaSuccess
    return SimpleNamespace(
        cudaError_t=runtime.cudaError_t, cudaLibrary_t=runtime.cudaLibrary_t,
        cudaGetDeviceCount=lambda: (done, 1), cudaLibraryUnload=lambda library: (done,),
    )  # fmt: skip


def _loading(calls: HostCalls) -> Callable[[Any], Any]:
    owner, name = owner_of(_EXECUTOR, f"{_COMPILED}._load_cuda_library")
    original = getattr(owner, name)

    @functools.wraps(original)
    def load(compiled: Any) -> Any:
        return calls.loading(compiled.artifacts.PTX, functools.partial(original, compiled))

    return load


def _running(calls: HostCalls) -> Callable[..., Any]:
    owner, name = owner_of(_RUNS, "JitExecutor.run_compiled_program")
    original = getattr(owner, name)

    @functools.wraps(original)
    def run(executor: Any, arguments: Any) -> Any:
        return calls.running(functools.partial(original, executor, arguments))

    return run


def _clusters(gpu: SimulatedGpu) -> Callable[..., int]:
    """Stands for `HardwareInfo.get_max_active_clusters`: of blocks that fill a multiprocessor each."""
    return lambda info, cluster_size, stream=None: gpu.record.multiprocessors // cluster_size

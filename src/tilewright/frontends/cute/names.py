"""A table of the names of CuTe DSL that are replaced while a simulated GPU is installed.

Its compiler runs unchanged and keeps its PTX; the host code that it compiles calls our functions.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.frontends.benchmarks import benchmark
from tilewright.frontends.cute.arrays import Arrays
from tilewright.frontends.cute.host_calls import HostCalls
from tilewright.ground.native.replaced_names import Row, owner_of
from tilewright.simulate.device.gpu import SimulatedGpu

_ENVIRONMENT, _EXECUTOR = "cutlass.base_dsl.env_manager", "cutlass.cutlass_dsl.cuda_jit_executor"
_COMPILED, _RUNS = "CudaDialectJitCompiledFunction", "cutlass.base_dsl.jit_executor"
_TENSORS = "cutlass.cute.runtime"
#: Words in the types of operands with an address: tensors, pointers, tensor maps.
_ADDRESSES = ("memref", "ptr", "tma_")
_DSL, _OPERANDS = "cutlass.base_dsl.dsl", "generate_kernel_operands_and_types"


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    arrays = Arrays(gpu)
    calls = HostCalls(arrays)
    major, minor = gpu.record.compute_capability
    settings = {
        "arch": f"sm_{major}{minor}{'a' * (major >= 9)}",
        "keep_ptx": True,
        "lineinfo": True,
        "disable_file_caching": True,
    }
    for name, value in settings.items():
        yield _ENVIRONMENT, f"EnvironmentVarManager.{name}", _always(value)
    yield _ENVIRONMENT, "EnvironmentVarManager.dump_dir", property(_Folder(), lambda manager, value: None)
    yield "cutlass.base_dsl.compiler", "Compiler.jit", _registering(calls)
    yield _EXECUTOR, f"{_COMPILED}._load_cuda_library", _loading(calls)
    yield _RUNS, "JitExecutor.run_compiled_program", _running(calls)
    yield _DSL, f"BaseDSL.{_OPERANDS}", _naming(calls)
    yield _TENSORS, "_Tensor.__init__", _placing(arrays)
    yield from ((module, "benchmark", benchmark) for module in ("cutlass.testing", "cutlass.cute.testing"))
    yield "cutlass.utils.hardware_info", "HardwareInfo.__init__", lambda info, device_id=0: None
    yield "cutlass.utils.hardware_info", "HardwareInfo.get_max_active_clusters", _clusters(gpu)
    asked = {"get_device_multiprocessor_count": "multiprocessors", "get_l2_cache_size_in_bytes": "l2_bytes"}
    for name, field in asked.items():
        yield "cutlass.utils.hardware_info", f"HardwareInfo.{name}", functools.partial(int, getattr(gpu.record, field))


class _Folder:
    """The folder for the compiler's output, which is removed with the program."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __call__(self, manager: Any) -> str:
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="tilewright-")
        return self._folder.name


def _always(value: Any) -> property:
    """A setting that the program's environment does not change."""
    return property(lambda manager: value, lambda manager, _: None)


def _registering(calls: HostCalls) -> Callable[..., Any]:
    """Replaces `Compiler.jit`: the engine gets our functions, and not the vendor's library."""
    owner, name = owner_of("cutlass.base_dsl.compiler", "Compiler.jit")
    original = getattr(owner, name)

    @functools.wraps(original)
    def jit(compiler: Any, module: Any, opt_level: int = 2, shared_libs: Any = ()) -> Any:
        engine = original(compiler, module, opt_level, ())
        calls.register(engine)
        return engine

    return jit


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


def _placing(arrays: Arrays) -> Callable[..., None]:
    """Replaces the making of a tensor from an array: its elements are on the device."""
    owner, name = owner_of(_TENSORS, "_Tensor.__init__")
    original = getattr(owner, name)

    @functools.wraps(original)
    def init(tensor: Any, *given: Any, **named: Any) -> None:
        original(tensor, *given, **named)
        if type(tensor._dlpack_data).__name__ == "PyCapsule":
            arrays.place(tensor, tensor._dlpack_data)

    return init


def _naming(calls: HostCalls) -> Callable[..., Any]:
    """Replaces the function that lists a kernel's parameters: it records which argument each one is."""
    owner, name = owner_of(_DSL, f"BaseDSL.{_OPERANDS}")
    original = getattr(owner, name)

    @functools.wraps(original)
    def operands(dsl: Any, function: Any, kernel: str, signature: Any, given: Any, named: Any) -> Any:
        found = original(dsl, function, kernel, signature, given, named)
        names = dict(zip(signature.parameters, (*given, *named.values()), strict=False))
        calls.names[kernel] = list(_names(found[0], names))
        return found

    return operands


def _names(operands: Sequence[Any], arguments: Mapping[str, Any]) -> Iterator[str]:
    """For each kernel operand with an address, the argument that it is, or is part of.

    Other operands, such as known layouts, may not be parameters of the compiled code.
    """
    from cutlass.base_dsl.dsl import extract_mlir_values

    parts = [(name, extract_mlir_values(value)) for name, value in arguments.items() if value is not None]
    for operand in operands:
        if any(word in str(operand.type) for word in _ADDRESSES):
            yield next((name for name, values in parts if operand in values), "an argument")


def _clusters(gpu: SimulatedGpu) -> Callable[..., int]:
    """Replaces `HardwareInfo.get_max_active_clusters`, for blocks that each fill a multiprocessor."""
    return lambda info, cluster_size, stream=None: gpu.record.multiprocessors // cluster_size

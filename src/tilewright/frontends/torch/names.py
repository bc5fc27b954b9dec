"""A table of the names of torch that are replaced while a simulated GPU is installed.

Factories on the device `cuda` are kernels of torch's dispatcher for that device (`torch.library`), so torch calls them
from every thread and from its own functions.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch

from tilewright.errors import DeviceError
from tilewright.frontends.libcuda.entries import Redirected, mapped_files, returns_one
from tilewright.frontends.libcuda.served import vendors_driver
from tilewright.frontends.libcuda.static_runtime import static_runtime
from tilewright.frontends.passed import passing
from tilewright.frontends.torch import (
    generators,
    gradients,
    graphs,
    higher_order,
    host_memory,
    layouts,
    set_data,
    shared,
    storages,
    streams,
)
from tilewright.frontends.torch.devices import is_traced, is_tracing, require_only_gpu, with_properties
from tilewright.frontends.torch.distributed import spare_its_import
from tilewright.frontends.torch.operators import FACTORIES
from tilewright.frontends.torch.tensors import DeviceTensor, factory, to_device
from tilewright.ground.native.replaced_names import Row, replaced
from tilewright.simulate.device import properties
from tilewright.simulate.device.contexts import DeviceNumber
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.host_side import Device
from tilewright.simulate.run.memory import Memory

#: torch's `c10::cuda::device_count`, which counts once for a process: its own count is that of the host's GPUs.
_COUNT = "_ZN3c104cuda12device_countEv"


@dataclass(frozen=True, slots=True)
class Properties:
    """The result of `torch.cuda.get_device_properties`."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    pci_bus_id: int
    uuid: str
    gcnArchName: str = ""  # noqa: N815
    is_integrated: bool = False
    is_multi_gpu_board: bool = False
    pci_device_id: int = 0
    pci_domain_id: int = 0

    @classmethod
    def of(cls, gpu: SimulatedGpu) -> Properties:
        """The properties of a simulated GPU."""
        record, fields = gpu.record, properties.of(gpu)
        return cls(
            record.name,
            *record.compute_capability,
            gpu.memory.capacity_bytes,
            record.multiprocessors,
            32,
            record.launch.threads_per_block,
            record.threads_per_multiprocessor,
            record.registers_per_multiprocessor,
            record.launch.shared_per_block_bytes,
            record.shared_per_block_optin_bytes,
            record.shared_per_multiprocessor_bytes,
            record.l2_bytes,
            fields["clockRate"],
            fields["pciBusID"],
            Device(gpu, 0).uuid,
        )


@contextmanager
def installed(gpu: SimulatedGpu) -> Iterator[None]:
    """Replace the table's names, and register the factories of the device."""
    spare_its_import()
    with replaced(rows(gpu)), ExitStack() as stack:
        for library in mapped_files():
            if library.name.startswith("libc10_cuda.so"):
                with suppress(DeviceError):
                    stack.callback(Redirected(library, {_COUNT: returns_one()}).put_back)
            if not library.name.startswith("libcudart.so"):
                continue
            with suppress(DeviceError):  # a host that allows no change of code: torch's C++ then finds no GPU
                redirected = static_runtime().redirect(library)
                if vendors_driver() is not None:  # otherwise ours says more: that there is no GPU
                    stack.callback(redirected.put_back)
        library = torch.library.Library("aten", "IMPL")
        stack.callback(library._destroy)
        # Releases that refuse a second kernel have this option; a simulated GPU within another registers a second one.
        options = {"allow_override": True} if "allow_override" in signature(library.impl).parameters else {}
        with warnings.catch_warnings():  # a torch for CUDA has its own
            warnings.filterwarnings("ignore", "(?s).*verrid", UserWarning)
            for name in FACTORIES:
                library.impl(name, factory(name), "CUDA", **options)
        yield


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    interface = _interface(gpu)
    yield from (("torch.cuda", name, value) for name, value in interface.items())
    yield from (("torch.cuda.memory", name, interface[name]) for name in _memory(gpu))
    if hasattr(torch, "accelerator"):  # functions of their own: dynamo refuses one function under two names of torch
        yield from (
            ("torch.accelerator", name, functools.partial(interface[name])) for name in ("current_stream", "set_stream")
        )
        kept = [name for name in ("memory_stats", "reset_peak_memory_stats") if hasattr(torch.accelerator, name)]
        modules = ("torch.accelerator", "torch.accelerator.memory")
        yield from ((module, name, functools.partial(interface[name])) for module in modules for name in kept)
    numbers = generators.of_device()
    yield "torch.cuda", "default_generators", (numbers,)
    for module in ("torch.cuda", "torch.cuda.random"):
        yield from ((module, name, value) for name, value in generators.functions(numbers).items())
    yield from (("torch.cuda.graphs", name, value) for name, value in _graphs(gpu).items())
    made = [("torch", name, _made_on_host(getattr(torch, name))) for name in ("tensor", "as_tensor", "asarray")]
    from_dlpack = shared.from_dlpack(torch.from_dlpack)
    made += [
        *host_memory.rows(),
        ("torch", "from_dlpack", from_dlpack),
        ("torch.utils.dlpack", "from_dlpack", from_dlpack),
    ]
    yield from storages.rows(gpu)
    yield from layouts.rows()
    yield from set_data.rows()
    yield from gradients.rows()
    yield from higher_order.rows()
    yield from made
    find = _builtin([value for _, _, value in made])
    yield from ((module, "_find_builtin", find) for module in ("torch.jit._builtins", "torch.jit._recursive"))
    compatible, to = set_data.replaceable(torch._has_compatible_shallow_copy_type), _to(torch.Tensor.to)
    yield "torch", "_has_compatible_shallow_copy_type", compatible
    yield "torch", "Tensor.to", to
    yield "torch", "Tensor.cuda", _cuda
    lazy = torch.nn.parameter.UninitializedTensorMixin
    yield lazy.__module__, f"{lazy.__name__}._allowed_methods", [*lazy._allowed_methods, compatible, to, _cuda]
    yield "torch", "Tensor.type_as", lambda tensor, other: tensor.to(other)
    yield "torch.autograd", "_engine_run_backward", _for_functions_of_the_program(torch.autograd._engine_run_backward)
    yield "torch.backends.cudnn", "is_acceptable", lambda tensor: False  # it is machine code
    if hasattr(torch.cuda._utils, "_get_nvrtc_library"):
        launch = torch.cuda._utils._CudaKernel.__call__
        yield "torch.cuda._utils", "_CudaKernel.__call__", _passing(launch)
        yield "torch.cuda._utils", "_get_nvrtc_library", _with_ptx(torch.cuda._utils._get_nvrtc_library)
    if hasattr(torch._C, "_cuda_getCurrentRawStream"):
        yield "torch._C", "_cuda_getCurrentRawStream", lambda device: torch.cuda.current_stream().cuda_stream


def _for_functions_of_the_program(run: Callable[..., Any]) -> Callable[..., Any]:
    """Replaces the start of autograd's engine: what it calls (hooks, `backward`) has `__torch_function__` again."""

    @functools.wraps(run)
    def running(*given: Any, **named: Any) -> Any:
        with torch._C._EnableTorchFunction():
            return run(*given, **named)

    return running


def _passing(launch: Callable[..., None]) -> Callable[..., None]:
    """Replaces launches of kernels from `torch.cuda._compile_kernel`: they say what torch passes for each argument."""

    @functools.wraps(launch)
    def passing_arguments(kernel: Any, *given: Any, **named: Any) -> None:
        arguments = named.get("args", given[2] if len(given) > 2 else None) or ()
        with passing(ctypes.c_int(x) if type(x) is int else x for x in arguments):
            launch(kernel, *given, **named)

    return passing_arguments


def _with_ptx(load: Callable[[], Any]) -> Callable[[], Any]:
    """NVRTC as torch loads it, but compiled code is PTX: newer releases of torch take machine code."""

    def loaded() -> Any:
        library = load()
        library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN = library.nvrtcGetPTXSize, library.nvrtcGetPTX
        return library

    return loaded


def _interface(gpu: SimulatedGpu) -> dict[str, Any]:
    """Functions and classes of `torch.cuda`."""
    number, record, current = DeviceNumber(gpu), gpu.record, streams.Streams()
    return {
        "_lazy_init": Device(gpu).set_current,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_initialized": True,  # checkpoints then keep the state of the device's random numbers
        "device_count": lambda: 1,
        "current_device": lambda: number,
        "set_device": require_only_gpu,
        "synchronize": streams.wait,
        "get_device_name": lambda device=None: with_properties(device, record.name),
        "get_device_capability": lambda device=None: with_properties(device, record.compute_capability),
        "get_device_properties": lambda device=None: with_properties(device, Properties.of(gpu)),
        "is_bf16_supported": lambda including_emulation=True: record.compute_capability >= (8, 0),
        "empty_cache": lambda: None,
        **_memory(gpu),
        "current_stream": current.current,
        "default_stream": current.default,
        "set_stream": current.set,
        "stream": current.using,
        "Stream": streams.Stream,
        "ExternalStream": streams.ExternalStream,
        "Event": streams.Event,
        **_graphs(gpu),
    }


def _memory(gpu: SimulatedGpu) -> dict[str, Any]:
    """Those for amounts of memory: nothing is reserved that is not allocated."""
    memory = gpu.memory
    return {
        "memory_stats": lambda device=None: _statistics(memory),
        "memory_summary": lambda device=None, abbreviated=False: "\n".join(
            f"{name}: {value:,}" for name, value in _statistics(memory).items()
        ),
        "memory_allocated": lambda device=None: sum(size for _, size in memory.allocations()),
        "memory_reserved": lambda device=None: memory.allocated_bytes,
        "max_memory_allocated": lambda device=None: memory.peak_bytes,
        "max_memory_reserved": lambda device=None: memory.peak_bytes,
        "reset_peak_memory_stats": lambda device=None: setattr(memory, "peak_bytes", memory.allocated_bytes),
        "reset_accumulated_memory_stats": lambda device=None: None,
        "memory_snapshot": lambda mempool_id=None: [],
        "set_per_process_memory_fraction": lambda fraction, device=None: None,
        "mem_get_info": lambda device=None: (memory.capacity_bytes - memory.allocated_bytes, memory.capacity_bytes),
    }


def _statistics(memory: Memory) -> dict[str, int]:
    """The amounts by torch's names for them; those that do not exist here are left out."""
    now = {"allocated_bytes": sum(size for _, size in memory.allocations()), "reserved_bytes": memory.allocated_bytes}
    return {
        f"{name}.all.{when}": size
        for name, current in now.items()
        for when, size in (("current", current), ("peak", memory.peak_bytes))
    }


def _graphs(gpu: SimulatedGpu) -> dict[str, Any]:
    """Those for graphs, which `torch.cuda.graphs` has too."""
    return {
        "CUDAGraph": graphs.CUDAGraph,
        "graph": graphs.graph,
        "graph_pool_handle": graphs.pool_handle,
        "is_current_stream_capturing": graphs.is_capturing,
    }


def _made_on_host(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Replaces a function that makes tensors from non-torch data; the tensor is then copied to the device."""

    @functools.wraps(original)
    def make(data: Any, *args: Any, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> torch.Tensor:
        if is_tracing():
            made = original(data, *args, **kwargs)
            made = made if device is None else made.to(device)
            return made.requires_grad_() if requires_grad else made
        if device is None and original.__name__ == "as_tensor" and shared.is_array(data):
            device = "cuda"
        wanted = torch.empty(0).device if device is None else torch.device(device)
        require_only_gpu(wanted)
        if wanted.type != "cuda":
            flags = {"requires_grad": True} if requires_grad else {}
            return original(data, *args, device=device, **flags, **kwargs)
        if isinstance(data, DeviceTensor):
            data = data.detach()
            made = data.clone() if original.__name__ == "tensor" else data
            made = made.to(**kwargs) if kwargs else made
        elif hasattr(data, "__cuda_array_interface__"):
            found = shared.viewed(data)
            made = make(found, *args, device=device, **kwargs)
        else:
            made = to_device(original(data, *args, device="cpu", **kwargs))
        return made.requires_grad_() if requires_grad else made

    return make


def _builtin(replacements: Sequence[Any]) -> Callable[[Any], Any]:
    """Replaces the look-up of torch's functions in TorchScript, which does not know the replacements."""
    find, known = torch.jit._builtins._find_builtin, {id(x): getattr(x, "__wrapped__", x) for x in replacements}
    return lambda function: find(known.get(id(function), function))


def _to(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Replaces `Tensor.to`: to the device, from it, or anything else that torch does."""

    @functools.wraps(original)
    def to(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if is_traced(tensor):
            return original(tensor, *args, **kwargs)
        wanted, args, kwargs = _device_of(args, kwargs)
        if wanted is not None and wanted.type == "cuda":
            require_only_gpu(wanted)
        if wanted is not None and wanted.type not in ("cpu", "cuda"):
            return original(tensor, wanted, *args, **kwargs)
        if wanted is not None and wanted.type == "cpu" and isinstance(tensor, DeviceTensor):
            tensor = tensor.cpu()
        if args or kwargs:
            tensor = original(tensor, *args, **kwargs)
        return to_device(tensor) if wanted is not None and wanted.type == "cuda" else tensor

    return to


def _cuda(tensor: torch.Tensor, device: Any = None, *_: Any, **__: Any) -> torch.Tensor:
    """Replaces `Tensor.cuda`."""
    require_only_gpu(device)
    return tensor.to("cuda") if is_traced(tensor) else to_device(tensor)


def _device_of(
    args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[torch.device | None, tuple[Any, ...], dict[str, Any]]:
    """The device among the arguments of `Tensor.to`, and the others."""
    kwargs = {name: value for name, value in kwargs.items() if name != "non_blocking"}
    first = kwargs.pop("device", kwargs.pop("other", args[0] if args else None))
    taken = 1 if args and first is args[0] else 0
    rest = tuple(one for one in args[taken:] if not isinstance(one, bool))
    if isinstance(first, torch.Tensor):
        return first.device, (first.dtype, *rest), kwargs
    if isinstance(first, str | int | torch.device) and not isinstance(first, bool):
        return torch.device("cuda", first) if isinstance(first, int) else torch.device(first), rest, kwargs
    return None, tuple(args), kwargs

"""Operators whose kernels a program wrote in Python: these run with the tensors on the device, as on a GPU.

Source: PyTorch, "Custom Python Operators" and `torch.library`.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

#: Factories of `torch.ops.aten` that are kernels of ours, by name and overload. Other factories use these.
FACTORIES = frozenset(
    "empty.memory_format empty_strided zeros ones full scalar_tensor arange arange.start arange.start_step linspace "
    "logspace eye eye.m rand rand.generator randn randn.generator randint randint.generator randint.low "
    "randint.low_generator randperm randperm.generator tril_indices triu_indices".split()
)
#: Dispatch keys whose kernels run for a tensor on a GPU.
_KEYS = ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
_ON_GPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)


def is_programs_own(operation: Any) -> bool:
    """Whether a program registered the kernel of an operator that runs for tensors on a GPU."""
    namespace, _, name = operation.name().partition("::")
    if namespace == "aten" and name in FACTORIES:
        return False
    found = [key for key in (f"{namespace}/{name}/{key}" for key in _KEYS) if key in torch.library._impls]
    return bool(found) and not _torchs_own().issuperset(found)


def refuse_host_alone(operation: Any) -> None:
    """Reject an operator whose only kernel of a program is for the CPU.

    Raises NotImplementedError, as torch does.
    """
    namespace, _, name = operation.name().partition("::")
    if f"{namespace}/{name}/CPU" in torch.library._impls and namespace not in ("aten", "prims"):
        raise NotImplementedError(
            f"Could not run '{operation.name()}' with arguments from the 'CUDA' backend: the program registered a "
            "kernel for 'CPU' alone; register one for 'CUDA'"
        )


def casts_itself(operation: Any) -> bool:
    """Whether a program registered how an operator casts in `torch.autocast("cuda")`."""
    if not isinstance(operation, torch._ops.OpOverload):
        return False
    namespace, _, name = operation.name().partition("::")
    return f"{namespace}/{name}/AutocastCUDA" in torch.library._impls


def cast(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The results of such an operator in `torch.autocast("cuda")`."""
    return operation.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA), *args, **kwargs)


def _torchs_own() -> set[str]:
    """Kernels that torch itself registers from Python, for GPUs alone, in place of some of its C++ ones."""
    libraries = getattr(sys.modules.get("torch._native.registry"), "_aten_override_libs", {})
    return {key for library in libraries.values() for key in library._op_impls}


def run(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The results of that kernel."""
    return operation.redispatch(_ON_GPU, *args, **kwargs)

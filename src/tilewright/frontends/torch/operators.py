"""Operators whose kernels a program wrote in Python: these run with the tensors on the device, as on a GPU.

Source: PyTorch, "Custom Python Operators" and `torch.library`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from tilewright.frontends.torch.captured import UNSET
from tilewright.frontends.torch.reads import are_read, is_updated

#: Factories of `torch.ops.aten` that are kernels of ours, by name and overload. Other factories use these.
FACTORIES = frozenset(
    "empty.memory_format empty_strided zeros ones full scalar_tensor arange arange.start arange.start_step linspace "
    "logspace eye eye.m rand rand.generator randn randn.generator randint randint.generator randint.low "
    "randint.low_generator randperm randperm.generator tril_indices triu_indices".split()
)
#: Dispatch keys whose kernels run for a tensor on a GPU.
_KEYS = ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
#: What excludes kernels of a key, if it is not the key itself.
_EXCLUDED = MappingProxyType({"AutogradCUDA": "AutogradFunctionality"})
_ON_GPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an operator before it is called."""

    full_name: str
    name: str  #: Without its namespace and overload.
    kernels: frozenset[str]  #: The keys of kernels for a GPU that a program may register for it.
    host_kernel: str  #: The key of one for the CPU; "" for torch's operators.
    is_view: bool
    in_place: bool  #: Whether it changes the layout of its first argument.
    written: tuple[tuple[int, str], ...]  #: The place and the name of each argument that it changes.
    unset: bool  #: Whether its results are uninitialised.
    draws: bool  #: Whether they have random numbers.
    captured: bool  #: Whether a captured graph has it as a node.
    reads: bool  #: Whether it computes with the elements of its arguments,
    updates: bool  #: and of those that it changes.


@functools.lru_cache(4096)
def facts(operation: Any) -> Facts:
    """The facts of an operator."""
    (namespace, _, name), packet = operation.name().partition("::"), operation.overloadpacket.__name__
    ours = namespace == "aten" and name in FACTORIES
    in_place = torch.Tag.inplace_view in operation.tags
    arguments = enumerate(operation._schema.arguments)
    return Facts(
        operation.name(),
        packet,
        frozenset(() if ours else (f"{namespace}/{name}/{key}" for key in _KEYS)),
        "" if namespace in ("aten", "prims") else f"{namespace}/{name}/CPU",
        operation.is_view,
        in_place,
        tuple((at, one.name) for at, one in arguments if one.alias_info is not None and one.alias_info.is_write),
        packet in UNSET,
        torch.Tag.nondeterministic_seeded in operation.tags,
        not (operation.is_view or (in_place and operation.name() != "aten::resize_")),
        namespace == "aten" and not operation.is_view and are_read(packet),
        is_updated(packet),
    )


def is_programs_own(known: Facts) -> bool:
    """Whether a program registered the kernel of an operator that runs for tensors on a GPU."""
    found = torch.library._impls
    return not known.kernels.isdisjoint(found) and not _torchs_own().issuperset(known.kernels & found)


def refuse_host_alone(known: Facts) -> None:
    """Reject an operator whose only kernel of a program is for the CPU.

    Raises NotImplementedError, as torch does.
    """
    if known.host_kernel in torch.library._impls:
        raise NotImplementedError(
            f"Could not run '{known.full_name}' with arguments from the 'CUDA' backend: the program registered a "
            "kernel for 'CPU' alone; register one for 'CUDA'"
        )


def own(function: Any, args: Any, kwargs: dict[str, Any], keys: Sequence[str]) -> Callable[..., Any] | None:
    """The kernel that a program registered for an operator under one of these dispatch keys, which is not excluded."""
    if not isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return None
    for key in keys:
        if torch._C._dispatch_tls_is_dispatch_key_excluded(getattr(torch._C.DispatchKey, _EXCLUDED.get(key, key))):
            continue
        operation = _overload(function, key, args, kwargs)
        if operation is not None:
            own = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
            return functools.partial(operation.redispatch, own | _ON_GPU)
    return None


def _overload(function: Any, key: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operator of a call, if a program registered a kernel for it under a dispatch key."""

    def is_known(operation: Any) -> bool:
        return operation.name().replace("::", "/") + f"/{key}" in torch.library._impls

    if isinstance(function, torch._ops.OpOverload):
        return function if is_known(function) else None
    if not any(is_known(getattr(function, name)) for name in function.overloads()):
        return None
    name = torch._C._jit_resolve_packet(function._qualified_op_name, *args, **kwargs) or "default"
    return getattr(function, name) if is_known(getattr(function, name)) else None


def _torchs_own() -> set[str]:
    """Kernels that torch itself registers from Python, for GPUs alone, in place of some of its C++ ones."""
    libraries = getattr(sys.modules.get("torch._native.registry"), "_aten_override_libs", {})
    return {key for library in libraries.values() for key in library._op_impls}


def run(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The results of that kernel."""
    return operation.redispatch(_ON_GPU, *args, **kwargs)

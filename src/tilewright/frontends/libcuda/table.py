"""The table of CUDA functions, with the prototype and the implementation of each, for all kinds of callers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tilewright.frontends.driver_binding import CALLS
from tilewright.frontends.libcuda import (
    captures,
    devices,
    graphs,
    launches,
    loading,
    runtime,
    tensor_maps,
    textures,
    transfers,
)
from tilewright.frontends.libcuda.prototypes import DRIVER_CALLS, Prototype, prototype
from tilewright.simulate.device.gpu import SimulatedGpu

Answer = Callable[..., Any]


def _nothing(gpu: SimulatedGpu, *given: Any) -> None:
    """No effect."""


#: Calls without effect here: there are no cache modes, bank widths or unused memory, a pool's memory stays until it is
#: freed, kernels are always loaded, the only device accesses all memory, and captures are always in one mode.
_NOTHING = (
    "cuDevicePrimaryCtxSetFlags", "cuMemPoolDestroy", "cuMemPoolTrimTo", "cuMemPoolSetAccess", "cuFuncSetCacheConfig",
    "cuFuncSetSharedMemConfig", "cuFuncLoad", "cuDeviceGraphMemTrim", "cuCtxResetPersistingL2Cache",
    "cuCtxSetCacheConfig", "cuCtxSetSharedMemConfig", "cuStreamAttachMemAsync",
)  # fmt: skip


def _functions(prefix: str, *subjects: Any) -> dict[str, Answer]:
    return {
        name: function for subject in subjects for name, function in vars(subject).items() if name.startswith(prefix)
    }


#: Every driver call that is implemented, by name.
ANSWERS: Mapping[str, Answer] = MappingProxyType(
    {
        **CALLS,
        **dict.fromkeys(_NOTHING, _nothing),
        **_functions("cu", captures, devices, graphs, loading, launches, tensor_maps, textures, transfers),
    }
)
#: Functions of the runtime that are no call of the driver under another name.
_RUNTIME = _functions("cuda", graphs, textures, runtime)


def driver_calls() -> Iterator[tuple[Prototype, Answer | None]]:
    """The driver's functions in all versions, and their implementations; None for those that a door implements."""
    for text, _ in DRIVER_CALLS:
        wanted = prototype(text)
        yield wanted, ANSWERS.get(wanted.name) or ANSWERS.get(wanted.name.partition("_v")[0])


def runtime_calls(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[Prototype, Answer | None, str]]:
    """Functions of the runtime, their implementations, and the driver's calls that they are."""
    for text, driver in rows:
        wanted = prototype(text)
        yield wanted, ANSWERS[driver] if driver else _RUNTIME.get(wanted.name), driver

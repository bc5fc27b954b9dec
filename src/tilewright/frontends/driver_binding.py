"""Replaces `cuda.bindings.driver` in numba-cuda: our driver calls, and the real types, constants and codes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from tilewright.frontends.libcuda.errors import errors
from tilewright.simulate.device import allocations, contexts, modules, streams, tensor_maps
from tilewright.simulate.device.gpu import BrokenError, DriverError, EndedError, SimulatedGpu
from tilewright.simulate.device.launching import driver_error

#: Every driver call that the simulated GPU implements, by name.
CALLS: dict[str, Callable[..., Any]] = {
    name: function
    for subject in (contexts, allocations, streams, modules, tensor_maps)
    for name, function in vars(subject).items()
    if name.startswith("cu") and getattr(function, "__module__", "") == subject.__name__
}
#: Calls that hold no lock: those that wait for callbacks, which may make driver calls themselves; and those that Python
#: may make while it collects arrays, on a thread that runs a kernel for another thread that holds the lock; and those
#: that only look at what the calling thread has.
UNLOCKED = frozenset(
    "cuCtxSynchronize cuStreamSynchronize cuMemFree cuMemFreeHost cuMemHostUnregister cuStreamDestroy cuEventDestroy "
    "cuLibraryUnload cuCtxGetCurrent cuCtxGetDevice".split()
)
#: Calls that a device refuses once a launch has broken it; the others free things, or ask about them.
WORKS = re.compile(
    r"cu(da)?(Malloc|Mem(Alloc|cpy|set|HostAlloc|HostRegister)|(Ctx|Device|Stream|Event)Synchronize|(Graph)?Launch|"
    "(Stream|Event)(Create|Query|Record|Wait)|(Module|Library)Load)"
)


class Binding:
    """The driver's functions for one simulated GPU; each returns a CUresult and its results."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        self._real = contexts.binding()
        self.CUstream = streams.handle_type()

    def __getattr__(self, name: str) -> Any:
        if name in CALLS:
            found: Any = self._answer(name, CALLS[name])
        elif name.startswith("cu") and name[2:3].isupper():
            found = self._refuse(name)
        else:
            found = getattr(self._real, name)
        setattr(self, name, found)
        return found

    def _answer(self, name: str, call: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        gpu, works, unlocked = self.gpu, WORKS.match(name), name in UNLOCKED
        success = self._real.CUresult.CUDA_SUCCESS

        @functools.wraps(call)
        def answer(*arguments: Any) -> tuple[Any, ...]:
            try:
                gpu.check_process()
                if works:
                    gpu.require_working()
                if unlocked:
                    given = call(gpu, *arguments)
                else:
                    with gpu.call():
                        given = call(gpu, *arguments)
            except (BrokenError, EndedError) as error:  # the code alone does not say what to do
                raise driver_error(error.code, str(error)) from None
            except DriverError as error:
                return (self._real.CUresult.__members__[error.code],)
            return (success,) if given is None else (success, *(given if isinstance(given, tuple) else (given,)))

        return answer

    def _refuse(self, name: str) -> Callable[..., tuple[Any, ...]]:
        """A call that the simulated GPU does not implement; a name that no driver has is an AttributeError."""
        real = getattr(self._real, name)

        @functools.wraps(real)
        def refuse(*arguments: Any) -> tuple[Any, ...]:
            errors().note("CUDA_ERROR_NOT_SUPPORTED", f"{name} is not implemented on the simulated GPU")
            return (self._real.CUresult.CUDA_ERROR_NOT_SUPPORTED,)

        return refuse

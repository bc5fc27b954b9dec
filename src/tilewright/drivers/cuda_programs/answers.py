"""All calls that the simulated GPU answers, and how an answer becomes the result that the program gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tilewright.drivers.contexts import PRIMARY
from tilewright.drivers.cuda_programs import errors
from tilewright.drivers.cuda_programs.calls import devices, driver, graphs, launches, memory, shared, streams, textures
from tilewright.drivers.cuda_programs.headers import Function
from tilewright.drivers.cuda_programs.protocol import Caller
from tilewright.drivers.gpu import DriverError
from tilewright.drivers.outstanding import LEGACY

#: Every function that is answered, by name.
CALLS: Mapping[str, Callable[..., int | None]] = MappingProxyType(
    dict(shared.ANSWERED)
    | {
        name: function
        for subject in (devices, driver, graphs, launches, memory, streams, textures)
        for name, function in vars(subject).items()
        if name.removeprefix("__").startswith("cu") and getattr(function, "__module__", "") == subject.__name__
    }
    | dict(driver.SAME)
)
#: Calls that a broken context answers all the same.
_ALWAYS = frozenset("cudaGetLastError cudaPeekAtLastError cudaDeviceReset".split())
_RESULTS = ("cudaError_t", "CUresult")
#: How names begin of calls that order what streams do before and after them, where these do not end with `Async`:
#: allocations wait for all; copies and settings are the default stream's, and the host waits for most copies.
#: Source: CUDA C++ Programming Guide, "Implicit Synchronization"; CUDA Runtime API, "API synchronization behavior".
_WAIT_FOR_ALL = ("cudaMalloc", "cudaFree", "cudaHost", "cuMemAlloc", "cuMemFree", "cuMemHost")
_OF_DEFAULT_STREAM = ("cudaMemcpy", "cuMemcpy", "cudaMemset", "cuMemset")


def _in_order(caller: Caller, name: str) -> None:
    """What a call orders besides what it does."""
    if name.endswith("Async") or not caller.gpu.outstanding.pending:
        return
    if name.startswith(_WAIT_FOR_ALL):
        caller.gpu.outstanding.all_done()
    elif name.startswith(_OF_DEFAULT_STREAM):
        caller.gpu.outstanding.queued(LEGACY)
        if "emcpy" in name:
            caller.gpu.outstanding.synchronised(LEGACY)


class Answers:
    """Answers calls by the numbers that the library's functions have."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions

    def __call__(self, caller: Caller, number: int, words: bytes) -> int:
        """The result of a call."""
        function = self._functions[number]
        with caller.gpu.call():
            if not caller.gpu.contexts:
                caller.gpu.contexts.append(PRIMARY)
            if function.returns not in _RESULTS:
                return self._plain(caller, function, words)
            return self._result(caller, function, words)

    def _plain(self, caller: Caller, function: Function, words: bytes) -> int:
        """What the compiler's own calls give, which know no errors."""
        try:
            return CALLS[function.name](caller, *function.arguments(words)) or 0
        except DriverError as error:
            caller.runtime.failed(error)
            return 0

    def _result(self, caller: Caller, function: Function, words: bytes) -> int:
        runtime, name = caller.runtime, function.name
        if runtime.broken and name not in _ALWAYS:
            return self._kept(caller, name, errors.number(runtime.broken))
        try:
            _in_order(caller, name)
            given = CALLS[name](caller, *function.arguments(words))
        except DriverError as error:
            runtime.failed(error)
            return self._kept(caller, name, errors.number(error.code))
        return given or 0

    def _kept(self, caller: Caller, name: str, code: int) -> int:
        """Remember an error of the runtime's for `cudaGetLastError`."""
        if name.startswith("cuda") and code != errors.number("CUDA_ERROR_NOT_READY"):
            caller.last_error = code
        return code

"""All calls that the simulated GPU implements, and how their results and errors reach the program."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from tilewright.frontends.cublas import answers as cublas
from tilewright.frontends.cublas.calls import STATUS
from tilewright.frontends.cublas.header import STATUSES
from tilewright.frontends.cublas.operands import RefusedCall
from tilewright.frontends.libcuda import errors
from tilewright.frontends.libcuda.marshalling import Call, driver_error
from tilewright.frontends.libcuda.prototypes import OF_KERNELS, OF_VARIABLES, RUNTIME_CALLS, Prototype
from tilewright.frontends.libcuda.table import driver_calls, runtime_calls
from tilewright.frontends.programs import registration
from tilewright.frontends.programs.headers import Function
from tilewright.frontends.programs.library import KEEPS_TICKETS
from tilewright.frontends.programs.protocol import Caller, EndedConnection, Ticket
from tilewright.frontends.programs.runtime import Runtime
from tilewright.simulate.device.contexts import PRIMARY

#: Calls that only a program makes, by name; they get the caller.
_OWN: Mapping[str, Callable[..., int | None]] = MappingProxyType(
    {name: function for name, function in vars(registration).items() if name.removeprefix("__").startswith("cuda")}
)


#: Function of the driver -> the name in `cuda.h`, which a macro replaces.
_DECLARED: Mapping[str, str] = MappingProxyType({"cuGraphInstantiateWithFlags": "cuGraphInstantiate"})


def _calls() -> Mapping[str, Mapping[int, Call]]:
    """The table's calls, in versions with so many parameters."""
    known: dict[str, dict[int, Call]] = {}

    def add(name: str, wanted: Prototype, answer: Any) -> None:
        if answer is not None:
            known.setdefault(name, {})[len(wanted.parameters)] = Call(wanted, answer)

    for wanted, answer in driver_calls():
        plain = wanted.name.partition("_v")[0]
        add(_DECLARED.get(plain, plain), wanted, answer)
    for wanted, answer, _ in runtime_calls((*RUNTIME_CALLS, *OF_KERNELS, *OF_VARIABLES)):
        add(wanted.name, wanted, answer)
    return known


_CALLS = _calls()
#: The name of every implemented function.
CALLS = frozenset((*_OWN, *_CALLS, *cublas.FUNCTIONS))
#: Errors that only the runtime has -> the driver's; all others mean an invalid value.
_DRIVERS: Mapping[str, str] = MappingProxyType({"cudaErrorInvalidDeviceFunction": "CUDA_ERROR_INVALID_HANDLE"})
#: Calls that also work in a broken context.
_ALWAYS = frozenset("cudaGetLastError cudaPeekAtLastError cudaDeviceReset".split())
_RESULTS = ("cudaError_t", "CUresult")
_LAUNCH = "cudaLaunchKernel"
#: Name prefixes of calls that wait for all streams, unless the name ends with `Async`.
#: Source: CUDA C++ Programming Guide, "Implicit Synchronization".
_WAIT_FOR_ALL = ("cudaMalloc", "cudaFree", "cudaHost", "cuMemAlloc", "cuMemFree", "cuMemHost")


def _performed(caller: Caller, name: str, given: Sequence[Any]) -> int:
    """The result of a call."""
    if name in _OWN:
        return _OWN[name](caller, *given) or 0
    versions = _CALLS[name]
    versions[len(given) if len(given) in versions else max(versions)](caller.gpu, given)
    return 0


@contextmanager
def _host(caller: Caller) -> Iterator[None]:
    """Perform a call of a program in the body."""
    gpu = caller.gpu
    with gpu.call():
        outer, gpu.host = gpu.host, caller
        if not gpu.contexts:
            gpu.contexts.append(PRIMARY)
        try:
            yield
        finally:
            gpu.host = outer


class Answers:
    """Runs calls by the function numbers of the library."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._functions = functions

    def __call__(self, caller: Caller, number: int, words: bytes) -> int:
        """The result of a call."""
        try:
            function = self._functions[number]
            given = function.arguments(words)
        except (IndexError, struct.error):
            raise EndedConnection(f"call {number:,} with {len(words):,} bytes, which is none") from None
        if function.name not in KEEPS_TICKETS:
            caller.end_tickets()
        with _host(caller):
            return self._result(caller, function, given)

    def launched(self, caller: Caller, launches: Iterable[tuple[Ticket, bytes]]) -> None:
        """Make launches that have no answer; a device that an earlier one has broken makes none."""
        with _host(caller):
            for ticket, params in launches:
                if caller.gpu.broken:
                    continue
                try:
                    caller.launch_again(ticket, params)
                except EndedConnection:
                    raise
                except Exception as error:
                    code = _noted(caller.runtime, error, _LAUNCH)
                    self._kept(caller, _LAUNCH, errors.code_of(_own(_LAUNCH, code)))

    def _result(self, caller: Caller, function: Function, given: Sequence[Any]) -> int:
        """The value that a call returns: an error, except for the compiler's own calls.

        Whatever else an implementation raises comes of values that the program passed, and no call has.
        """
        runtime, name = caller.runtime, function.name
        if function.returns == STATUS:
            return _status(caller, name, given)
        has_error = function.returns in _RESULTS
        if has_error and caller.gpu.broken and name not in _ALWAYS:
            return self._kept(caller, name, errors.code_of(caller.gpu.broken))
        try:
            if name.startswith(_WAIT_FOR_ALL) and not name.endswith("Async") and caller.gpu.outstanding.pending:
                caller.gpu.outstanding.all_done()
            result = _performed(caller, name, given)
            if name == _LAUNCH:
                caller.give_ticket()
            return result
        except EndedConnection:
            raise
        except Exception as error:
            code = _noted(runtime, error, name)
            return self._kept(caller, name, errors.code_of(_own(name, code))) if has_error else 0

    def _kept(self, caller: Caller, name: str, code: int) -> int:
        """Store an error of a runtime call for `cudaGetLastError`."""
        if name.startswith("cuda") and code != errors.code_of("CUDA_ERROR_NOT_READY"):
            caller.last_error = code
        return code


def _status(caller: Caller, name: str, given: Sequence[Any]) -> int:
    """The status of a call of cuBLAS."""
    if caller.gpu.broken:
        return STATUSES["EXECUTION_FAILED"]
    try:
        cublas.perform(caller.gpu, name, given)
    except EndedConnection:
        raise
    except RefusedCall as refused:
        caller.runtime.report(f"{name}: CUBLAS_STATUS_{refused.status}: {refused}")
        return STATUSES[refused.status]
    except Exception as error:
        _noted(caller.runtime, error, name)
        return STATUSES["INTERNAL_ERROR"]
    return 0


def _noted(runtime: Runtime, error: Exception, name: str) -> str:
    """Tell the program's runtime why a call failed, and give the code; the caller's frame must not keep the error."""
    failed = driver_error(error, name)
    runtime.failed(failed)
    return failed.code


def _own(name: str, code: str) -> str:
    """The name of an error in the API of the called function."""
    if name.startswith("cuda") or not code.startswith("cuda"):
        return code
    return _DRIVERS.get(code, "CUDA_ERROR_INVALID_VALUE")

"""Performs calls of cuBLAS: each function of the table, with the implementation of its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.frontends.cublas import calls, handles, level1, level2, level3, lt, products
from tilewright.frontends.cublas.operands import Operands, RefusedCall, enqueue
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu

#: Every function of the library, by name, but for those that a program's library does by itself.
FUNCTIONS: Mapping[str, calls.Function] = MappingProxyType(
    {one.name: one for one in calls.functions() if not one.statements}
)
_COMPUTING = {**vars(level1), **vars(level2), **vars(level3), **vars(products)}
_OTHERS: Mapping[str, Callable[..., None]] = {**vars(handles), **handles.SETTINGS, **lt.FUNCTIONS}


def answer_of(function: calls.Function) -> Callable[..., None]:
    """The implementation: of `handles` and `lt` with the values of its parameters, others with one `Operands`."""
    found: Callable[..., None] = _COMPUTING.get(function.stem) or _OTHERS[function.stem]
    return found


def perform(gpu: SimulatedGpu, name: str, values: Sequence[Any]) -> None:
    """Perform a call with the values of its parameters: numbers and addresses.

    Raises RefusedCall: the status that cuBLAS answers.
    """
    function = FUNCTIONS[name]
    answer = answer_of(function)
    try:
        if function.stem not in _COMPUTING:
            answer(gpu, *values)
            return
        given = dict(zip((name for _, name in function.parameters), values, strict=True))
        call = Operands(gpu, handles.handle_of(gpu, given["handle"]), function, given)
        call.check()
        call.keep()
        enqueue(gpu, call.handle.stream, lambda: answer(call))
    except DriverError as error:
        raise RefusedCall("EXECUTION_FAILED", str(error)) from error
    except TilewrightError as error:
        raise RefusedCall("NOT_SUPPORTED", str(error)) from error

"""A table of the names of `cuda.bindings.runtime` that are replaced while a simulated GPU is installed.

The package contains the vendor's runtime, which needs the vendor's driver. Only its types and error codes are used.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from cuda.bindings import runtime

from tilewright.frontends.libcuda import runtime as answers
from tilewright.frontends.libcuda.prototypes import RUNTIME_CALLS, Prototype, prototype
from tilewright.frontends.libcuda.static_runtime import static_runtime
from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device.gpu import SimulatedGpu

_FUNCTION = re.compile(r"cuda[A-Z]\w*")
#: Functions that fill a structure: the package's type, and our function.
_FILLS: dict[str, tuple[str, Callable[[], Any]]] = {
    "cudaGetDeviceProperties": ("cudaDeviceProp", answers.properties_type),
    "cudaPointerGetAttributes": ("cudaPointerAttributes", lambda: answers.PointerAttributes),
}


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    known: dict[str, Callable[..., Any]] = {}
    for wanted in (prototype(text) for text, _ in RUNTIME_CALLS):
        known[wanted.name] = _function(wanted)
    success = runtime.cudaError_t.cudaSuccess
    known["cudaGetErrorName"] = lambda error: (success, runtime.cudaError_t(int(error)).name.encode())
    known["cudaGetErrorString"] = lambda error: (success, static_runtime().text(int(error)))
    for name, function in list(vars(runtime).items()):
        if _FUNCTION.fullmatch(name) and callable(function) and not isinstance(function, type):
            yield "cuda.bindings.runtime", name, known.get(name) or _function(Prototype(name, ()))


def _function(wanted: Prototype) -> Callable[..., tuple[Any, ...]]:
    """The Python function for the program: it returns the code, and the results."""
    fills = _FILLS.get(wanted.name)

    def call(*given: Any) -> tuple[Any, ...]:
        room = [parameter.given() for parameter in wanted.parameters if parameter.given]
        rooms, values = iter(room), iter(given)
        filled = fills[1]() if fills else None
        words = [] if filled is None else [(filled := filled())]
        for parameter in wanted.parameters[len(words) :]:
            words.append(next(rooms) if parameter.given else _word(next(values, 0)))
        native = wanted.native(static_runtime().address(wanted.name))
        code = runtime.cudaError_t(native(*(word if isinstance(word, int) else _at(word) for word in words)))
        gives = [one for one in wanted.parameters if one.given]
        found = [_result(one.type, value.value) for one, value in zip(gives, room, strict=True)]
        if fills is not None:
            found.append(_structure(fills[0], filled))
        return (code, *found) if not int(code) else (code, *[None] * len(found))

    call.__name__ = call.__qualname__ = wanted.name
    return call


def _at(value: Any) -> int:
    return ctypes.addressof(value)


def _word(value: Any) -> int:
    """The C value of a Python object: a number, a handle, or the address of a buffer, a structure or handles."""
    if value is None:
        return 0
    if hasattr(value, "getPtr"):
        return int(value.getPtr())
    if not isinstance(value, bytes | bytearray | memoryview | np.ndarray):
        return int(value)
    return int(np.frombuffer(value, np.uint8).ctypes.data)


def _result(type_: str, value: Any) -> Any:
    kind = getattr(runtime, type_, None)
    return kind(value) if isinstance(kind, type) else value


def _structure(name: str, filled: Any) -> Any:
    """A structure of the package with our values."""
    made = getattr(runtime, name)()
    words = {"device_pointer": "devicePointer", "host_pointer": "hostPointer"}
    for field, *_ in filled._fields_:
        value = getattr(filled, field)
        if field == "type":
            value = runtime.cudaMemoryType(value)
        if hasattr(made, words.get(field, field)) and field not in ("uuid", "luid"):
            if isinstance(value, bytes):
                value = value.ljust(getattr(type(filled), field).size, b"\0")
            setattr(made, words.get(field, field), list(value) if hasattr(value, "_length_") else value)
    return made

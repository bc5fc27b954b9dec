"""TW511: arguments that are not of their parameters' types, in launches that pass each argument's own bytes.

A driver gets addresses of arguments, and copies as many bytes from each as its parameter has. PTX gives these sizes and
tells floating point from integers; the kernel's mangled name or its source gives C++ types, and so those of elements.

Source: CUDA Driver API, `cuLaunchKernel` (kernelParams).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.observe.checking import launches, signatures
from tilewright.observe.checking.signatures import Declared
from tilewright.observe.instruments.findings import Finding
from tilewright.simulate.observer import Launch, Passed, PassedArguments
from tilewright.simulate.programs.listing import Parameter
from tilewright.simulate.programs.mangling import CType, parameter_types

#: Bytes of an element whose bits kernels often take for another type's: halves as 16-bit words, and raw bytes.
_ANY_TYPE = 2
_UNKNOWN = CType("")
_FLOATS = {4: "float", 8: "double"}


def findings(launch: Launch, passed: PassedArguments) -> list[Finding]:
    """The arguments of a launch that do not fit."""
    given, parameters = passed.arguments, launch.program.parameters
    if len(given) != len(parameters):
        return [launches.at(launch, "TW511", how="count", wanted=len(parameters), got=len(given))]
    found = []
    for at, (one, parameter, declared) in enumerate(
        zip(given, parameters, _declared(launch, passed.source), strict=True)
    ):
        for details in _wrong(one, parameter, declared.type):
            details |= {"parameter": f"`{declared.name}`" if declared.name else str(at)}
            found.append(launches.at(launch, "TW511", type=_spoken(parameter, declared.type), **details))
    return found


def _declared(launch: Launch, source: str) -> list[Declared]:
    """What is known of each parameter."""
    program, count = launch.program, len(launch.program.parameters)
    known = signatures.of_program(program) or signatures.declared(source, program.name)
    known = known if len(known) == count else (Declared("", _UNKNOWN),) * count
    types = parameter_types(program.entry)
    if types is None or len(types) != count:
        return [*known]
    return [Declared(one.name, type_) for one, type_ in zip(known, types, strict=True)]


def _spoken(parameter: Parameter, type_: CType) -> str:
    known = type_.name or (_FLOATS.get(parameter.bytes, "") if parameter.kind == "float" else "")
    return f"`{known}`" if known else f"{parameter.bytes} bytes"


def _wrong(given: Passed, parameter: Parameter, type_: CType) -> Iterator[dict[str, Any]]:
    """The details of the finding of an argument, if it does not fit."""
    if given.array is not None:
        yield from _wrong_array(given, parameter, type_)
    elif given.bytes < parameter.bytes:
        yield {"how": "short", "given": _value(given), "missing": parameter.bytes - given.bytes}
    elif given.dtype is not None:
        read = _read(given, parameter, type_)
        if read is not None:
            yield {"how": "number", "given": _value(given), "read": read}
    elif given.bytes > parameter.bytes:
        yield {"how": "long", "got": given.bytes}


def _wrong_array(given: Passed, parameter: Parameter, type_: CType) -> Iterator[dict[str, Any]]:
    """Details for an array that a parameter has no room for, or whose elements the kernel takes for another type's."""
    may_be_address = parameter.bytes == given.bytes and parameter.kind != "float"
    takes = type_.pointer or type_.dtype in ("", "<u8")
    if not (may_be_address and takes) or (type_.pointer and not _same_elements(given.dtype, type_.dtype)):
        yield {"how": "array", "dtype": str(given.dtype)}


def _same_elements(given: np.dtype[Any] | None, wanted: str) -> bool:
    """Whether a kernel that reads elements of a type may get an array: of the type, or of bits without one."""
    if given is None or not wanted or given.kind not in "biufc" or given.itemsize == 1:
        return True
    read = np.dtype(wanted)
    if given.kind == "c":  # two numbers each
        return read.kind == "f" and 2 * read.itemsize == given.itemsize
    both = {given.kind, read.kind}
    return given.itemsize == read.itemsize and (both <= set("iu") or len(both) == 1 or read.itemsize <= _ANY_TYPE)


def _read(given: Passed, parameter: Parameter, type_: CType) -> str | None:
    """What the kernel reads of a number's bytes, if that is another number; None if it is the same or not known."""
    assert given.dtype is not None
    kind = "f" if parameter.kind == "float" else "" if parameter.kind == "bytes" else "u"  # PTX knows no sign
    wanted = np.dtype(type_.dtype if type_.dtype and not type_.pointer else f"{kind}{parameter.bytes}" if kind else "V")
    if wanted.kind not in "biuf" or wanted.itemsize != parameter.bytes:
        return None
    got = np.asarray(given.value, given.dtype).tobytes()[: parameter.bytes]
    read = np.frombuffer(got, wanted)[0]
    if wanted.kind == "f":
        return None if given.dtype == wanted else str(read)
    if given.dtype.kind not in "biu":
        return str(read)
    bits = 8 * parameter.bytes
    return None if -(1 << bits - 1) <= int(given.value) < 1 << bits - (wanted.kind == "i") else str(read)


def _value(given: Passed) -> str:
    """An argument in words."""
    return f"{given.bytes} bytes" if given.dtype is None else f"{given.value} ({given.dtype})"

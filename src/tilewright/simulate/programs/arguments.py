"""Converts Python arguments to the bytes of kernel parameters, in Numba's convention and in C's.

Numba passes an array as seven or more parameters: meminfo, parent, number of items, itemsize, data, then the shape and
the strides in bytes. C passes a pointer. The simulated and the real launcher both use :func:`marshal`; they differ only
in the address of an array's data.

Source: numba-cuda, `dispatcher.py` (`_Kernel._prepare_args`); CUDA C++ Programming Guide, "Kernel parameters".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import ArgumentTypeError, LaunchError
from tilewright.simulate.programs.array_arguments import ArrayParameter, ArrayShape, array_shape
from tilewright.simulate.programs.listing import Parameter
from tilewright.simulate.programs.mangling import CType

#: Positions in numba-cuda's parameters of an array: number of items, bytes of one, address, first extent.
COUNT, ITEMSIZE, DATA, SHAPE = 2, 3, 4, 5


def array_fields(ndim: int) -> int:
    """The number of numba-cuda's parameters for an array, with its shape and strides at the end."""
    return SHAPE + 2 * ndim


#: Gives the device address of an array argument's element [0, 0, ...].
AddressOf = Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class Argument:
    """The rule for one Python argument of a kernel."""

    name: str  #: The parameter's name in the source, or `argument 0` if it is unknown.
    #: `array`, `scalar`, `tuple` or `record`; `pointer` in a C++ function; `c` for a parameter of which only the PTX
    #: type is known.
    kind: str
    type_name: str  #: The compiler's name of the type, for messages.
    dtype: str | np.dtype[Any] = ""  #: The (element) type: `numpy.dtype.str`, or the dtype itself of records.
    ndim: int = 0  #: Dimensions of an array.
    layout: str = "A"  #: `C`, `F` or `A` (any strides), of an array.
    writable: bool = True  #: Whether the kernel may write to an array.
    items: tuple[Argument, ...] = ()  #: Items of a tuple.


def fields_of(argument: Argument) -> Iterator[tuple[int, int]]:
    """The number of numba-cuda's parameters for an argument, and its dimensions; for a tuple, one pair per item."""
    if argument.kind == "tuple":
        for item in argument.items:
            yield from fields_of(item)
    elif argument.kind == "array":
        yield array_fields(argument.ndim), argument.ndim
    else:
        yield 2 if argument.kind == "scalar" and np.dtype(argument.dtype).kind == "c" else 1, 0


def last_strides(fields: Sequence[tuple[int, int]], count: int) -> tuple[tuple[int, int], ...]:
    """For each array of numba-cuda: the numbers of the parameters that hold the element size and the last stride.

    `fields` has the number of parameters of each argument, and its dimensions, 0 for no array; `count` is the number of
    all parameters. Empty if they do not agree.

    >>> last_strides([(7, 1), (1, 0)], 8)
    ((3, 6),)
    """
    if sum(parameters for parameters, _ in fields) != count:
        return ()
    found, start = [], 0
    for parameters, ndim in fields:
        if ndim:
            found.append((start + ITEMSIZE, start + parameters - 1))
        start += parameters
    return tuple(found)


def marshal(
    kernel: str, arguments: Sequence[Argument], parameters: Sequence[Parameter], args: Sequence[Any], address: AddressOf
) -> tuple[bytes, ...]:
    """Convert Python arguments to the bytes of each kernel parameter.

    `address` gives the device address of an array argument's element [0, 0, ...]; the argument's own strides apply.
    `kernel` is its name, for messages.

    Raises LaunchError: the number of arguments is wrong, or a scalar does not fit its type; ArgumentTypeError: an
    argument's type, dtype, dimensions or layout is wrong.
    """
    if len(args) != len(arguments):
        names = ", ".join(f"{a.name}: {a.type_name}" for a in arguments)
        raise LaunchError(f"{kernel} takes {len(arguments)} arguments ({names}) (got {len(args)}); pass one for each")
    values: list[bytes] = []
    for argument, arg in zip(arguments, args, strict=True):
        if argument.kind in ("c", "pointer"):
            values.append(_c_value(kernel, argument, parameters[len(values)], arg, address))
        else:
            values += _numba_values(kernel, argument, arg, address)
    got, sizes = list(map(len, values)), [parameter.bytes for parameter in parameters]
    if got != sizes:
        raise LaunchError(
            f"{kernel}: the arguments' sizes must be its parameters' {sizes} bytes (got {got}); the argument types do "
            "not belong to this PTX"
        )
    return tuple(values)


def _numba_values(kernel: str, argument: Argument, value: Any, address: AddressOf) -> list[bytes]:
    """The fields of one argument in Numba's convention."""
    if argument.kind == "array":
        shape: Any = value if _fits(argument, value) else _checked_array(kernel, argument, value)
        fields = (0, 0, math.prod(shape.shape), shape.dtype.itemsize, address(value), *shape.shape, *shape.strides)
        packed = struct.pack(f"<{len(fields)}q", *fields)
        return [packed[at : at + 8] for at in range(0, len(packed), 8)]
    if argument.kind == "record":
        if getattr(value, "dtype", None) != np.dtype(argument.dtype):
            raise _mismatch(kernel, argument, value)
        return [_integer(address(np.asarray(value)))]
    if argument.kind == "tuple":
        if not isinstance(value, tuple) or len(value) != len(argument.items):
            raise _mismatch(kernel, argument, value)
        pairs = zip(argument.items, value, strict=True)
        return [field for item, part in pairs for field in _numba_values(kernel, item, part, address)]
    return _scalar(kernel, argument, value)


_MASK = 2**64 - 1


def _integer(value: int) -> bytes:
    return (int(value) & _MASK).to_bytes(8, "little")


def _fits(argument: Argument, value: Any) -> bool:
    """Whether a NumPy array fits; other arrays, and what does not fit, are for :func:`_checked_array`."""
    if type(value) is not np.ndarray or value.ndim != argument.ndim or value.dtype != argument.dtype:
        return False
    flags = value.flags
    layout = argument.layout == "A" or (flags.c_contiguous if argument.layout == "C" else flags.f_contiguous)
    return bool(layout and (flags.writeable or not argument.writable))


def _checked_array(kernel: str, argument: Argument, value: Any) -> ArrayShape:
    shape = array_shape(value)
    if (
        shape is None
        or shape.dtype != np.dtype(argument.dtype)
        or len(shape.shape) != argument.ndim
        or (argument.layout != "A" and _layout_differs(shape, argument.layout))
        or (argument.writable and shape.readonly)
    ):
        raise _mismatch(kernel, argument, value)
    return shape


def _layout_differs(shape: ArrayShape, layout: str) -> bool:
    """Whether an array is not contiguous as its type requires; a vector or an empty array can be both C and F."""
    if layout == "C":
        return shape.layout != "C"
    turned = ArrayShape(shape.dtype, shape.shape[::-1], shape.strides[::-1], shape.readonly)
    return turned.layout != "C"


def _scalar(kernel: str, argument: Argument, value: Any) -> list[bytes]:
    """A scalar of its NumPy type; a complex number is two parameters."""
    dtype = np.dtype(argument.dtype)
    if array_shape(value) is not None or not isinstance(value, int | float | complex | np.generic):
        raise _mismatch(kernel, argument, value)
    if dtype.kind in "iu":
        return [_checked_integer(kernel, argument, value, dtype.itemsize, signed=dtype.kind == "i")]
    if dtype.kind == "b":
        if value not in (False, True):
            raise _mismatch(kernel, argument, value)
        return [bytes([bool(value)])]
    if dtype.kind in "mM":
        return [np.asarray(value, dtype).tobytes()]
    if isinstance(value, complex | np.complexfloating) and dtype.kind != "c":
        raise _mismatch(kernel, argument, value)
    raw = np.asarray(value, dtype).tobytes()
    return [raw[: len(raw) // 2], raw[len(raw) // 2 :]] if dtype.kind == "c" else [raw]


def _checked_integer(kernel: str, argument: Argument, value: Any, size: int, *, signed: bool) -> bytes:
    if not isinstance(value, int | np.integer | np.bool_):
        raise _mismatch(kernel, argument, value)
    low, high = (-(1 << 8 * size - 1), 1 << 8 * size - 1) if signed else (0, 1 << 8 * size)
    number = int(value)
    if not low <= number < high:
        raise LaunchError(f"{kernel}: {argument.name} must fit {argument.type_name} (got {number})")
    return number.to_bytes(size, "little", signed=signed)


#: Kinds of parameters that may be pointers, if only the PTX is known.
_POINTERS = ("integer", "pointer")


def _c_value(kernel: str, argument: Argument, parameter: Parameter, value: Any, address: AddressOf) -> bytes:
    """One argument of a C function: a pointer, or a parameter of which only the PTX type is known."""
    if value is None and parameter.bytes == 8 and (argument.kind == "pointer" or parameter.kind in _POINTERS):
        return bytes(8)
    if parameter.kind == "bytes" and isinstance(value, ArrayParameter):
        return _structure(kernel, argument, parameter, value, address)
    shape = array_shape(value)
    if shape is not None:
        if not shape.dtype.isnative:
            raise ArgumentTypeError(
                f"{kernel}: {argument.name} must be in the host's byte order, which is a GPU's too (got dtype "
                f"{shape.dtype.str!r}); convert it with .astype({shape.dtype.newbyteorder('=').str!r})"
            )
        if (
            parameter.bytes != 8
            or parameter.kind not in _POINTERS
            or (argument.dtype and shape.dtype != np.dtype(argument.dtype))
            or (argument.kind == "pointer" and argument.writable and shape.readonly)
        ):
            raise _mismatch(kernel, argument, value)
        return _integer(address(value))
    if parameter.kind == "bytes":
        return _structure(kernel, argument, parameter, value, address)
    if parameter.kind == "float":
        if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
            raise _mismatch(kernel, argument, value)
        if isinstance(value, np.floating) and not isinstance(value, float) and value.dtype.itemsize > parameter.bytes:
            raise _mismatch(kernel, argument, value)
        return np.asarray(value, f"f{parameter.bytes}").tobytes()
    if isinstance(value, np.float16) and parameter.bytes == 2:
        return value.tobytes()
    # PTX does not distinguish int from unsigned, so either range is valid.
    negative = isinstance(value, int | np.integer) and int(value) < 0
    return _checked_integer(kernel, argument, value, parameter.bytes, signed=negative)


def _structure(kernel: str, argument: Argument, parameter: Parameter, value: Any, address: AddressOf) -> bytes:
    """A structure by value: a NumPy record, a ctypes structure, an ArrayParameter, or bytes of the right length."""
    try:
        if isinstance(value, ArrayParameter):
            value = value.encoded(address(value.array))
        raw = value.tobytes() if isinstance(value, np.generic) else bytes(memoryview(value))
    except TypeError:
        raise _mismatch(kernel, argument, value) from None
    if len(raw) != parameter.bytes:
        raise _mismatch(kernel, argument, value)
    return raw


def _mismatch(kernel: str, argument: Argument, value: Any) -> ArgumentTypeError:
    """The error for an argument that does not fit."""
    shape = array_shape(value)
    if shape is None:
        came = f"{type(value).__name__} {value!r}"
    else:
        came = f"array({shape.dtype}, {len(shape.shape)}d, {shape.layout}{', read-only' if shape.readonly else ''})"
    hints = {"array": "pass an array of that dtype and layout", "pointer": "pass an array of that dtype"}
    hint = hints.get(argument.kind, "convert it first")
    return ArgumentTypeError(f"{kernel}: {argument.name} must be {argument.type_name} (got {came[:200]}); {hint}")


def c_arguments(parameters: Sequence[Parameter], types: Sequence[CType] | None = None) -> tuple[Argument, ...]:
    """Descriptors for a kernel of C's convention.

    `types` are the parameters' C++ types, if the kernel's name contains them.
    """
    known = types if types is not None and len(types) == len(parameters) else [None] * len(parameters)
    return tuple(
        _c_argument(f"argument {index}", parameter, type_)
        for index, (parameter, type_) in enumerate(zip(parameters, known, strict=True))
    )


def _c_argument(name: str, parameter: Parameter, type_: CType | None) -> Argument:
    if type_ is not None and type_.pointer:
        return Argument(name, "pointer", type_.name, type_.dtype, writable=not type_.const)
    if type_ is not None and type_.dtype:
        return Argument(name, "scalar", type_.name, type_.dtype)
    return Argument(name, "c", f"a {parameter.bytes}-byte {_words(parameter)}")


def _words(parameter: Parameter) -> str:
    if parameter.kind == "bytes":
        return "structure"
    if parameter.kind == "float" or parameter.bytes != 8:
        return parameter.kind
    return "pointer (an array)" if parameter.kind == "pointer" else "integer or pointer (an array)"

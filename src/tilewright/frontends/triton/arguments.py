"""The arguments of a Triton kernel as its launch passes them, by the signature that it was compiled for.

Source: Triton, `backends/nvidia/driver.py` and `driver.c` of the installed package.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontends.triton.descriptors import parameters
from tilewright.simulate.device.allocations import device_address
from tilewright.simulate.device.gpu import DriverError, EndedError
from tilewright.simulate.device.installed_gpu import current_gpu
from tilewright.simulate.observer import ArgumentFact

#: NumPy types of scalars; bfloat16 is the upper half of a float32.
_SCALARS: dict[str, type[np.generic]] = {
    "i1": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u1": np.uint8, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "fp16": np.float16, "fp32": np.float32, "f32": np.float32, "fp64": np.float64,
}  # fmt: skip
_CONSTANT = "constexpr"


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument: its launch parameter, and its description for observers."""

    value: Any
    fact: ArgumentFact


def passed(
    names: Sequence[str],
    types: Sequence[Any],
    given: Sequence[Any],
    maps: Iterator[Any],
    places: Iterator[int] | None = None,
) -> Iterator[Passed]:
    """Each parameter of the launch, in order; tuples are expanded, constants left out.

    `maps` has the compiler's data for each tensor descriptor; it is empty if the GPU has no tensor maps. `places`
    numbers the arguments.

    Raises ValueError, TypeError: a pointer is to memory that the GPU does not reach, or none; as Triton's launcher.
    """
    places = itertools.count() if places is None else places
    for name, type_, value in zip(names, types, given, strict=True):
        if isinstance(type_, tuple):
            yield from passed([f"{name}[{at}]" for at in range(len(type_))], type_, tuple(value), maps, places)
            continue
        place = next(places)
        if type_.startswith("tensordesc"):
            yield from _descriptor(name, value, next(maps, None), place)
        elif type_ != _CONSTANT:
            yield _one(name, type_, value, place)


def _descriptor(name: str, value: Any, described: Any, place: int) -> Iterator[Passed]:
    for kind, one in parameters(value, described):
        if isinstance(one, bytes):
            yield Passed(block_of(one), _tensor_fact(name, value.base, value.base.data_ptr()))
        else:
            yield _one(name, kind, one, place)


def _one(name: str, type_: str, value: Any, place: int) -> Passed:
    if type_.startswith("*"):
        address = _address(value, place)
        return Passed(address, _tensor_fact(name, value, address))
    if type_ == "bf16":
        bits = int(np.float32(value).view(np.uint32))
        return Passed(np.uint16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16), ArgumentFact(name))
    if type_ in _SCALARS:
        whole = _SCALARS[type_]
        scalar = np.asarray(value).astype(whole)[()] if issubclass(whole, np.floating) else _wrapped(value, whole)
        return Passed(scalar, ArgumentFact(name, value=int(value) if issubclass(whole, np.integer) else None))
    return Passed(value, ArgumentFact(name))


def _wrapped(value: Any, whole: type[np.generic]) -> np.generic:
    size = np.dtype(whole).itemsize
    found: np.generic = np.frombuffer((int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little"), whole)[0]
    return found


def _address(value: Any, place: int) -> int:
    """The device address of a pointer: a number, None, or the result of `data_ptr`."""
    if value is None or isinstance(value, int):
        return int(value or 0)
    if not hasattr(value, "data_ptr"):
        raise TypeError("Pointer argument must be either uint64 or have data_ptr method")
    address, gpu = int(value.data_ptr()), current_gpu()
    try:
        gpu.refuse_ended(address)
        return device_address(gpu, address) if address else 0
    except EndedError:  # the launch says more
        return address
    except DriverError:
        raise ValueError(f"Pointer argument (at {place}) cannot be accessed from Triton (cpu tensor?)") from None


def _tensor_fact(name: str, value: Any, address: int) -> ArgumentFact:
    from tilewright.frontends.torch.tensors import DeviceTensor, fact

    base = getattr(value, "base", value)  # of a tensor that Triton wraps with another element type
    return fact(name, base) if isinstance(base, DeviceTensor) else ArgumentFact(name, address=address)


def block_of(data: bytes) -> Any:
    """Bytes that a launch passes by value."""
    return (ctypes.c_uint8 * len(data)).from_buffer_copy(data)

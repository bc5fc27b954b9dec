"""The object by which torch's C++ finds the devices of CUDA, which autograd asks for streams.

A trace with fake tensors on a host without a GPU puts a stand-in in its place for the rest of the process, and autograd
does not work with that. While a simulated GPU is in place the object is torch's own, if it was seen before.

Source: PyTorch, `c10/core/impl/DeviceGuardImplInterface.h`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tilewright.ground.native.memo import memo

#: An array of pointers by the device's type, and CUDA's type.
_OBJECTS, _CUDA = "_ZN3c104impl26device_guard_impl_registryE", 1
#: The library that has the code of torch's own object.
_LIBRARY = "libc10_cuda.so"


class _Symbol(ctypes.Structure):
    """What `dladdr` finds: the file that an address is in."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


@memo
def _seen() -> list[int]:
    """The address of torch's own object, once it was seen."""
    return []


@contextmanager
def own_guard() -> Iterator[bool]:
    """Put torch's own object in place in the body, and say whether it is known.

    True if the release has no such array.
    """
    objects = _objects()
    if objects is None:
        yield True
        return
    before, seen = objects[_CUDA], _seen()
    if not seen and before and _is_own(before):
        seen.append(before)
    if seen:
        objects[_CUDA] = seen[0]
    try:
        yield bool(seen)
    finally:
        objects[_CUDA] = before


def _objects() -> Any:
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    try:
        return (ctypes.c_void_p * (_CUDA + 1)).in_dll(ctypes.CDLL(str(library)), _OBJECTS)
    except (OSError, ValueError):
        return None


def _is_own(address: int) -> bool:
    """Whether an object's functions are in torch's library for CUDA."""
    table, found = ctypes.c_void_p.from_address(address).value, _Symbol()
    ctypes.CDLL(None).dladdr(ctypes.c_void_p(table), ctypes.byref(found))
    return Path((found.file or b"").decode()).name == _LIBRARY

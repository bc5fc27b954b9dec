"""The object by which torch's C++ finds the devices of CUDA, which autograd asks for streams.

A trace with fake tensors on a host without a GPU puts a stand-in in its place for the rest of the process, and autograd
does not work with that. While a simulated GPU is in place one of torch's own class replaces such a stand-in. torch does
not export that class, so its table of virtual functions is found in the memory of torch's library, by the class's name.

Source: PyTorch, `c10/core/impl/DeviceGuardImplInterface.h`, `c10/cuda/impl/CUDAGuardImpl.h`: the class has no data.
Itanium C++ ABI, 2.5.2 (virtual table layout) and 2.9.4 (type information).
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tilewright.ground.native.memo import memo

#: An array of pointers by the device's type, and CUDA's type.
_OBJECTS, _CUDA = "_ZN3c104impl26device_guard_impl_registryE", 1
#: The class of torch's own object, and the library that has its code.
_CLASS, _LIBRARY = b"N3c104cuda4impl13CUDAGuardImplE\0", "libc10_cuda.so"
_POINTER = struct.Struct("@P")


@contextmanager
def own_guard() -> Iterator[bool]:
    """Have an object of torch's own class in place in the body, and say whether there is one.

    True if the release has no such array.
    """
    objects = _objects()
    if objects is None:
        yield True
        return
    before, own = objects[_CUDA], _own()
    if own is not None and (not before or ctypes.c_void_p.from_address(before).value != own.value):
        objects[_CUDA] = ctypes.addressof(own)
    try:
        yield own is not None
    finally:
        objects[_CUDA] = before


def _objects() -> Any:
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    try:
        return (ctypes.c_void_p * (_CUDA + 1)).in_dll(ctypes.CDLL(str(library)), _OBJECTS)
    except (OSError, ValueError):
        return None


@memo
def _own() -> ctypes.c_void_p | None:
    """An object without data: the address of its class's virtual functions. None if that is not found."""
    try:
        parts = list(_memory(_LIBRARY))
    except OSError:  # a host without /proc, or one that lets nobody read it
        return None
    tables = [
        table + _POINTER.size
        for name in _places(parts, _CLASS)
        for of_name in _places(parts, _POINTER.pack(name))
        for table in _places(parts, _POINTER.pack(of_name - _POINTER.size))
    ]
    return ctypes.c_void_p(tables[0]) if len(tables) == 1 else None


def _memory(library: str) -> Iterator[tuple[int, bytes]]:
    """The readable parts of a loaded library: their addresses and bytes."""
    own = Path("/proc/self")
    with (own / "maps").open(encoding="utf-8") as maps, (own / "mem").open("rb", buffering=0) as memory:
        for line in maps:
            if found := re.match(rf"(\w+)-(\w+) r.*/{re.escape(library)}$", line):
                start, end = (int(part, 16) for part in found.groups())
                memory.seek(start)
                yield start, memory.read(end - start)


def _places(parts: list[tuple[int, bytes]], sought: bytes) -> Iterator[int]:
    """The addresses at which bytes stand."""
    for start, found in parts:
        yield from (start + place.start() for place in re.finditer(re.escape(sought), found))

"""Prototypes of the driver's and the runtime's functions, as printed in their manuals, for ctypes.

`driver_calls.txt` and `runtime_calls.txt` list them. Parameters that point to a result, such as `int *count`, are
outputs. All others are inputs, with pointers to `const`, `char` and `void`, which stay addresses. So a prototype says
how to call an implementation in Python: with the inputs in order; its results are written to the outputs.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

_LINE = re.compile(r"(?P<prototype>.*\))(?: (?:=|since) (?P<word>\w+))?")
_PARTS = re.compile(r"(?P<name>\w+)\((?P<parameters>.*)\)")
_PARAMETER = re.compile(r"(?P<type>.*?)(?P<name>\w+)$")
#: C type -> ctypes; handles are addresses, other types are enumerations.
_TYPES: Mapping[str, Any] = MappingProxyType(
    {
        "int": ctypes.c_int,
        "unsigned int": ctypes.c_uint,
        "size_t": ctypes.c_size_t,
        "float": ctypes.c_float,
        "unsigned short": ctypes.c_ushort,
        "unsigned char": ctypes.c_ubyte,
        "unsigned long long": ctypes.c_ulonglong,
        "CUdevice": ctypes.c_int,
    }
)
_HANDLES = frozenset(
    "CUdeviceptr CUcontext CUmodule CUfunction CUlibrary CUkernel CUstream CUevent CUmemoryPool CUlinkState "
    "CUhostFn CUstreamCallback CUgraph CUgraphExec CUgraphNode CUuserObject CUarray CUtexObject CUsurfObject "
    "CUoccupancyB2DSize cudaStream_t cudaEvent_t cudaMemPool_t cudaHostFn_t cudaStreamCallback_t cudaFunction_t "
    "cudaGraph_t cudaGraphExec_t cudaGraphNode_t cudaUserObject_t cudaArray_t cudaLibrary_t cudaKernel_t "
    "cudaTextureObject_t cudaSurfaceObject_t cudaSymbol_t".split()
)


class Extent(ctypes.Structure):
    """`cudaExtent`, and three words in general."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in ("width", "height", "depth"))


class Pitched(ctypes.Structure):
    """`cudaPitchedPtr`."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in ("address", "step", "width", "rows"))


#: Structures that are passed by value; and those that calls fill, with their bytes.
_BY_VALUE: Mapping[str, Any] = MappingProxyType({"cudaExtent": Extent, "cudaPitchedPtr": Pitched})
_FILLED: Mapping[str, Any] = MappingProxyType(
    {
        "CUDA_ARRAY_DESCRIPTOR": 24,
        "CUDA_ARRAY3D_DESCRIPTOR": 40,
        "CUDA_RESOURCE_DESC": 144,
        "CUDA_TEXTURE_DESC": 104,
        "cudaChannelFormatDesc": 20,
        "cudaExtent": 24,
        "cudaResourceDesc": 144,
        "cudaTextureDesc": 72,
    }
)


def _listed(file: str) -> tuple[tuple[str, str], ...]:
    """The prototypes of a file, each with the word after it, or ""."""
    text = resources.files(__package__).joinpath(file).read_text("utf-8")
    found = []
    for line in re.sub(r"\n +", " ", text).splitlines():
        if line and not line.startswith("#"):
            one = _LINE.fullmatch(line)
            assert one is not None, line
            found.append((one["prototype"], one["word"] or ""))
    return tuple(found)


#: Prototypes of the driver, and the CUDA version that has a version of a function first, if it has other parameters.
DRIVER_CALLS = _listed("driver_calls.txt")
#: Prototypes of the runtime, and the driver's call; "" where the answer has the name of the runtime.
_RUNTIME_CALLS = _listed("runtime_calls.txt")
#: Those that take a kernel, or a variable, for programs that have theirs known here; and the others.
OF_KERNELS = tuple(row for row in _RUNTIME_CALLS if "cudaFunction_t" in row[0])
OF_VARIABLES = tuple(row for row in _RUNTIME_CALLS if "cudaSymbol_t" in row[0])
RUNTIME_CALLS = tuple(row for row in _RUNTIME_CALLS if row not in (*OF_KERNELS, *OF_VARIABLES))


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter."""

    name: str
    type: str  #: The type in the prototype, without `const` and stars.
    native: Any  #: The ctypes type of the argument.
    given: Any = None  #: For an output, the ctypes type of the result.


@dataclass(frozen=True, slots=True)
class Prototype:
    """One function."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def native(self) -> Any:
        """The type of a ctypes callback for the function, which returns an error code."""
        return ctypes.CFUNCTYPE(ctypes.c_int, *(parameter.native for parameter in self.parameters))


def prototype(text: str) -> Prototype:
    """Read a prototype.

    >>> read = prototype("cuMemAlloc(CUdeviceptr *dptr, size_t bytesize)")
    >>> [(parameter.name, parameter.given is not None) for parameter in read.parameters]
    [('dptr', True), ('bytesize', False)]
    """
    found = _PARTS.fullmatch(text)
    assert found is not None, text
    texts = [part.strip() for part in found["parameters"].split(",")] if found["parameters"] else []
    return Prototype(found["name"], tuple(_parameter(part) for part in texts))


def _parameter(text: str) -> Parameter:
    found = _PARAMETER.fullmatch(text)
    assert found is not None, text
    type_ = found["type"].replace("const", "").strip()
    stars, plain = type_.count("*"), type_.rstrip("* ")
    if not stars:
        return Parameter(found["name"], plain, _native(plain))
    is_address = "const" in found["type"].split("*")[0] and stars == 1
    if is_address or (stars == 1 and plain in ("void", "char")):
        return Parameter(found["name"], f"{plain} *", ctypes.c_void_p)
    given = ctypes.c_size_t if stars > 1 else ctypes.c_char * _FILLED[plain] if plain in _FILLED else _native(plain)
    return Parameter(found["name"], plain, ctypes.c_void_p, given)


def _native(type_: str) -> Any:
    if type_ in _TYPES:
        return _TYPES[type_]
    if type_ in _BY_VALUE:
        return _BY_VALUE[type_]
    return ctypes.c_size_t if type_ in _HANDLES else ctypes.c_int

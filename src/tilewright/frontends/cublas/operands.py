"""The operands of one call of cuBLAS: matrices by columns, vectors with increments, and numbers of host or device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.frontends.cublas.calls import Function
from tilewright.frontends.cublas.header import COMPUTE_TYPES
from tilewright.frontends.host_arrays import Array, array_at, read, write
from tilewright.multiply.problem.dtypes import COMPOSED, DTYPES, element, is_float8
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.graphs import submit

#: Element types by letter.
_LETTERS: Mapping[str, str] = MappingProxyType(
    {"S": "float32", "D": "float64", "C": "complex64", "Z": "complex128", "H": "float16"}
)
#: Element types of functions whose names say several, by the type in C.
_ELEMENTS: Mapping[str, str] = MappingProxyType({one.cuda: one.name for one in DTYPES if one.cuda})
#: Element types by the number of a `cudaDataType`.
DATA_TYPES: Mapping[int, str] = MappingProxyType(
    {one.cuda_data: one.name for one in (*DTYPES, *COMPOSED) if one.cuda_data is not None}
)
#: Types of numbers that are passed by their addresses, by the type in C.
_NUMBERS: Mapping[str, str] = MappingProxyType(
    {
        "float": "float32",
        "double": "float64",
        "cuComplex": "complex64",
        "cuDoubleComplex": "complex128",
        "__half": "float16",
        "int": "int32",
        "int64_t": "int64",
        "cublasOperation_t": "int32",
    }
)
#: Types of sums, by how the name of a `cublasComputeType_t` begins.
_SUMS: Mapping[str, str] = MappingProxyType({"16F": "float16", "32F": "float32", "64F": "float64", "32I": "int32"})
#: Types of A and B, and of C, that products have, by the type of sums.
_PRODUCTS: Mapping[str, str] = MappingProxyType(
    {
        "float16": "float16 float16", "int32": "int8 int32", "float64": "float64 float64, complex128 complex128",
        "float32": "bfloat16 bfloat16, float16 float16, int8 float32, bfloat16 float32, float16 float32, "
                   "float32 float32, complex64 complex64",
    }
)  # fmt: skip
#: The values of parameters that are enumerations.
_CHOICES: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(("trans", "transa", "transb"), 3) | dict.fromkeys(("uplo", "side", "diag"), 2)
)
#: Addresses of numbers, which every call reads or writes.
_NEEDED = ("alpha", "beta", "result", "a", "b", "c", "s", "param", "d1", "d2", "x1", "y1")
_COUNTS = ("m", "n", "k", "kl", "ku", "batchCount", "group_count")
#: Parameters that name the type of a number, where that is not `alphaType` of `alpha`.
_TYPED: Mapping[str, str] = MappingProxyType({"a": "abType", "b": "abType", "c": "csType", "s": "csType"})
#: Values of a `cublasOperation_t` and of a `cublasFillMode_t`.
CONJUGATED, UPPER = 2, 1


class RefusedCall(Exception):  # noqa: N818  # a status, which the caller gets
    """A call that cuBLAS answers with a status; the text says why."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(slots=True)
class Handle:
    """What a program has set for a handle."""

    stream: int = 0
    values: dict[str, int] = field(default_factory=dict)  #: Settings, by the names of functions without `Set`.


@dataclass(frozen=True, slots=True)
class Operands:
    """The values of a call, by the names of its parameters."""

    gpu: SimulatedGpu
    handle: Handle
    function: Function
    given: Mapping[str, Any]
    known: dict[str, Array] = field(default_factory=dict)  #: Numbers of the host, as they were when it called.

    def __getitem__(self, name: str) -> int:
        return int(self.given[name])

    def check(self) -> None:
        """Refuse counts, enumerations, addresses and types that no call has.

        Raises RefusedCall: there is one.
        """
        for name, value in self.given.items():
            if name in _COUNTS and value < 0 and (name != "n" or not self.given.keys().isdisjoint(("m", "uplo"))):
                raise RefusedCall("INVALID_VALUE", f"`{name}` must be at least 0 (got {value})")
            if name in _CHOICES and not 0 <= value < _CHOICES[name]:
                raise RefusedCall("INVALID_VALUE", f"`{name}` must be from 0 to {_CHOICES[name] - 1} (got {value})")
            if name in _NEEDED and not value:
                raise RefusedCall("INVALID_VALUE", f"`{name}` must be an address (got 0)")
        for name in self.listed:
            if not self[name] and self["group_count"]:
                raise RefusedCall("INVALID_VALUE", f"`{name}` must be an address (got 0)")
        if "Atype" in self.given:
            self._sums()

    def dtype(self, name: str = "") -> np.dtype[Any]:
        """The type of the elements: that of the function, or the one that a parameter names.

        Raises RefusedCall: products have no such type.
        """
        kind = DATA_TYPES.get(self[name], "") if name in self.given else _LETTERS.get(self.function.letter, "")
        kind = kind or self._declared(name[: -len("type")])
        if not kind or is_float8(kind):
            raise RefusedCall("NOT_SUPPORTED", f"`{name}` must be a type that products have (got {self.given[name]})")
        return element(kind).numpy

    def _declared(self, name: str) -> str:
        """The type that a matrix or vector has in functions whose names say several; "" for others."""
        types = (type_ for type_, one in self.function.parameters if one in (name, f"{name}array"))
        return _ELEMENTS.get(next(types, "").replace("const ", "").replace("*", "").strip(), "")

    # -- memory -------------------------------------------------------------------------------------------------

    def at(self, address: int, rows: int, columns: int, leading: int, dtype: np.dtype[Any]) -> Array:
        """A matrix by columns."""
        return array_at(self.gpu, address, dtype, (rows, columns), (dtype.itemsize, leading * dtype.itemsize))

    def leading(self, name: str, least: int) -> int:
        """A leading dimension, which counts elements.

        Raises RefusedCall: it is smaller than a column.
        """
        if self[name] < max(1, least):
            raise RefusedCall("INVALID_VALUE", f"`{name}` must be at least {max(1, least)} (got {self[name]})")
        return self[name]

    def matrix(self, name: str, rows: int, columns: int) -> Array:
        """The matrix of this name, as it is in memory."""
        leading = self.leading(f"ld{name.lower()}", rows)
        return self.at(self[name], rows, columns, leading, self.dtype(f"{name}type"))

    def operand(self, name: str, rows: int, columns: int, operation: int = 0) -> Array:
        """Op of a matrix that is read: it has this shape."""
        stored = (columns, rows) if operation else (rows, columns)
        return turned(read(self.gpu, self.matrix(name, *stored)), operation)

    def vector(self, name: str, count: int, dtype: np.dtype[Any] | None = None) -> Array:
        """A vector; with a negative increment its first element is the last one in memory."""
        step = self.given[f"inc{name}"]
        kind = self.dtype(f"{name}Type") if dtype is None else dtype
        found = array_at(self.gpu, self[name], kind, (max(count, 0),), (abs(step) * kind.itemsize,))
        return found[::-1] if step < 0 else found

    def addresses(self, name: str, count: int) -> list[int]:
        """The addresses in an array on the device."""
        found: list[int] = read(self.gpu, array_at(self.gpu, self[name], np.uint64, (count,))).tolist()
        return found

    def each(self) -> Iterator[Operands]:
        """The calls for single matrices that a call with arrays of addresses, or with distances, stands for."""
        count, given = self["batchCount"], dict(self.given)
        arrays = {name: self.addresses(name, count) for name in given if name.endswith("array")}
        strides = {name.removeprefix("stride"): given[name] for name in given if name.startswith("stride")}
        for at in range(count):
            one = {name.removesuffix("array"): found[at] for name, found in arrays.items()}
            for name, distance in strides.items():
                one[name] = given[name] + at * distance * self.dtype(f"{name}type").itemsize
            yield replace(self, given=given | one)

    # -- numbers ------------------------------------------------------------------------------------------------

    @property
    def on_device(self) -> bool:
        """Whether numbers are in device memory."""
        return self.handle.values.get("PointerMode", 0) == 1

    def number_type(self, name: str) -> np.dtype[Any]:
        """The type of a number that is passed by its address: as declared, as a parameter names it, or of the sums.

        Raises RefusedCall: products have no such type.
        """
        declared = next(type_ for type_, one in self.function.parameters if one == name)
        known = _NUMBERS.get(declared.removeprefix("const ").removesuffix(" *"))
        if known:
            return np.dtype(known)
        named = _TYPED.get(name, f"{name}Type")
        return self.dtype(named) if named in self.given else self._sums()

    def _sums(self) -> np.dtype[Any]:
        """The type that `computeType` names: CUDA 10, and CuPy, give a `cudaDataType`."""
        given = self.given.get("computeType", COMPUTE_TYPES["32F"])
        kinds = [DATA_TYPES.get(self[f"{one if f'{one}type' in self.given else 'A'}type"], "") for one in "ABC"]
        if self.function.letter == "C" and kinds[2] != "complex64":
            raise RefusedCall("NOT_SUPPORTED", f"`Ctype` must be CUDA_C_32F (got {self['Ctype']})")
        return sums(given, *kinds)

    def keep(self) -> None:
        """Read the numbers of the host, which it may change after the call."""
        for type_, name in self.function.parameters:
            if name in ("alpha", "beta", "c", "s", "param") and type_.startswith("const") and not self.on_device:
                self.known[name] = self.numbers(name, 5 if name == "param" else 1)
            if name in self.listed:
                kind = self.number_type(name)
                data = self.gpu.host.read(self[name], self["group_count"] * kind.itemsize)
                self.known[name] = np.frombuffer(data, kind)

    @property
    def listed(self) -> list[str]:
        """The parameters that are arrays of the host, with an element for each group of products."""
        return [name for name in self.given if name.endswith("_array") or name == "group_size"]

    def number(self, name: str) -> Any:
        """A number that is passed by its address."""
        return self.numbers(name, 1)[0]

    def numbers(self, name: str, count: int) -> Array:
        """Numbers that are passed by their address."""
        if name in self.known:
            return self.known[name]
        kind = self.number_type(name)
        if self.on_device:
            return read(self.gpu, array_at(self.gpu, self[name], kind, (count,)))
        return np.frombuffer(self.gpu.host.read(self[name], count * kind.itemsize), kind)

    def give(self, name: str, value: Any, at: int = 0) -> None:
        """Write a number to its address, or behind so many others of its type."""
        found = np.asarray(value).astype(self.number_type(name))
        if self.on_device:
            write(self.gpu, array_at(self.gpu, self[name] + at * found.itemsize, found.dtype, (1,)), found)
        else:
            self.gpu.host.write(self[name] + at * found.itemsize, found.tobytes())


def enqueue(gpu: SimulatedGpu, stream: int, work: Callable[[], None]) -> None:
    """Do the work of a call in a stream, or make it a node of the graph that captures the stream."""
    gpu.outstanding.latest.pop(stream, None)  # the next launch in the stream comes after this
    submit(gpu, stream, lambda stream: work(), "kernel")


def sums(compute: int, a: str, b: str, c: str) -> np.dtype[Any]:
    """The type of the sums of a product, and of its numbers, by the `computeType` and the types of the matrices.

    Raises RefusedCall: there is no such product.
    """
    name = next((_SUMS[name[:3]] for name, number in COMPUTE_TYPES.items() if number == compute), "")
    name = name or DATA_TYPES.get(compute, "")
    name = {"complex64": "float32", "complex128": "float64"}.get(name, name)
    if a != b or f"{a} {c}" not in _PRODUCTS.get(name, "").split(", "):
        raise RefusedCall(
            "NOT_SUPPORTED",
            f"types of A, B and C must be in cuBLAS's table for sums of `computeType` (got "
            f"{', '.join(one or 'another type' for one in (a, b, c))} with sums of {name or compute})",
        )
    return np.dtype(c if c.startswith("complex") else name)


def turned(matrix: Array, operation: int) -> Array:
    """Op of a matrix: itself, its transpose, or the conjugate of that."""
    found = matrix.swapaxes(-1, -2) if operation else matrix
    return found.conj() if operation == CONJUGATED and np.iscomplexobj(found) else found

"""Matrices of cuBLASLt by their layouts, and its sums of matrices: C = alpha op(A) + beta op(B).

Source: cuBLAS, `cublasLtMatrixLayoutAttribute_t`, `cublasLtOrder_t`, `cublasLtMatrixTransform`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.frontends.cublas import handles
from tilewright.frontends.cublas.lt_calls import ALGO, DESCRIPTORS
from tilewright.frontends.cublas.lt_epilogues import rounded
from tilewright.frontends.cublas.lt_scales import float4_of, of_float4
from tilewright.frontends.cublas.operands import DATA_TYPES, RefusedCall, enqueue, turned
from tilewright.frontends.host_arrays import Array, array_at, read, write
from tilewright.multiply.problem.dtypes import element
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu

#: Types that a sum of matrices converts, and those that it is computed in.
_TRANSFORMED = "float32 float64 float16 bfloat16 int8 int32 complex64 complex128".split()
_SUMMED = tuple(one for one in _TRANSFORMED if one != "int8")
#: The type of two floats in a byte, and the types of the parts of complex numbers in two planes, by `cudaDataType`.
FLOAT4 = "float4_e2m1fn"
KINDS: Mapping[int, str] = MappingProxyType({**DATA_TYPES, 33: FLOAT4})
PLANES: Mapping[int, str] = MappingProxyType(dict(zip((4, 6, 15), "float32 float16 bfloat16".split(), strict=True)))
#: Values of a `cublasLtOrder_t`: by columns, by rows, and those of tiles of 32 columns with the rows of a tile.
COLUMNS, ROWS = 0, 1
TILES: Mapping[int, int] = MappingProxyType({2: 1, 3: 8, 4: 32})
#: The value of a `cublasLtBatchMode_t` of matrices whose shapes are on the device.
GROUPED = 2


def held(gpu: SimulatedGpu, kind: str, place: int, name: str = "") -> dict[str, Any]:
    """The attributes of a descriptor, or of an algorithm, in the program's memory.

    Raises RefusedCall: there is none.
    """
    one = DESCRIPTORS.get(kind, ALGO)
    found = one.unpacked(lambda start, count: gpu.host.read(place + start, count)) if place else None
    if found is None:
        raise RefusedCall(
            "INVALID_VALUE", f"`{name or kind}` must be a cublasLt{kind}_t that was made (got {place:#x})"
        )
    return found


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix by its layout; `name` is the parameter's."""

    gpu: SimulatedGpu
    name: str
    layout: Mapping[str, int]
    dtype: np.dtype[Any]  #: Of what lies in memory: two floats of 4 bits, or a part of a complex number.
    kind: str

    @classmethod
    def of(cls, gpu: SimulatedGpu, name: str, place: int) -> Matrix:
        """A matrix by its descriptor.

        Raises RefusedCall: there is no such matrix, or it is not served.
        """
        layout = held(gpu, "MatrixLayout", place, f"{name}desc")
        kind = (PLANES if layout["PLANE_OFFSET"] else KINDS).get(layout["TYPE"], "")
        order, split = layout["ORDER"], layout["PLANE_OFFSET"] or kind == FLOAT4
        if not kind or order not in (COLUMNS, ROWS, *(() if split else TILES)):
            raise RefusedCall(
                "NOT_SUPPORTED",
                f"`{name}desc` must have a type that products have, in an order that it has (got type "
                f"{layout['TYPE']}, plane offset {layout['PLANE_OFFSET']}, order {order})",
            )
        found = cls(gpu, name, layout, np.dtype(np.uint8) if kind == FLOAT4 else element(kind).numpy, kind)
        if layout["LD"] < found._least and not (name == "C" and layout["LD"] == 0) and not found.grouped:
            rule = f"`{name}desc` must have an ld of at least {found._least}"
            raise RefusedCall("INVALID_VALUE", f"{rule} (got {layout['LD']})")
        if layout["BATCH_COUNT"] < 1 or layout["BATCH_MODE"] not in range(3):
            raise RefusedCall(
                "INVALID_VALUE", f"`{name}desc` must have at least 1 matrix (got {layout['BATCH_COUNT']})"
            )
        return found

    @property
    def _least(self) -> int:
        rows, columns = self.shape
        unit = TILES.get(self.layout["ORDER"])
        return max(1, 32 * -(-rows // unit) * unit if unit else columns if self.layout["ORDER"] else rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.layout["ROWS"], self.layout["COLS"]

    @property
    def planar(self) -> bool:
        """Whether real and imaginary parts lie in two planes."""
        return bool(self.layout["PLANE_OFFSET"])

    @property
    def grouped(self) -> bool:
        """Whether the shapes of its matrices are on the device."""
        return self.layout["BATCH_MODE"] == GROUPED

    def of_group(self, at: int) -> Matrix:
        """A matrix of which the shape is on the device."""
        found = dict(self.layout)
        for name, width in (("ROWS", "ROWS_COLS"), ("COLS", "ROWS_COLS"), ("LD", "LD")):
            wide = self.layout[f"GROUPED_{width}_ARRAY_INTEGER_WIDTH"]
            kind = np.dtype(np.int64 if wide else np.int32)
            place = array_at(self.gpu, self.layout[f"GROUPED_{name}_ARRAY"] + at * kind.itemsize, kind, (1,))
            found[name] = int(read(self.gpu, place)[0])
        if found["ROWS"] < 0 or found["COLS"] < 0:
            rule = f"a shape of a group of `{self.name}` must be at least 0"
            raise DriverError("CUDA_ERROR_INVALID_VALUE", f"{rule} (got {found['ROWS']} x {found['COLS']})")
        return replace(self, layout=found)

    def extents(self, operation: int) -> tuple[int, int]:
        """Rows and columns of op of the matrix."""
        return self.shape[::-1] if operation else self.shape

    def aligned(self, bytes: int) -> bool:
        """Whether columns, or rows of one by rows, begin at multiples of so many bytes, and end at such."""
        along = self.shape[self.layout["ORDER"]]
        return not (along * self._bits % (8 * bytes) or self.layout["LD"] * self._bits % (8 * bytes))

    @property
    def _bits(self) -> int:
        return 4 if self.kind == FLOAT4 else 8 * self.dtype.itemsize

    def each(self, address: int) -> list[int]:
        """The addresses of the matrices of a batch."""
        count = self.layout["BATCH_COUNT"]
        if self.layout["BATCH_MODE"]:
            found: list[int] = read(self.gpu, array_at(self.gpu, address, np.uint64, (count,))).tolist()
            return found
        step = self.layout["STRIDED_BATCH_OFFSET"] * self._bits // 8
        return [address + at * step for at in range(count)]

    # -- elements -----------------------------------------------------------------------------------------------

    def read(self, address: int) -> Array:
        """The elements; those of 4 bits as float32, and complex ones of two planes as complex64."""
        if self.layout["ORDER"] in TILES:
            flat, places = self._flat(address)
            for run in _runs(places) if self.gpu.observers else ():
                read(self.gpu, flat[run])
            found: Array = flat[places]
            return found
        if self.kind == FLOAT4:
            pairs = self._turned(read(self.gpu, self._view(address)))
            found = np.empty((2 * pairs.shape[0], pairs.shape[1]), np.float32)
            found[0::2], found[1::2] = of_float4(pairs & 15), of_float4(pairs >> 4)
            return self._turned(found[: self.shape[self.layout["ORDER"]]])
        if not self.planar:
            return read(self.gpu, self._view(address))
        real, imaginary = (read(self.gpu, self._view(address + at)).astype("f4") for at in self._planes)
        return real + np.complex64(1j) * imaginary

    def write(self, address: int, values: Array) -> None:
        """Write the elements, rounded to their type."""
        if self.layout["ORDER"] in TILES:
            flat, places = self._flat(address)
            self.gpu.changes([address])
            flat[places] = rounded(values, self.dtype)
            for run in _runs(places) if self.gpu.observers else ():
                self.gpu.wrote(address + run.start * self.dtype.itemsize, (run.stop - run.start) * self.dtype.itemsize)
        elif self.kind == FLOAT4:
            bits = self._turned(float4_of(values))
            bits = np.pad(bits, ((0, bits.shape[0] % 2), (0, 0)))
            write(self.gpu, self._view(address), self._turned(bits[0::2] | bits[1::2] << 4))
        elif self.planar:
            for at, part in zip(self._planes, (values.real, values.imag), strict=True):
                write(self.gpu, self._view(address + at), rounded(part, self.dtype))
        else:
            write(self.gpu, self._view(address), rounded(values, self.dtype))

    @property
    def _planes(self) -> tuple[int, int]:
        return 0, self.layout["PLANE_OFFSET"]

    def _turned(self, values: Array) -> Array:
        """By columns what is by rows, and the other way round."""
        return values.T if self.layout["ORDER"] else values

    def _view(self, address: int) -> Array:
        item, leading = self.dtype.itemsize, self.layout["LD"] * self._bits // 8
        rows, columns = self.shape
        if self.kind == FLOAT4:
            rows, columns = (rows, -(-columns // 2)) if self.layout["ORDER"] else (-(-rows // 2), columns)
        steps = (leading, item) if self.layout["ORDER"] else (item, leading)
        return array_at(self.gpu, address, self.dtype, (rows, columns), steps)

    def _flat(self, address: int) -> tuple[Array, Array]:
        """All elements of a matrix by tiles, and where each lies in them."""
        rows, columns = self.shape
        row, column = np.ogrid[:rows, :columns]
        order, across = self.layout["ORDER"], column % 32
        if TILES[order] == 1:
            within = row * 32 + across
        elif TILES[order] == 8:
            within = row // 8 * 256 + row % 2 * 128 + across // 8 * 32 + across % 8 // 4 * 16 + row % 8 // 2 * 4
            within = within + across % 4
        else:
            within = row // 32 * 1024 + ((row % 8 // 2 * 4 + row % 32 // 8) * 2 + row % 2) * 32 + across
        places = column // 32 * self.layout["LD"] + within
        return array_at(self.gpu, address, self.dtype, (int(places.max(initial=-1)) + 1,)), places


def _runs(places: Array) -> Iterator[slice]:
    """Elements that lie one behind the other."""
    order = np.sort(places, axis=None)
    for run in np.split(order, np.flatnonzero(np.diff(order) != 1) + 1):
        yield slice(int(run[0]), int(run[-1]) + 1)


def number_at(gpu: SimulatedGpu, kind: np.dtype[Any], on_device: bool, address: int) -> Callable[[], Any]:
    """A number of the host, which is read at once, or of the device."""
    if on_device:
        return lambda: read(gpu, array_at(gpu, address, kind, (1,)))[0]
    value = np.frombuffer(gpu.host.read(address, kind.itemsize), kind)[0]
    return lambda: value


def refuse_null(needed: Mapping[str, int]) -> None:
    """Refuse addresses of 0.

    Raises RefusedCall: there is one.
    """
    for name, address in needed.items():
        if not address:
            raise RefusedCall("INVALID_VALUE", f"`{name}` must be an address (got 0)")


# -- sums ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Term:
    """A matrix of a sum."""

    matrix: Matrix
    operation: int
    address: int
    factor: Callable[[], Any]

    @classmethod
    def of(
        cls, gpu: SimulatedGpu, name: str, settings: Mapping[str, int], target: Matrix, given: tuple[int, int, int]
    ) -> _Term:
        """The term of a call's number, matrix and layout.

        Raises RefusedCall: there is no such term.
        """
        number, address, place = given
        refuse_null({"alpha" if name == "A" else "beta": number, name: address})
        one, operation, mode = Matrix.of(gpu, name, place), settings[f"TRANS{name}"], settings["POINTER_MODE"]
        if one.extents(operation) != target.shape or one.layout["BATCH_COUNT"] != target.layout["BATCH_COUNT"]:
            rule = f"op({name}) must have the shape and the number of matrices of C"
            raise RefusedCall("INVALID_VALUE", f"{rule} (got {one.shape} and {target.shape})")
        if not 0 <= operation < 3 or mode not in (0, 1):
            rule = "operations must be from 0 to 2, and pointer modes 0 or 1"
            raise RefusedCall("INVALID_VALUE", f"{rule} (got {operation} and {mode})")
        kind = DATA_TYPES.get(settings["SCALE_TYPE"], "")
        each = (kind, *((matrix.layout["PLANE_OFFSET"] and "two planes") or matrix.kind for matrix in (one, target)))
        complex = {name.startswith("complex") for name in each}
        if kind not in _SUMMED or not set(each) <= set(_TRANSFORMED) or len(complex) > 1:
            raise RefusedCall("NOT_SUPPORTED", f"types of a sum must be real or complex ones of products (got {each})")
        return cls(one, operation, address, number_at(gpu, np.dtype(element(kind).numpy), mode == 1, number))


def LtMatrixTransform(gpu: SimulatedGpu, handle: int, desc: int, *values: int) -> None:
    """C = alpha op(A) + beta op(B), also in another order, or of other types. A matrix without a layout is left out."""
    alpha, a, adesc, beta, b, bdesc, c, cdesc, stream = values
    handles.handle_of(gpu, handle)
    settings = held(gpu, "MatrixTransformDesc", desc)
    target = Matrix.of(gpu, "C", cdesc)
    given = {"A": (alpha, a, adesc), "B": (beta, b, bdesc)}
    terms = [_Term.of(gpu, name, settings, target, one) for name, one in given.items() if any(one[1:])]
    if not terms or 0 in target.shape:
        return
    refuse_null({"C": c})

    def work() -> None:
        for at, place in enumerate(target.each(c)):
            values: Any = np.float32(0)
            for term in terms:
                factor = term.factor()
                if factor:
                    matrix = term.matrix.read(term.matrix.each(term.address)[at])
                    values = values + factor * turned(matrix, term.operation).astype(factor.dtype)
            target.write(place, np.broadcast_to(values, target.shape))

    enqueue(gpu, stream, work)

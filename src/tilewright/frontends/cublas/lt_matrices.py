"""Matrices of cuBLASLt by their layouts, and its sums of matrices: C = alpha op(A) + beta op(B).

Source: cuBLAS, `cublasLtMatrixLayoutAttribute_t`, `cublasLtOrder_t`, `cublasLtMatrixTransform`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontends.cublas import handles
from tilewright.frontends.cublas.lt_calls import ALGO, DESCRIPTORS
from tilewright.frontends.cublas.lt_epilogues import rounded
from tilewright.frontends.cublas.operands import DATA_TYPES, RefusedCall, enqueue, turned
from tilewright.frontends.host_arrays import Array, array_at, read, write
from tilewright.multiply.problem.dtypes import element
from tilewright.simulate.device.gpu import SimulatedGpu

#: Types that a sum of matrices converts, and those that it is computed in.
_TRANSFORMED = "float32 float64 float16 bfloat16 int8 int32 complex64 complex128".split()
_SUMMED = tuple(one for one in _TRANSFORMED if one != "int8")


def held(gpu: SimulatedGpu, kind: str, place: int, name: str = "") -> dict[str, Any]:
    """The attributes of a descriptor, or of an algorithm, in the program's memory.

    Raises RefusedCall: there is none.
    """
    one = DESCRIPTORS.get(kind, ALGO)
    found = one.unpacked(gpu.host.read(place, 8 * one.words)) if place else None
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
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, gpu: SimulatedGpu, name: str, place: int) -> Matrix:
        """A matrix by its descriptor.

        Raises RefusedCall: there is no such matrix, or it is not served.
        """
        layout = held(gpu, "MatrixLayout", place, f"{name}desc")
        kind = DATA_TYPES.get(layout["TYPE"], "")
        if not kind or layout["ORDER"] not in (0, 1) or layout["PLANE_OFFSET"]:
            raise RefusedCall(
                "NOT_SUPPORTED",
                f"`{name}desc` must have a type that products have, whole elements, and an order by columns or rows "
                f"(got type {layout['TYPE']}, plane offset {layout['PLANE_OFFSET']}, order {layout['ORDER']})",
            )
        least = max(1, layout["COLS" if layout["ORDER"] else "ROWS"])
        if layout["LD"] < least:
            raise RefusedCall("INVALID_VALUE", f"`{name}desc` must have an ld of at least {least} (got {layout['LD']})")
        if layout["BATCH_COUNT"] < 1 or layout["BATCH_MODE"] not in (0, 1):
            raise RefusedCall(
                "INVALID_VALUE", f"`{name}desc` must have at least 1 matrix (got {layout['BATCH_COUNT']})"
            )
        return cls(gpu, name, layout, element(kind).numpy)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.layout["ROWS"], self.layout["COLS"]

    def extents(self, operation: int) -> tuple[int, int]:
        """Rows and columns of op of the matrix."""
        return self.shape[::-1] if operation else self.shape

    def aligned(self, bytes: int) -> bool:
        """Whether columns, or rows of one by rows, begin at multiples of so many bytes, and end at such."""
        along = self.shape[self.layout["ORDER"]]
        return not (along * self.dtype.itemsize % bytes or self.layout["LD"] * self.dtype.itemsize % bytes)

    def each(self, address: int) -> list[int]:
        """The addresses of the matrices of a batch."""
        count = self.layout["BATCH_COUNT"]
        if self.layout["BATCH_MODE"]:
            found: list[int] = read(self.gpu, array_at(self.gpu, address, np.uint64, (count,))).tolist()
            return found
        step = self.layout["STRIDED_BATCH_OFFSET"] * self.dtype.itemsize
        return [address + at * step for at in range(count)]

    def view(self, address: int) -> Array:
        """The matrix in memory."""
        item, leading = self.dtype.itemsize, self.layout["LD"] * self.dtype.itemsize
        steps = (leading, item) if self.layout["ORDER"] else (item, leading)
        return array_at(self.gpu, address, self.dtype, self.shape, steps)


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
        each = (kind, one.dtype.name, target.dtype.name)
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
                    matrix = read(gpu, term.matrix.view(term.matrix.each(term.address)[at]))
                    values = values + factor * turned(matrix, term.operation).astype(factor.dtype)
            write(gpu, target.view(place), rounded(np.broadcast_to(values, target.shape), target.dtype))

    enqueue(gpu, stream, work)

"""Products of matrices as cuBLASLt's function: D = epilogue(alpha op(A) op(B) + beta C).

The product is that of `products.py`, so its bits are those of `cublasGemmEx` for the same types. What an epilogue does
is computed in the type of the numbers, before the result is rounded to the type of D.

Source: cuBLAS, `cublasLtMatmul` (tables of types, requirements of products of bytes and of floats of 8 bits),
`cublasLtMatmulDescAttributes_t`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontends.cublas import handles
from tilewright.frontends.cublas.lt_epilogues import Epilogue, rounded
from tilewright.frontends.cublas.lt_matrices import Matrix, held, number_at, refuse_null
from tilewright.frontends.cublas.operands import DATA_TYPES, RefusedCall, enqueue, sums, turned
from tilewright.frontends.cublas.products import combine, tell
from tilewright.frontends.host_arrays import Array, array_at, read, write
from tilewright.multiply.problem.dtypes import is_float8
from tilewright.simulate.device.gpu import SimulatedGpu

#: Values of attributes: a `cublasFillMode_t`, a `cublasLtMatmulMatrixScale_t`.
_FULL, _SCALAR, _OUTER = 2, 0, 3
#: Where alpha and beta are, by the `cublasLtPointerMode_t`.
_PLACES = (("host", "host"), ("device", "device"), ("vector", "vector"), ("vector", "zero"), ("vector", "host"))
_ALPHA_BY_MATRIX = 4
#: Types of A and B of products of floats of 8 bits; of C, D and the bias, for all of them and for A and B that differ.
_FLOAT8 = "float8_e4m3fn float8_e4m3fn, float8_e4m3fn float8_e5m2, float8_e5m2 float8_e4m3fn".split(", ")
_FLOAT8_RESULTS = (
    "bfloat16 bfloat16 bfloat16, bfloat16 float8_e4m3fn bfloat16, float16 float16 float16, "
    "float16 float8_e4m3fn float16, float32 float32 bfloat16"
).split(", ")
_MIXED_RESULTS = "bfloat16 float8_e5m2 bfloat16, float16 float8_e5m2 float16".split(", ")
#: Compute capabilities whose tensor cores read floats of 8 bits: the first, and those that want A transposed.
_FLOAT8_CC, _TRANSPOSED_CC = (8, 9), (8, 9, 12)
#: Types whose products take an epilogue, of A and of C.
_WITH_EPILOGUE = "float16 bfloat16 float32".split()
#: Rows and columns of a result that a multiprocessor is said to compute at a time.
_TILE = 128


# -- types --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Types:
    """The types of a product."""

    sums: np.dtype[Any]
    numbers: np.dtype[Any]  #: Of alpha and beta.
    computed: np.dtype[Any]  #: Of values before they are rounded.
    bias: str = ""  #: "" for a product that has no epilogue.
    float8: bool = False


def types_of(compute: int, scale: int, *matrices: int) -> Types:
    """The types of a product by those of the sums, of the numbers, and of A, B, C and D.

    Raises RefusedCall: there is no such product.
    """
    a, b, c, d = (DATA_TYPES.get(one, "") for one in matrices)
    number = DATA_TYPES.get(scale, "")
    single = np.dtype("float32")
    if is_float8(a) and is_float8(b):
        rows = _FLOAT8_RESULTS + (_MIXED_RESULTS if a != b else []) if f"{a} {b}" in _FLOAT8 else []
        bias = next((row.split()[2] for row in rows if row.startswith(f"{c} {d} ")), "")
        exact = sums(compute, *[single.name] * 3)
        found = Types(exact, single, single, bias, float8=True) if bias else None
    elif c == d == "int8":
        found = Types(sums(compute, a, b, "int32"), single, single)
    else:
        exact = sums(compute, a, b, c)
        wide = single if exact == np.float16 else exact
        plain = a in _WITH_EPILOGUE and c in _WITH_EPILOGUE
        found = Types(wide, exact, wide, c if plain else "") if c == d else None
    if found is None or number != found.numbers.name:
        each = ", ".join(one or "another type" for one in (a, b, c, d, number))
        raise RefusedCall("NOT_SUPPORTED", f"types of A, B, C, D, alpha must be in cuBLASLt's tables (got {each})")
    return found


# -- products -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Product:
    """A product without its addresses."""

    gpu: SimulatedGpu
    settings: Mapping[str, int]
    matrices: Mapping[str, Matrix]
    types: Types
    epilogue: Epilogue

    @classmethod
    def planned(cls, gpu: SimulatedGpu, desc: int, a: int, b: int, c: int, d: int) -> Product:
        """A product by its descriptors.

        Raises RefusedCall: there is no such product.
        """
        settings = held(gpu, "MatmulDesc", desc)
        matrices = {name: Matrix.of(gpu, name, place) for name, place in zip("ABCD", (a, b, c, d), strict=True)}
        given = [one.layout["TYPE"] for one in matrices.values()]
        types = types_of(settings["COMPUTE_TYPE"], settings["SCALE_TYPE"], *given)
        target = matrices["D"]
        epilogue = Epilogue(gpu, settings, target.shape, types.bias, target.dtype)
        found = cls(gpu, settings, matrices, types, epilogue)
        for status, rule, got in found._broken():
            raise RefusedCall(status, f"{rule} (got {got})")
        epilogue.check()
        return found

    def _broken(self) -> Iterator[tuple[str, str, Any]]:
        """The rules that a product breaks: status, rule, and what came."""
        s, (a, b, c, d) = self.settings, self.matrices.values()
        operations = s["TRANSA"], s["TRANSB"], s["TRANSC"]
        if not all(0 <= one < 3 for one in operations):
            yield "INVALID_VALUE", "operations must be from 0 to 2", operations
        (m, k), (other, n) = a.extents(s["TRANSA"]), b.extents(s["TRANSB"])
        if k != other or (m, n) != d.shape or c.shape != d.shape:
            shapes = [one.shape for one in self.matrices.values()]
            yield "INVALID_VALUE", "shapes of op(A) op(B), C and D must fit", shapes
        for attribute, subject in (("BATCH_COUNT", self.matrices.values()), ("ORDER", (c, d))):
            values = [one.layout[attribute] for one in subject]
            if len(set(values)) > 1:
                yield (
                    "INVALID_VALUE",
                    f"{attribute} of {'matrices' if len(values) > 2 else 'C and D'} must agree",
                    values,
                )
        if s["POINTER_MODE"] not in range(len(_PLACES)):
            yield "INVALID_VALUE", "the pointer mode must be from 0 to 4", s["POINTER_MODE"]
        elif s["ALPHA_VECTOR_BATCH_STRIDE"] and s["POINTER_MODE"] != _ALPHA_BY_MATRIX:
            yield "INVALID_VALUE", "only ALPHA_DEVICE_VECTOR_BETA_HOST has a stride of alpha", s["POINTER_MODE"]
        if s["TRANSC"] or s["FILL_MODE"] != _FULL:
            yield "NOT_SUPPORTED", "C must be whole and not transposed", (s["TRANSC"], s["FILL_MODE"])
        yield from self._scaled()
        if self.types.float8:
            yield from self._of_float8()
        elif a.dtype == np.int8 and self.types.sums == np.int32:
            yield from self._of_bytes()

    def _scaled(self) -> Iterator[tuple[str, str, Any]]:
        """Broken rules of factors: only floats of 8 bits have them."""
        for name, matrix in self.matrices.items():
            pointer, mode = self.settings[f"{name}_SCALE_POINTER"], self.settings[f"{name}_SCALE_MODE"]
            if pointer and not is_float8(matrix.dtype.name):
                yield "INVALID_VALUE", f"only float8 has a scale, not {name} of {matrix.dtype}", f"{pointer:#x}"
            outer = mode == _OUTER and name in "AB" and self.gpu.record.compute_capability[0] == 9
            if mode != _SCALAR and not outer:
                yield "NOT_SUPPORTED", f"the scale of {name} must be a number, or on Hopper a vector of A or B", mode
        if self.settings["AMAX_D_POINTER"] and not is_float8(self.matrices["D"].dtype.name):
            yield "INVALID_VALUE", "only a D of float8 has a largest value", self.matrices["D"].dtype
        if self.settings["D_OUT_SCALE_POINTER"] or self.settings["D_OUT_SCALE_MODE"]:
            yield "NOT_SUPPORTED", "D must have no scales that are computed", self.settings["D_OUT_SCALE_MODE"]

    @property
    def _by_rows_and_columns(self) -> bool:
        """Whether elements that are multiplied lie beside each other: A transposed, B not, both by columns."""
        s, a, b = self.settings, self.matrices["A"], self.matrices["B"]
        return bool(s["TRANSA"]) != bool(a.layout["ORDER"]) and bool(s["TRANSB"]) == bool(b.layout["ORDER"])

    def _of_float8(self) -> Iterator[tuple[str, str, Any]]:
        capability = self.gpu.record.compute_capability
        if capability < _FLOAT8_CC:
            yield "NOT_SUPPORTED", "products of float8 need compute capability 8.9 or more", capability
        if capability[0] in _TRANSPOSED_CC and not self._by_rows_and_columns:
            yield "NOT_SUPPORTED", "A of float8 must be transposed, and B not", self.settings["TRANSA"]
        for name, one in self.matrices.items():
            if not one.aligned(16):
                yield "NOT_SUPPORTED", f"columns of {name} must take multiples of 16 bytes", one.shape

    def _of_bytes(self) -> Iterator[tuple[str, str, Any]]:
        if not self._by_rows_and_columns:
            yield "NOT_SUPPORTED", "A of bytes must be transposed, and B not", self.settings["TRANSA"]
        for name, one in self.matrices.items():
            if not one.aligned(4):
                yield "NOT_SUPPORTED", f"columns of {name} must take multiples of 4 bytes", one.shape

    @property
    def waves(self) -> float:
        """How often a kernel's blocks would fill the GPU."""
        m, n = self.matrices["D"].shape
        tiles = -(-m // _TILE) * -(-n // _TILE) * self.matrices["D"].layout["BATCH_COUNT"]
        return tiles / self.gpu.record.multiprocessors

    def number(self, place: str, address: int) -> Callable[[int], Any]:
        """A number, or a vector by rows of D, for each matrix of a batch. Those of the host are read at once."""
        kind, rows = self.types.numbers, self.matrices["D"].shape[0]
        if place == "zero":
            return lambda at: kind.type(0)
        if place in ("host", "device"):
            one = number_at(self.gpu, kind, place == "device", address)
            return lambda at: one()
        step = self.settings["ALPHA_VECTOR_BATCH_STRIDE"] * kind.itemsize
        return lambda at: read(self.gpu, array_at(self.gpu, address + at * step, kind, (rows,)))[:, None]

    def run(self, alpha: Callable[[int], Any], beta: Callable[[int], Any], addresses: Mapping[str, int]) -> None:
        """Compute all matrices of a batch."""
        each = {name: one.each(addresses[name]) for name, one in self.matrices.items() if addresses[name]}
        scales = self._scales()
        for at, place in enumerate(each["D"]):
            target = self.matrices["D"].view(place)
            used = {name: self.matrices[name].view(each[name][at]) for name in "ABC" if name in each}
            self._single(target, used, alpha(at) * scales["AB"], beta(at), scales["D"], at)

    def _single(self, target: Array, used: Mapping[str, Array], factor: Any, beta: Any, scale: Any, at: int) -> None:
        factors = {}
        for name in "AB":
            if (np.any(factor) or self.epilogue.sums_of == name) and name in used and used[name].size:
                factors[name] = turned(read(self.gpu, used[name]), self.settings[f"TRANS{name}"])
        addend = read(self.gpu, used["C"]).astype(self.types.computed) if np.any(beta) else None
        left, right = (factors.get(name) if np.any(factor) else None for name in "AB")
        if left is not None and right is not None:
            tell(self.gpu, "cublasLtMatmul", target, left.shape[1], left.dtype)
        with np.errstate(all="ignore"):
            values = self._sum(left, right, factor, beta, addend)
            values = self.epilogue.applied(at, values, factors)
            self.epilogue.give_largest("AMAX_D_POINTER", at, values)
            write(self.gpu, target, rounded(values if scale is None else values * scale, target.dtype))

    def _sum(self, left: Array | None, right: Array | None, factor: Any, beta: Any, addend: Array | None) -> Array:
        """The product and the addend with their factors, before it is rounded."""
        kind, shape = self.types.computed, self.matrices["D"].shape
        found = np.zeros(shape, self.types.sums, order="F")
        if np.ndim(factor) == np.ndim(beta) == 0 and self.types.sums == kind:
            if addend is not None:
                found[...] = addend
            combine(self.gpu, found, left, right, kind.type(factor), kind.type(beta))
            return found
        combine(self.gpu, found, left, right, self.types.sums.type(1), self.types.sums.type(0))
        values: Array = found.astype(kind) * kind.type(factor)
        return values if addend is None else values + kind.type(beta) * addend

    def _scales(self) -> dict[str, Any]:
        """The factors of A and B in one, and that of D; None for none."""
        m, n = self.matrices["D"].shape
        found: dict[str, Any] = {"AB": self.types.numbers.type(1), "D": None}
        for name, length in (("A", m), ("B", n), ("D", 1)):
            address = self.settings[f"{name}_SCALE_POINTER"]
            if address:
                count = length if self.settings[f"{name}_SCALE_MODE"] == _OUTER else 1
                values = read(self.gpu, array_at(self.gpu, address, np.float32, (count,)))
                shaped = values[0] if count == 1 else values[:, None] if name == "A" else values[None, :]
                found["D" if name == "D" else "AB"] = shaped if name == "D" else found["AB"] * shaped
        return found


def LtMatmul(gpu: SimulatedGpu, handle: int, desc: int, *given: int) -> None:
    """D = epilogue(alpha op(A) op(B) + beta C); the workspace is not used."""
    alpha, a, adesc, b, bdesc, beta, c, cdesc, d, ddesc, algo, _, _, stream = given
    handles.handle_of(gpu, handle)
    product = Product.planned(gpu, desc, adesc, bdesc, cdesc, ddesc)
    if algo:
        held(gpu, "MatmulAlgo", algo)
    places = _PLACES[product.settings["POINTER_MODE"]]
    addresses, target = {"A": a, "B": b, "C": c, "D": d}, product.matrices["D"]
    refuse_null(
        {"alpha": alpha, "beta": beta or places[1] == "zero"}
        | {name: addresses[name] for name in "ABD" if 0 not in product.matrices[name].shape}
    )
    if c == d and any(product.matrices["C"].layout[one] != target.layout[one] for one in target.layout):
        raise RefusedCall("INVALID_VALUE", "C in place of D must have its layout")
    alphas, betas = (product.number(place, at) for place, at in zip(places, (alpha, beta), strict=True))
    if not c and places[1] != "zero" and (places[1] != "host" or betas(0)):
        raise RefusedCall("INVALID_VALUE", "`C` must be an address unless beta is 0 (got 0)")
    if 0 not in target.shape:
        product.epilogue.need()
        enqueue(gpu, stream, lambda: product.run(alphas, betas, addresses))

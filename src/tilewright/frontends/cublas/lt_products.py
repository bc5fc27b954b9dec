"""Products of matrices as cuBLASLt's function: D = epilogue(alpha op(A) op(B) + beta C).

The product is that of `products.py`, so its bits are those of `cublasGemmEx` for the same types. What an epilogue does
is computed in the type of the numbers, before the result is rounded to the type of D.

Source: cuBLAS, `cublasLtMatmul` (tables of types, requirements of products of bytes and of floats of 8 bits),
`cublasLtMatmulDescAttributes_t`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.frontends.cublas import handles
from tilewright.frontends.cublas.header import COMPUTE_TYPES
from tilewright.frontends.cublas.lt_calls import EPILOGUES
from tilewright.frontends.cublas.lt_epilogues import Epilogue
from tilewright.frontends.cublas.lt_matrices import (
    FLOAT4,
    KINDS,
    PLANES,
    TILES,
    Matrix,
    held,
    number_at,
    refuse_null,
)
from tilewright.frontends.cublas.lt_scales import (
    BLOCK128,
    BLOCKS,
    OUTER,
    PER_BATCH,
    SCALAR,
    VEC16,
    VEC32,
    VEC128,
    factors as block_factors,
    quantized,
)
from tilewright.frontends.cublas.operands import DATA_TYPES, RefusedCall, enqueue, sums, turned
from tilewright.frontends.cublas.products import combine, tell
from tilewright.frontends.host_arrays import Array, array_at, read
from tilewright.multiply.problem.dtypes import dtype, is_float8
from tilewright.simulate.device.gpu import DriverError, SimulatedGpu

#: The value of a `cublasFillMode_t`.
_FULL = 2
#: Where alpha and beta are, by the `cublasLtPointerMode_t`.
_PLACES = (("host", "host"), ("device", "device"), ("vector", "vector"), ("vector", "zero"), ("vector", "host"))
_ALPHA_BY_MATRIX = 4
#: Types of A and B of products of floats of 8 bits; of C, D and the bias, for all of them and for A and B that differ.
_FLOAT8 = "float8_e4m3fn float8_e4m3fn, float8_e4m3fn float8_e5m2, float8_e5m2 float8_e4m3fn".split(", ")
_FLOAT8_RESULTS = (
    "bfloat16 bfloat16 bfloat16, bfloat16 float8_e4m3fn bfloat16, float16 float16 float16, "
    "float16 float8_e4m3fn float16, float32 float32 bfloat16"
).split(", ")
_FLOAT4_RESULTS = (
    f"bfloat16 bfloat16 bfloat16, bfloat16 {FLOAT4} bfloat16, float16 float16 float16, float16 {FLOAT4} float16, "
    "float32 float32 bfloat16"
).split(", ")
_MIXED_RESULTS = "bfloat16 float8_e5m2 bfloat16, float16 float8_e5m2 float16".split(", ")
#: Compute capabilities whose tensor cores read floats of 8 bits: the first, and those that want A transposed.
_FLOAT8_CC, _TRANSPOSED_CC = (8, 9), (8, 9, 12)
#: Major compute capabilities with factors of A and B in each form, and those with groups, and with tiles of bytes.
_SCALE_CC: Mapping[int, tuple[int, ...]] = MappingProxyType(
    {VEC16: (10, 11, 12), VEC32: (10, 11, 12), OUTER: (9,), VEC128: (9,), BLOCK128: (9,), PER_BATCH: (10, 11)}
)
_GROUPED_CC, _TILED_CC = (9, 10, 11), (7, 8)
#: The forms of factors that floats of 8 bits of the result are without.
_WIDE_RESULTS = (OUTER, VEC128, BLOCK128)
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
    narrow: bool = False  #: Floats of 8 or 4 bits.


def types_of(compute: int, scale: int, *matrices: int, planar: bool = False) -> Types:
    """The types of a product by those of the sums, of the numbers, and of A, B, C and D.

    Raises RefusedCall: there is no such product.
    """
    a, b, c, d = ((PLANES if planar else KINDS).get(one, "") for one in matrices)
    number = DATA_TYPES.get(scale, "")
    single = np.dtype("float32")
    if planar:
        whole = np.dtype("complex64")
        right = a == b in "float16 bfloat16".split() and c == d in (a, "float32") and compute == COMPUTE_TYPES["32F"]
        found = Types(whole, whole, whole) if right else None
    elif a == b == FLOAT4:
        bias = next((row.split()[2] for row in _FLOAT4_RESULTS if row.startswith(f"{c} {d} ")), "")
        exact = sums(compute, *[single.name] * 3)
        found = Types(exact, single, single, bias, narrow=True) if bias else None
    elif is_float8(a) and is_float8(b):
        rows = _FLOAT8_RESULTS + (_MIXED_RESULTS if a != b else []) if f"{a} {b}" in _FLOAT8 else []
        bias = next((row.split()[2] for row in rows if row.startswith(f"{c} {d} ")), "")
        exact = sums(compute, *[single.name] * 3)
        found = Types(exact, single, single, bias, narrow=True) if bias else None
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
        matrices = {name: Matrix.of(gpu, name, place) for name, place in zip("ABCD", (a, b, c or d, d), strict=True)}
        given = [one.layout["TYPE"] for one in matrices.values()]
        planes = {one.planar for one in matrices.values()}
        if len(planes) > 1:
            raise RefusedCall("NOT_SUPPORTED", "complex numbers of all matrices must lie in planes, or of none")
        types = types_of(settings["COMPUTE_TYPE"], settings["SCALE_TYPE"], *given, planar=planes.pop())
        target = matrices["D"]
        epilogue = Epilogue(gpu, settings, target.shape, types.bias, target.dtype)
        found = cls(gpu, settings, matrices, types, epilogue)
        for status, rule, got in found._broken():
            raise RefusedCall(status, f"{rule} (got {got})")
        epilogue.check()
        return found

    def _broken(self) -> Iterator[tuple[str, str, Any]]:
        """The rules that a product breaks: status, rule, and what came."""
        s, (a, _, c, d) = self.settings, self.matrices.values()
        operations = s["TRANSA"], s["TRANSB"], s["TRANSC"]
        if not all(0 <= one < 3 for one in operations):
            yield "INVALID_VALUE", "operations must be from 0 to 2", operations
        if not self.fits:
            shapes = [one.shape for one in self.matrices.values()]
            yield "INVALID_VALUE", "shapes of op(A) op(B), C and D must fit", shapes
        every = tuple(self.matrices.values())
        alike = {"BATCH_COUNT": every, "ORDER": (c, d), "BATCH_MODE": every if self.grouped else ()}
        for attribute, subject in alike.items():
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
        if self.grouped:
            yield from self._of_groups()
        elif self.types.narrow:
            yield from self._of_narrow()
        elif a.dtype == np.int8 and (self.types.sums == np.int32):
            yield from self._of_bytes()
        elif any(one.layout["ORDER"] in TILES for one in self.matrices.values()):
            yield "NOT_SUPPORTED", "only matrices of bytes and of their sums lie in tiles", a.dtype

    def _scaled(self) -> Iterator[tuple[str, str, Any]]:
        """Broken rules of factors: only narrow floats have them."""
        major, target = self.gpu.record.compute_capability[0], self.matrices["D"]
        for name, matrix in self.matrices.items():
            pointer, mode = self.settings[f"{name}_SCALE_POINTER"], self.settings[f"{name}_SCALE_MODE"]
            if pointer and not _is_narrow(matrix):
                rule = f"only float8 and float4 have a scale, not {name} of {matrix.kind}"
                yield "INVALID_VALUE", rule, f"{pointer:#x}"
            right = name in "AB" and major in _SCALE_CC.get(mode, ()) and (mode == VEC16) == (matrix.kind == FLOAT4)
            if mode != SCALAR and not right:
                rule = f"the scale of {name} must be a number, or of a form that its type and the GPU have"
                yield "NOT_SUPPORTED", rule, mode
            if mode in BLOCKS and not pointer:
                yield "INVALID_VALUE", f"{name}_SCALE_POINTER must be an address", pointer
        forms = tuple(self.settings[f"{name}_SCALE_MODE"] for name in "AB")
        blocks = {one for one in forms if one in (VEC16, VEC32)}
        if forms == (BLOCK128, BLOCK128) or (blocks and len(set(forms)) > 1):
            yield "NOT_SUPPORTED", "the scales of A and B must have forms that go together", forms
        if (SCALAR in forms) and self.matrices["A"].kind == FLOAT4:
            yield "NOT_SUPPORTED", "float4 must have a scale for each 16 elements", forms
        if set(forms) & set(_WIDE_RESULTS) and _is_narrow(target):
            yield "NOT_SUPPORTED", "D must be of 16 or 32 bits with these scales", forms
        if {VEC128, BLOCK128} & set(forms) and not self.grouped and any(size % 4 for size in target.shape):
            yield "NOT_SUPPORTED", "rows and columns of D must be multiples of 4", target.shape
        if self.settings["AMAX_D_POINTER"] and not is_float8(target.dtype.name):
            yield "INVALID_VALUE", "only a D of float8 has a largest value", target.dtype
        out, mode = self.settings["D_OUT_SCALE_POINTER"], self.settings["D_OUT_SCALE_MODE"]
        computed = bool(blocks) and _is_narrow(target)
        if mode != (forms[0] if computed else SCALAR) or bool(out) != computed:
            rule = "D must have scales that are computed just if it has blocks of scales"
            yield "INVALID_VALUE", rule, (mode, f"{out:#x}")

    @property
    def _by_rows_and_columns(self) -> bool:
        """Whether elements that are multiplied lie beside each other: A transposed, B not, both by columns."""
        s, a, b = self.settings, self.matrices["A"], self.matrices["B"]
        return bool(s["TRANSA"]) != bool(a.layout["ORDER"]) and bool(s["TRANSB"]) == bool(b.layout["ORDER"])

    def _of_groups(self) -> Iterator[tuple[str, str, Any]]:
        """Broken rules of groups: of shapes only the GPU knows."""
        s, major = self.settings, self.gpu.record.compute_capability[0]
        strides = s["ALPHA_BATCH_STRIDE"], s["BETA_BATCH_STRIDE"]
        if major not in _GROUPED_CC:
            yield "NOT_SUPPORTED", "groups need compute capability 9, 10 or 11", major
        if not set(strides) <= {0, 1} or (any(strides) and (major == 9 or s["POINTER_MODE"] != 1)):
            yield "NOT_SUPPORTED", "strides of alpha and beta must be 0, or 1 on Blackwell for addresses", strides
        if s["POINTER_MODE"] > 1 or s["EPILOGUE"] != EPILOGUES["DEFAULT"]:
            yield "NOT_SUPPORTED", "groups have no vectors of numbers and no epilogue", s["EPILOGUE"]
        target, every = self.matrices["D"], self.matrices.values()
        if _is_narrow(target) or any(one.layout["ORDER"] or one.planar for one in every):
            yield "NOT_SUPPORTED", "matrices of groups must be by columns, and D of 16 or 32 bits", target.kind

    def _of_narrow(self) -> Iterator[tuple[str, str, Any]]:
        capability = self.gpu.record.compute_capability
        if capability < _FLOAT8_CC:
            yield "NOT_SUPPORTED", "products of float8 need compute capability 8.9 or more", capability
        float4 = self.matrices["A"].kind == FLOAT4
        if (capability[0] in _TRANSPOSED_CC or float4) and not self._by_rows_and_columns:
            yield "NOT_SUPPORTED", "A of float8 must be transposed, and B not", self.settings["TRANSA"]
        for name, one in self.matrices.items():
            if not one.aligned(16):
                yield "NOT_SUPPORTED", f"columns of {name} must take multiples of 16 bytes", one.shape

    def _of_bytes(self) -> Iterator[tuple[str, str, Any]]:
        orders = [one.layout["ORDER"] for one in self.matrices.values()]
        if set(orders) & set(TILES):
            major = self.gpu.record.compute_capability[0]
            if major not in _TILED_CC or orders[::2] + orders[3:] != [2, 2, 2] or orders[1] not in (3, 4)[: major - 6]:
                yield "NOT_SUPPORTED", "A, C and D must be in COL32, B in an order of Turing or Ampere", orders
            if self.settings["TRANSA"] or not self.settings["TRANSB"]:
                yield "NOT_SUPPORTED", "B of tiles must be transposed, and A not", self.settings["TRANSB"]
            return
        if not self._by_rows_and_columns:
            yield "NOT_SUPPORTED", "A of bytes must be transposed, and B not", self.settings["TRANSA"]
        for name, one in self.matrices.items():
            if not one.aligned(4):
                yield "NOT_SUPPORTED", f"columns of {name} must take multiples of 4 bytes", one.shape

    @property
    def grouped(self) -> bool:
        """Whether it is of groups, whose shapes are on the device."""
        return any(one.grouped for one in self.matrices.values())

    @property
    def fits(self) -> bool:
        """Whether the shapes go together."""
        a, b, c, d = self.matrices.values()
        (m, k), (other, n) = a.extents(self.settings["TRANSA"]), b.extents(self.settings["TRANSB"])
        return k == other and (m, n) == d.shape == c.shape

    @property
    def empty(self) -> tuple[str, ...]:
        """The matrices without elements."""
        return tuple(name for name, one in self.matrices.items() if 0 in one.shape and not one.grouped)

    @property
    def waves(self) -> float:
        """How often a kernel's blocks would fill the GPU."""
        m, n = self.matrices["D"].shape
        tiles = -(-m // _TILE) * -(-n // _TILE) * self.matrices["D"].layout["BATCH_COUNT"]
        return tiles / self.gpu.record.multiprocessors

    def number(self, name: str, place: str, address: int) -> Callable[[int], Any]:
        """Alpha or beta: a number, or a vector by rows of D, for each matrix. Those of the host are read at once."""
        kind, rows = self.types.numbers, self.matrices["D"].shape[0]
        if self.settings[f"{name}_BATCH_STRIDE"]:
            return lambda at: number_at(self.gpu, kind, True, self._address(address, at))()
        if place == "zero":
            return lambda at: kind.type(0)
        if place in ("host", "device"):
            one = number_at(self.gpu, kind, place == "device", address)
            return lambda at: one()
        step = self.settings["ALPHA_VECTOR_BATCH_STRIDE"] * kind.itemsize
        return lambda at: read(self.gpu, array_at(self.gpu, address + at * step, kind, (rows,)))[:, None]

    def run(self, alpha: Callable[[int], Any], beta: Callable[[int], Any], addresses: Mapping[str, int]) -> None:
        """Compute all matrices of a batch.

        Raises DriverError: the shapes of a group, which are on the device, do not go together.
        """
        each = {name: one.each(addresses[name]) for name, one in self.matrices.items() if addresses[name]}
        for at in range(len(each["D"])):
            one = self._of_group(at) if self.grouped else self
            if not one.fits:
                raise DriverError("CUDA_ERROR_INVALID_VALUE", f"the shapes of group {at} must go together")
            if "D" not in one.empty:
                one._single({name: places[at] for name, places in each.items()}, alpha(at), beta(at), at)

    def _of_group(self, at: int) -> Product:
        matrices = {name: one.of_group(at) for name, one in self.matrices.items()}
        scales = {
            f"{name}_SCALE_POINTER": self._address(self.settings[f"{name}_SCALE_POINTER"], at)
            for name in "AB"
            if self.settings[f"{name}_SCALE_MODE"] != SCALAR
        }
        epilogue = replace(self.epilogue, shape=matrices["D"].shape)
        return replace(self, matrices=matrices, settings={**self.settings, **scales}, epilogue=epilogue)

    def _address(self, place: int, at: int) -> int:
        """An address in an array on the device."""
        return int(read(self.gpu, array_at(self.gpu, place + 8 * at, np.uint64, (1,)))[0])

    def _single(self, places: Mapping[str, int], alpha: Any, beta: Any, at: int) -> None:
        factors, scales, target = {}, self._scales(), self.matrices["D"]
        factor, scale = alpha * scales["AB"], scales["D"]
        for name in "AB":
            if (np.any(factor) or self.epilogue.sums_of == name) and name in places and name not in self.empty:
                factors[name] = self._operand(name, places[name])
        addend = self.matrices["C"].read(places["C"]).astype(self.types.computed) if np.any(beta) else None
        left, right = (factors.get(name) if np.any(factor) else None for name in "AB")
        if left is not None and right is not None:
            tell(self.gpu, "cublasLtMatmul", np.empty(target.shape, target.dtype), left.shape[1], left.dtype)
        with np.errstate(all="ignore"):
            values = self._sum(left, right, factor, beta, addend)
            values = self.epilogue.applied(at, values, factors)
            self.epilogue.give_largest("AMAX_D_POINTER", at, values)
            values = values if scale is None else values * scale
            if self.settings["D_OUT_SCALE_POINTER"]:
                largest = 6 if target.kind == FLOAT4 else dtype(target.dtype).largest
                mode, place = self.settings["D_OUT_SCALE_MODE"], self.settings["D_OUT_SCALE_POINTER"]
                values = quantized(self.gpu, mode, place, values, largest)
            target.write(places["D"], values)

    def _operand(self, name: str, place: int) -> Array:
        """Op of A or B, with the factors of blocks."""
        found = turned(self.matrices[name].read(place), self.settings[f"TRANS{name}"])
        mode, address = (self.settings[f"{name}_SCALE_{part}"] for part in ("MODE", "POINTER"))
        if mode not in BLOCKS:
            return found
        by_rows = found if name == "A" else found.T
        scaled = by_rows.astype(np.float32) * block_factors(self.gpu, mode, address, *by_rows.shape)
        return scaled if name == "A" else scaled.T

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
            address, mode = (self.settings[f"{name}_SCALE_{part}"] for part in ("POINTER", "MODE"))
            if address and mode not in BLOCKS:
                values = block_factors(self.gpu, mode, address, length, 1)
                shaped = values.T if name == "B" else values
                shaped = shaped[0, 0] if shaped.size == 1 else shaped
                found["D" if name == "D" else "AB"] = shaped if name == "D" else found["AB"] * shaped
        return found


def _is_narrow(matrix: Matrix) -> bool:
    return matrix.kind == FLOAT4 or is_float8(matrix.dtype.name)


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
        | {name: addresses[name] for name in "ABD" if name not in product.empty}
    )
    if c == d and any(product.matrices["C"].layout[one] != target.layout[one] for one in target.layout):
        raise RefusedCall("INVALID_VALUE", "C in place of D must have its layout")
    alphas, betas = product.number("ALPHA", places[0], alpha), product.number("BETA", places[1], beta)
    if not c and places[1] != "zero" and (places[1] != "host" or betas(0)):
        raise RefusedCall("INVALID_VALUE", "`C` must be an address unless beta is 0 (got 0)")
    if "D" not in product.empty:
        product.epilogue.need()
        enqueue(gpu, stream, lambda: product.run(alphas, betas, addresses))

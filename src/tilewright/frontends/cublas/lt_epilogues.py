"""What cuBLASLt does with a product before it is stored: bias, ReLU, GELU, their gradients, and the largest value.

GELU is its approximation by tanh. A ReLU's mask has a bit for each element that is above 0, columns one behind the
other. Sums of gradients run over rows in ascending order.

Source: cuBLAS, `cublasLtEpilogue_t`, `cublasLtMatmulDescAttributes_t`; D. Hendrycks and K. Gimpel, "Gaussian Error
Linear Units (GELUs)", section 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.frontends.cublas.lt_calls import EPILOGUES
from tilewright.frontends.cublas.operands import DATA_TYPES, RefusedCall
from tilewright.frontends.host_arrays import Array, array_at, read, write
from tilewright.multiply.problem.dtypes import dtype, element, is_float8
from tilewright.simulate.device.gpu import SimulatedGpu

#: Bits of a `cublasLtEpilogue_t`.
_RELU, _BIAS, _DRELU, _BGRAD, _GELU, _DGELU, _AUX, _BGRADA, _BGRADB = (2 << at for at in range(9))
_MASKED, _KEPT, _BIASED = _RELU | _DRELU, _GELU | _DGELU, _BIAS | _BGRAD | _BGRADA | _BGRADB
#: sqrt(2 / pi), and the weight of the cube, in GELU's approximation.
_SLOPE, _CUBE = np.float32(0.7978845608028654), np.float32(0.044715)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What is done with a product."""

    gpu: SimulatedGpu
    settings: Mapping[str, int]
    shape: tuple[int, int]
    bias: str  #: The type of a bias and of its gradient; "" if the product takes no epilogue.
    result: np.dtype[Any]

    @property
    def bits(self) -> int:
        """The `cublasLtEpilogue_t`."""
        return self.settings["EPILOGUE"]

    @property
    def sums_of(self) -> str:
        """The matrix, A or B, whose sums are a gradient."""
        return "A" if self.bits & _BGRADA else "B" if self.bits & _BGRADB else ""

    def check(self) -> None:
        """Refuse what has no meaning.

        Raises RefusedCall: there is something.
        """
        for status, rule, got in self._broken():
            raise RefusedCall(status, f"{rule} (got {got})")

    def _broken(self) -> Iterator[tuple[str, str, Any]]:
        s = self.settings
        if self.bits not in EPILOGUES.values():
            yield "INVALID_VALUE", "the epilogue must be one of cublasLtEpilogue_t", self.bits
        if self.bits != EPILOGUES["DEFAULT"] and not self.bias:
            yield "NOT_SUPPORTED", "products of these types have no epilogue", self.bits
        kind = s["BIAS_DATA_TYPE"]
        if kind != -1 and self.bits & _BIASED and DATA_TYPES.get(kind) != self.bias:
            yield "NOT_SUPPORTED", f"the bias must be of {self.bias}", DATA_TYPES.get(kind, kind)
        if self.bits & _AUX:
            unit, least = (128 if self.bits & _MASKED else 8), self.shape[0]
            if s["EPILOGUE_AUX_LD"] % unit or s["EPILOGUE_AUX_LD"] < least:
                rule = f"EPILOGUE_AUX_LD must be a multiple of {unit} and at least {least}"
                yield "INVALID_VALUE", rule, s["EPILOGUE_AUX_LD"]
            if s["EPILOGUE_AUX_BATCH_STRIDE"] % unit:
                rule = f"EPILOGUE_AUX_BATCH_STRIDE must be a multiple of {unit}"
                yield "INVALID_VALUE", rule, s["EPILOGUE_AUX_BATCH_STRIDE"]
        name = DATA_TYPES.get(s["EPILOGUE_AUX_DATA_TYPE"], "")
        others = ("float16",) if self.result.name == "float8_e4m3fn" else ()
        if s["EPILOGUE_AUX_DATA_TYPE"] != -1 and name not in (self.result.name, *others):
            yield "INVALID_VALUE", f"the auxiliary matrix must be of {self.result}", s["EPILOGUE_AUX_DATA_TYPE"]
        scaled = s["EPILOGUE_AUX_SCALE_POINTER"] or s["EPILOGUE_AUX_AMAX_POINTER"]
        if scaled and not (self.bits & _KEPT and is_float8(self.kept.name)):
            yield "INVALID_VALUE", "only an auxiliary matrix of float8 has a scale and a largest value", f"{scaled:#x}"
        if s["EPILOGUE_AUX_SCALE_MODE"]:
            yield "NOT_SUPPORTED", "the auxiliary matrix must have one scale", s["EPILOGUE_AUX_SCALE_MODE"]

    def need(self) -> None:
        """Refuse missing addresses, which a search does not need.

        Raises RefusedCall: one is missing.
        """
        for name, bits in (("BIAS", _BIASED), ("EPILOGUE_AUX", _AUX)):
            if self.bits & bits and not self.settings[f"{name}_POINTER"]:
                raise RefusedCall("INVALID_VALUE", f"{name}_POINTER must be an address (got 0)")

    @property
    def kept(self) -> np.dtype[Any]:
        """The type of the values that GELU keeps."""
        name = DATA_TYPES.get(self.settings["EPILOGUE_AUX_DATA_TYPE"], "")
        return element(name).numpy if name else self.result

    # -- computing ------------------------------------------------------------------------------------------------

    def applied(self, at: int, values: Array, factors: Mapping[str, Array]) -> Array:
        """The values of a matrix of a batch; `factors` are op(A) and op(B)."""
        if self.bits & _BIAS:
            values = values + read(self.gpu, self._vector(at, self.shape[0])).astype(np.float32)[:, None]
        if self.sums_of:
            axis = 1 if self.bits & _BGRADA else 0
            self._give_gradient(at, factors.get(self.sums_of, np.zeros((self.shape[0], self.shape[1]), "f4")), axis)
        if self.bits & _MASKED:
            values = self._relu(at, values)
        if self.bits & _KEPT:
            values = self._gelu(at, values)
        if self.bits & _BGRAD:
            self._give_gradient(at, values, 1)
        return values

    def _relu(self, at: int, values: Array) -> Array:
        if not self.bits & _AUX:
            return np.maximum(values, np.float32(0))
        leading, step = (self.settings[f"EPILOGUE_AUX_{name}"] // 8 for name in ("LD", "BATCH_STRIDE"))
        m, n = self.shape
        place = self.settings["EPILOGUE_AUX_POINTER"] + at * step
        mask = array_at(self.gpu, place, np.uint8, (-(-m // 8), n), (1, leading))
        if self.bits & _DRELU:
            passed = np.unpackbits(read(self.gpu, mask), axis=0, count=m, bitorder="little").astype(bool)
            return np.where(passed, values, np.float32(0))
        write(self.gpu, mask, np.packbits(values > 0, axis=0, bitorder="little"))
        return np.maximum(values, np.float32(0))

    def _gelu(self, at: int, values: Array) -> Array:
        if self.bits & _DGELU:
            x = read(self.gpu, self._auxiliary(at)).astype(np.float32)
            t = np.tanh(_SLOPE * (x + _CUBE * x * x * x))
            slope = _SLOPE * (1 + 3 * _CUBE * x * x)
            gradient: Array = values * (np.float32(0.5) * (1 + t) + np.float32(0.5) * x * (1 - t * t) * slope)
            return gradient
        if self.bits & _AUX:
            self.give_largest("EPILOGUE_AUX_AMAX_POINTER", at, values)
            scale = self.settings["EPILOGUE_AUX_SCALE_POINTER"]
            factor = read(self.gpu, array_at(self.gpu, scale, np.float32, (1,)))[0] if scale else np.float32(1)
            write(self.gpu, self._auxiliary(at), rounded(values * factor, self.kept))
        found: Array = np.float32(0.5) * values * (1 + np.tanh(_SLOPE * (values + _CUBE * values * values * values)))
        return found

    def _auxiliary(self, at: int) -> Array:
        item = self.kept.itemsize
        place = self.settings["EPILOGUE_AUX_POINTER"] + at * self.settings["EPILOGUE_AUX_BATCH_STRIDE"] * item
        return array_at(self.gpu, place, self.kept, self.shape, (item, self.settings["EPILOGUE_AUX_LD"] * item))

    def _vector(self, at: int, count: int) -> Array:
        kind = element(self.bias).numpy
        place = self.settings["BIAS_POINTER"] + at * self.settings["BIAS_BATCH_STRIDE"] * kind.itemsize
        return array_at(self.gpu, place, kind, (count,))

    def _give_gradient(self, at: int, values: Array, axis: int) -> None:
        """Store the sums over an axis."""
        sums = np.zeros(values.shape[1 - axis], np.float32)
        if values.shape[axis]:
            sums = np.add.accumulate(values, axis=axis, dtype=np.float32).take(-1, axis)
        write(self.gpu, self._vector(at, len(sums)), rounded(sums, element(self.bias).numpy))

    def give_largest(self, name: str, at: int, values: Array) -> None:
        """Store the largest absolute value of a batch, matrix after matrix, where an attribute says."""
        if self.settings[name]:
            place = array_at(self.gpu, self.settings[name], np.float32, (1,))
            known = read(self.gpu, place)[0] if at else np.float32(0)
            write(self.gpu, place, np.maximum(known, np.abs(values).max()).astype(np.float32))


def rounded(values: Array, kind: np.dtype[Any]) -> Array:
    """Values in another type: integers to nearest, and integers and floats of 8 bits no larger than the type's.

    >>> rounded(np.array([1.5, 2.5, 300, -300], np.float32), np.dtype("int8")).tolist()
    [2, 2, 127, -128]
    """
    if values.dtype == kind:
        return values
    record = dtype(kind) if not np.issubdtype(kind, np.complexfloating) else None
    if record is not None and not record.is_float:
        limits = np.iinfo(kind)
        values = np.clip(np.rint(values.astype(np.float64)), limits.min, limits.max)
    elif record is not None and is_float8(record.name):
        values = np.clip(values, -record.largest, record.largest)
    return values.astype(kind)

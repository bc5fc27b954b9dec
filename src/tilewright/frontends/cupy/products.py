"""Products of matrices for CuPy: a replacement for its cuBLAS module, whose products `tw.matmul` computes on the host.

Products of float16 and bfloat16 have float32 sums, and those of int8 have int32 sums, as cuBLAS's have.

Source: cuBLAS, `cublasGemmEx`, `cublas<t>gemm`, their batched forms, `cublasComputeType_t` and `cublasGemmAlgo_t`;
`library_types.h`, `cudaDataType`. Matrices are by columns, and a leading dimension counts elements.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.frontends.cupy.host_arrays import Array, array_at, read, write
from tilewright.simulate.device.gpu import SimulatedGpu

_NUMBERS = {
    "CUBLAS_OP_N": 0, "CUBLAS_OP_T": 1, "CUBLAS_OP_C": 2,
    "CUBLAS_POINTER_MODE_HOST": 0, "CUBLAS_POINTER_MODE_DEVICE": 1,
    "CUBLAS_DEFAULT_MATH": 0, "CUBLAS_TENSOR_OP_MATH": 1,
    "CUBLAS_GEMM_DEFAULT": -1, "CUBLAS_GEMM_DEFAULT_TENSOR_OP": 99,
    "CUBLAS_COMPUTE_16F": 64, "CUBLAS_COMPUTE_16F_PEDANTIC": 65,
    "CUBLAS_COMPUTE_32F": 68, "CUBLAS_COMPUTE_32F_PEDANTIC": 69,
    "CUBLAS_COMPUTE_64F": 70, "CUBLAS_COMPUTE_64F_PEDANTIC": 71, "CUBLAS_COMPUTE_32I": 72,
    "CUBLAS_COMPUTE_32I_PEDANTIC": 73, "CUBLAS_COMPUTE_32F_FAST_16F": 74, "CUBLAS_COMPUTE_32F_FAST_16BF": 75,
    "CUBLAS_COMPUTE_32F_FAST_TF32": 77,
}  # fmt: skip
#: Types of elements, by the number of a `cudaDataType`.
_DTYPES = {0: "float32", 1: "float64", 2: "float16", 3: "int8", 4: "complex64", 5: "complex128", 10: "int32"}
_BFLOAT16 = 14
#: The first letter of functions for one type of elements -> its `cudaDataType`.
_LETTERS = {"s": 0, "d": 1, "c": 4, "z": 5}
_CONJUGATED = 2  # CUBLAS_OP_C
#: The parameters of each function after its handle. One whose name begins with a letter has the types of that letter.
_PARAMETERS = {
    "gemm": "transa transb m n k alpha a lda b ldb beta c ldc",
    "gemmBatched": "transa transb m n k alpha a lda b ldb beta c ldc batch",
    "gemmStridedBatched": "transa transb m n k alpha a lda stride_a b ldb stride_b beta c ldc stride_c batch",
    "gemmEx": "transa transb m n k alpha a type_a lda b type_b ldb beta c type_c ldc compute algorithm",
    "gemmBatchedEx": "transa transb m n k alpha a type_a lda b type_b ldb beta c type_c ldc batch compute algorithm",
    "gemmStridedBatchedEx": "transa transb m n k alpha a type_a lda stride_a b type_b ldb stride_b "
    "beta c type_c ldc stride_c batch compute algorithm",
}


class CUBLASError(RuntimeError):
    """A refused product; CuPy catches it under this name."""


class HostProducts:
    """Replaces the module `cupy_backends.cuda.libs.cublas`."""

    CUBLASError = CUBLASError

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self._modes: dict[int, int] = {}
        for name, value in _NUMBERS.items():
            setattr(self, name, value)
        for name, parameters in _PARAMETERS.items():
            kinds = {"": None} if name.endswith("Ex") else _LETTERS
            for letter, kind in kinds.items():
                full = f"{letter}{name}"
                setattr(self, full, functools.partial(self._call, full, parameters, kind))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{name} of cuBLAS is machine code for GPUs, but the simulated GPU runs PTX and computes only the products "
            "of this library; use your own kernels, or work on the host (`cupy.asnumpy`)"
        )

    def create(self) -> int:
        """Create a handle; return its number."""
        self._modes[len(self._modes) + 1] = 0
        return len(self._modes)

    def destroy(self, handle: int) -> None:
        """Destroy a handle."""

    def setStream(self, handle: int, stream: int) -> None:
        """Use a stream; everything is done at once."""

    def setMathMode(self, handle: int, mode: int) -> None:
        """Allow other arithmetic, which is not used."""

    def getPointerMode(self, handle: int) -> int:
        """Where coefficients are: 0 on the host, 1 on the device."""
        return self._modes[handle]

    def setPointerMode(self, handle: int, mode: int) -> None:
        """Set where coefficients are."""
        self._modes[handle] = mode

    def _call(self, name: str, parameters: str, kind: int | None, handle: int, *values: int) -> None:
        """Compute the products of one call."""
        given = dict(zip(parameters.split(), values, strict=True))
        _check(name, given)
        if "batch" in given and "stride_c" not in given:  # addresses of matrices are in arrays on the device
            rows = zip(*(self._addresses(given[one], given["batch"]) for one in "abc"), strict=True)
            calls = [given | {"a": a, "b": b, "c": c, "batch": 1} for a, b, c in rows]
        else:
            calls = [given]
        for one in calls:
            self._product(one, kind)

    def _addresses(self, address: int, count: int) -> list[int]:
        with self._gpu.call():
            found: list[int] = read(self._gpu, array_at(self._gpu, address, np.uint64, (count,))).tolist()
        return found

    def _product(self, given: Mapping[str, int], kind: int | None) -> None:
        """C = alpha op(A) op(B) + beta C, for one pair of matrices or for a batch at equal distances."""
        import tilewright as tw

        with self._gpu.call():
            result = self._matrices(given, "c", kind)
            sums = _sums(result.dtype, given.get("compute", 0))
            alpha, beta = (_coefficient(given[name], sums) for name in ("alpha", "beta"))
            values: Any = np.zeros(result.shape, sums)
            if alpha:
                left, right = (read(self._gpu, self._matrices(given, one, kind)) for one in "ab")
                pair = _turned(left, given["transa"]), _turned(right, given["transb"])
                values = tw.matmul(*(one.astype(sums) for one in pair)) * alpha
            if beta:
                values += beta * read(self._gpu, result).astype(sums)
            write(self._gpu, result, values.astype(result.dtype))

    def _matrices(self, given: Mapping[str, int], one: str, kind: int | None) -> Array:
        """A matrix of a product, or those of a batch in front, as they are in memory."""
        rows, columns = _extents(given)[one]
        dtype = _dtype(given[f"type_{one}"] if kind is None else kind)
        strides = (dtype.itemsize, given[f"ld{one}"] * dtype.itemsize)
        if f"stride_{one}" not in given:
            return array_at(self._gpu, given[one], dtype, (rows, columns), strides)
        shape, distance = (given["batch"], rows, columns), given[f"stride_{one}"] * dtype.itemsize
        return array_at(self._gpu, given[one], dtype, shape, (distance, *strides))


def _extents(given: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Rows and columns of each matrix as it is in memory."""
    m, n, k = given["m"], given["n"], given["k"]
    return {"a": (k, m) if given["transa"] else (m, k), "b": (n, k) if given["transb"] else (k, n), "c": (m, n)}


def _check(name: str, given: Mapping[str, int]) -> None:
    """Refuse what cuBLAS refuses.

    Raises CUBLASError: an extent is negative, a leading dimension is too small, or a number has no meaning.
    """
    extents = ("m", "n", "k", "batch", "stride_a", "stride_b", "stride_c")
    rules = [(one, given[one], 0) for one in extents if one in given]
    rules += [(f"ld{one}", given[f"ld{one}"], max(1, rows)) for one, (rows, _) in _extents(given).items()]
    for what, value, least in rules:
        if value < least:
            raise CUBLASError(f"CUBLAS_STATUS_INVALID_VALUE: `{what}` of {name} must be at least {least} (got {value})")
    for what in ("transa", "transb"):
        if given[what] not in (0, 1, _CONJUGATED):
            raise CUBLASError(
                f"CUBLAS_STATUS_INVALID_VALUE: `{what}` of {name} must be 0, 1 or 2: as it is, transposed, or "
                f"conjugated as well (got {given[what]})"
            )
    for what in ("type_a", "type_b", "type_c"):
        if given.get(what, 0) not in (*_DTYPES, _BFLOAT16):
            raise CUBLASError(
                f"CUBLAS_STATUS_NOT_SUPPORTED: `{what}` of {name} must be a type of the simulated GPU's products: "
                f"{', '.join(map(str, sorted([*_DTYPES, _BFLOAT16])))} (got {given[what]})"
            )
    for what in ("alpha", "beta"):
        if not given[what]:
            raise CUBLASError(f"CUBLAS_STATUS_INVALID_VALUE: `{what}` of {name} must be an address (got 0)")


def _dtype(kind: int) -> np.dtype[Any]:
    """The elements of a `cudaDataType`."""
    if kind != _BFLOAT16:
        return np.dtype(_DTYPES[kind])
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def _sums(result: np.dtype[Any], compute: int) -> np.dtype[Any]:
    """The type of the sums and of the coefficients of a product."""
    if compute in (_NUMBERS["CUBLAS_COMPUTE_16F"], _NUMBERS["CUBLAS_COMPUTE_16F_PEDANTIC"]):
        return np.dtype(np.float16)
    if compute in (_NUMBERS["CUBLAS_COMPUTE_32I"], _NUMBERS["CUBLAS_COMPUTE_32I_PEDANTIC"]):
        return np.dtype(np.int32)
    return np.dtype(np.float32) if result.itemsize < 4 else result


def _coefficient(address: int, kind: np.dtype[Any]) -> Any:
    """The coefficient at an address of the host, or of the device, which is a host address too."""
    return np.frombuffer(ctypes.string_at(address, kind.itemsize), kind)[0]


def _turned(matrices: Array, turned: int) -> Array:
    """op(A): as it is, transposed, or conjugated as well."""
    found = matrices.swapaxes(-1, -2) if turned else matrices
    return found.conj() if turned == _CONJUGATED else found

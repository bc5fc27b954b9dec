"""Products of matrices for CuPy: a replacement for its cuBLAS module, whose products `tw.matmul` computes on the host.

Products of float16 and bfloat16 have float32 sums, and those of int8 have int32 sums, as cuBLAS's have.

Source: cuBLAS, `cublasGemmEx`, `cublas<t>gemm`, their batched forms, `cublasComputeType_t` and `cublasGemmAlgo_t`;
`library_types.h`, `cudaDataType`. Matrices are by columns, and a leading dimension counts elements.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

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
_TRANSPOSED, _CONJUGATED = 1, 2


class Operand(NamedTuple):
    """Matrices of one product, or of a batch: their first address, type, leading dimension and distance."""

    address: int
    kind: int
    leading: int
    distance: int = 0  #: In elements, from one matrix of a batch to the next.

    def view(self, gpu: SimulatedGpu, rows: int, columns: int, batch: int) -> Array:
        """Matrices of these extents, as they are in memory."""
        dtype = _dtype(self.kind)
        strides = (self.distance * dtype.itemsize, dtype.itemsize, self.leading * dtype.itemsize)
        return array_at(gpu, self.address, dtype, (batch, rows, columns), strides)


class HostProducts:
    """Replaces the module `cupy_backends.cuda.libs.cublas`."""

    class CUBLASError(RuntimeError):
        """What CuPy catches from a product; none is raised."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu
        self._modes: dict[int, int] = {}
        for name, value in _NUMBERS.items():
            setattr(self, name, value)
        for letter, kind in _LETTERS.items():
            setattr(self, f"{letter}gemm", functools.partial(self._gemm, kind))
            setattr(self, f"{letter}gemmBatched", functools.partial(self._gemm_batched, kind))
            setattr(self, f"{letter}gemmStridedBatched", functools.partial(self._gemm_strided_batched, kind))

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

    def gemmEx(
        self, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
        a: int, a_kind: int, lda: int, b: int, b_kind: int, ldb: int, beta: int, c: int, c_kind: int, ldc: int,
        compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        """C = alpha op(A) op(B) + beta C."""
        operands = Operand(a, a_kind, lda), Operand(b, b_kind, ldb), Operand(c, c_kind, ldc)
        self._product((transa, transb), (m, n, k), operands, (alpha, beta), compute)

    def gemmStridedBatchedEx(
        self, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
        a: int, a_kind: int, lda: int, a_distance: int, b: int, b_kind: int, ldb: int, b_distance: int, beta: int,
        c: int, c_kind: int, ldc: int, c_distance: int, batch: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        """Compute the products of matrices at equal distances."""
        operands = (
            Operand(a, a_kind, lda, a_distance),
            Operand(b, b_kind, ldb, b_distance),
            Operand(c, c_kind, ldc, c_distance),
        )
        self._product((transa, transb), (m, n, k), operands, (alpha, beta), compute, batch)

    def gemmBatchedEx(
        self, handle: int, transa: int, transb: int, m: int, n: int, k: int, alpha: int,
        a: int, a_kind: int, lda: int, b: int, b_kind: int, ldb: int, beta: int, c: int, c_kind: int, ldc: int,
        batch: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        """Compute the products of matrices whose addresses are in arrays on the device."""
        for addresses in zip(*(self._addresses(one, batch) for one in (a, b, c)), strict=True):
            operands = map(Operand, addresses, (a_kind, b_kind, c_kind), (lda, ldb, ldc))
            self._product((transa, transb), (m, n, k), tuple(operands), (alpha, beta), compute)

    def _gemm(self, kind: int, handle: int, *given: int) -> None:
        transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = given
        operands = Operand(a, kind, lda), Operand(b, kind, ldb), Operand(c, kind, ldc)
        self._product((transa, transb), (m, n, k), operands, (alpha, beta))

    def _gemm_batched(self, kind: int, handle: int, *given: int) -> None:
        transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, batch = given
        self.gemmBatchedEx(
            handle, transa, transb, m, n, k, alpha, a, kind, lda, b, kind, ldb, beta, c, kind, ldc, batch, 0, 0
        )

    def _gemm_strided_batched(self, kind: int, handle: int, *given: int) -> None:
        transa, transb, m, n, k, alpha, a, lda, a_distance, b, ldb, b_distance, beta, c, ldc, c_distance, batch = given
        operands = (
            Operand(a, kind, lda, a_distance),
            Operand(b, kind, ldb, b_distance),
            Operand(c, kind, ldc, c_distance),
        )
        self._product((transa, transb), (m, n, k), operands, (alpha, beta), batch=batch)

    def _addresses(self, address: int, count: int) -> Sequence[int]:
        with self._gpu.call():
            found: list[int] = read(self._gpu, array_at(self._gpu, address, np.uint64, (count,))).tolist()
        return found

    def _product(
        self,
        transposed: tuple[int, int],
        extents: tuple[int, int, int],
        operands: tuple[Operand, ...],
        coefficients: tuple[int, int],
        compute: int = 0,
        batch: int = 1,
    ) -> None:
        """Compute op(A) op(B) of one pair of matrices or of a batch, with the coefficients at two addresses."""
        import tilewright as tw

        (m, n, k), (a, b, c) = extents, operands
        with self._gpu.call():
            result = c.view(self._gpu, m, n, batch)
            sums = _sums(result.dtype, compute)
            alpha, beta = (_coefficient(address, sums) for address in coefficients)
            pair = []
            for one, shape, turned in zip((a, b), ((m, k), (k, n)), transposed, strict=True):
                view = one.view(self._gpu, *(shape[::-1] if turned else shape), batch)
                read(self._gpu, view if batch > 1 else view[0])
                pair.append(_turned(view, turned))
            values = tw.matmul(*(one.astype(sums) for one in pair)) * alpha
            if beta:
                values += beta * read(self._gpu, result).astype(sums)
            write(self._gpu, result, values.astype(result.dtype))


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
    if not turned:
        return matrices
    return matrices.swapaxes(1, 2).conj() if turned == _CONJUGATED else matrices.swapaxes(1, 2)

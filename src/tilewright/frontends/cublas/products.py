"""Products of matrices as cuBLAS's functions: `tw.matmul` computes them on the host, in the canonical order.

Products of float16 and bfloat16 have the bits of the GPU's tensor cores, and those of int8 have int32 sums.

Source: cuBLAS, `cublas<t>gemm`, `cublasGemmEx` and their batched forms, `cublasComputeType_t`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.frontends.cublas.operands import Operands, RefusedCall
from tilewright.frontends.host_arrays import Array, read, written
from tilewright.multiply.problem.dtypes import element
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.observer import LibraryCall
from tilewright.simulate.run.whole_products import whole_product

#: Compute capability of the first GPUs with tensor cores.
_OLDEST_CC = (7, 0)


def gemm(call: Operands) -> None:
    """C = alpha op(A) op(B) + beta C."""
    m, n, k = call["m"], call["n"], call["k"]
    target = call.matrix("C", m, n)
    alpha, beta = call.number("alpha"), call.number("beta")
    for name, least in (("A", k if call["transa"] else m), ("B", n if call["transb"] else k)):
        call.leading(f"ld{name.lower()}", least)
    if m and n:
        tell(call.gpu, call.function.name.removesuffix("_v2"), target, k, call.dtype("Atype"))
        left = call.operand("A", m, k, call["transa"]) if alpha and k else None
        right = call.operand("B", k, n, call["transb"]) if alpha and k else None
        multiply(call.gpu, target, left, right, alpha, beta)


def tell(gpu: SimulatedGpu, name: str, target: Array, k: int, dtype: np.dtype[Any]) -> None:
    """Tell observers that a function computes a product of operands of this type."""
    m, n = target.shape
    for observer in gpu.observers:
        observer.called(LibraryCall(name, m, n, k, dtype.name, target.dtype.name))


def multiply(gpu: SimulatedGpu, target: Array, left: Array | None, right: Array | None, alpha: Any, beta: Any) -> None:
    """Store alpha times a product plus beta times the target; without operands the product is 0."""
    if left is None and beta == 1:
        return
    if beta:
        read(gpu, target)
    with written(gpu, target):
        combine(gpu, target, left, right, alpha, beta)


def combine(gpu: SimulatedGpu, target: Array, left: Array | None, right: Array | None, alpha: Any, beta: Any) -> None:
    """The same for an array that observers need not know of."""
    import tilewright as tw

    if left is None or right is None:
        target[...] = (target * beta).astype(target.dtype) if beta else 0
    elif left.dtype.itemsize == 2 and gpu.record.compute_capability >= _OLDEST_CC:
        target[...] = _of_tensor_cores(gpu, target, left, right, np.float32(alpha), np.float32(beta))
    else:
        numbers = {"alpha": alpha.item(), "beta": beta.item()}
        tw.matmul(left, right, target, dtype=target.dtype, casting="unsafe", **numbers)


def _of_tensor_cores(gpu: SimulatedGpu, target: Array, left: Array, right: Array, alpha: Any, beta: Any) -> Array:
    """The result with the bits of the GPU's tensor cores, which those have that sum k in ascending order."""
    format = element(left.dtype.name).ptx
    found: Array = alpha * whole_product(left.view(np.uint16), right.view(np.uint16), format, gpu.record)
    if beta:
        found = found + beta * target.astype(np.float32)
    with np.errstate(all="ignore"):  # numbers may be too large for the target
        return found.astype(target.dtype)


gemm3m = gemm3mEx = gemmEx = GemmEx = gemm


def gemmBatched(call: Operands) -> None:
    """The products of matrices whose addresses are in arrays on the device."""
    for one in call.each():
        gemm(one)


gemmStridedBatched = GemmBatchedEx = GemmStridedBatchedEx = gemm3mBatched = gemm3mStridedBatched = gemmBatched


def gemmGroupedBatched(call: Operands) -> None:
    """The products of groups: matrices of a group have one shape, and their addresses are in arrays on the device.

    Raises RefusedCall: numbers are on the device, types of A and C differ, or a count is negative.
    """
    if call.on_device or call.given.get("Atype") != call.given.get("Ctype"):
        raise RefusedCall("NOT_SUPPORTED", "groups need numbers of the host, and one type of A, B and C")
    if len(call.known["group_size"]) and call.known["group_size"].min() < 0:
        raise RefusedCall("INVALID_VALUE", f"`group_size` must be at least 0 (got {call.known['group_size'].min()})")
    types = {name: value for name, value in call.given.items() if name.endswith(("type", "Type"))}
    addresses = {name: iter(call.addresses(f"{name}array", int(call.known["group_size"].sum()))) for name in "ABC"}
    for at, count in enumerate(call.known["group_size"]):
        each = {name.removesuffix("_array"): found[at : at + 1] for name, found in call.known.items()}
        given = {name: each[name].item() for name in "transa transb m n k lda ldb ldc".split()}
        for _ in range(count):
            matrices = {name: next(found) for name, found in addresses.items()}
            one = replace(call, given={**given, **types, **matrices}, known=each)
            one.check()
            gemm(one)


GemmGroupedBatchedEx = gemmGroupedBatched

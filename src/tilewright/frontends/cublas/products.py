"""Products of matrices as cuBLAS's functions: `tw.matmul` computes them on the host, in the canonical order.

Products of float16 and bfloat16 have float32 sums, and those of int8 have int32 sums.

Source: cuBLAS, `cublas<t>gemm`, `cublasGemmEx` and their batched forms, `cublasComputeType_t`.
"""

from __future__ import annotations

from typing import Any

from tilewright.frontends.cublas.operands import Operands
from tilewright.frontends.host_arrays import Array, read, written
from tilewright.simulate.device.gpu import SimulatedGpu


def gemm(call: Operands) -> None:
    """C = alpha op(A) op(B) + beta C."""
    m, n, k = call["m"], call["n"], call["k"]
    target = call.matrix("C", m, n)
    alpha, beta = call.number("alpha"), call.number("beta")
    for name, least in (("A", k if call["transa"] else m), ("B", n if call["transb"] else k)):
        call.leading(f"ld{name.lower()}", least)
    if m and n:
        left = call.operand("A", m, k, call["transa"]) if alpha and k else None
        right = call.operand("B", k, n, call["transb"]) if alpha and k else None
        multiply(call.gpu, target, left, right, alpha, beta)


def multiply(gpu: SimulatedGpu, target: Array, left: Array | None, right: Array | None, alpha: Any, beta: Any) -> None:
    """Store alpha times a product plus beta times the target; without operands the product is 0."""
    import tilewright as tw

    if left is None and beta == 1:
        return
    if beta:
        read(gpu, target)
    with written(gpu, target):
        if left is not None and right is not None:
            tw.matmul(left, right, target, dtype=target.dtype, alpha=alpha.item(), beta=beta.item(), casting="unsafe")
        elif not beta:
            target[...] = 0
        else:
            target[...] = (target * beta).astype(target.dtype)


gemm3m = gemmEx = GemmEx = gemm


def gemmBatched(call: Operands) -> None:
    """The products of matrices whose addresses are in arrays on the device."""
    for one in call.each():
        gemm(one)


gemmStridedBatched = GemmBatchedEx = GemmStridedBatchedEx = gemmBatched

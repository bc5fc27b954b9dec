"""Kernels in Triton, for `compiled_kernels.py`: matrix product, softmax and attention in their simplest form."""

# mypy: ignore-errors
# ruff: noqa: N803 -- constants are capitals in Triton
from __future__ import annotations

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

#: Compute capability. Triton has no tensor cores there, so a product of tiles is a long row of fma.
CAPABILITY = 75


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The product of a and b, a tile of M x N for each block, K at a time."""
    rows = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    columns = tl.program_id(1) * N + tl.arange(0, N)[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        across, down = start + tl.arange(0, K)[None, :], start + tl.arange(0, K)[:, None]
        left = tl.load(a + rows * k + across, mask=(rows < m) & (across < k), other=0.0)
        right = tl.load(b + down * n + columns, mask=(down < k) & (columns < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + rows * n + columns, total, mask=(rows < m) & (columns < n))


@triton.jit
def softmax(x, y, columns, N: tl.constexpr):
    """Each row of x, of at most N columns, for each block."""
    at = tl.arange(0, N)
    start = tl.program_id(0) * columns
    values = tl.load(x + start + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + start + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@triton.jit
def attention(q, k, v, out, n, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """softmax(q @ k.T * scale) @ v, M rows of q for each block, N of k and v at a time, D columns."""
    rows, width = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + width[None, :], mask=rows[:, None] < n, other=0.0)
    most = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for start in range(0, n, N):
        at = start + tl.arange(0, N)
        keys = tl.load(k + at[None, :] * D + width[:, None], mask=at[None, :] < n, other=0.0)
        scores = tl.dot(query, keys, input_precision="ieee") * scale
        scores = tl.where(at[None, :] < n, scores, -float("inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        weights, before = tl.exp(scores - now[:, None]), tl.exp(most - now)
        total = total * before + tl.sum(weights, 1)
        values = tl.load(v + at[:, None] * D + width[None, :], mask=at[:, None] < n, other=0.0)
        result = result * before[:, None] + tl.dot(weights, values, input_precision="ieee")
        most = now
    tl.store(out + rows[:, None] * D + width[None, :], result / total[:, None], mask=rows[:, None] < n)


def compiled(kernel, types, constants, *, aligned=()):
    """PTX, dynamic shared memory in bytes and threads of a block, for argument types and constants by name.

    `aligned` are the arguments that are multiples of 16, as Triton finds them of tensors: loads become vectors then.
    """
    source = ASTSource(
        fn=kernel,
        signature=types | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={(index,): [["tt.divisibility", 16]] for index, name in enumerate(types) if name in aligned},
    )
    made = triton.compile(source, target=GPUTarget("cuda", CAPABILITY, 32))
    return made.asm["ptx"], made.metadata.shared, 32 * made.metadata.num_warps

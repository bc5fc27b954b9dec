"""A corpus of typical Triton kernels for `benchmarks/triton_corpus.py`, with arguments and expected results.

Expected results are NumPy's, in float64 or integers; for random numbers they are Philox as its authors state it
(Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

# mypy: ignore-errors
# ruff: noqa: N803 -- constants are capitals in Triton
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import triton
import triton.language as tl
from speed_kernels import triton_kernels

from tilewright.multiply.problem.dtypes import element

#: Names of element types, of Triton and of the table of dtypes.
TYPES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8e4nv": "float8_e4m3fn",
    "i8": "int8", "i32": "int32", "u8": "uint8",
}  # fmt: skip
#: The error that a type's roundings may cause here, relative to the largest value.
TOLERANCE = {
    "fp64": 1e-12,
    "fp32": 1e-5,
    "fp16": 2e-3,
    "bf16": 1.6e-2,
    "i32": 0,
    "i8": 0,
    "tf32": 2e-3,
    "fp8e4nv": 2e-3,
}


@dataclass(frozen=True)
class Given:
    """Arguments of a launch: the first of `results` is compared with the first expected result, and so on."""

    grid: tuple[int, ...]
    args: tuple
    results: tuple[np.ndarray, ...]
    truths: tuple[np.ndarray, ...]
    tolerance: float = TOLERANCE["fp32"]


@dataclass(frozen=True)
class Kernel:
    """One kernel of the corpus; `least` is the first compute capability that it is compiled for."""

    name: str
    function: object
    types: dict[str, str]
    constants: dict[str, object]
    given: Callable[[], Given]
    least: int = 75
    aligned: tuple[str, ...] = ()
    options: dict[str, int] = field(default_factory=dict)
    boxes: tuple[str, ...] = ()  #: Arguments that are tensor descriptors.
    defects: tuple[str, ...] = ()  #: Codes of its true defects: `check` must find these, and no others.


def numbers(seed: int, *shape: int, of: str = "fp32") -> np.ndarray:
    rng, kind = np.random.default_rng(seed), element(TYPES[of]).numpy
    if of.startswith(("i", "u")):
        return rng.integers(-100 if of == "i8" else 0, 100, shape).astype(kind)
    return rng.normal(size=shape).astype(kind)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64 if np.dtype(x.dtype).kind in "iu" else np.float64)


# -- products ---------------------------------------------------------------------------------------------------------


@triton.jit
def product(
    a, b, c, m, n, k, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr, TOTAL: tl.constexpr, LEAKY: tl.constexpr, TURN_B: tl.constexpr,
):  # fmt: skip
    """Tiles of M x N in groups of rows, as in Triton's tutorial; the last ones are partial."""
    at, across = tl.program_id(0), tl.cdiv(n, N)
    first = at // (GROUP * across) * GROUP
    tall = min(tl.cdiv(m, M) - first, GROUP)
    row, column = first + at % (GROUP * across) % tall, at % (GROUP * across) // tall
    rows, columns, steps = row * M + tl.arange(0, M), column * N + tl.arange(0, N), tl.arange(0, K)
    left = a + rows[:, None] % m * am + steps[None, :] * ak
    right = b + steps[:, None] * bk + columns[None, :] % n * bn
    if TURN_B:
        right = b + steps[None, :] * bk + columns[:, None] % n * bn
    total = tl.zeros((M, N), TOTAL)
    for start in range(0, k, K):
        x = tl.load(left, mask=steps[None, :] < k - start, other=0.0)
        if TURN_B:
            y = tl.load(right, mask=steps[None, :] < k - start, other=0.0).T
        else:
            y = tl.load(right, mask=steps[:, None] < k - start, other=0.0)
        total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=TOTAL)
        left += K * ak
        right += K * bk
    if LEAKY:
        total = tl.where(total >= 0, total, 0.01 * total)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


def product_of(
    name: str, of: str, tile: tuple[int, int, int], *, result: str = "fp32", precision: str = "ieee", turned: str = "",
    leaky: bool = False, ragged: bool = False, least: int = 75, **options: int,
) -> Kernel:  # fmt: skip
    """A product of 2 x 2 tiles and three steps; `turned` names operands whose columns lie side by side."""
    m, n, k = 2 * tile[0] - 5 * ragged, 2 * tile[1] - 3 * ragged, 3 * tile[2] - 7 * ragged
    steps = {"am": 1 if "a" in turned else k, "ak": m if "a" in turned else 1,
             "bk": 1 if "b" in turned else n, "bn": k if "b" in turned else 1}  # fmt: skip
    ones = {key: 1 for key, step in steps.items() if step == 1}
    kind = tl.int32 if of == "i8" else tl.float32
    constants = dict(zip("MNK", tile, strict=True)) | ones
    constants |= {"GROUP": 2, "PRECISION": precision, "TOTAL": kind, "LEAKY": leaky, "TURN_B": "b" in turned}
    types = {"a": f"*{of}", "b": f"*{of}", "c": f"*{result}", **dict.fromkeys("mnk", "i32")}
    types |= {key: "i32" for key in steps if key not in ones}

    def given() -> Given:
        x, y = numbers(1, m, k, of=of), numbers(2, k, n, of=of)
        truth = wide(x) @ wide(y)
        c = np.zeros((m, n), element(TYPES[result]).numpy)
        left, right = (v.T.copy() if key in turned else v for key, v in (("a", x), ("b", y)))
        rest = [step for key, step in steps.items() if key not in ones]
        said = (result, precision, of if of == "fp8e4nv" else "")  # warpgroups keep 13 bits of its sums
        close = max(TOLERANCE.get(one, 0) for one in said)
        truth = np.where(truth >= 0, truth, 0.01 * truth) if leaky else truth
        return Given((4,), (left, right, c, m, n, k, *rest), (c,), (truth,), close)

    aligned = () if ragged else tuple(types)
    return Kernel(name, product, types, constants, given, least, aligned, options)


@triton.jit
def split_product(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr):
    """Parts of k are added by atomic operations."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(tl.program_id(2) * K, k, K * PARTS):
        steps = start + tl.arange(0, K)
        x = tl.load(a + rows[:, None] * k + steps[None, :])
        y = tl.load(b + steps[:, None] * n + columns[None, :])
        total = tl.dot(x, y, total)
    tl.atomic_add(c + rows[:, None] * n + columns[None, :], total)


def split_given() -> Given:
    x, y, c = numbers(3, 64, 256, of="fp16"), numbers(4, 256, 64, of="fp16"), np.zeros((64, 64), np.float32)
    return Given((2, 2, 4), (x, y, c, 64, 64, 256), (c,), (wide(x) @ wide(y),))


@triton.jit
def batched_product(a, b, c, k, S: tl.constexpr, K: tl.constexpr):
    """A product of S x S for each block."""
    one, rows, columns, steps = tl.program_id(0), tl.arange(0, S)[:, None], tl.arange(0, S)[None, :], tl.arange(0, K)
    total = tl.zeros((S, S), tl.float32)
    for start in range(0, k, K):
        x = tl.load(a + one * S * k + rows * k + start + steps[None, :])
        y = tl.load(b + one * S * k + (start + steps[:, None]) * S + columns)
        total = tl.dot(x, y, total)
    tl.store(c + one * S * S + rows * S + columns, total)


def batched_given() -> Given:
    x, y, c = numbers(5, 3, 32, 96, of="fp16"), numbers(6, 3, 96, 32, of="fp16"), np.zeros((3, 32, 32), np.float32)
    return Given((3,), (x, y, c, 96), (c,), (wide(x) @ wide(y),))


@triton.jit
def described_product(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Tiles are loaded and stored by tensor descriptors that the kernel makes or gets."""
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    x = tl.make_tensor_descriptor(a, (m, k), (k, 1), (M, K))
    y = tl.make_tensor_descriptor(b, (k, n), (n, 1), (K, N))
    z = tl.make_tensor_descriptor(c, (m, n), (n, 1), (M, N))
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        total = tl.dot(x.load((row, start)), y.load((start, column)), total)
    z.store((row, column), total.to(tl.float16))


@triton.jit
def boxes_product(x, y, z, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        total = tl.dot(x.load((row, start)), y.load((start, column)), total)
    z.store((row, column), total.to(tl.float16))


def described_given() -> Given:
    x, y, c = numbers(7, 120, 160, of="fp16"), numbers(8, 160, 96, of="fp16"), np.zeros((120, 96), np.float16)
    return Given((2, 2), (x, y, c, 120, 96, 160), (c,), (wide(x) @ wide(y),), TOLERANCE["fp16"])


def boxes_given() -> Given:
    x, y, c = numbers(7, 120, 160, of="fp16"), numbers(8, 160, 96, of="fp16"), np.zeros((120, 96), np.float16)
    return Given((2, 2), (x, y, c, 160), (c,), (wide(x) @ wide(y),), TOLERANCE["fp16"])


# -- attention --------------------------------------------------------------------------------------------------------


@triton.jit
def attention(q, k, v, out, n, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    """M rows of q for each block, N of k and v at a time; weights become elements of v's type."""
    first, width = tl.program_id(0) * M, tl.arange(0, D)
    rows = first + tl.arange(0, M)
    query = tl.load(q + rows[:, None] * D + width[None, :])
    most, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for start in range(0, first + M if CAUSAL else n, N):
        at = start + tl.arange(0, N)
        keys = tl.load(k + at[None, :] * D + width[:, None])
        scores = tl.dot(query, keys) * scale
        if CAUSAL:
            scores = tl.where(rows[:, None] >= at[None, :], scores, -float("inf"))
        now = tl.maximum(most, tl.max(scores, 1))
        weights, before = tl.exp2(scores - now[:, None]), tl.exp2(most - now)
        total = total * before + tl.sum(weights, 1)
        values = tl.load(v + at[:, None] * D + width[None, :])
        result = tl.dot(weights.to(v.dtype.element_ty), values, result * before[:, None])
        most = now
    tl.store(out + rows[:, None] * D + width[None, :], result / total[:, None])


def attention_of(name: str, of: str, size: int, *, causal: bool, least: int = 75) -> Kernel:
    types = dict.fromkeys("qkv", f"*{of}") | {"out": "*fp32", "n": "i32", "scale": "fp32"}
    constants = {"M": size, "N": size, "D": 64, "CAUSAL": causal}

    def given() -> Given:
        n, (q, k, v) = 2 * size, (numbers(seed, 2 * size, 64, of=of) for seed in (9, 10, 11))
        scores = wide(q) @ wide(k).T / 8
        weights = np.exp(np.where(np.tri(n), scores, -np.inf) if causal else scores)
        out = np.zeros((n, 64), np.float32)
        truth = weights / weights.sum(axis=1, keepdims=True) @ wide(v)
        close = TOLERANCE["tf32" if of == "fp32" else of]  # to which products of float32 are rounded from 8.0 on
        return Given((2,), (q, k, v, out, n, math.log2(math.e) / 8), (out,), (truth,), close)

    return Kernel(name, attention, types, constants, given, least, (*"qkv", "out", "n"))


# -- rows -------------------------------------------------------------------------------------------------------------


@triton.jit
def staged_softmax(y, x, rows, columns, N: tl.constexpr):
    """Rows one after another, with the next ones prefetched."""
    at = tl.arange(0, N)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=4):
        values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(y + row * columns + at, powers / tl.sum(powers, axis=0), mask=at < columns)


def softmax_given(columns: int, *, staged: bool) -> Given:
    rows = 9 if staged else 3
    x, y = numbers(12, rows, columns), np.zeros((rows, columns), np.float32)
    powers = np.exp(wide(x))
    truth = powers / powers.sum(axis=1, keepdims=True)
    return (
        Given((2,), (y, x, rows, columns), (y,), (truth,)) if staged else Given((3,), (x, y, columns), (y,), (truth,))
    )


@triton.jit
def layer_norm(x, w, b, y, mean, rstd, columns, eps, N: tl.constexpr):
    """Rows in parts: their means, their deviations, then the results."""
    row = tl.program_id(0) * columns
    total = tl.zeros((N,), tl.float32)
    for start in range(0, columns, N):
        at = start + tl.arange(0, N)
        total += tl.load(x + row + at, mask=at < columns, other=0.0)
    middle = tl.sum(total, axis=0) / columns
    squares = tl.zeros((N,), tl.float32)
    for start in range(0, columns, N):
        at = start + tl.arange(0, N)
        value = tl.load(x + row + at, mask=at < columns, other=0.0)
        squares += tl.where(at < columns, (value - middle) * (value - middle), 0.0)
    inverse = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean + tl.program_id(0), middle)
    tl.store(rstd + tl.program_id(0), inverse)
    for start in range(0, columns, N):
        at = start + tl.arange(0, N)
        value = tl.load(x + row + at, mask=at < columns, other=0.0)
        scale, shift = tl.load(w + at, mask=at < columns), tl.load(b + at, mask=at < columns)
        tl.store(y + row + at, (value - middle) * inverse * scale + shift, mask=at < columns)


def norm_given() -> Given:
    x, w, b = numbers(13, 5, 700), numbers(14, 700), numbers(15, 700)
    y, mean, rstd = np.zeros_like(x), np.zeros(5, np.float32), np.zeros(5, np.float32)
    of = wide(x)
    inverse = 1 / np.sqrt(of.var(axis=1) + 1e-5)
    truths = ((of - of.mean(axis=1)[:, None]) * inverse[:, None] * w + b, of.mean(axis=1), inverse)
    return Given((5,), (x, w, b, y, mean, rstd, 700, 1e-5), (y, mean, rstd), truths)


@triton.jit
def cross_entropy(x, labels, loss, columns, N: tl.constexpr):
    at, row = tl.arange(0, N), tl.program_id(0)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    most = tl.max(values, axis=0)
    total = tl.log(tl.sum(tl.exp(values - most), axis=0)) + most
    tl.store(loss + row, total - tl.load(x + row * columns + tl.load(labels + row)))


def entropy_given() -> Given:
    x, labels, loss = numbers(16, 8, 500), numbers(17, 8, of="i32"), np.zeros(8, np.float32)
    truth = np.log(np.exp(wide(x)).sum(axis=1)) - wide(x)[np.arange(8), labels]
    return Given((8,), (x, labels, loss, 500), (loss,), (truth,))


@triton.jit
def best(x, values, places, columns, N: tl.constexpr):
    """The largest of each row, and its index."""
    at, row = tl.arange(0, N), tl.program_id(0)
    found, place = tl.max(
        tl.load(x + row * columns + at, mask=at < columns, other=-float("inf")), axis=0, return_indices=True
    )
    tl.store(values + row, found)
    tl.store(places + row, place)


def best_given() -> Given:
    x, values, places = numbers(18, 6, 333), np.zeros(6, np.float32), np.zeros(6, np.int32)
    return Given((6,), (x, values, places, 333), (values, places), (x.max(axis=1), x.argmax(axis=1)), 0)


@triton.jit
def merged(mean_a, m2_a, count_a, mean_b, m2_b, count_b):
    count = count_a + count_b
    part = tl.where(count == 0, 0.0, count_b / count)
    apart = mean_b - mean_a
    return mean_a + apart * part, m2_a + m2_b + apart * apart * count_a * part, count


@triton.jit
def welford(x, mean, variance, columns, N: tl.constexpr):
    """Means and variances by a custom reduction.

    Lanes that exchange halves merge them in either order, whose last bits differ; then all of a warp store to one word.
    """
    at, row = tl.arange(0, N), tl.program_id(0)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    found = tl.reduce((values, tl.zeros((N,), tl.float32), (at < columns).to(tl.float32)), 0, merged)
    tl.store(mean + row, found[0])
    tl.store(variance + row, found[1] / found[2])


def welford_given() -> Given:
    x, mean, variance = numbers(19, 4, 600), np.zeros(4, np.float32), np.zeros(4, np.float32)
    return Given((4,), (x, mean, variance, 600), (mean, variance), (wide(x).mean(axis=1), wide(x).var(axis=1)))


@triton.jit
def both(sum_a, squares_a, sum_b, squares_b):
    return sum_a + sum_b, squares_a + squares_b


@triton.jit
def two_sums(x, total, squares, columns, N: tl.constexpr):
    """Two sums by one reduction, whose lanes all have the same bits: the twin of `welford`."""
    at, row = tl.arange(0, N), tl.program_id(0)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    found = tl.reduce((values, values * values), 0, both)
    tl.store(total + row, found[0])
    tl.store(squares + row, found[1])


def two_sums_given() -> Given:
    x, total, squares = numbers(19, 4, 600), np.zeros(4, np.float32), np.zeros(4, np.float32)
    return Given((4,), (x, total, squares, 600), (total, squares), (wide(x).sum(axis=1), (wide(x) ** 2).sum(axis=1)))


@triton.jit
def sums(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + at, tl.cumsum(tl.load(x + at), axis=0))


def sums_given() -> Given:
    x, y = numbers(20, 3, 512, of="i32"), np.zeros((3, 512), np.int32)
    return Given((3,), (x, y), (y,), (x.cumsum(axis=1),), 0)


@triton.jit
def followed(factor_a, sum_a, factor_b, sum_b):
    return factor_a * factor_b, sum_a * factor_b + sum_b


@triton.jit
def recurrence(f, x, y, T: tl.constexpr, N: tl.constexpr):
    """y[t] = f[t] y[t - 1] + x[t], along the first axis."""
    at = tl.program_id(0) * T * N + tl.arange(0, T)[:, None] * N + tl.arange(0, N)[None, :]
    _, found = tl.associative_scan((tl.load(f + at), tl.load(x + at)), 0, followed)
    tl.store(y + at, found)


def recurrence_given() -> Given:
    f, x = np.random.default_rng(21).random((2, 64, 16), np.float32), numbers(22, 2, 64, 16)
    y, truth = np.zeros_like(x), wide(x)
    for t in range(1, 64):
        truth[:, t] += truth[:, t - 1] * f[:, t]
    return Given((2,), (f, x, y), (y,), (truth,))


@triton.jit
def ordered(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + at, tl.sort(tl.load(x + at)))


def ordered_given() -> Given:
    x, y = numbers(23, 2, 256), np.zeros((2, 256), np.float32)
    return Given((2,), (x, y), (y,), (np.sort(x, axis=1),), 0)


# -- elements ---------------------------------------------------------------------------------------------------------


@triton.jit
def added(x, y, out, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def added_of(of: str) -> Kernel:
    def given() -> Given:
        x, y = numbers(24, 2000, of=of), numbers(25, 2000, of=of)
        out = np.zeros_like(x)
        return Given((2,), (x, y, out, 2000), (out,), (x + y,), 0)

    types = {"x": f"*{of}", "y": f"*{of}", "out": f"*{of}", "n": "i32"}
    return Kernel(f"add, {of}", added, types, {"N": 1024}, given, aligned=tuple(types))


@triton.jit
def gelu(x, y, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, 0.5 * value * (1 + tl.erf(value * 0.70710678)), mask=at < n)


def gelu_given() -> Given:
    x, y = numbers(26, 1000, of="fp16"), np.zeros(1000, np.float32)
    truth = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype(float)])
    return Given((1,), (x, y, 1000), (y,), (truth,))


@triton.jit
def dropout(x, y, n, share, seed, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    kept = tl.rand(seed, at) > share
    tl.store(y + at, tl.where(kept, tl.load(x + at, mask=at < n) / (1 - share), 0.0), mask=at < n)


def philox(counts: np.ndarray, seed: int) -> np.ndarray:
    """The first word of Philox 4x32 with ten rounds, for counters whose upper words are 0."""
    low, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    words = [counts.astype(np.uint64), *(np.zeros(counts.shape, np.uint64) for _ in range(3))]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            second >> low ^ words[1] ^ np.uint64(keys[0]), second & mask,
            first >> low ^ words[3] ^ np.uint64(keys[1]), first & mask,
        ]  # fmt: skip
        keys = [keys[0] + 0x9E3779B9 & 0xFFFFFFFF, keys[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return words[0].astype(np.uint32)


def dropout_given() -> Given:
    x, y = numbers(27, 1000), np.zeros(1000, np.float32)
    drawn = philox(np.arange(1000), 123).view(np.int32)
    uniform = np.where(drawn < 0, -(drawn.astype(np.int64) + 1), drawn) * 4.6566127342e-10
    return Given((2,), (x, y, 1000, 0.25, 123), (y,), (np.where(uniform > 0.25, wide(x) / 0.75, 0),))


@triton.jit
def turned(x, y, rows, columns, S: tl.constexpr):
    """A transposed copy by tiles."""
    r, c = tl.program_id(0) * S + tl.arange(0, S), tl.program_id(1) * S + tl.arange(0, S)
    value = tl.load(x + r[:, None] * columns + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < columns))
    tl.store(y + c[:, None] * rows + r[None, :], value.T, mask=(c[:, None] < columns) & (r[None, :] < rows))


def turned_given() -> Given:
    x, y = numbers(28, 70, 50), np.zeros((50, 70), np.float32)
    return Given((3, 2), (x, y, 70, 50), (y,), (x.T,), 0)


@triton.jit
def counted(x, counts, n, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    found = tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS, mask=at < n)
    tl.atomic_add(counts + tl.arange(0, BINS), found)


def counted_given() -> Given:
    x, counts = numbers(29, 1500, of="i32"), np.zeros(128, np.int32)
    return Given((2,), (x, counts, 1500), (counts,), (np.bincount(x, minlength=128),), 0)


@triton.jit
def looked_up(places, table, y, columns, N: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, N)
    values = tl.load(table + tl.load(places + row) * columns + at, mask=at < columns)
    tl.store(y + row * columns + at, values, mask=at < columns)


def looked_up_given() -> Given:
    places, table, y = numbers(30, 7, of="i32"), numbers(31, 100, 200, of="fp16"), np.zeros((7, 200), np.float16)
    return Given((7,), (places, table, y, 200), (y,), (table[places],), 0)


@triton.jit
def quantized(x, y, scales, columns, N: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, N)
    value = tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    scale = tl.max(tl.abs(value), axis=0) / 127
    tl.store(scales + row, scale)
    tl.store(y + row * columns + at, tl.floor(value / scale + 0.5).to(tl.int8), mask=at < columns)


def quantized_given() -> Given:
    x, y, scales = numbers(32, 4, 300), np.zeros((4, 300), np.int8), np.zeros(4, np.float32)
    truth = np.abs(wide(x)).max(axis=1) / 127
    return Given((4,), (x, y, scales, 300), (y, scales), (np.floor(wide(x) / truth[:, None] + 0.5), truth))


_ROW = {"columns": "i32"}


def row_types(**arrays: str) -> dict[str, str]:
    return {name: f"*{kind}" for name, kind in arrays.items()} | _ROW


CORPUS = (
    added_of("fp32"), added_of("fp16"),
    Kernel("gelu", gelu, {"x": "*fp16", "y": "*fp32", "n": "i32"}, {"N": 1024}, gelu_given),
    Kernel("dropout", dropout, {"x": "*fp32", "y": "*fp32", "n": "i32", "share": "fp32", "seed": "i32"}, {"N": 512},
           dropout_given),
    Kernel("transposed copy", turned, {"x": "*fp32", "y": "*fp32", "rows": "i32", "columns": "i32"}, {"S": 32},
           turned_given),
    Kernel("histogram", counted, {"x": "*i32", "counts": "*i32", "n": "i32"}, {"N": 1024, "BINS": 128}, counted_given),
    Kernel("embedding", looked_up, row_types(places="i32", table="fp16", y="fp16"), {"N": 256}, looked_up_given),
    Kernel("quantize", quantized, row_types(x="fp32", y="i8", scales="fp32"), {"N": 512}, quantized_given),
    Kernel("softmax, 256", triton_kernels.softmax, row_types(x="fp32", y="fp32"), {"N": 256},
           lambda: softmax_given(232, staged=False)),
    Kernel("softmax, 1024", triton_kernels.softmax, row_types(x="fp32", y="fp32"), {"N": 1024},
           lambda: softmax_given(1008, staged=False), aligned=("x", "y", "columns")),
    Kernel("softmax, rows ahead", staged_softmax, {"y": "*fp32", "x": "*fp32", "rows": "i32", "columns": "i32"},
           {"N": 512}, lambda: softmax_given(512, staged=True), aligned=("x", "y", "columns")),
    Kernel("layer norm", layer_norm,
           dict.fromkeys(("x", "w", "b", "y", "mean", "rstd"), "*fp32") | _ROW | {"eps": "fp32"}, {"N": 256},
           norm_given),
    Kernel("cross entropy", cross_entropy, row_types(x="fp32", labels="i32", loss="fp32"), {"N": 512}, entropy_given),
    Kernel("argmax", best, row_types(x="fp32", values="fp32", places="i32"), {"N": 512}, best_given),
    Kernel("variance", welford, row_types(x="fp32", mean="fp32", variance="fp32"), {"N": 1024}, welford_given,
           defects=("TW304",)),
    Kernel("two sums", two_sums, row_types(x="fp32", total="fp32", squares="fp32"), {"N": 1024}, two_sums_given),
    Kernel("cumulative sum", sums, {"x": "*i32", "y": "*i32"}, {"N": 512}, sums_given),
    Kernel("recurrence", recurrence, dict.fromkeys(("f", "x", "y"), "*fp32"), {"T": 64, "N": 16}, recurrence_given),
    Kernel("sort", ordered, {"x": "*fp32", "y": "*fp32"}, {"N": 256}, ordered_given),
    product_of("matmul, fp32", "fp32", (32, 32, 32), ragged=True),
    product_of("matmul, fp32, aligned", "fp32", (64, 64, 32)),
    product_of("matmul, fp16", "fp16", (64, 64, 32), result="fp16"),
    product_of("matmul, fp16, ragged", "fp16", (64, 32, 32), ragged=True),
    product_of("matmul, fp16, leaky", "fp16", (128, 64, 32), result="fp16", leaky=True, num_warps=8),
    product_of("matmul, fp16, both turned", "fp16", (64, 64, 32), turned="ab"),
    Kernel("matmul, split k", split_product, {"a": "*fp16", "b": "*fp16", "c": "*fp32", **dict.fromkeys("mnk", "i32")},
           {"M": 32, "N": 32, "K": 32, "PARTS": 4}, split_given, aligned=tuple("abcmnk")),
    Kernel("matmul, batched", batched_product, {"a": "*fp16", "b": "*fp16", "c": "*fp32", "k": "i32"},
           {"S": 32, "K": 32}, batched_given, aligned=tuple("abck")),
    attention_of("attention, fp32", "fp32", 32, causal=False),
    attention_of("attention, fp16, causal", "fp16", 64, causal=True),
    product_of("matmul, tf32", "fp32", (64, 64, 32), precision="tf32", least=80),
    product_of("matmul, bf16, 4 stages", "bf16", (64, 128, 64), result="bf16", least=80, num_warps=8, num_stages=4),
    product_of("matmul, int8", "i8", (64, 64, 32), result="i32", least=80),
    product_of("matmul, fp8", "fp8e4nv", (64, 64, 64), turned="b", least=90),
    Kernel("matmul, own descriptors", described_product,
           {"a": "*fp16", "b": "*fp16", "c": "*fp16", **dict.fromkeys("mnk", "i32")}, {"M": 64, "N": 64, "K": 32},
           described_given, 90, tuple("abcmnk")),
    Kernel("matmul, given descriptors", boxes_product,
           {"x": "tensordesc<fp16[64, 64]>", "y": "tensordesc<fp16[64, 64]>", "z": "tensordesc<fp16[64, 64]>",
            "k": "i32"}, {"M": 64, "N": 64, "K": 64}, boxes_given, 90, ("k",), {}, tuple("xyz")),
)  # fmt: skip

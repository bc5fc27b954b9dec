"""The works of `cpu.py`: one record for each row of its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

import tilewright as tw

Array = np.ndarray[Any, Any]
View = Callable[[Array], Array]
SEED = 20261121
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Work:
    """One row: a product, its peers, and the ratios that it must reach.

    Attributes
    ----------
    name : str
    dtype : str
        Of the operands, as they lie in memory.
    shapes : tuple of shapes
        Of A and B as they are made, and of what the epilogue takes.
    peers : mapping
        Names in `cpu_peers.PEERS`, each with the least ratio of its time to ours, if there is one. The first is the
        one that our result is compared with.
    best : float, optional
        The least ratio to the quickest of the peers.
    options : mapping
        Further arguments of `tw.matmul`; a callable one is called with the operands after the second.
    views : tuple of callables, optional
        What A and B are of the arrays that are made.
    counts : {"operations", "bytes"}
        What the rate is of: multiplications and additions of real numbers, or the bytes of the larger operand, each
        counted once (a peer that copies moves twice as many, and its rate and the ratio say so).
    """

    name: str
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    peers: Mapping[str, float | None]
    best: float | None = None
    options: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    views: tuple[View, View] | None = None
    counts: Literal["operations", "bytes"] = "operations"

    def operands(self) -> tuple[Array, ...]:
        """The same random arrays every time."""
        random = np.random.default_rng(SEED)
        made = [values(random, self.dtype, shape) for shape in self.shapes]
        if self.views is not None:
            made[:2] = [view(x) for view, x in zip(self.views, made[:2], strict=True)]
        return tuple(made)

    def ours(self, a: Array, b: Array, *more: Array) -> Callable[[], Any]:
        """The call that is timed."""
        options = dict(self.options)
        if more:
            options["epilogue_args"] = more
        return lambda: tw.matmul(a, b, **options)

    def amount(self, a: Array, b: Array) -> float:
        """Operations or bytes of one call."""
        if self.counts == "bytes":
            return max(a.nbytes, b.nbytes)
        batch = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        rows, columns = (a.shape[-2] if a.ndim > 1 else 1), (b.shape[-1] if b.ndim > 1 else 1)
        return (8 if a.dtype.kind == "c" else 2) * batch * rows * columns * a.shape[-1]


def values(random: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Integers of the whole range, floats from -1 to 1."""
    if dtype.startswith("int"):
        ends = np.iinfo(dtype)
        return random.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    if dtype.startswith("complex"):
        return (random.uniform(-1, 1, shape) + 1j * random.uniform(-1, 1, shape)).astype(dtype)
    if dtype == "bfloat16":
        import ml_dtypes

        return random.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16)
    return random.uniform(-1, 1, shape).astype(dtype)


def square(dtype: str, n: int, *, label: str = "", **record: Any) -> Work:
    """A product of two square matrices."""
    return Work(f"{dtype} {label}{n}", dtype, ((n, n), (n, n)), **record)


def strided(n: int) -> list[Work]:
    """Operands that BLAS would copy first, against the product of their copies."""
    plain, flat, wide, quarter = (n, n), (lambda x: x), (n, 2 * n), n // 4
    kinds: list[tuple[str, tuple[int, ...], tuple[int, ...], View, View]] = [
        ("A.T", plain, plain, np.transpose, flat),
        ("A[::-1]", plain, plain, np.flipud, flat),
        ("A[:, ::2]", wide, plain, lambda x: x[:, ::2], flat),
        ("B.T", plain, plain, flat, np.transpose),
        ("B[:, ::2]", plain, wide, flat, lambda x: x[:, ::2]),
        ("A of a broadcast batch", (quarter, n), plain, lambda x: np.broadcast_to(x, (4, *x.shape)), flat),
        ("B of a broadcast batch", (4, quarter, n), plain, flat, lambda x: np.broadcast_to(x, (4, *x.shape))),
    ]
    return [
        Work(f"{name} {n}", "float32", (a, b), {"contiguous": 0.9}, views=(left, right))
        for name, a, b, left, right in kinds
    ]


def gelu_of_sum(acc: Any, bias: Any) -> Any:
    """The epilogue of the fused work: gelu as NumPy's steps and many networks have it."""
    return tw.gelu(acc + bias, approximate="tanh")


BLAS: dict[str, float | None] = {"NumPy": None, "PyTorch": None, "MKL": None}
BANDWIDTH: dict[str, float | None] = {"copy": 0.9, "read": None, "NumPy": None, "PyTorch": None}
FUSED: dict[str, float | None] = {"NumPy in steps": 1.5, "torch addmm, gelu": None}
BATCHED: dict[str, float | None] = {"NumPy": None, "torch.bmm": None}
_N = 4096

WORKS: tuple[Work, ...] = (
    *(
        square(dtype, n, peers=BLAS, best=0.85)
        for dtype in ("float32", "float64")
        for n in (256, 384, 512, 768, 1024, 1536, 2048)
    ),
    *(square("float32", n, peers=BLAS | {"NumPy": 0.8}) for n in (64, 128)),
    square("int8", 1024, label="to int32 ", options={"dtype": "int32"},
           peers={"torch._int_mm": 0.9, "NumPy to int32": 100}),
    square("int16", 512, peers={"NumPy": 30, "PyTorch": 5}),
    square("int32", 512, peers={"NumPy": 30, "PyTorch": 5}),
    square("int64", 512, peers={"NumPy": 15, "PyTorch": None}),
    square("float16", 512, peers={"NumPy": 150, "PyTorch": None}),
    square("bfloat16", 512, peers={"PyTorch": 1.5}),
    square("bfloat16", 512, label="fast order ", options={"order": "fast"}, peers={"PyTorch": None}),
    square("complex64", 512, peers={"NumPy": 0.9, "PyTorch": None}),
    square("complex128", 512, peers={"NumPy": 0.9, "PyTorch": None}),
    square("float32", 512, label="min-plus ", options={"algebra": "min-plus"}, peers={"NumPy broadcasting": 20}),
    Work("10,000 of 4x4", "float32", ((10_000, 4, 4),) * 2, BATCHED, best=5),
    Work("10,000 of 9x9", "float32", ((10_000, 9, 9),) * 2, BATCHED, best=2),
    Work("2,000 of 32x32", "float32", ((2_000, 32, 32),) * 2, BATCHED, best=1.2),
    *(
        work
        for dtype in ("float32", "float64")
        for work in (
            Work(f"A x, {dtype} 4096", dtype, ((_N, _N), (_N,)), BANDWIDTH, counts="bytes"),
            Work(f"x A, {dtype} 4096", dtype, ((_N,), (_N, _N)), BANDWIDTH, counts="bytes"),
        )
    ),
    *(
        Work(f"dot product of {k:,}, {label}{dtype}", dtype, ((k,), (k,)), BLAS, options=options)
        for dtype in ("float32", "float64")
        for k in (100_000, 1_000_000, 10_000_000)
        for label, options in (("", {}), ("fast order, ", {"order": "fast"}))
    ),
    Work("8x4096x4096", "float32", ((8, _N), (_N, _N)), BANDWIDTH, counts="bytes"),
    *(
        Work(f"bias, gelu {m}x{n}x{k}", "float32", ((m, k), (k, n), (n,)), FUSED, options={"epilogue": gelu_of_sum})
        for m, n, k in ((1024, 4096, 64), (1024, 64, 4096))
    ),
    *strided(2048),
)  # fmt: skip

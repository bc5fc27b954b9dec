"""The works of `cpu.py`: each row of its table as a record, made when its turn comes."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]
try:
    import torch
except ImportError:  # a peer that is not there is left out of every row
    torch = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Peer:
    """What a work is compared with.

    Attributes
    ----------
    call : callable
        Does the same work.
    bar : float, optional
        Least ratio of its time to ours.
    share : float
        Its part of our bytes or operations: a copy moves twice the bytes of the matrix it copies, so 2.
    """

    call: Call
    bar: float | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Work:
    """One row.

    Attributes
    ----------
    name : str
    amount : float
        Operations, or bytes, of one call.
    unit : str
        `Gop/s` or `GB/s`.
    ours : callable
    peers : dict of Peer
    best_bar : float, optional
        Least ratio to the quickest peer.
    exact : bool
        Whether the first peer's result must equal ours.
    """

    name: str
    amount: float
    ours: Call
    peers: dict[str, Peer] = field(default_factory=dict)
    unit: str = "Gop/s"
    best_bar: float | None = None
    exact: bool = False


Maker = Callable[[], Work]
RANDOM = 20261121


def works() -> Iterator[tuple[str, Maker]]:
    """Every row's name and how it is made."""
    for dtype in ("float32", "float64"):
        for n in (256, 384, 512, 768, 1024, 1536, 2048):
            yield f"{dtype} {n}", functools.partial(square, dtype, n, best_bar=0.85)
    for n in (64, 128):
        yield f"float32 {n}", functools.partial(square, "float32", n, numpy=0.8)
    yield "int8 to int32 1024", _bytes_to_words
    yield "int16 512", functools.partial(square, "int16", 512, numpy=30, torch_=5)
    yield "int32 512", functools.partial(square, "int32", 512, numpy=30, torch_=5)
    yield "int64 512", functools.partial(square, "int64", 512, numpy=15)
    yield "float16 512", functools.partial(square, "float16", 512, numpy=150, torch_=1.5)
    yield "bfloat16 512", functools.partial(square, "bfloat16", 512, torch_=1.5)
    yield "bfloat16 512 fast", functools.partial(square, "bfloat16", 512, torch_=1.5, order="fast")
    yield "complex64 512", functools.partial(square, "complex64", 512, numpy=0.9)
    yield "complex128 512", functools.partial(square, "complex128", 512, numpy=0.9)
    yield "min-plus float32 512", _min_plus
    yield "10,000 of 4x4", functools.partial(_batch, 10_000, 4, 5.0)
    yield "10,000 of 9x9", functools.partial(_batch, 10_000, 9, 2.0)
    yield "2,000 of 32x32", functools.partial(_batch, 2_000, 32, 1.2)
    for name in ("A x", "x A", "E A"):
        yield f"4096x4096, {name}", functools.partial(_skinny, name)
    for extents in ((1024, 4096, 64), (1024, 64, 4096)):
        yield "bias and gelu {}x{}x{}".format(*extents), functools.partial(_fused, *extents)
    for name in ("A.T", "A[::-1]", "A[:, ::2]", "B.T", "B[:, ::2]", "broadcast batch"):
        yield f"{name} 1024", functools.partial(_strided, name)


def values(dtype: str, *shape: int) -> Array:
    """Operands: the whole range of narrow integers, thousands for wide ones, else numbers from 0 to 1."""
    random = np.random.default_rng(RANDOM)
    if dtype == "bfloat16":
        import ml_dtypes

        return random.random(shape, np.float32).astype(ml_dtypes.bfloat16)
    if dtype.startswith("int"):
        ends = np.iinfo(dtype)
        return random.integers(max(ends.min, -9999), min(ends.max, 9999), shape, endpoint=True).astype(dtype)
    if dtype.startswith("complex"):
        return (random.random(shape) + 1j * random.random(shape)).astype(dtype)
    return random.random(shape).astype(dtype)


def square(
    dtype: str,
    n: int,
    *,
    numpy: float | None = None,
    torch_: float | None = None,
    best_bar: float | None = None,
    order: str = "canonical",
) -> Work:
    """C = A B of one dtype and extent, beside every peer that has it."""
    a, b = values(dtype, n, n), values(dtype, n, n)[::-1].copy()
    peers = {} if dtype == "bfloat16" else {"NumPy": Peer(lambda: a @ b, numpy)}
    if torch is not None:
        left, right = tensor(a), tensor(b)
        peers["PyTorch"] = Peer(lambda: torch.matmul(left, right), torch_)
    mkl = _mkl_gemm(a, b)
    if mkl is not None:
        peers["MKL"] = Peer(mkl)
    operations = (8 if dtype.startswith("complex") else 2) * n**3
    call = (lambda: tw.matmul(a, b)) if order == "canonical" else (lambda: tw.matmul(a, b, order=order))
    name = f"{dtype} {n}" + ("" if order == "canonical" else f" {order}")
    return Work(name, operations, call, peers, best_bar=best_bar, exact=dtype.startswith("int"))


def tensor(x: Array) -> Any:
    """The same memory as a tensor; bfloat16 by its bits."""
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def _bytes_to_words() -> Work:
    n = 1024
    a, b = values("int8", n, n), values("int8", n, n)
    peers = {"NumPy": Peer(lambda: np.matmul(a, b, dtype=np.int32), 100)}
    if torch is not None:
        left, right = tensor(a), tensor(b)
        peers = {"_int_mm": Peer(lambda: torch._int_mm(left, right), 0.9), **peers}
    return Work("int8 to int32 1024", 2 * n**3, lambda: tw.matmul(a, b, dtype="int32"), peers, exact=True)


def _min_plus() -> Work:
    n, rows = 512, 8
    a, b = values("float32", n, n), values("float32", n, n)
    out = np.empty((n, n), np.float32)

    def broadcast() -> Array:
        for i in range(0, n, rows):  # blocks that stay in cache: the whole (n, n, n) array is slower
            (a[i : i + rows, :, None] + b).min(axis=1, out=out[i : i + rows])
        return out

    call = lambda: tw.matmul(a, b, algebra="min-plus")  # noqa: E731
    return Work("min-plus float32 512", 2 * n**3, call, {"NumPy": Peer(broadcast, 20)}, exact=True)


def _batch(count: int, n: int, bar: float) -> Work:
    a, b = values("float32", count, n, n), values("float32", count, n, n)
    peers = {"NumPy": Peer(lambda: a @ b)}
    if torch is not None:
        left, right = tensor(a), tensor(b)
        peers["PyTorch"] = Peer(lambda: torch.bmm(left, right))
    return Work(f"{count:,} of {n}x{n}", 2 * count * n**3, lambda: tw.matmul(a, b), peers, best_bar=bar)


def _skinny(name: str) -> Work:
    n = 4096
    a, x, e = values("float32", n, n), values("float32", n), values("float32", 8, n)
    left, right = {"A x": (a, x), "x A": (x, a), "E A": (e, a)}[name]
    copy = np.empty_like(a)

    def halves() -> None:
        other = threading.Thread(target=np.copyto, args=(copy[: n // 2], a[: n // 2]))
        other.start()
        np.copyto(copy[n // 2 :], a[n // 2 :])
        other.join()

    peers = {"copy": Peer(halves, 0.9, share=2.0), "NumPy": Peer(lambda: left @ right)}
    if torch is not None:
        p, q = tensor(left), tensor(right)
        peers["PyTorch"] = Peer(lambda: torch.matmul(p, q))
    return Work(f"4096x4096, {name}", a.nbytes, lambda: tw.matmul(left, right), peers, unit="GB/s")


def _fused(m: int, n: int, k: int) -> Work:
    a, b, bias = values("float32", m, k), values("float32", k, n), values("float32", n)
    out, inner = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    scale, cubic = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)

    def steps() -> Array:
        """Product, bias, gelu by tanh, without temporaries."""
        np.matmul(a, b, out=out)
        np.add(out, bias, out=out)
        np.multiply(out, out, out=inner)
        np.multiply(inner, cubic, out=inner)
        np.add(inner, np.float32(1), out=inner)
        np.multiply(inner, out, out=inner)
        np.multiply(inner, scale, out=inner)
        np.tanh(inner, out=inner)
        np.add(inner, np.float32(1), out=inner)
        np.multiply(inner, out, out=inner)
        return np.multiply(inner, np.float32(0.5), out=inner)

    def ours() -> Array:
        gelu = functools.partial(tw.gelu, approximate="tanh")
        return tw.matmul(a, b, epilogue=lambda acc, row: gelu(acc + row), epilogue_args=(bias,))

    return Work(f"bias and gelu {m}x{n}x{k}", 2 * m * n * k, ours, {"NumPy": Peer(steps, 1.5)})


def _strided(name: str) -> Work:
    n = 1024
    a, b, wide = values("float32", n, n), values("float32", n, n), values("float32", n, 2 * n)
    x, y = {
        "A.T": (a.T, b),
        "A[::-1]": (a[::-1], b),
        "A[:, ::2]": (wide[:, ::2], b),
        "B.T": (a, b.T),
        "B[:, ::2]": (a, wide[:, ::2]),
        "broadcast batch": (np.broadcast_to(a[: n // 4], (4, n // 4, n)), b),
    }[name]
    p, q = np.ascontiguousarray(x), np.ascontiguousarray(y)
    peers = {"contiguous": Peer(lambda: tw.matmul(p, q), 0.9)}
    return Work(f"{name} 1024", 2 * n**3, lambda: tw.matmul(x, y), peers, exact=True)


def _mkl_gemm(a: Array, b: Array) -> Call | None:
    """`cblas_?gemm` of Intel's library for row-major operands, where the package `mkl` is installed."""
    symbol = {"float32": "cblas_sgemm", "float64": "cblas_dgemm"}.get(a.dtype.name)
    library = _mkl()
    if library is None or symbol is None:
        return None
    real = ctypes.c_float if a.dtype == np.float32 else ctypes.c_double
    gemm = getattr(library, symbol)
    gemm.restype = None
    (m, k), n = a.shape, b.shape[1]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b)]

    def call() -> Array:
        out = np.empty((m, n), a.dtype)
        where = ctypes.c_void_p(out.ctypes.data)
        # Row-major, neither transposed. Source: Intel oneMKL reference, cblas_?gemm.
        gemm(101, 111, 111, m, n, k, real(1), pointers[0], k, pointers[1], n, real(0), where, n)
        return out

    return call


@functools.cache
def _mkl() -> ctypes.CDLL | None:
    try:
        files = importlib.metadata.files("mkl") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(f.locate())) for f in files if f.name.startswith(("libmkl_rt.so", "mkl_rt.", "libmkl_rt."))]
    if not found:
        return None
    # The GNU runtime is the one torch brings: two OpenMP runtimes in a process would fight for the cores.
    os.environ.setdefault("MKL_THREADING_LAYER", "GNU" if torch is not None else "TBB")
    library = ctypes.CDLL(str(found[0].resolve()))
    library.MKL_Set_Num_Threads(2)
    return library

"""The peers of the CPU engine: NumPy, PyTorch, MKL, the machine's bandwidth, and the engine itself.

Every peer takes a work's operands and returns the call to time, or None if it is not installed.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]
#: CBLAS: row-major, not transposed. Source: Intel oneMKL reference, cblas_?gemm.
_ROW_MAJOR, _PLAIN = 101, 111


@dataclass(frozen=True)
class Peer:
    """Something that does the same work, or a bound of it.

    Attributes
    ----------
    prepare : callable
        Operands to the call, or to None.
    share : float
        Its bytes over the work's: a copy reads the matrix and writes another, so 2.
    """

    prepare: Callable[..., Call | None]
    share: float = 1.0


def numpy_matmul(a: Array, b: Array) -> Call | None:
    if a.dtype.name == "bfloat16":
        return None  # NumPy has no loop for it
    return lambda: np.matmul(a, b)


def numpy_to_words(a: Array, b: Array) -> Call:
    return lambda: np.matmul(a, b, dtype=np.int32)


def numpy_broadcasting(a: Array, b: Array) -> Call:
    """Min-plus, a few rows at a time, which stay in cache: the whole (m, k, n) array is slower."""
    out = np.empty((len(a), b.shape[1]), a.dtype)

    def call() -> Array:
        for i in range(0, len(a), 8):
            (a[i : i + 8, :, None] + b).min(axis=1, out=out[i : i + 8])
        return out

    return call


def numpy_in_steps(a: Array, b: Array, bias: Array) -> Call:
    """Product, bias, gelu by its usual polynomial in tanh; nothing is allocated."""
    out, inner = np.empty((2, len(a), b.shape[1]), a.dtype)
    # Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016, section 2.
    scale, cubic, one, half = np.array([np.sqrt(2 / np.pi), 0.044715, 1, 0.5], a.dtype)

    def call() -> Array:
        np.matmul(a, b, out=out)
        np.add(out, bias, out=out)
        np.multiply(out, out, out=inner)
        for step, value in ((np.multiply, cubic), (np.add, one), (np.multiply, out), (np.multiply, scale)):
            step(inner, value, out=inner)
        np.tanh(inner, out=inner)
        np.add(inner, one, out=inner)
        np.multiply(inner, out, out=inner)
        return np.multiply(inner, half, out=inner)

    return call


@functools.cache
def torch() -> Any:
    """PyTorch, or None."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def tensor(x: Array) -> Any:
    """The same memory as a tensor; bfloat16 by its bits."""
    if x.dtype.name == "bfloat16":
        return torch().from_numpy(x.view(np.int16)).view(torch().bfloat16)
    return torch().from_numpy(x)


def torch_call(name: str) -> Callable[..., Call | None]:
    """A function of torch of two matrices."""

    def prepare(a: Array, b: Array) -> Call | None:
        if torch() is None:
            return None
        left, right, function = tensor(a), tensor(b), getattr(torch(), name)
        return lambda: function(left, right)

    return prepare


def torch_fused(a: Array, b: Array, bias: Array) -> Call | None:
    if torch() is None:
        return None
    left, right, row, gelu = tensor(a), tensor(b), tensor(bias), torch().nn.functional.gelu
    return lambda: gelu(torch().addmm(row, left, right), approximate="tanh")


def mkl_gemm(a: Array, b: Array) -> Call | None:
    """`cblas_sgemm` and `cblas_dgemm`, through ctypes: a call costs about 3 us there."""
    library = mkl()
    if library is None:
        return None
    gemm, real = (
        (library.cblas_sgemm, ctypes.c_float) if a.dtype == np.float32 else (library.cblas_dgemm, ctypes.c_double)
    )
    (m, k), n = a.shape, b.shape[1]
    one, zero, pointer = real(1), real(0), ctypes.c_void_p
    left, right = pointer(a.ctypes.data), pointer(b.ctypes.data)

    def call() -> Array:
        out = np.empty((m, n), a.dtype)
        gemm(_ROW_MAJOR, _PLAIN, _PLAIN, m, n, k, one, left, k, right, n, zero, pointer(out.ctypes.data), n)
        return out

    return call


@functools.cache
def mkl() -> ctypes.CDLL | None:
    """The library of the package `mkl`, or None."""
    try:
        files = importlib.metadata.files("mkl") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(f.locate())) for f in files if f.name.startswith("libmkl_rt.")]
    if not found:
        return None
    # Two OpenMP runtimes in a process compete for the cores; torch has loaded the GNU one.
    os.environ.setdefault("MKL_THREADING_LAYER", "INTEL" if torch() is None else "GNU")
    library = ctypes.CDLL(str(found[0].resolve()))
    library.cblas_sgemm.restype = library.cblas_dgemm.restype = None
    library.MKL_Set_Num_Threads(int(os.environ["TILEWRIGHT_THREADS"]))
    return library


def on_two_threads(function: Callable[..., Any], *halves: Array) -> Call:
    """Call a function with the first halves of arrays here, and with their second halves on another thread."""
    other = ThreadPoolExecutor(1)

    def call() -> None:
        second = other.submit(function, *(x[len(x) // 2 :] for x in halves))
        function(*(x[: len(x) // 2] for x in halves))
        second.result()

    return call


def matrix_of(*operands: Array) -> Array:
    """The large operand, whose bytes are counted."""
    return max(operands, key=lambda x: x.nbytes)


def copy(*operands: Array) -> Call:
    """NumPy's copy of the matrix to another."""
    matrix = matrix_of(*operands)
    return on_two_threads(np.copyto, np.zeros_like(matrix), matrix)


def read(*operands: Array) -> Call:
    """NumPy's maximum of the matrix: it reads every byte, and does little with it."""
    return on_two_threads(np.maximum.reduce, matrix_of(*operands).reshape(-1))


def contiguous(*operands: Array) -> Call:
    """The engine's own product of row-major copies."""
    copies = [np.ascontiguousarray(x) for x in operands]
    return lambda: tw.matmul(*copies)


PEERS = {
    "NumPy": Peer(numpy_matmul),
    "NumPy to int32": Peer(numpy_to_words),
    "NumPy broadcasting": Peer(numpy_broadcasting),
    "NumPy in steps": Peer(numpy_in_steps),
    "PyTorch": Peer(torch_call("matmul")),
    "torch.bmm": Peer(torch_call("bmm")),
    "torch._int_mm": Peer(torch_call("_int_mm")),
    "torch addmm, gelu": Peer(torch_fused),
    "MKL": Peer(mkl_gemm),
    "copy": Peer(copy, share=2.0),
    "read": Peer(read),
    "contiguous": Peer(contiguous),
}

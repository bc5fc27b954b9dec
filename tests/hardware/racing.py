"""Times of rungs, cuBLAS and other libraries: in one process, in turns, on rotating buffers, between events.

Data are random normal numbers: a GPU's clock depends on them. Each sample is the mean of a batch of launches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import clocks
import measure
import numpy as np

from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.dtypes import element

#: Dtypes of operands, in the issue's order.
DTYPES = ("bfloat16", "float32", "int32", "float16", "int8", "float64", "float8_e4m3fn")
_ROUNDS, _BATCH_SECONDS, _ROWS = 7, 0.02, 8
#: Operands take turns in so many bytes, several times the second-level cache of any GPU; in so many pairs at most.
_ROTATED_BYTES, _FEWEST, _MOST = 400 << 20, 3, 48
#: A product that takes longer gets few samples, or only its first: time on a borrowed GPU is short.
_LONG_SECONDS, _FEW, _ONCE_SECONDS = 0.2, 2, 1.0
#: (number of the buffers) launches a product.
Call = Callable[[int], Any]


def _given(result: Any) -> Any:
    """The result of a driver's call."""
    if int(result[0]):
        raise RuntimeError(f"the driver reports {result[0].name}")
    return result[1] if len(result) > 1 else None


class _Memory:
    """A copy of bytes on the GPU, by the driver alone: other libraries may be missing, or keep what they freed."""

    def __init__(self, raw: np.ndarray) -> None:
        from cuda.bindings import driver

        self._driver, self.bytes = driver, raw.nbytes
        self.address = int(_given(driver.cuMemAlloc(raw.nbytes)))
        _given(driver.cuMemcpyHtoD(self.address, raw.ctypes.data, raw.nbytes))

    def fetched(self) -> np.ndarray:
        """Its bytes on the host."""
        found = np.empty(self.bytes, np.uint8)
        _given(self._driver.cuMemcpyDtoH(found.ctypes.data, self.address, self.bytes))
        return found

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self._driver.cuMemFree(self.address)


class Operands:
    """A and B on the host, and copies on the GPU for each buffer."""

    def __init__(self, dtype: str, m: int, n: int, k: int) -> None:
        rng, kind = np.random.default_rng(0), element(dtype)
        self.dtype, self.shape = dtype, (m, n, k)
        self._there: dict[Any, list[list[Any]]] = {}
        self.host = [
            (rng.standard_normal(shape, np.float32) * (1 if kind.is_float else 40)).astype(kind.numpy)
            for shape in ((m, k), (k, n))
        ]
        once = sum(x.nbytes for x in self.host)
        self.count = min(_MOST, max(_FEWEST, -(-_ROTATED_BYTES // once)))  #: Of pairs on the GPU.
        rows = np.linspace(0, m - 1, _ROWS).astype(int)
        a, b = self.host[0][rows].astype(np.float64), self.host[1].astype(np.float64)
        self.rows, self.exact, self.size = rows, a @ b, np.abs(a) @ np.abs(b)

    def buffers(self, columns: tuple[bool, bool], c_bytes: int) -> list[list[_Memory]]:
        """Copies of A, B and a C on the GPU, by columns if a kernel reads those; kernels of one layout share them."""
        if (columns, c_bytes) not in self._there:
            sides = [x.T if turned else x for x, turned in zip(self.host, columns, strict=True)]
            raw = [np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in sides]
            self._there[columns, c_bytes] = [
                [_Memory(x) for x in (*raw, np.zeros(c_bytes, np.uint8))] for _ in range(self.count)
            ]
        return self._there[columns, c_bytes]

    def error(self, c: np.ndarray) -> float:
        """The largest error in some rows, relative to |A| |B|; sums of integers wrap to the width of C."""
        exact = self.exact if c.dtype.kind not in "iu" else self.exact.astype(np.int64).astype(c.dtype)
        found = np.abs(c[self.rows].astype(np.float64) - exact) / np.maximum(self.size, 1e-300)
        return float(found.max())


class Rung:
    """A kernel of the catalogue on buffers of the GPU."""

    def __init__(self, record: Any, given: Operands) -> None:
        from tilewright.multiply.backends.cuda import current, products
        from tilewright.multiply.backends.cuda.launches import Launches, pointer

        m, n, k = given.shape
        device = current.device()
        program = record.program(given.dtype, device.compute_capability)
        made = record.blank(m, n, given.dtype).dtype
        ready = products.Ready(record, program, given.dtype, made, m)
        self._held, self._made, self._c = given.buffers(record.columns, m * n * made.itemsize), [], (m, n, made)
        for there in self._held:
            places = [x.address for x in there]
            a, b = (
                pointer(at, shape[::-1], (shape[0] * size, size), kind).T
                if turned
                else pointer(at, shape, (shape[1] * size, size), kind)
                for at, shape, turned, kind, size in zip(
                    places, ((m, k), (k, n)), record.columns, (given.host[0].dtype,) * 2,
                    (given.host[0].itemsize,) * 2, strict=False,
                )
            )  # fmt: skip
            one = Launches(device)
            products.multiply(
                one, ready, a, b, pointer(places[2], (m, n), (n * made.itemsize, made.itemsize), made), []
            )
            self._made.append(one)
        self._stream = current.stream(0)

    def __call__(self, i: int) -> None:
        self._made[i].issue(self._stream)

    def result(self) -> np.ndarray:
        """C of the first buffer."""
        m, n, kind = self._c
        found: np.ndarray = self._held[0][2].fetched().view(kind).reshape(m, n)
        return found


def rungs(given: Operands, cc: tuple[int, int]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The catalogue's kernels of a dtype; published specimens are left out."""
    for record in catalogue.records():
        fits = record.backend == "gpu" and not record.published and given.dtype in record.dtypes
        if fits and not record.unfit(cc) and record.accepts(*given.shape, given.dtype) is None:
            yield record.name, lambda record=record: Rung(record, given)


class _Library:
    """The product of a library's arrays."""

    def __init__(self, calls: list[Callable[[], Any]], fetch: Callable[[Any], np.ndarray]) -> None:
        self._calls, self._fetch, self._last = calls, fetch, None

    def __call__(self, i: int) -> None:
        self._last = self._calls[i]()

    def result(self) -> np.ndarray:
        """C of the last call."""
        return self._fetch(self._last)


def _tensors(given: Operands) -> list[list[Any]]:
    """The operands as torch's tensors on the GPU, for each buffer; NumPy lacks some of their dtypes."""
    import torch

    kind, words = getattr(torch, given.dtype), {2: np.int16, 1: np.int8}.get(given.host[0].itemsize)
    raw = [x if x.dtype.isbuiltin == 1 else x.view(words) for x in given.host]
    return [[torch.from_numpy(x).cuda().view(kind) for x in raw] for _ in range(given.count)]


def _torch(given: Operands, *, tf32: bool = False, by_columns: bool = False) -> _Library:
    """Torch's product; `by_columns` is the layout of B that cuBLAS wants for 8-bit numbers."""
    import torch

    is_float8 = given.dtype.startswith("float8")
    pairs, one = _tensors(given), torch.ones((), device="cuda")
    if by_columns or is_float8:  # which takes no other
        pairs = [[a, b.t().contiguous().t()] for a, b in pairs]

    def call(a: Any, b: Any) -> Any:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        if given.dtype == "int8":
            return torch._int_mm(a, b)
        if is_float8:
            return torch._scaled_mm(a, b, one, one, out_dtype=torch.float32)
        return torch.matmul(a, b)

    calls = [lambda a=a, b=b: call(a, b) for a, b in pairs]
    return _Library(calls, _fetched)


def _fetched(c: Any) -> np.ndarray:
    found: np.ndarray = (c.double() if c.is_floating_point() else c).cpu().numpy()
    return found


def _torch_float64(given: Operands) -> _Library:
    """The product of integers that torch's developers advise: exact as long as sums stay below 2^53."""
    pairs = _tensors(given)
    return _Library([lambda a=a, b=b: (a.double() @ b.double()).to(a.dtype) for a, b in pairs], _fetched)


def _torch_host(given: Operands) -> _Library:
    """The only product of integers that torch has itself: the host's, with copies there and back."""
    pairs = _tensors(given)
    return _Library([lambda a=a, b=b: (a.cpu() @ b.cpu()).cuda() for a, b in pairs], _fetched)


def _cupy(given: Operands) -> _Library:
    import cupy

    pairs = [[cupy.asarray(x) for x in given.host] for _ in range(given.count)]
    return _Library([lambda a=a, b=b: cupy.matmul(a, b) for a, b in pairs], cupy.asnumpy)


def _triton(given: Operands) -> _Library:
    from triton_product import product

    return _Library([lambda a=a, b=b: product(a, b) for a, b in _tensors(given)], _fetched)


@dataclass(frozen=True, slots=True)
class Peer:
    """A product of another library."""

    make: Callable[[Operands], _Library]
    dtype: str = ""  #: Of operands, if it is for one alone.
    most: float = math.inf  #: Multiply-adds; more take minutes.

    def fits(self, dtype: str, shape: tuple[int, int, int]) -> bool:
        """Whether it takes part in a race."""
        return self.dtype in ("", dtype) and math.prod(shape) <= self.most


#: Peers: cuBLAS multiplies floats in torch and CuPy; integers are CuPy's own kernel. On a GPU torch has no product of
#: int32 (`"addmm_cuda" not implemented for 'Int'`, pytorch/pytorch issue 44428), so two others are measured.
PEERS = {
    "torch": Peer(_torch), "torch tf32": Peer(lambda given: _torch(given, tf32=True), "float32"),
    "torch by columns": Peer(lambda given: _torch(given, by_columns=True), "int8"),
    "torch float64": Peer(_torch_float64, "int32"), "torch on the host": Peer(_torch_host, "int32", 1024**3),
    "cupy": Peer(_cupy), "triton": Peer(_triton),
}  # fmt: skip


def race(
    dtype: str, shape: tuple[int, int, int], cc: tuple[int, int], parts: measure.Parts, until: float,
    only: tuple[str, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """Seconds of every contender, in turns, until the time is over; for one that cannot multiply, its error.

    `parts` gets each contender's result at once, and names those that failed in an earlier process.
    """
    given, found = Operands(dtype, *shape), dict(parts.refused)
    ready: dict[str, tuple[Call, int, int]] = {}
    contenders = dict(rungs(given, cc)) | {
        name: lambda make=peer.make: make(given) for name, peer in PEERS.items() if peer.fits(dtype, shape)
    }

    def tried(name: str, step: Callable[[], dict[str, Any]]) -> None:
        try:
            found[name] = step()
        except Exception as error:  # of any library
            found[name] = {"refused": measure.line(error)}
        parts.end(name, found[name])
        if "refused" in found[name]:
            ready.pop(name, None)
            if not measure.works():
                raise SystemExit(3)  # a fresh process continues without this contender

    def first(name: str) -> dict[str, Any]:
        call = contenders[name]()
        seconds, *_ = taken = _timed(call, 1, given.count)
        if seconds > _ONCE_SECONDS and not isinstance(call, _Library):  # a library may compile in its first call
            return {"error": given.error(call.result())} | _with({}, taken)
        seconds, *_ = _timed(call, 1, given.count)
        times = max(1, min(200, int(_BATCH_SECONDS / max(seconds, 1e-6))))
        ready[name] = call, times, _FEW if seconds > _LONG_SECONDS else _ROUNDS
        return {"error": given.error(call.result()), "samples": []}

    def sampled(name: str) -> dict[str, Any]:
        call, times, _ = ready[name]
        return found[name] | _with(found[name], _timed(call, times, given.count))

    for name in contenders:
        if name not in found and (not only or name in only) and time.time() < until:
            parts.begin(name)
            tried(name, lambda name=name: first(name))
    for turn in range(_ROUNDS):
        for name, (_, _, rounds) in list(ready.items()):
            if turn < rounds and (turn == 0 or time.time() < until):
                tried(name, lambda name=name: sampled(name))
    return found


def _with(before: dict[str, Any], taken: tuple[float, float, int]) -> dict[str, Any]:
    """The samples with one more: seconds on the GPU, the host's seconds, and the clock."""
    return {
        name: [*before.get(name, ()), one]
        for name, one in zip(("samples", "host_seconds", "sm_mhz"), taken, strict=True)
    }


def _timed(call: Call, times: int, buffers: int) -> tuple[float, float, int]:
    """Seconds of a launch, those that the host needs to issue it, and the clock while the GPU works.

    Each is the mean of several, between two events of the default stream. If the host's are as long, it is the host
    that was timed.
    """
    from cuda.bindings import driver

    start, end = (_given(driver.cuEventCreate(0)) for _ in range(2))
    _given(driver.cuEventRecord(start, 0))
    begun = time.perf_counter()
    for i in range(times):
        call(i % buffers)
    issued = (time.perf_counter() - begun) / times
    _given(driver.cuEventRecord(end, 0))
    mhz = clocks.mhz()
    _given(driver.cuEventSynchronize(end))
    seconds = float(_given(driver.cuEventElapsedTime(start, end))) / 1e3 / times
    for event in (start, end):
        _given(driver.cuEventDestroy(event))
    return seconds, issued, mhz

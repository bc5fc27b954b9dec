"""The steps of the story that the first screen tells: seven kernels or so, each with what it changed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tilewright.errors import MissingExtraError, TilewrightError
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.record import OLDEST
from tilewright.multiply.problem.dtypes import element
from tilewright.simulate.machine import Gpu

#: Edge of the matrices whose times are predicted: large enough that they keep every multiprocessor busy.
PREDICTED_SIZE = 4096
#: How often, and for how many seconds at least, the host's product is timed.
_TIMED_CALLS, _TIMED_SECONDS = 15, 0.1


@dataclass(frozen=True, slots=True)
class Step:
    """One step."""

    kernel: str  #: Its name in the catalogue, whose record says which GPUs run it.
    changed: str  #: What it does that the step before does not.


#: From the slowest to the fastest. A GPU has those that its compute capability runs.
STEPS = (
    Step("uncoalesced", "lanes read 32 rows"),
    Step("coalesced", "lanes read neighbours"),
    Step("thread_tile_1d", "tiles, 8 results a thread"),
    Step("thread_tile_2d", "8 x 8 results a thread"),
    Step("warp_tiled", "warp tiles, wide loads"),
    Step("turing", "tensor cores, mma"),
    Step("tensor_core", "mma, cp.async"),
    Step("hopper", "TMA, wgmma"),
    Step("blackwell_pairs", "TMA, tcgen05, block pairs"),
)


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step on a GPU, with its predicted time; nothing is measured."""

    kernel: str
    changed: str
    dtype: str
    size: int  #: Edge of the square matrices.
    predicted_seconds: float | None = None
    predicted_least_seconds: float | None = None
    predicted_most_seconds: float | None = None
    speed_up: float | None = None  #: Over the first step.
    refused: str = ""  #: Why there is no time.


@dataclass(frozen=True, slots=True)
class HostTime:
    """The median time of `tw.matmul` on this host."""

    size: int  #: Edge of the square matrices.
    dtype: str
    seconds: float
    calls: int

    @property
    def gflops(self) -> float:
        """10^9 operations a second."""
        return 2 * self.size**3 / self.seconds / 1e9


def steps_of(gpu: Gpu) -> tuple[Step, ...]:
    """The steps that a GPU has.

    >>> from tilewright import machine
    >>> [step.kernel for step in steps_of(machine.gpu("t4"))][-2:]
    ['warp_tiled', 'turing']
    """
    return tuple(step for step in STEPS if _runs(catalogue.find(step.kernel), gpu.compute_capability))


def _runs(record: catalogue.Record, cc: tuple[int, int]) -> bool:
    """Whether a GPU runs a kernel: older ones than compilers know run code of 7.5, but lack its tensor cores."""
    return not record.unfit(max(cc, OLDEST)) and not (record.tensor and record.cc > cc)


def step_times(gpu: Gpu, size: int = PREDICTED_SIZE) -> Iterator[StepTime]:
    """The steps that a GPU has, one after the other, each with its predicted time at square matrices of a size.

    Raises MissingExtraError: the compilers are not installed.
    """
    from tilewright.observe.prediction.products import Product, predict_product

    first: float | None = None
    for step in steps_of(gpu):
        record = catalogue.find(step.kernel)
        dtype = record.dtypes[0]
        try:
            found = predict_product(record, Product(size, size, size, dtype), gpu, changes=False)
        except MissingExtraError:
            raise
        except TilewrightError as error:
            yield StepTime(step.kernel, step.changed, dtype, size, refused=str(error).splitlines()[0])
            continue
        first = first or found.seconds
        times = found.seconds, found.least_seconds, found.most_seconds
        yield StepTime(step.kernel, step.changed, dtype, size, *times, first / found.seconds)


def host_time(size: int, dtype: str = "float32") -> HostTime:
    """Time `tw.matmul` on this host, after a call that compiles.

    >>> found = host_time(16)
    >>> found.calls >= 15, found.gflops > 0
    (True, True)
    """
    from tilewright.multiply.engine.matmul import matmul

    a, b = (np.random.default_rng(seed).random((size, size)).astype(element(dtype).numpy) for seed in (1, 2))
    matmul(a, b)
    times: list[float] = []
    while len(times) < _TIMED_CALLS or sum(times) < _TIMED_SECONDS:
        began = time.perf_counter()
        matmul(a, b)
        times.append(time.perf_counter() - began)
    return HostTime(size, dtype, statistics.median(times), len(times))

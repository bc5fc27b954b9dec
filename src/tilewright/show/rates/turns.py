"""Timing in turns: samples, warm-up, and flags for unreliable times.

Contenders take turns, a sample each, so that a temporary slowdown of the host affects all; sample i of one is compared
with sample i of another. A sample of a short product is the mean of many calls. Warm-up calls come first: threads that
wake share one core for some milliseconds, and wide vectors and tiles start at a lower clock. Between samples the
process waits until its threads are idle: BLAS threads spin for a while after a call, and would slow the next contender.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.show.rates.conditions import last_level_bytes, usage

Array = npt.NDArray[Any]
#: Seconds of a sample's calls, of the warm-up before it, and of the warm-up before the first. On a shared system a core
#: may be preempted after some milliseconds, so shorter samples are often undisturbed. An idle unit, such as that for
#: tiles of bytes, needs milliseconds to reach its full rate. A small product gets its own kernel after 10,000 matrices.
SAMPLE_SECONDS, BEFORE_SECONDS, WARM_SECONDS = 0.001, 0.01, 0.2
#: A longer call is a sample by itself, without warm-up.
_LONG_SECONDS = 0.1
#: Distance of the quartiles, relative to the median, from which a time is noisy.
NOISY = 0.10
#: Share of a core, beyond one tick of the system's clock, from which other processes disturb a turn; and most seconds
#: for repeating disturbed turns.
OTHERS_SHARE, TICK_SECONDS, AGAIN_SECONDS = 0.10, 0.01, 2.0


@dataclass(frozen=True, slots=True)
class Ready:
    """A product that can be repeated."""

    call: Callable[..., object]  #: Multiplies and waits for the end.
    product: Callable[[], Array]  #: Multiplies and returns the product on the host.
    #: Multiplies and returns seconds by the device's clock; None if the host's clock times `call`.
    timed: Callable[[], float] | None = None
    #: The arguments of `call`; binding them would take a tenth of a tiny product's time.
    operands: tuple[Any, Any] | None = None


def _others() -> float:
    return usage().others


def settle() -> None:
    """Wait until all threads of this process are idle, at most a second."""
    for _ in range(50):
        before = time.process_time()
        time.sleep(0.02)
        if time.process_time() - before < 0.002:
            return


class _Eviction:
    """Reads more memory than the largest cache holds."""

    def __init__(self) -> None:
        self._memory: Array | None = None

    def __call__(self) -> None:
        if self._memory is None:
            self._memory = np.ones(last_level_bytes() // 8 * 5 // 4, np.int64)
        self._memory.max()


@dataclass(frozen=True, slots=True)
class Host:
    """The host's clocks, and functions that wait for idle threads and empty caches; tests replace it."""

    now: Callable[[], float] = time.perf_counter
    others: Callable[[], float] = _others  #: Processor seconds of other processes.
    settle: Callable[[], None] = settle
    evict: Callable[[], None] = field(default_factory=_Eviction)


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value.

        >>> Spread.of([5.0, 1.0, 2.0, 4.0, 3.0])
        Spread(median=3.0, low=2.0, high=4.0)
        """
        low, median, high = (float(value) for value in np.quantile(values, (0.25, 0.5, 0.75)))
        return cls(median, low, high)

    @property
    def noisy(self) -> bool:
        """Whether the quartiles differ by more than `NOISY` of the median."""
        return self.high - self.low > NOISY * self.median


@dataclass(frozen=True, slots=True)
class Taken:
    """The samples of all turns."""

    samples: tuple[tuple[float, ...], ...]  #: Seconds for one product, of each contender; samples i are from one turn.
    disturbed: bool  #: Whether other processes disturbed some of the turns.


def turns(contenders: Sequence[Ready], samples: int, *, cold: bool = False, host: Host | None = None) -> Taken:
    """Time contenders in turns; each turn starts with another contender.

    Disturbed turns are repeated, for at most `AGAIN_SECONDS`. `cold` empties the caches before each product, so a
    sample is one call.
    """
    if not contenders:
        return Taken((), disturbed=False)
    host = host or Host()
    for ready in contenders:
        _warm(ready, host)
    calls = [1 if cold else max(1, round(SAMPLE_SECONDS / max(_mean(ready, 1, host), 1e-8))) for ready in contenders]
    found: list[tuple[float, tuple[float, ...]]] = []
    for turn in itertools.count():
        if turn == samples:
            until = host.now() + AGAIN_SECONDS
        if turn >= samples and (_quiet(found) >= samples or turn >= 2 * samples or host.now() >= until):
            break
        start, others = host.now(), host.others()
        times = _turn(contenders, calls, turn, cold, host)
        share = (host.others() - others - TICK_SECONDS) / max(host.now() - start, TICK_SECONDS)
        found.append((round(max(share, OTHERS_SHARE), 2), times))  # turns with equal disturbance stay in order
    kept = sorted(found, key=lambda one: one[0])[:samples]
    return Taken(tuple(zip(*(times for _, times in kept), strict=True)), disturbed=_quiet(kept) < samples)


def _quiet(found: Sequence[tuple[float, tuple[float, ...]]]) -> int:
    return sum(share <= OTHERS_SHARE for share, _ in found)


def _turn(contenders: Sequence[Ready], calls: Sequence[int], turn: int, cold: bool, host: Host) -> tuple[float, ...]:
    """A sample of each contender; the first one rotates from turn to turn."""
    found = [0.0] * len(contenders)
    for place in range(len(contenders)):
        one = (turn + place) % len(contenders)
        host.settle()
        found[one] = _sample(contenders[one], calls[one], cold, host)
    return tuple(found)


def _warm(ready: Ready, host: Host) -> None:
    start = host.now()
    while True:
        _mean(ready, 1, host)
        if host.now() - start >= WARM_SECONDS:
            return


def _sample(ready: Ready, calls: int, cold: bool, host: Host) -> float:
    if cold:
        host.evict()
    else:
        before = _mean(ready, max(1, round(calls * BEFORE_SECONDS / SAMPLE_SECONDS)) if calls > 1 else 1, host)
        if before > _LONG_SECONDS:
            return before
    return _mean(ready, calls, host)


def _mean(ready: Ready, calls: int, host: Host) -> float:
    """Mean seconds of several calls."""
    if ready.timed is not None:
        return sum(ready.timed() for _ in range(calls)) / calls
    call, now = ready.call, host.now
    start = now()
    if ready.operands is not None:
        a, b = ready.operands
        for _ in itertools.repeat(None, calls):
            call(a, b)
    else:
        for _ in itertools.repeat(None, calls):
            call()
    return (now() - start) / calls

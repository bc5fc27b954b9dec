"""Measuring in turns: what takes a product's time, how often, after what, and when a time is not to be relied on.

Contenders take turns, a sample each, so that what slows the host for a while slows all of them; sample i of one is
compared with sample i of another. A sample of a short product is the mean of many calls. More are made before and not
counted: threads that slept have one core together for some milliseconds, and wide vectors and tiles a lower clock.
Between samples the process waits until its threads have stopped: those of BLAS spin for a while after a call, and would
be charged to whoever comes next.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.rates.conditions import last_level_bytes, usage

Array = npt.NDArray[Any]
#: Seconds of calls that make a sample, of those before it, and of those before the first one. A system that others use
#: takes a core away after some milliseconds: what is shorter often goes undisturbed. A unit that slept, such as that
#: for tiles of bytes, needs milliseconds for its full rate. A small product gets a kernel of its own when 10,000 have
#: been seen.
SAMPLE_SECONDS, BEFORE_SECONDS, WARM_SECONDS = 0.001, 0.01, 0.2
#: A call that takes longer is a sample by itself, with nothing before it.
_LONG_SECONDS = 0.1
#: Quartiles so far apart, as a part of the median, make a time noisy.
NOISY = 0.10
#: Others that used so much of a core meanwhile disturb, beyond a tick of the system's count; and seconds that turns may
#: be taken again for that.
OTHERS_SHARE, TICK_SECONDS, AGAIN_SECONDS = 0.10, 0.01, 2.0


@dataclass(frozen=True, slots=True)
class Ready:
    """A product that can be made again and again."""

    call: Callable[..., object]  #: Makes it, to its end.
    product: Callable[[], Array]  #: Makes it too, and gives it on the host.
    #: Makes it, and gives its seconds by the device's own clock; None where the host's clock times `call`.
    timed: Callable[[], float] | None = None
    operands: tuple[Any, Any] | None = None  #: What `call` is given; binding them would take a tiny product's tenth.


def _others() -> float:
    return usage().others


def settle() -> None:
    """Wait until no thread of this process works any more, at most a second."""
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
    """The host's clocks, and how to let it come to rest and to empty its caches; tests have another."""

    now: Callable[[], float] = time.perf_counter
    others: Callable[[], float] = _others  #: Processor seconds that are not this process's.
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
        """Whether the quartiles are further apart than `NOISY` of the median."""
        return self.high - self.low > NOISY * self.median


@dataclass(frozen=True, slots=True)
class Taken:
    """What turns gave."""

    samples: tuple[tuple[float, ...], ...]  #: Seconds a product, of each contender; sample i of all is of one turn.
    disturbed: bool  #: Whether others were at work in some of the turns.


def turns(contenders: Sequence[Ready], samples: int, *, cold: bool = False, host: Host | None = None) -> Taken:
    """Time contenders in turns, of which each begins with another one.

    Turns in which other processes worked are taken again, while that takes `AGAIN_SECONDS`. `cold` empties the caches
    before each product, so a sample is one call.
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
        found.append((round(max(share, OTHERS_SHARE), 2), times))  # turns that were disturbed alike stay in order
    kept = sorted(found, key=lambda one: one[0])[:samples]
    return Taken(tuple(zip(*(times for _, times in kept), strict=True)), disturbed=_quiet(kept) < samples)


def _quiet(found: Sequence[tuple[float, tuple[float, ...]]]) -> int:
    return sum(share <= OTHERS_SHARE for share, _ in found)


def _turn(contenders: Sequence[Ready], calls: Sequence[int], turn: int, cold: bool, host: Host) -> tuple[float, ...]:
    """A sample of each, in their order, the first one's turn by turn another's."""
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
    """Seconds a call, of several."""
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

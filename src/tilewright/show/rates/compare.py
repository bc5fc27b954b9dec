"""Compares two sweeps: the points that became slower or faster, with confidence intervals.

Times of two runs differ by more than the samples of one run do, for example if the host is busier or its clock lower.
So if both sweeps timed a contender in turns with a steady peer, the ratio of the two times in each turn is compared. A
busy host may slow the peer alone, so the contender's own time must have changed too, by any amount. Without a steady
peer the times themselves are compared; of disturbed times the faster half. A disturbance lasts many turns, in one sweep
and not in the other, which an interval over turns cannot show. Such times then count as slower only beyond their usual
difference.

The ratio of new to old is the median of all ratios of a new turn to an old one, with its distribution-free confidence
interval. `WRONG` is the probability that any of the points is wrong; each point has a share of it. Source: Hodges and
Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34 (1963); Bauer, "Constructing
confidence sets using rank statistics", JASA 67 (1972).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.show.rates.peers import PEERS
from tilewright.show.rates.record import Kind, Point, Rate, Sweep

Verdict = Literal["slower", "faster", "same", "unclear", "wrong", "failed"]
#: Probability that any point is wrongly called slower or faster.
WRONG = 0.01
#: Least slowdown that counts; and that of flagged times, which vary by up to a seventh.
THRESHOLD, DISTURBED_THRESHOLD = 0.05, 0.25
#: Relative difference up to which predicted times are equal: they are sums of floats.
_EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class Compared:
    """One point of both sweeps."""

    old: Rate
    new: Rate
    ratio: float  #: New time over old, relative to the yardstick if there is one; nan if one has failed.
    least: float  #: Ends of the confidence interval; the ratio itself for predicted times.
    most: float
    verdict: Verdict
    yardstick: str = ""  #: The peer that times were divided by; "" without one.


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sweeps."""

    threshold: float
    points: tuple[Compared, ...]
    only_old: tuple[Point, ...]
    only_new: tuple[Point, ...]
    differing: tuple[str, ...]  #: Conditions of measured points that differ.

    @property
    def regressed(self) -> tuple[Compared, ...]:
        """Points that became slower or wrong, or fail now."""
        failed = (one for one in self.points if one.new.failed and not one.old.failed)
        return (*(one for one in self.points if one.verdict in ("slower", "wrong")), *failed)


def compare(old: Sweep, new: Sweep, threshold: float = THRESHOLD) -> Comparison:
    """Compare the points that are in both sweeps.

    `threshold` is for measured times; predicted ones have no noise, so any difference counts. A peer is a yardstick,
    and is judged only if no contender was timed with it.

    Raises ArgumentValueError: they have no point in common.
    """
    before, after = ({(rate.point, rate.kind): rate for rate in sweep.rates} for sweep in (old, new))
    both = [key for key in before if key in after]
    others = [key for key in both if key[0].contender not in PEERS]
    judged = others or both
    if not judged:
        raise ArgumentValueError(
            "two sweeps to compare must have points in common (got none); give the same options to both"
        )
    measured = sum(kind == "measured" for _, kind in judged)
    yardsticks = _yardsticks(before, after) if others else {}
    found = []
    for key in judged:
        sticks = yardsticks.get(key[0].work)
        found.append(_judged(before[key], after[key], sticks, threshold, WRONG / max(1, measured)))
    return Comparison(
        threshold,
        tuple(found),
        tuple(point for point, kind in before if (point, kind) not in after),
        tuple(point for point, kind in after if (point, kind) not in before),
        _differing(old, new) if measured else (),
    )


def _yardsticks(
    before: Mapping[tuple[Point, Kind], Rate], after: Mapping[tuple[Point, Kind], Rate]
) -> dict[tuple[object, ...], tuple[Rate, Rate]]:
    """Work -> the first peer in both sweeps."""
    found: dict[tuple[object, ...], tuple[Rate, Rate]] = {}
    for key, rate in before.items():
        if key[0].contender in PEERS and key in after and not (rate.failed or after[key].failed):
            found.setdefault(key[0].work, (rate, after[key]))
    return found


def _judged(old: Rate, new: Rate, sticks: tuple[Rate, Rate] | None, threshold: float, wrong: float) -> Compared:
    if new.failed or old.failed:
        return Compared(old, new, math.nan, 0.0, math.inf, "failed")
    if new.wrong and not old.wrong:
        return Compared(old, new, new.seconds / old.seconds, 0.0, math.inf, "wrong")
    if old.kind == "predicted":
        ratio = new.seconds / old.seconds
        changed: Verdict = "same" if abs(ratio - 1) <= _EXACT else "slower" if ratio > 1 else "faster"
        return Compared(old, new, ratio, ratio, ratio, changed)
    flagged = any(rate.flags for rate in (old, new))
    bound = 1 + (max(threshold, DISTURBED_THRESHOLD) if flagged else threshold)
    if sticks is not None and _paired(old, sticks[0]) and _paired(new, sticks[1]):
        return _beside(old, new, sticks, bound, wrong)
    found = interval(_quicker(old), _quicker(new), wrong) if flagged else interval(old.samples, new.samples, wrong)
    return Compared(old, new, *found, _verdict(found, bound))


def _beside(old: Rate, new: Rate, sticks: tuple[Rate, Rate], bound: float, wrong: float) -> Compared:
    """Compare times relative to a yardstick."""
    found = interval(_divided(old, sticks[0]), _divided(new, sticks[1]), wrong)
    verdict, alone = _verdict(found, bound), interval(_quicker(old), _quicker(new), wrong)
    if (verdict == "slower" and alone[1] <= 1) or (verdict == "faster" and alone[2] >= 1):
        verdict = "unclear"  # only the yardstick's time differs
    return Compared(old, new, *found, verdict, sticks[0].point.contender)


def _paired(rate: Rate, stick: Rate) -> bool:
    """Whether a yardstick took turns with a contender, and is itself steady."""
    return len(rate.samples) == len(stick.samples) and "noisy" not in stick.flags


def _quicker(rate: Rate) -> list[float]:
    """The faster half of the samples: disturbance only makes times longer."""
    return sorted(rate.samples)[: -(-len(rate.samples) // 2)]


def _divided(rate: Rate, stick: Rate) -> list[float]:
    """Times divided by the yardstick's, turn by turn."""
    return [x / y for x, y in zip(rate.samples, stick.samples, strict=True)]


def interval(old: Sequence[float], new: Sequence[float], wrong: float) -> tuple[float, float, float]:
    """The median ratio of new values to old ones, and the interval that misses the true one with probability `wrong`.

    >>> ratio, least, most = interval([1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.2, 2.4, 2.6, 2.8], 0.05)
    >>> ratio, least < 2 < most
    (2.0, True)
    """
    x, y = np.log(old), np.log(new)
    shifts = np.sort(np.subtract.outer(y, x), axis=None)
    count = len(x) * len(y)
    deviation = math.sqrt(count * (len(x) + len(y) + 1) / 12)
    outside = math.floor(count / 2 - NormalDist().inv_cdf(1 - wrong / 2) * deviation)
    if outside < 1:  # too few samples for that much confidence
        return float(np.exp(np.median(shifts))), 0.0, math.inf
    least, most = shifts[outside - 1], shifts[count - outside]
    return float(np.exp(np.median(shifts))), float(np.exp(least)), float(np.exp(most))


def _verdict(found: tuple[float, float, float], bound: float) -> Verdict:
    _, least, most = found
    if least > bound:
        return "slower"
    if most < 1 / bound:
        return "faster"
    return "same" if 1 / bound <= least and most <= bound else "unclear"


def _differing(old: Sweep, new: Sweep) -> tuple[str, ...]:
    names = ("processor", "cores", "threads", "python")
    found = [(name, old.conditions.get(name), new.conditions.get(name)) for name in names]
    versions = [sweep.conditions.get("versions") or {} for sweep in (old, new)]
    found += [(name, versions[0].get(name), versions[1].get(name)) for name in sorted({*versions[0], *versions[1]})]
    return tuple(f"{name}: {x} -> {y}" for name, x, y in found if x != y)

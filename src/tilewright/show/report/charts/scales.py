"""Axes: positions of values, and ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.show.report.charts.records import Axis

#: Pixels between ticks, about.
APART = 60


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis laid over pixels."""

    axis: Axis
    least: float
    most: float
    start: float  #: Pixel of `least`.
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value; 0 is at the start of a logarithmic axis."""
        if self.axis.log:
            value, least, most = math.log(max(value, self.least)), math.log(self.least), math.log(self.most)
        else:
            least, most = self.least, self.most
        return self.start + (self.end - self.start) * (value - least) / (most - least)

    def ticks(self, apart: float = APART) -> list[float]:
        """Values of ticks, about `apart` pixels from each other."""
        many = max(2, int(abs(self.end - self.start) / apart))
        return _powers(self, many) if self.axis.log else _steps(self, many)


def scale(axis: Axis, values: Iterable[float], start: float, end: float, *, whole: bool = False) -> Scale:
    """An axis that has room for all values; a linear one may end at a `whole` tick.

    >>> found = scale(Axis("n", log=True, base=2), [8, 1000], 0, 700)
    >>> found.least, found.most, found(8), [int(x) for x in found.ticks()]
    (8, 1000, 0.0, [8, 16, 32, 64, 128, 256, 512])
    """
    seen = [value for value in values if math.isfinite(value) and (value > 0 or not axis.log)]
    least = min(seen, default=1.0) if axis.least is None else axis.least
    most = max(seen, default=10.0)
    if most <= least:
        most = least * 2 if least > 0 else least + 1
    if whole and not axis.log:
        step = _step(most - least, max(2, int(abs(end - start) / APART)))
        most = math.ceil(most / step - 1e-9) * step
    return Scale(axis, least, most, start, end)


def _step(span: float, many: int) -> float:
    """The distance of ticks: 1, 2 or 5 times a power of 10."""
    rough = span / many
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def _steps(scale: Scale, many: int) -> list[float]:
    step = _step(scale.most - scale.least, many)
    first = math.ceil(scale.least / step - 1e-9)
    return [number * step for number in range(first, math.floor(scale.most / step + 1e-9) + 1)]


def _powers(scale: Scale, many: int) -> list[float]:
    """Powers of the base, not all where they are many, and 2 and 5 times powers of 10 where these are few."""
    base = scale.axis.base
    first = math.ceil(math.log(scale.least, base) - 1e-9)
    last = math.floor(math.log(scale.most, base) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / many))
    powers = [float(base) ** number for number in range(first, last + 1, every)]
    if base == 10 and len(powers) <= 2:
        finer = (factor * 10.0**number for number in range(first - 1, last + 1) for factor in (1, 2, 5))
        return [value for value in finer if scale.least <= value <= scale.most]
    return powers

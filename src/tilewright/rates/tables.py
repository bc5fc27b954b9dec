"""The sources' tables of rates, read from `sources.toml`: their cells as points, and their figures."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewright.errors import ArgumentValueError
from tilewright.native.once import once
from tilewright.rates.record import Point, Rate

#: GFLOPS of each unit that a source prints.
UNITS = MappingProxyType({"GFLOPS": 1.0, "TFLOPS": 1000.0})
#: The GPU that tables are predicted for where none is here. The sources name none; its rates are closest to S12's.
GPU = "v100"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One table of a source."""

    source: str  #: Its row, `S8`.
    title: str
    kernels: tuple[str, ...]  #: A row of the catalogue, or names of kernels.
    dtype: str
    columns: str  #: What the columns differ in: `block`, `results` or `contender`.
    values: tuple[Any, ...]  #: The columns.
    unit: str
    widths: tuple[int, ...]  #: The rows.
    figures: Mapping[tuple[int, Any], float]  #: In the unit, by width and column.
    note: str = ""

    def has(self, point: Point) -> bool:
        """Whether a point is one of its cells."""
        column = self.column(point)
        if point.dtype != self.dtype or point.m not in self.widths or column not in self.values:
            return False
        return not self.figures or (point.m, column) in self.figures

    def column(self, point: Point) -> Any:
        """The column that a point is in."""
        return getattr(point, self.columns)

    def figure(self, point: Point) -> float | None:
        """What the source says of a point, in GFLOPS."""
        found = self.figures.get((point.m, self.column(point)))
        return None if found is None else found * UNITS[self.unit]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a table of ours compares with the source's, but for one factor: the sources' GPU is not named."""

    factor: float  #: The source's rates over ours, the geometric mean.
    median: float  #: Of the errors that are left, without their sign.
    worst: float


def agreement(table: SourceTable, rates: Sequence[Rate]) -> Agreement | None:
    """Compare rates with the source's figures; None where the source has none.

    Examples
    --------
    >>> agreement(tables()["S8"], []) is None
    True
    """
    known_rates = [rate for rate in rates if not rate.failed]
    both = [(figure, rate.gflops) for rate in known_rates if (figure := table.figure(rate.point)) is not None]
    if not both:
        return None
    known, ours = np.array(both).T
    factor = math.exp(float(np.mean(np.log(known / ours))))
    errors = np.abs(ours * factor / known - 1)
    return Agreement(factor, float(np.median(errors)), float(np.max(errors)))


def table(name: str) -> SourceTable:
    """The table of a source's row.

    Raises ArgumentValueError: there is none.
    """
    found = tables().get(name.upper())
    if found is None:
        raise ArgumentValueError(f"--table must be one of {', '.join(tables())} (got {name!r})")
    return found


@once
def tables() -> Mapping[str, SourceTable]:
    """Every table by its row."""
    text = resources.files(__package__).joinpath("sources.toml").read_text(encoding="utf-8")
    return MappingProxyType({name: _table(name, values) for name, values in tomllib.loads(text).items()})


def _table(name: str, given: dict[str, Any]) -> SourceTable:
    rows = {int(width): figures for width, figures in given.pop("figures").items()}
    kernels, values = tuple(given.pop("kernels")), tuple(given.pop("values"))

    def cells() -> Iterator[tuple[tuple[int, Any], float]]:
        for width, figures in rows.items():
            yield from (((width, value), figure) for value, figure in zip(values, figures, strict=False))

    return SourceTable(
        source=name,
        kernels=kernels,
        values=values,
        widths=tuple(rows),
        figures=MappingProxyType(dict(cells())),
        **given,
    )

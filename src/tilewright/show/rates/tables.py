"""The sources' tables of rates, read from `sources.toml`: cells as points, and their figures."""

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
from tilewright.ground.native.memo import memo
from tilewright.show.rates.record import Point, Rate

#: Unit of a source -> GFLOPS.
UNITS = MappingProxyType({"GFLOPS": 1.0, "TFLOPS": 1000.0})
#: The GPU for predictions of tables on a machine without one. The sources name none; its rates are closest to S12's.
GPU = "v100"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One table of a source."""

    source: str  #: Its row, `S8`.
    title: str
    kernels: tuple[str, ...]  #: A row of the catalogue, or names of kernels.
    dtype: str
    columns: str  #: The field that the columns vary: `block`, `results` or `contender`.
    values: tuple[Any, ...]  #: The columns.
    unit: str
    widths: tuple[int, ...]  #: The rows.
    figures: Mapping[tuple[int, Any], float]  #: Figures in the unit, by width and column.
    note: str = ""

    def has(self, point: Point) -> bool:
        """Whether a point is one of its cells."""
        column = self.column(point)
        if point.dtype != self.dtype or point.m not in self.widths or column not in self.values:
            return False
        return not self.figures or (point.m, column) in self.figures

    def column(self, point: Point) -> Any:
        """The column of a point."""
        return getattr(point, self.columns)

    def figure(self, point: Point) -> float | None:
        """The source's figure for a point, in GFLOPS."""
        found = self.figures.get((point.m, self.column(point)))
        return None if found is None else found * UNITS[self.unit]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of our table with the source's up to one factor, since the sources do not name their GPU."""

    factor: float  #: Geometric mean of the source's rates divided by ours.
    median: float  #: Of the absolute values of the remaining errors.
    worst: float


def agreement(table: SourceTable, rates: Sequence[Rate]) -> Agreement | None:
    """Compare rates with the source's figures; None if the source has none.

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
        raise ArgumentValueError.of_name("`table`", name, tables())
    return found


@memo
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

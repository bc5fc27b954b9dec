"""Records of points, rates and sweeps; only `report` turns them into text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["measured", "predicted"]
Caches = Literal["warm", "cold"]
KINDS: tuple[Kind, ...] = ("measured", "predicted")
CACHES: tuple[Caches, ...] = ("warm", "cold")
#: Prefix of `verified` for a wrong product.
WRONG = "wrong"
#: Most letters of a text in a rate.
MOST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Point:
    """One product to time: C of shape (m, n) from A of shape (m, k) and B of shape (k, n)."""

    contender: str  #: A kernel of the catalogue, `matmul` for :func:`tilewright.matmul`, or a peer.
    device: str  #: Its device, as `tilewright devices` or `tilewright gpus` lists it.
    dtype: str
    m: int
    n: int
    k: int
    block: int = 0  #: Edge of the square of C that a block computes; 0 if the contender has none.
    results: int = 0  #: Results of a thread; 0 if the contender has none.
    caches: Caches = (
        "warm"  #: State of the processor's caches at the start of a product: with the operands, or without.
    )

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @property
    def work(self) -> tuple[str, int, int, int, Caches]:
        """The part of a point that contenders timed in turns share."""
        return self.dtype, self.m, self.n, self.k, self.caches


@dataclass(frozen=True, slots=True)
class Rate:
    """A point with its time.

    If measured, `seconds` is the median of `samples`, and `least_seconds` and `most_seconds` are the quartiles; samples
    i of all contenders with the same :attr:`Point.work` are from one turn. If predicted, there are no samples, and
    least and most are the error band. If `failed` gives a reason, all three are nan.
    """

    point: Point
    kind: Kind
    seconds: float
    least_seconds: float
    most_seconds: float
    samples: tuple[float, ...] = ()
    #: Result of the comparison with the canonical product: `exact`, `exact in 16 rows`, `exact at 64 x 64 x 256`,
    #: `within bound` for a peer; or `wrong` with the reason.
    verified: str = ""
    flags: tuple[str, ...] = ()  #: Reasons not to rely on it: `noisy`, `stolen`.
    limiter: str = ""  #: The unit that limits a predicted time.
    #: For a measured time, the share of stolen processor time, and the processor's clock.
    stolen: float = 0.0
    mhz: int = 0  #: 0 where it is not known.
    failed: str = ""  #: Why there is no time, in one line.

    @classmethod
    def failure(cls, point: Point, kind: Kind, error: BaseException) -> Rate:
        r"""The rate of a point that failed.

        >>> point = Point("tiled", "a6000", "int32", 8, 8, 8)
        >>> found = Rate.failure(point, "predicted", ValueError("too small\nfor it"))
        >>> found.failed, found.gflops
        ('too small', nan)
        """
        said = str(error).partition("\n")[0] or type(error).__name__
        line = "".join(letter if letter.isprintable() else " " for letter in said)
        return cls(point, kind, math.nan, math.nan, math.nan, failed=line[:MOST_TEXT])

    @property
    def gflops(self) -> float:
        """Multiplications and additions a second, in 10^9."""
        return self.point.operations / self.seconds / 1e9

    @property
    def wrong(self) -> bool:
        """Whether the comparison found a difference."""
        return self.verified.startswith(WRONG)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Rates, in the order of the plan."""

    #: The request: contenders, devices, sizes, and so on, by the names of `bench`'s options.
    plan: Mapping[str, Any]
    #: Processor, cores, threads, clock, load, versions and date, at the start of the sweep.
    conditions: Mapping[str, Any]
    rates: tuple[Rate, ...] = field(default=(), repr=False)

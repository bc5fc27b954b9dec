"""What is timed, how long it took, and under which conditions: records, which only `report` turns into text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["measured", "predicted"]
Caches = Literal["warm", "cold"]
KINDS: tuple[Kind, ...] = ("measured", "predicted")
CACHES: tuple[Caches, ...] = ("warm", "cold")
#: How `verified` begins where the product was wrong.
WRONG = "wrong"
#: Letters of the longest text that a rate has.
MOST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Point:
    """What is to be timed: C of shape (m, n) from A of shape (m, k) and B of shape (k, n)."""

    contender: str  #: A kernel of the catalogue, `matmul` for :func:`tilewright.matmul`, or a peer.
    device: str  #: As `tilewright devices` or `tilewright gpus` lists it.
    dtype: str
    m: int
    n: int
    k: int
    block: int = 0  #: Edge of the square of C that a block computes; 0 where the contender has none.
    results: int = 0  #: Of a thread; 0 where the contender has none.
    caches: Caches = (
        "warm"  #: What the processor's caches hold when a product begins: the operands, or nothing of them.
    )

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @property
    def work(self) -> tuple[str, int, int, int, Caches]:
        """What contenders that take turns have in common."""
        return self.dtype, self.m, self.n, self.k, self.caches


@dataclass(frozen=True, slots=True)
class Rate:
    """A point with its time.

    Measured, `seconds` is the median of `samples`, and `least_seconds` and `most_seconds` are the quartiles; sample i
    of each contender with the same :attr:`Point.work` was taken in one turn. Predicted, there are no samples, and
    least and most are the band of error. Where `failed` says why there is no time, all three are nan.
    """

    point: Point
    kind: Kind
    seconds: float
    least_seconds: float
    most_seconds: float
    samples: tuple[float, ...] = ()
    #: What was compared with the canonical product: `exact`, `exact in 16 rows`, `exact at 64 x 64 x 256`, `within
    #: bound` for a peer; `wrong` and how where it was not.
    verified: str = ""
    flags: tuple[str, ...] = ()  #: Why not to rely on it: `noisy`, `stolen`.
    limiter: str = ""  #: What a predicted time goes to.
    #: Of a measured time, the share of processor time that the host took away, and the processor's clock.
    stolen: float = 0.0
    mhz: int = 0  #: 0 where it is not known.
    failed: str = ""  #: Why there is no time, in a line.

    @classmethod
    def failure(cls, point: Point, kind: Kind, error: BaseException) -> Rate:
        r"""A point that an error ended.

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
        """Whether the product was compared and differed."""
        return self.verified.startswith(WRONG)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Rates, in the order of the plan."""

    #: What was asked for: contenders, devices, sizes, and so on, by the names of `bench`'s options.
    plan: Mapping[str, Any]
    #: Processor, cores, threads, clock, load, versions and date, when the sweep began.
    conditions: Mapping[str, Any]
    rates: tuple[Rate, ...] = field(default=(), repr=False)

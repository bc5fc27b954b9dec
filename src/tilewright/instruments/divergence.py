"""How many branches warps execute, and at how many of them their lanes part.

Source: Nsight Compute, source counters `smsp__sass_branch_targets` and `smsp__sass_branch_targets_threads_divergent`;
branch efficiency is the share of branches at which all active lanes go the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.instruments.counting import added
from tilewright.simt.events import EventKind, Handler, Instrument, Site, parameters

_HANDLER = f"""
declare i32 @llvm.ctpop.i32(i32)

define void @tw.divergence.branch({parameters(EventKind.BRANCH)}) alwaysinline {{
  %others = xor i32 %mask, %taken
  %some = icmp ne i32 %taken, 0
  %not.all = icmp ne i32 %others, 0
  %part = and i1 %some, %not.all
  %parted = zext i1 %part to i64
  %lanes.narrow = call i32 @llvm.ctpop.i32(i32 %mask)
  %lanes = zext i32 %lanes.narrow to i64
  %gone.narrow = call i32 @llvm.ctpop.i32(i32 %taken)
  %gone = zext i32 %gone.narrow to i64
{added([1, "%parted", "%lanes", "%gone"])}
  ret void
}}
"""


@dataclass(frozen=True, slots=True)
class DivergenceRow:
    """One conditional branch.

    Attributes
    ----------
    site : Site
    branches : int
        Warps that executed it.
    divergent : int
        Those whose active lanes went both ways.
    lanes, taken : int
        Active lanes, and those that took it, summed over the warps.
    """

    site: Site
    branches: int
    divergent: int
    lanes: int
    taken: int


@dataclass(frozen=True, slots=True)
class DivergenceResult:
    """What :class:`Divergence` counted; `rows` has one entry a conditional branch, in the kernel's order."""

    rows: tuple[DivergenceRow, ...]

    @property
    def branches(self) -> int:
        """Conditional branches executed by warps."""
        return sum(row.branches for row in self.rows)

    @property
    def divergent(self) -> int:
        """Those at which lanes parted."""
        return sum(row.divergent for row in self.rows)

    @property
    def branch_efficiency(self) -> float:
        """Share of branches at which no lanes parted, 0 to 1; 1 without branches."""
        return 1 - self.divergent / self.branches if self.branches else 1.0


class Divergence(Instrument):
    """Count conditional branches, and those at which the lanes of a warp part.

    Examples
    --------
    >>> from tilewright.simt.events import EventKind, Site
    >>> branch = Site(EventKind.BRANCH, 7, "k.py:3", "bra")
    >>> Divergence().collect([branch], np.array([[8, 2, 256, 100]], np.uint64)).branch_efficiency
    0.75
    """

    def __init__(self) -> None:
        self.name = "divergence"
        self.slots = 4

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Every conditional branch; a guard that the machine turns into one counts too."""
        return Handler("tw.divergence.branch", _HANDLER) if site.kind is EventKind.BRANCH else None

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> DivergenceResult:
        """Give the counters their names."""
        return DivergenceResult(
            tuple(DivergenceRow(site, *row) for site, row in zip(sites, counters.tolist(), strict=True))
        )

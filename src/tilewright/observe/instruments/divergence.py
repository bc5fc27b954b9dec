"""How many branches warps execute, and how many of them diverge.

Source: Nsight Compute, source counters `smsp__sass_branch_targets` and `smsp__sass_branch_targets_threads_divergent`;
branch efficiency is the share of branches at which all active lanes go the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.simulate.events import EventKind, Handler, Instrument, Site

_HANDLER = Handler("tw_divergence_branch", needs=(bitcode(Path(__file__).with_name("divergence.c")),))


@dataclass(frozen=True, slots=True)
class DivergenceRow:
    """One conditional branch."""

    site: Site
    branches: int  #: Warps that executed it.
    divergent: int  #: Those whose active lanes went both ways: divergent.
    #: `lanes`, `taken`: active lanes, and lanes that took the branch, summed over the warps.
    lanes: int
    taken: int


@dataclass(frozen=True, slots=True)
class DivergenceResult:
    """The counts of :class:`Divergence`; `rows` has one entry a conditional branch, in the kernel's order."""

    rows: tuple[DivergenceRow, ...]

    @property
    def branches(self) -> int:
        """Conditional branches executed by warps."""
        return sum(row.branches for row in self.rows)

    @property
    def divergent(self) -> int:
        """Divergent branches."""
        return sum(row.divergent for row in self.rows)

    @property
    def branch_efficiency(self) -> float:
        """Share of branches that did not diverge, 0 to 1; 1 without branches."""
        return 1 - self.divergent / self.branches if self.branches else 1.0


class Divergence(Instrument):
    """Count conditional branches, and those at which a warp diverges.

    Examples
    --------
    >>> from tilewright.simulate.events import EventKind, Site
    >>> branch = Site(EventKind.BRANCH, 7, "k.py:3", "bra")
    >>> Divergence().collect([branch], np.array([[8, 2, 256, 100]], np.uint64)).branch_efficiency
    0.75
    """

    name = "divergence"
    slots = 4

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Every conditional branch; a guard that the machine turns into one counts too."""
        return _HANDLER if site.kind is EventKind.BRANCH else None

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> DivergenceResult:
        """Turn the counters into rows."""
        return DivergenceResult(
            tuple(DivergenceRow(site, *row) for site, row in zip(sites, counters.tolist(), strict=True))
        )

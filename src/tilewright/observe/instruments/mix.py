"""How many instructions ran, and with how many lanes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.simulate.events import EventKind, Handler, Instrument, Site

_LANES = 32

_HANDLER = Handler("tw_mix_run", needs=(bitcode(Path(__file__).with_name("mix.c")),), each=(1, _LANES))


@dataclass(frozen=True, slots=True)
class MixRow:
    """One straight run of instructions, without a branch inside."""

    site: Site
    executions: int  #: How often a warp ran it.
    lanes: int  #: Active lanes, summed over the executions.

    @property
    def warp_instructions(self) -> int:
        """Instructions, counted once a warp."""
        return self.executions * self.site.instructions

    @property
    def thread_instructions(self) -> int:
        """Instructions, counted once an active lane."""
        return self.lanes * self.site.instructions


@dataclass(frozen=True, slots=True)
class MixResult:
    """The counts of :class:`Mix`; `rows` has one entry a straight line, in the kernel's order."""

    rows: tuple[MixRow, ...]

    @property
    def warp_instructions(self) -> int:
        """PTX instructions executed by warps (Nsight Compute's `inst_executed`, of PTX instead of SASS)."""
        return sum(row.warp_instructions for row in self.rows)

    @property
    def thread_instructions(self) -> int:
        """PTX instructions executed by active lanes (Nsight Compute's `thread_inst_executed`)."""
        return sum(row.thread_instructions for row in self.rows)

    @property
    def active_lanes(self) -> float:
        """Mean number of active lanes an instruction, 0 to 32; 0 when nothing ran."""
        return self.thread_instructions / self.warp_instructions if self.warp_instructions else 0.0

    @property
    def lane_efficiency(self) -> float:
        """Active lanes as a fraction of 32 (Nsight Compute's `thread_inst_executed_per_inst_executed.pct`)."""
        return self.active_lanes / _LANES

    def lines(self) -> dict[str, int]:
        """Warp instructions of each source line (`file:line`, or the PTX line), the largest number first.

        Every instruction counts for its own line, or for its PTX line if the compiler gave it no source line.
        """
        totals: dict[str, int] = {}
        for row in self.rows:
            for ptx_line, _, source in row.site.steps:
                line = source or f"ptx:{ptx_line}"
                totals[line] = totals.get(line, 0) + row.executions
        return dict(sorted(totals.items(), key=lambda item: -item[1]))


class Mix(Instrument):
    """Count executed instructions and their active lanes.

    Examples
    --------
    >>> from tilewright.simulate.events import EventKind, Site
    >>> mix = Mix()
    >>> site = Site(EventKind.RUN, ptx_line=7, source="k.py:3", opcode="mov.u32", instructions=5)
    >>> result = mix.collect([site], np.array([[2, 48]], np.uint64))  # two warps, 48 lanes in all
    >>> result.warp_instructions, result.thread_instructions, result.lane_efficiency
    (10, 240, 0.75)
    """

    name = "mix"
    slots = 2

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Every straight line."""
        return _HANDLER if site.kind is EventKind.RUN else None

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> MixResult:
        """Turn the counters into rows."""
        return MixResult(
            tuple(
                MixRow(site, executions, lanes)
                for site, (executions, lanes) in zip(sites, counters.tolist(), strict=True)
            )
        )

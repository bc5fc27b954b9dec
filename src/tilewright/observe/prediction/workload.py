"""The work of a launch, as counted: the input of the timing model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from tilewright.observe.profiling.counts import SECTOR_BYTES, Sectors
from tilewright.observe.profiling.record import Profile, SiteCounts
from tilewright.simulate.machine import WARP_LANES

_LINE_SECTORS = 4


@dataclass(frozen=True, slots=True)
class Requests:
    """One PTX instruction, as a warp executes it on average."""

    executed: float  #: How often a warp executes it.
    wavefronts: float = 1.0  #: Of shared memory, per execution.
    ideal_wavefronts: float = 1.0  #: The same without bank conflicts.
    sectors: float = 0.0  #: Of global and local memory, per execution.
    lines: float = 0.0  #: First-level lines that contain these sectors.
    ideal_sectors: float = 0.0  #: The fewest sectors that hold the used bytes.
    l2_sectors: float = 0.0  #: Sectors that missed in the first level.
    dram_sectors: float = 0.0  #: Sectors that missed in the second level too, or that it does not keep.
    requests: float = 0.0  #: How often a warp executes it with an active lane.
    loads: bool = False  #: Whether it reads global or local memory.
    ptx: str = ""  #: The opcode, without modifiers.


@dataclass(frozen=True, slots=True)
class Workload:
    """A launch's counts per warp, by PTX line, and the resources that it needs."""

    blocks: int
    block_warps: int
    resident_blocks: int  #: Blocks that a multiprocessor holds at once.
    sites: MappingProxyType[int, Requests]  #: By PTX line, from 1.
    local: bool = True  #: Whether accesses to local memory take time.
    bulk_far: float = 0.0  #: The fraction of bulk copies' requests to the second level that memory serves.

    @property
    def executed(self) -> dict[int, float]:
        """How often a warp executes the instruction of each line."""
        return {line: site.executed for line, site in self.sites.items()}

    @property
    def ptx(self) -> dict[int, str]:
        """The opcode on each line, without modifiers."""
        return {line: site.ptx for line, site in self.sites.items()}

    def l2_sectors(self, *, loads: bool) -> float:
        """Sectors that the loads, or the stores, of all blocks request from the second level."""
        each = sum(site.executed * site.l2_sectors for site in self.sites.values() if site.loads == loads)
        return self.blocks * self.block_warps * each

    def executing(self, executed: Mapping[int, float]) -> Workload:
        """The workload if a warp executes the instruction of each line so often."""
        sites = {line: replace(site, executed=executed[line]) for line, site in self.sites.items()}
        return replace(self, sites=MappingProxyType(sites))

    def served(self, fetched: float, written: float) -> Workload:
        """The workload if memory serves these fractions of the second level's load and store sectors."""
        return self._each(
            lambda site: replace(site, dram_sectors=site.l2_sectors * (fetched if site.loads else written))
        )

    def without_conflicts(self) -> Workload:
        """The workload without bank conflicts."""
        return self._each(lambda site: replace(site, wavefronts=site.ideal_wavefronts))

    def coalesced(self) -> Workload:
        """The workload without sectors for unused bytes."""

        def ideal(site: Requests) -> Requests:
            share = site.ideal_sectors / site.sectors if site.sectors else 1.0
            return replace(
                site,
                sectors=site.ideal_sectors,
                lines=max(1.0, site.ideal_sectors / _LINE_SECTORS),
                l2_sectors=site.l2_sectors * share,
                dram_sectors=site.dram_sectors * share,
            )

        return self._each(lambda site: ideal(site) if site.sectors else site)

    def _each(self, change: Callable[[Requests], Requests]) -> Workload:
        return replace(self, sites=MappingProxyType({line: change(site) for line, site in self.sites.items()}))


def of_profile(profile: Profile, resident_blocks: int) -> Workload:
    """The workload of a profiled launch."""
    blocks = math.prod(profile.grid)
    block_warps = -(-math.prod(profile.block) // WARP_LANES)
    written = _written(profile)
    sites = {}
    for site in profile.sites:
        ptx = site.opcode.partition(".")[0]
        sites[site.ptx_line] = replace(_requests(site, blocks * block_warps, written), ptx=ptx)
    return Workload(blocks, block_warps, resident_blocks, MappingProxyType(sites))


def _written(profile: Profile) -> float:
    """The fraction of the sectors stored to the second level that is written to memory."""
    written = profile.traffic.dram_written_bytes or 0
    kinds = (kind for site in profile.sites for kind in (site.counts.global_stores, site.counts.local_stores))
    stored = sum(kind.served.l2_sectors for kind in kinds)
    return min(1.0, written / SECTOR_BYTES / stored) if stored else 0.0


def _requests(site: SiteCounts, warps: int, written: float) -> Requests:
    counts = site.counts
    executed = counts.warp_instructions / warps
    parts = (counts.shared_loads, counts.shared_stores, counts.shared_atomics)
    shared = next((part for part in parts if part.requests), None)
    kinds = (counts.global_loads, counts.global_stores, counts.global_atomics, counts.local_loads, counts.local_stores)
    access = next((kind for kind in kinds if kind.requests), None)
    found = Requests(executed)
    if shared is not None:
        wavefronts, ideal = shared.wavefronts_per_request, shared.ideal_per_request
        found = Requests(executed, wavefronts, ideal, requests=shared.requests / warps)
    if access is None:
        return found
    each, served = access.requests, access.served
    stores = access in (counts.global_stores, counts.local_stores)
    return replace(  # an asynchronous copy does both
        found,
        sectors=access.sectors_per_request,
        lines=_lines(access),
        ideal_sectors=access.ideal_per_request,
        l2_sectors=served.l2_sectors / each,
        dram_sectors=(served.dram_sectors + stores * written * served.l2_sectors) / each,
        requests=each / warps,
        loads=access in (counts.global_loads, counts.local_loads),
    )


def _lines(access: Sectors) -> float:
    """Lines of a request: whole lines if all bytes of its sectors are used, else one line for each sector."""
    used = access.bytes_used / (SECTOR_BYTES * access.sectors)
    sectors = access.sectors_per_request
    return max(1.0, sectors / _LINE_SECTORS) if used > 1 / 2 or sectors <= 1 else sectors

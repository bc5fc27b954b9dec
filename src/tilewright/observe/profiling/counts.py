"""Counted quantities, named and defined as in Nsight Compute; the docstring of each quantity names its metric.

All records here add up with `+`, so the counts of a site, a source line and a launch have one form. Instructions are
those of the PTX. The vendor's assembler translates them to machine instructions, so counts of instructions are close to
Nsight Compute's, while requests, sectors and wavefronts of the remaining accesses are equal.

Source: Nsight Compute, Profiling Guide, "Metrics Reference" and "Metrics Decoder"; the source counters
`memory_l2_theoretical_sectors_*` and `memory_l1_wavefronts_shared*`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Self

#: Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory": 32-byte transactions.
SECTOR_BYTES = 32
#: Source: CUDA C++ Programming Guide, "Shared Memory": 32 banks of 4 bytes, one word a bank a cycle.
WAVEFRONT_BYTES = 128
LANES = 32


@dataclass(frozen=True, slots=True)
class Summable:
    """A record of counts, all zero by default, that adds up field by field."""

    @classmethod
    def total(cls, parts: Iterable[Self]) -> Self:
        """The sum of records of this class.

        >>> Mix.total([Mix(integer=2), Mix(integer=1, memory=5)])
        Mix(integer=3, half=0, float=0, double=0, transcendental=0, convert=0, memory=5, control=0, warp=0, tensor=0)
        """
        every = list(parts)
        if len(every) < 2:
            return every[0] if every else cls()
        kind: Any = cls
        fields_of, zeros = _fields(kind)
        sums: list[Any] = []
        for none, column in zip(zeros, zip(*map(fields_of, every), strict=True), strict=True):
            if isinstance(none, int):
                sums.append(sum(column))
            else:  # most parts count few things; the others share one record of zeros
                kept = [value for value in column if value is not none]
                sums.append(type(none).total(kept) if kept else none)
        return cls(*sums)

    def __add__(self, other: Self) -> Self:
        return type(self).total((self, other))

    def __bool__(self) -> bool:
        """Whether anything was counted."""
        return any(getattr(self, f.name) for f in fields(self))


@functools.cache
def _fields(kind: type[Summable]) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[Any, ...]]:
    """A function that gives a record's fields in order, and their values if nothing was counted."""
    names: tuple[str, ...] = kind.__slots__
    fields_of = operator.attrgetter(names[0], *names[1:])
    return fields_of, fields_of(kind())


@dataclass(frozen=True, slots=True)
class Served(Summable):
    """The levels that serve sectors of global and local memory, by the model of `observe.profiling.cache`."""

    l1_hits: int = 0  #: `l1tex__t_sectors_lookup_hit`.
    l2_hits: int = 0  #: `lts__t_sectors_lookup_hit`.
    #: `dram_compulsory`, `dram_capacity`, `dram_conflict`: sectors read from DRAM because they were touched for the
    #: first time, evicted as the second level is too small, or evicted from a full set; in total `dram__sectors_read`.
    dram_compulsory: int = 0
    dram_capacity: int = 0
    dram_conflict: int = 0
    l2_allocated: int = 0  #: Written sectors that the second level allocated without reading DRAM.

    @property
    def dram_sectors(self) -> int:
        """Sectors read from DRAM."""
        return self.dram_compulsory + self.dram_capacity + self.dram_conflict

    @property
    def l2_sectors(self) -> int:
        """Sectors that reached the second level: `lts__t_sectors_srcunit_tex`."""
        return self.l2_hits + self.l2_allocated + self.dram_sectors


@dataclass(frozen=True, slots=True)
class Sectors(Summable):
    """Accesses of one kind to global or local memory."""

    #: Instructions executed by warps with at least one active lane: `l1tex__t_requests_pipe_lsu_mem_global_op_ld` and
    #: the metrics for `local`, `st`, `atom` and `red`.
    requests: int = 0
    lanes: int = 0  #: Active lanes, summed over requests.
    #: Distinct aligned 32-byte pieces, summed over requests: `l1tex__t_sectors_pipe_lsu_mem_global_op_ld`.
    sectors: int = 0
    #: Fewest sectors that hold the distinct bytes of each request. `memory_l2_theoretical_sectors_global_ideal`, except
    #: that bytes shared by several lanes count once.
    ideal_sectors: int = 0
    bytes_used: int = 0  #: Distinct bytes that lanes touched, summed over requests.
    served: Served = Served()  #: Where the sectors were found; all zero if the caches were not modelled.

    @property
    def excess_sectors(self) -> int:
        """`derived__memory_l2_theoretical_sectors_global_excessive`."""
        return self.sectors - self.ideal_sectors

    @property
    def sectors_per_request(self) -> float:
        """`l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld`; 0 if nothing ran."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """The least possible `sectors_per_request`; 0 if nothing ran."""
        return self.ideal_sectors / self.requests if self.requests else 0.0

    @property
    def bytes_moved(self) -> int:
        """32 bytes for each sector: `l1tex__t_bytes_pipe_lsu_mem_global_op_ld`."""
        return SECTOR_BYTES * self.sectors

    @property
    def efficiency(self) -> float:
        """Used bytes over moved bytes: `smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct`.

        0 if nothing ran.
        """
        return self.bytes_used / self.bytes_moved if self.sectors else 0.0


@dataclass(frozen=True, slots=True)
class Wavefronts(Summable):
    """Accesses of one kind to shared memory."""

    #: Instructions executed by warps with at least one active lane: `smsp__inst_executed_op_shared_ld`, `_st`.
    requests: int = 0
    lanes: int = 0  #: Active lanes, summed over requests.
    #: Cycles of work: `l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld`, `memory_l1_wavefronts_shared`.
    wavefronts: int = 0
    #: The same without bank conflicts, 1, 2 or 4 for full warps of 4-, 8- and 16-byte accesses:
    #: `memory_l1_wavefronts_shared_ideal`.
    ideal_wavefronts: int = 0

    @property
    def excess_wavefronts(self) -> int:
        """Bank conflicts: `derived__memory_l1_wavefronts_shared_excessive`."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def wavefronts_per_request(self) -> float:
        """Mean wavefronts per request; 0 if nothing ran."""
        return self.wavefronts / self.requests if self.requests else 0.0

    @property
    def ideal_per_request(self) -> float:
        """The least possible `wavefronts_per_request`; 0 if nothing ran."""
        return self.ideal_wavefronts / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Remote(Summable):
    """Accesses of one kind to the shared memory of other blocks of the cluster.

    No source states their cost, so transactions are not counted. Lanes that access their own block count as shared.
    """

    #: Instructions executed by warps with at least one lane in another block; `smsp__inst_executed_op_shared_ld` and
    #: the similar metrics include them. A request is: 512 bytes (or the rest) of a bulk copy, for each target block; 32
    #: pieces of 16 bytes of a tensor copy; an operation on another block's mbarrier (an atomic of 8 bytes).
    requests: int = 0
    lanes: int = 0  #: The lanes in other blocks, summed over requests; for a copy, pieces of 16 bytes.
    bytes: int = 0  #: Bytes that they read, write or combine.


@dataclass(frozen=True, slots=True)
class Mix(Summable):
    """Instructions executed by warps, by the unit that executes them: `sass__inst_executed_per_opcode`, grouped.

    The units are the cost classes of the instruction table (:mod:`tilewright.simulate.isa.table`).
    """

    integer: int = 0
    half: int = 0
    float: int = 0
    double: int = 0
    transcendental: int = 0
    convert: int = 0
    memory: int = 0
    control: int = 0
    warp: int = 0
    tensor: int = 0


@dataclass(frozen=True, slots=True)
class Operations(Summable):
    """Arithmetic operations of active lanes; a multiply-add is two, `sm__sass_thread_inst_executed_op_ffma_pred_on` x 2.

    Additions, subtractions, multiplications and multiply-adds count, as in Nsight Compute's roofline; comparisons,
    conversions and approximations do not. Index arithmetic counts as `integer` too.
    """  # noqa: E501

    float16: int = 0
    float32: int = 0
    float64: int = 0
    integer: int = 0

    @property
    def floating(self) -> int:
        """Floating-point operations."""
        return self.float16 + self.float32 + self.float64


@dataclass(frozen=True, slots=True)
class Counts(Summable):
    """All counts of a launch, a source line, or one PTX instruction."""

    warp_instructions: int = 0  #: PTX instructions: `smsp__inst_executed`.
    thread_instructions: int = 0  #: Active lanes, summed over instructions: `smsp__thread_inst_executed`.
    mix: Mix = Mix()  #: `warp_instructions` by class.
    operations: Operations = Operations()  #: The operations of the roofline.
    branches: int = 0  #: Conditional branches executed by warps: `smsp__sass_branch_targets`.
    #: Those at which active lanes took different ways: `smsp__sass_branch_targets_threads_divergent`.
    divergent_branches: int = 0
    barriers: int = 0  #: Barriers at which warps arrived: `smsp__inst_executed_op_barrier`.
    #: `global_loads`, `global_stores`, `global_atomics`, `local_loads`, `local_stores`: a generic access counts for the
    #: space of its address.
    global_loads: Sectors = Sectors()
    global_stores: Sectors = Sectors()
    global_atomics: Sectors = Sectors()
    local_loads: Sectors = Sectors()
    local_stores: Sectors = Sectors()
    #: `shared_loads`, `shared_stores`, `shared_atomics`: the block's own shared memory.
    shared_loads: Wavefronts = Wavefronts()
    shared_stores: Wavefronts = Wavefronts()
    shared_atomics: Wavefronts = Wavefronts()
    #: `remote_loads`, `remote_stores`, `remote_atomics`: shared memory of other blocks of the cluster, through
    #: addresses (`mapa`) and copies.
    remote_loads: Remote = Remote()
    remote_stores: Remote = Remote()
    remote_atomics: Remote = Remote()

    @property
    def active_lanes(self) -> float:
        """Mean active lanes per instruction, 0 to 32: `smsp__thread_inst_executed_per_inst_executed.ratio`."""
        return self.thread_instructions / self.warp_instructions if self.warp_instructions else 0.0

    @property
    def lane_efficiency(self) -> float:
        """Warp execution efficiency, 0 to 1: `smsp__thread_inst_executed_per_inst_executed.pct`."""
        return self.active_lanes / LANES

    @property
    def branch_efficiency(self) -> float:
        """The share of branches that did not diverge, 0 to 1; 1 without branches.

        `smsp__sass_average_branch_targets_threads_uniform.pct`.
        """
        return 1 - self.divergent_branches / self.branches if self.branches else 1.0

    @property
    def moved(self) -> tuple[Sectors, ...]:
        """All accesses to global and local memory, by kind."""
        return (self.global_loads, self.global_stores, self.global_atomics, self.local_loads, self.local_stores)

    @property
    def in_global(self) -> Sectors:
        """All accesses to global memory."""
        return self.global_loads + self.global_stores + self.global_atomics

    @property
    def in_local(self) -> Sectors:
        """All accesses to local memory."""
        return self.local_loads + self.local_stores

    @property
    def in_shared(self) -> Wavefronts:
        """All accesses to the block's own shared memory."""
        return self.shared_loads + self.shared_stores + self.shared_atomics

    @property
    def in_remote(self) -> Remote:
        """All accesses to the shared memory of other blocks of the cluster."""
        return self.remote_loads + self.remote_stores + self.remote_atomics

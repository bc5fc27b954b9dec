"""How long a multiprocessor's instructions take: one record a compute capability, read from `timing.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from tilewright.ground.native.memo import memo
from tilewright.simulate.machine.gpu import WARP_LANES, Gpu

#: Latencies are by bytes a lane: of 4, 8 and 16.
_WIDTHS = (4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Latencies and rates of a multiprocessor, in clocks."""

    queue_places: int  #: Memory instructions that a partition holds without stalling.
    lead: int  #: From issue to a memory unit.
    leave: int  #: From a request until its place among those held is free.
    address: int  #: Between two memory instructions of a partition.
    barrier: int  #: From the last warp's arrival to the next instruction.
    start: int  #: From a block's end to the next one's first instruction.
    special_result: int  #: From issue until a special unit's result can be used.
    special_read: int  #: From issue until its operands are read.
    float64_product: int  #: From issue until a tensor core's product of float64 can be used.
    product: int  #: From the end of a warpgroup's product, or one in tensor memory, until those who wait for it go on.
    pair: int  #: That a product of two blocks ends later.
    columns: int  #: Of a move between registers and tensor memory, beside its pipe's clocks.
    column_registers: int  #: Registers of a warp that a partition moves to or from tensor memory a clock.
    bulk: int  #: From the order of a bulk copy until it asks memory.
    remote: int  #: To the shared memory of another block of the cluster, one way.
    mma_share: float  #: Of the tensor cores' rate that products of a warp's registers reach.
    launch_us: float  #: Microseconds of a launch without its blocks.
    result: MappingProxyType[str, tuple[int, int, int]]  #: From issue until a result can be used, by kind of memory.
    read: MappingProxyType[str, tuple[int, int, int]]  #: From issue until operands are read, by kind of access.
    load_store_units: int  #: Lanes of memory instructions that a multiprocessor takes a clock.
    l2: int  #: Of a load that the second level serves.
    dram: int  #: Of a load that memory serves.
    l2_sectors: int  #: That reach a multiprocessor a clock.

    @property
    def request(self) -> int:
        """Between two memory instructions of a multiprocessor."""
        return WARP_LANES // self.load_store_units

    def latency(self, table: str, kind: str, lane_bytes: int) -> int:
        """From `result` or `read`, of accesses of so many bytes a lane."""
        row = (self.result if table == "result" else self.read)[kind]
        return row[_WIDTHS.index(max(4, min(16, lane_bytes)))]


def timing(gpu: Gpu) -> Timing:
    """The record of a GPU's multiprocessors.

    >>> from tilewright.simulate.machine import gpu
    >>> timing(gpu("a6000")).request, timing(gpu("a100")).request
    (2, 1)
    """
    return _timings()["{}.{}".format(*gpu.compute_capability)]


@memo
def _timings() -> MappingProxyType[str, Timing]:
    import tomllib

    text = resources.files(__package__).joinpath("timing.toml").read_text(encoding="utf-8")
    data: dict[str, dict[str, Any]] = tomllib.loads(text)
    every = data.pop("every")
    for name in ("result", "read"):
        every[name] = MappingProxyType({kind: tuple(row) for kind, row in every[name].items()})
    return MappingProxyType({capability: Timing(**(every | fields)) for capability, fields in data.items()})

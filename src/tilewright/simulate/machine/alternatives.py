"""The effect of other block sizes, numbers of registers and amounts of shared memory on a kernel's occupancy."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilewright.ground.display import Shown
from tilewright.simulate.machine.gpu import WARP_LANES, Gpu
from tilewright.simulate.machine.occupancy import Occupancy, occupancy


@dataclass(frozen=True, slots=True)
class Demand:
    """A kernel's resources, the arguments of :func:`~tilewright.machine.occupancy.occupancy`."""

    registers_per_thread: int
    shared_bytes: int
    block_threads: int
    barriers: int = 0
    carveout: int | None = None
    tensor_columns: int = 0

    def on(self, gpu: Gpu) -> Occupancy:
        """Its occupancy on a GPU."""
        return occupancy(
            gpu,
            registers_per_thread=self.registers_per_thread,
            shared_bytes=self.shared_bytes,
            block_threads=self.block_threads,
            barriers=self.barriers,
            carveout=self.carveout,
            tensor_columns=self.tensor_columns,
        )


@dataclass(frozen=True, slots=True)
class Alternative:
    """A changed demand, and its occupancy."""

    demand: Demand
    occupancy: Occupancy


@dataclass(frozen=True)
class Alternatives(Shown):
    """A kernel's occupancy, and those after changes, which are computed when they are first asked for."""

    gpu: Gpu
    demand: Demand  #: The kernel's own demand.
    occupancy: Occupancy  #: Its occupancy.

    @functools.cached_property
    def blocks(self) -> tuple[Alternative, ...]:
        """For every whole number of warps in a block."""
        sizes = range(WARP_LANES, self.gpu.launch.threads_per_block + 1, WARP_LANES)
        return tuple(self._tried(block_threads=threads) for threads in sizes)

    @functools.cached_property
    def registers(self) -> tuple[Alternative, ...]:
        """For each number of resident blocks, most blocks first, the most registers of a thread."""
        return _plateaus(lambda n: self._tried(registers_per_thread=n), range(self.gpu.registers_per_thread + 1))

    @functools.cached_property
    def shared(self) -> tuple[Alternative, ...]:
        """For each number of resident blocks, most blocks first, the most bytes of shared memory of a block."""
        unit, reserved = self.gpu.shared_unit_bytes, self.gpu.shared_reserved_bytes
        sizes = range(-reserved % unit, self.gpu.shared_per_block_optin_bytes + 1, unit)
        return _plateaus(lambda n: self._tried(shared_bytes=n), sizes)

    @functools.cached_property
    def steps_up(self) -> tuple[Alternative, ...]:
        """Changes that raise occupancy; empty if it is full, or no change helps.

        They are the least reduction of registers and shared memory that allows one more block, and the nearest of the
        block sizes with the highest occupancy.
        """
        return _steps_up(self)

    def _tried(self, **changed: Any) -> Alternative:
        other = replace(self.demand, **changed)
        return Alternative(other, other.on(self.gpu))


def alternatives(gpu: Gpu, demand: Demand) -> Alternatives:
    """Try every block size, number of registers and amount of shared memory, one at a time.

    Parameters
    ----------
    gpu : Gpu
    demand : Demand
        The kernel as it is.

    Raises
    ------
    ArgumentValueError
        A number is out of range; see :func:`~tilewright.machine.occupancy.occupancy`.

    Examples
    --------
    >>> from tilewright.simulate.machine import gpu
    >>> found = alternatives(gpu("h100"), Demand(registers_per_thread=40, shared_bytes=0, block_threads=256))
    >>> found.occupancy.fraction
    0.75
    >>> [(a.demand.block_threads, a.demand.registers_per_thread, a.occupancy.fraction) for a in found.steps_up]
    [(256, 32, 1.0)]
    """
    return Alternatives(gpu, demand, demand.on(gpu))


def _plateaus(try_: Callable[[int], Alternative], sizes: range) -> tuple[Alternative, ...]:
    """The largest size for each possible number of blocks."""
    last: dict[int, Alternative] = {}
    for size in sizes:
        found = try_(size)
        if found.occupancy.active_blocks:
            last[found.occupancy.active_blocks] = found
    return tuple(last.values())


def _steps_up(found: Alternatives) -> tuple[Alternative, ...]:
    best = max(other.occupancy.fraction for other in found.blocks)
    nearest = min(
        (other for other in found.blocks if other.occupancy.fraction == best),
        key=lambda other: abs(other.demand.block_threads - found.demand.block_threads),
    )
    steps = (_leaner(found), nearest if best > found.occupancy.fraction else None)
    return tuple(step for step in steps if step)


def _leaner(found: Alternatives) -> Alternative | None:
    """The same block, with registers and shared memory reduced so that one more block fits."""
    demand, wanted = found.demand, found.occupancy.active_blocks + 1

    def most(name: str, resource: str) -> int:
        """The largest size, at most the kernel's own; -1 if even 0 is too much."""

        def too_much(size: int) -> bool:
            limit = replace(demand, **{name: size}).on(found.gpu).limits[resource]
            return limit is not None and limit < wanted

        return bisect_left(range(getattr(demand, name) + 1), True, key=too_much) - 1

    registers, shared = most("registers_per_thread", "registers"), most("shared_bytes", "shared")
    if registers < 0 or shared < 0:
        return None
    other = replace(demand, registers_per_thread=registers, shared_bytes=shared)
    occupied = other.on(found.gpu)
    return Alternative(other, occupied) if occupied.fraction > found.occupancy.fraction else None

"""The device addresses and handles that the simulated GPUs of a process share."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tilewright.errors import LaunchError
from tilewright.ground.native.memo import memo
from tilewright.simulate.run.allocations import Addresses, Arena
from tilewright.simulate.run.memory import Memory
from tilewright.simulate.state import GLOBAL_BASE

#: Address space of the arena that all simulated GPUs of a process share; less if the host does not give as much.
ARENA_BYTES, ARENA_LEAST_BYTES = 512 << 30, 4 << 30
FIRST_HANDLE = 0x1000


class DeviceAddresses:
    """The device addresses (equal to the host's) and the handles that the simulated GPUs of a process share.

    Each is used once, so that an object that outlives its GPU is not mistaken for one of the next.
    """

    def __init__(self, arena: Arena | None = None) -> None:
        self.addresses = Addresses(arena or largest(lambda size: Arena(size, GLOBAL_BASE)), once=True)
        self.handles = itertools.count(FIRST_HANDLE, 0x10)

    def memory(self, size_bytes: int) -> Memory:
        """Memory for one GPU, of so many bytes or what there is."""
        return Memory(min(size_bytes, self.addresses.arena.size_bytes), addresses=self.addresses)


def largest(made: Callable[[int], Arena]) -> Arena:
    """The largest arena that the host gives.

    Raises LaunchError: the host gives none.
    """
    size = ARENA_BYTES
    while True:
        try:
            return made(size)
        except LaunchError:
            if size <= ARENA_LEAST_BYTES:
                raise
            size //= 2


@memo
def device_addresses() -> DeviceAddresses:
    """The addresses of this process."""
    return DeviceAddresses()

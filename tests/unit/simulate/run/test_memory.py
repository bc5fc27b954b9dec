"""Global memory: freed memory is reused, zeroed; red zones; an arena at its own addresses."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentValueError, LaunchError
from tilewright.simulate.run.allocations import RED_ZONE_MIN_BYTES, Addresses, Arena
from tilewright.simulate.run.memory import Memory
from tilewright.simulate.state import GLOBAL_BASE


def test_freed_memory_is_reused_and_reads_as_zero() -> None:
    memory = Memory(1 << 20)
    first, second = memory.allocate(1000), memory.allocate(24)
    memory.view(first, 1000)[:] = 7
    memory.free(first)
    again = memory.allocate(900)
    assert again == first
    assert not memory.view(again, 900).any()
    assert memory.allocations() == [(first, 900), (second, 24)]


def test_neighbouring_holes_become_one() -> None:
    memory = Memory(1 << 20)
    blocks = [memory.allocate(256) for _ in range(4)]
    for index in (0, 2, 1):
        memory.free(blocks[index])
    assert memory.allocate(768) == blocks[0]
    memory.free(blocks[0])
    memory.free(blocks[3])
    assert (memory.used_bytes, memory.allocated_bytes) == (0, 0)


def test_small_freed_memory_is_no_allocation_until_it_is_taken_again() -> None:
    memory = Memory(1 << 20)
    first, second, last = (memory.allocate(100) for _ in range(3))
    memory.view(second, 100)[:] = 7
    memory.free(second)
    assert memory.extent(second) is None and not memory.begins(second) and memory.has_given(second)
    assert memory.spared(second) is None and memory.allocations() == [(first, 100), (last, 100)]
    assert memory.reused(1000) == 0 and memory.reused(101) == second
    assert memory.extent(second) == (second, 101) and not memory.view(second, 101).any()
    assert memory.allocated_bytes == memory.peak_bytes == 3 * 256


def test_random_traffic_keeps_allocations_apart() -> None:
    random = np.random.default_rng(3)
    memory = Memory(1 << 20)
    held: dict[int, tuple[int, int]] = {}
    for step in range(600):
        if held and random.random() < 0.45:
            address = list(held)[int(random.integers(len(held)))]
            size, mark = held.pop(address)
            assert (memory.view(address, size) == mark).all()
            memory.free(address)
        else:
            size = int(random.integers(1, 3000))
            address = memory.allocate(size)
            assert not memory.view(address, size).any()
            memory.view(address, size)[:] = step % 251 + 1
            held[address] = (size, step % 251 + 1)
    assert memory.allocations() == sorted((address, size) for address, (size, _) in held.items())


def test_use_ends_with_the_last_allocation_exactly() -> None:
    memory = Memory(1 << 20)
    memory.allocate(100)
    last = memory.allocate(100)
    assert memory.used_bytes == 256 + 100
    memory.free(last)
    assert memory.used_bytes == 100


def test_extents_are_found_from_any_address_inside() -> None:
    memory = Memory(1 << 20)
    address = memory.allocate(100)
    assert memory.extent(address) == memory.extent(address + 99) == (address, 100)
    assert memory.extent(address + 100) is memory.extent(address - 1) is None


def test_red_zones_separate_allocations() -> None:
    memory = Memory(1 << 30)
    memory.red_zones = True
    small, large, last = memory.allocate(8), memory.allocate(1 << 20), memory.allocate(8)
    assert large - small >= 8 + RED_ZONE_MIN_BYTES
    assert last - large >= 2 << 20
    assert memory.used_bytes == last - GLOBAL_BASE + 8 + RED_ZONE_MIN_BYTES


def test_freeing_an_unallocated_address_is_refused() -> None:
    memory = Memory(1 << 20)
    address = memory.allocate(8)
    with pytest.raises(ArgumentValueError, match="that of an allocation that is not yet freed"):
        memory.free(address + 1)
    memory.free(address)
    with pytest.raises(ArgumentValueError, match="not yet freed"):
        memory.free(address)


def test_capacity_is_counted_after_freeing() -> None:
    memory = Memory(4096)
    address = memory.allocate(4096)
    with pytest.raises(LaunchError, match="global memory holds 4,096 bytes"):
        memory.allocate(1)
    memory.free(address)
    memory.allocate(4096)


def test_an_arena_at_an_address_is_the_host_s_memory_there() -> None:
    at = GLOBAL_BASE << 5  # not the simulated GPU's own
    arena = Arena(1 << 20, at)
    assert arena.address == at
    arena.bytes_at(5, 2)[:] = (1, 2)
    assert ctypes.string_at(at + 4, 4) == b"\0\1\2\0"
    arena.clear(0, 1 << 20)
    assert ctypes.string_at(at + 4, 4) == bytes(4)
    with pytest.raises(LaunchError, match="is taken"):
        Arena(1 << 20, at)


def test_memory_freed_last_is_reused_last() -> None:
    memory = Memory(1 << 20)
    memory.quarantine_bytes = 1024
    blocks = [memory.allocate(512) for _ in range(4)]
    for address in blocks[:3]:
        memory.free(address)
    assert memory.extent(blocks[0]) is None
    assert memory.has_given(blocks[0])
    assert [memory.allocate(512), memory.allocate(512)] == [blocks[0], blocks[3] + 512]
    with pytest.raises(LaunchError):
        memory.allocate(1 << 20)
    assert memory.allocate((1 << 20) - 2560) == blocks[3] + 1024
    assert memory.allocate(1024) == blocks[1], "if there is no other room, before its turn"


def test_single_use_addresses_are_reused_if_there_are_no_others() -> None:
    addresses = Addresses(Arena(4096), once=True)
    given = []
    for _ in range(4):
        memory = Memory(4096, addresses=addresses)
        one, other = memory.allocate(512), memory.allocate(512)
        memory.free(one)
        memory.free(other)
        assert memory.has_given(other)
        memory.retire()
        assert not memory.has_given(other)
        given += [one, other]
    assert len(set(given)) == 8
    assert Memory(4096, addresses=addresses).allocate(4096) == GLOBAL_BASE


class SlowList(list):  # type: ignore[type-arg]
    """A list that lets other threads run while it is searched."""

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            time.sleep(0)
            yield item


def test_threads_get_their_own_memory() -> None:
    memory, overlaps = Memory(1 << 24), []
    memory._holes = SlowList()

    def work(number: int) -> None:
        for _ in range(20):
            held = [memory.allocate(512) for _ in range(4)]
            for address in held:
                memory.view(address, 512)[:] = number
            time.sleep(0)
            overlaps.extend(address for address in held if (memory.view(address, 512) != number).any())
            for address in held:
                memory.free(address)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (overlaps, memory.allocations()) == ([], [])

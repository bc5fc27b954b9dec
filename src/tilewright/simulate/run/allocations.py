"""The global memory of a simulated GPU: one arena, and the allocations in it."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import itertools
import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError, LaunchError, OutOfMemoryError
from tilewright.ground.native import pages
from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.simulate.machine.host_memory import refused
from tilewright.simulate.state import GLOBAL_BASE, SLACK_BYTES


class Arena:
    """A zeroed range of host memory with slack on both sides.

    `at` is the host address of the first byte, a multiple of the page size; such an arena is never released. `address`
    is that of the first byte after the leading slack. A `shared` arena has a descriptor, by which other processes map
    it, slack included.

    Raises LaunchError: the host does not have that range of addresses.
    """

    def __init__(self, size_bytes: int, at: int | None = None, *, shared: bool = False) -> None:
        self.size_bytes = size_bytes
        self.descriptor: int | None = None
        total = -(-(size_bytes + 2 * SLACK_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            if shared:
                self._map: Any
                self._map, self.descriptor = pages.reserved_for_sharing(total)
            else:
                self._map = pages.reserved(total) if at is None else pages.reserved_at(at - SLACK_BYTES, total)
        except OSError as error:
            raise LaunchError(
                f"the host must have {total:,} bytes of address space for simulated memory ({error}); "
                "pass `memory=Memory(capacity_bytes=...)` with less"
            ) from error
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self._bytes = memoryview(self._map).cast("B")
        self.address = ctypes.addressof(self._anchor) + SLACK_BYTES

    def close(self) -> None:
        """Close the descriptor of a shared arena; processes that map it keep it."""
        if self.descriptor is not None:
            os.close(self.descriptor)

    def clear(self, offset: int, count: int) -> None:
        """Make bytes zero again; whole pages are released, not written."""
        start = SLACK_BYTES + offset  # the mapping begins with a page
        end = start + count
        first, last = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if last <= first:
            self._bytes[start:end] = bytes(count)
            return
        self._bytes[start:first] = bytes(first - start)
        pages.zero(self.address - SLACK_BYTES + first, last - first, shared=self.descriptor is not None)
        self._bytes[last:end] = bytes(end - last)

    def buffer_at(self, offset: int, count: int) -> memoryview:
        """The bytes of :meth:`bytes_at` as a buffer."""
        return self._bytes[SLACK_BYTES + offset : SLACK_BYTES + offset + count]

    def bytes_at(self, offset: int, count: int) -> npt.NDArray[np.uint8]:
        """A writable view of bytes; it keeps the arena alive."""
        return np.frombuffer(self._map, np.uint8, count, SLACK_BYTES + offset)


class Addresses:
    """Gives ascending offsets in an arena to fresh allocations; several memories may share it.

    With `once` an offset is given only once, so a pointer that outlives its memory points to no other allocation.
    Retired offsets are given again only when no fresh ones are left. All offsets given so far are below `end`.

    >>> addresses = Addresses(Arena(1 << 20), once=True)
    >>> addresses.fresh(256), addresses.fresh(256), addresses.fresh(1 << 20)
    (0, 256, None)
    """

    def __init__(self, arena: Arena, *, once: bool = False) -> None:
        self.arena = arena
        self.once = once
        self.end = 0
        self._retired: list[tuple[int, int]] = []  # offset and bytes
        self._lock = threading.RLock()  # Python may run a finalizer that returns memory while it is held

    def fresh(self, size_bytes: int, needed_bytes: int | None = None) -> int | None:
        """The offset of `size_bytes` bytes, with at least `needed_bytes` in the arena; None if they do not fit."""
        with self._lock:
            start = self.end
            if start + (size_bytes if needed_bytes is None else needed_bytes) <= self.arena.size_bytes:
                self.end = start + size_bytes
                return start
            for index, (offset, room) in enumerate(self._retired):
                if room >= size_bytes:
                    rest = [(offset + size_bytes, room - size_bytes)] if room > size_bytes else []
                    self._retired[index : index + 1] = rest
                    return offset
            return None

    def takes_back(self, offset: int, size_bytes: int) -> bool:
        """Take the last bytes back, to be fresh again; False if they are not the last."""
        if self.once:
            return False
        with self._lock:
            last = offset + size_bytes == self.end
            if last:
                self.end = offset
            return last

    def retire(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Retire ranges that no memory uses any more, each an offset and a size."""
        with self._lock:
            for offset, size in ranges:
                if self._retired and sum(self._retired[-1]) == offset:
                    self._retired[-1] = (self._retired[-1][0], self._retired[-1][1] + size)
                else:
                    self._retired.append((offset, size))


#: Allocations start at multiples of this, as cudaMalloc's do (CUDA C++ Programming Guide, "Device Memory Accesses").
ALIGNMENT_BYTES = 256
#: Address space of a fresh memory; it uses host memory only where it is written.
CAPACITY_BYTES = 16 << 30
#: Freed allocations up to this size wait for one of the same size, which takes over their place in the lists.
SPARE_BYTES = 64 << 10
#: Bounds of a red zone, the unused bytes after an allocation, which has the allocation's size between them.
RED_ZONE_MIN_BYTES, RED_ZONE_MAX_BYTES = 64 << 10, 64 << 20


def red_zone_bytes(size_bytes: int) -> int:
    """Bytes of the red zone after an allocation of `size_bytes`."""
    return min(max(size_bytes, RED_ZONE_MIN_BYTES), RED_ZONE_MAX_BYTES)


class Allocations:
    """The allocations of a memory; :class:`~tilewright.simulate.run.memory.Memory` describes its attributes."""

    def __init__(self, capacity_bytes: int = CAPACITY_BYTES, *, addresses: Addresses | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.red_zones = False
        self.quarantine_bytes = 0
        self._addresses = addresses or Addresses(Arena(capacity_bytes))
        self._arena = self._addresses.arena
        self._in_use = False  # whether it ever had an allocation
        self._taken = 0  # bytes in allocations, with their padding and red zones
        self.peak_bytes = 0  #: The most that there were since the start, or since a caller set this.
        self._waiting = 0  # bytes in quarantine
        self.lock = threading.RLock()  # Python may run a finalizer that frees memory while it is held
        self.modules: dict[str, int] = {}
        self._sizes: dict[int, tuple[int, int, int]] = {}  # offset -> bytes, with the red zone, with padding too
        self._offsets: list[int] = []  # the offsets, sorted; also those of spare memory
        self._spare: dict[int, list[int]] = {}  # bytes with padding -> offsets of freed memory of that size
        self._holes: list[tuple[int, int]] = []  # offset and bytes of freed memory that may be reused, sorted
        self._quarantine: deque[tuple[int, int]] = deque()  # the same, not reusable yet, the oldest first

    @property
    def host_address(self) -> int:
        """Host address of the byte at GLOBAL_BASE."""
        return self._arena.address

    @property
    def used_bytes(self) -> int:
        """Bytes from GLOBAL_BASE to the end of the last allocation: the range that a kernel may access."""
        with self.lock:
            if self._offsets and self._offsets[-1] not in self._sizes:
                with DeferredSigint():
                    self._end_spare()
            return self._offsets[-1] + self._sizes[self._offsets[-1]][1] if self._offsets else 0

    @property
    def allocated_bytes(self) -> int:
        """Bytes in allocations, with their padding and red zones."""
        return self._taken

    @property
    def limit_bytes(self) -> int:
        """Bytes from GLOBAL_BASE to the greatest possible end of allocations."""
        return self._arena.size_bytes

    def allocate(self, size_bytes: int, *, red_zone: bool | None = None) -> int:
        """Reserve bytes; returns their device address. They read as zero.

        Parameters
        ----------
        size_bytes : int
        red_zone : bool, optional
            Whether unused bytes follow; `red_zones` by default.

        Raises
        ------
        LaunchError
            When the capacity is exceeded.
        """
        zone = red_zone_bytes(size_bytes) if (self.red_zones if red_zone is None else red_zone) else 0
        found = self.reused(size_bytes, zone)
        if found:
            return found
        with DeferredSigint(), self.lock:  # an interrupt must not leave the lists half changed
            return GLOBAL_BASE + self._place(size_bytes, zone)

    def reused(self, size_bytes: int, zone: int = 0) -> int:
        """The address of an allocation in spare memory; 0 if there is none of that size."""
        taken = -(-(size_bytes + zone) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        with self.lock:
            spare = self._spare.get(taken)
            if not spare:
                return 0
            offset = spare[-1]  # Python is interrupted, and collects garbage, before or after these lines
            del spare[-1]
            self._sizes[offset] = size_bytes, size_bytes + zone, taken
            self._taken += taken
            self.peak_bytes = max(self.peak_bytes, self._taken)
        return GLOBAL_BASE + offset

    def _place(self, size_bytes: int, zone: int) -> int:
        """The offset for `size_bytes` and a red zone after them."""
        taken = -(-(size_bytes + zone) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        offset = self._hole(taken)
        if offset is None and sum(size * len(starts) for size, starts in tuple(self._spare.items())) >= taken:
            self._end_spare()
            offset = self._hole(taken)
        if offset is None:
            offset = self._fresh(taken, size_bytes + zone)
        if offset is None:
            self._end_quarantine(0)
            offset = self._hole(taken)
        if offset is None:
            raise LaunchError(
                f"global memory holds {self.capacity_bytes:,} bytes (got a request for {size_bytes:,} with "
                f"{self.allocated_bytes:,} in use); make `Memory(capacity_bytes=...)` larger"
            )
        self._sizes[offset] = (size_bytes, size_bytes + zone, taken)
        self._taken += taken
        self.peak_bytes = max(self.peak_bytes, self._taken)
        bisect.insort(self._offsets, offset)
        return offset

    def _hole(self, taken: int) -> int | None:
        """The first hole with enough bytes."""
        for index, (offset, room) in enumerate(self._holes):
            if room >= taken:
                self._holes[index : index + 1] = [(offset + taken, room - taken)] if room > taken else []
                return offset
        return None

    def _fresh(self, taken: int, needed: int) -> int | None:
        """A place that was never used, within the capacity; the first one also has a red zone before it."""
        lead = 0 if self._in_use or not self.red_zones else RED_ZONE_MIN_BYTES
        if lead + self.allocated_bytes + needed > self.capacity_bytes:
            return None
        offset = self._addresses.fresh(lead + taken, lead + needed)
        if offset is None:
            return None
        self._in_use = True
        return offset + lead

    def free(self, address: int) -> int:
        """Free an allocation; its bytes read as zero again. Returns their number.

        Raises
        ------
        ArgumentValueError
            The address is not that of an allocation.
        """
        offset = address - GLOBAL_BASE
        size = self.spared(address)
        if size is not None:
            return size
        with DeferredSigint(), self.lock:
            if offset not in self._sizes:
                raise ArgumentValueError(
                    f"`address` must be that of an allocation that is not yet freed (got {address:#x})"
                )
            size, _, taken = self._sizes.pop(offset)
            self._offsets.pop(bisect.bisect_left(self._offsets, offset))
            self._arena.clear(offset, min(taken, self._arena.size_bytes - offset))
            self._taken -= taken
            self._waiting += taken
            self._quarantine.append((offset, taken))
            self._end_quarantine(self.quarantine_bytes)
            return size

    def spared(self, address: int) -> int | None:
        """Free a small allocation, which becomes spare, and return its bytes; None if it is not a small one."""
        offset = address - GLOBAL_BASE
        with self.lock:
            size, _, taken = self._sizes.get(offset, (0, 0, 0))
            if not 0 < taken <= SPARE_BYTES or self.quarantine_bytes:
                return None
            self._arena.clear(offset, min(taken, self._arena.size_bytes - offset))
            spare = self._spare.setdefault(taken, [])
            del self._sizes[offset]  # as above
            self._taken -= taken
            spare += (offset,)
            return size

    def _end_quarantine(self, most_bytes: int) -> None:
        """Allow reuse of the oldest freed memory, so that at most `most_bytes` bytes wait."""
        while self._waiting > most_bytes:
            start, size = self._quarantine.popleft()
            self._waiting -= size
            self._reuse(start, size)

    def _end_spare(self) -> None:
        """Allow reuse of spare memory for allocations of any size."""
        spare, self._spare = self._spare, {}
        for size, starts in spare.items():
            for start in starts:
                self._offsets.pop(bisect.bisect_left(self._offsets, start))
                self._reuse(start, size)

    def _reuse(self, start: int, size_bytes: int) -> None:
        """Make bytes a hole, merged with adjacent holes."""
        end = start + size_bytes
        at = bisect.bisect_left(self._holes, (start, 0))
        if at < len(self._holes) and self._holes[at][0] == end:
            end += self._holes.pop(at)[1]
        if at and sum(self._holes[at - 1]) == start:
            at -= 1
            start = self._holes.pop(at)[0]
        if not self._addresses.takes_back(start, end - start):
            self._holes.insert(at, (start, end - start))

    def retire(self) -> None:
        """Retire all freed memory: this memory does not use its addresses again."""
        with self.lock:
            self._end_quarantine(0)
            self._end_spare()
            self._addresses.retire(self._holes)
            self._holes = []

    def has_given(self, address: int) -> bool:
        """Whether an address is in an allocation, or in one that was freed and not retired."""
        offset = address - GLOBAL_BASE
        with self.lock:
            spare = ((start, size) for size, starts in tuple(self._spare.items()) for start in starts)
            freed = itertools.chain(self._holes, self._quarantine, spare)
            taken = ((start, size) for start, (_, _, size) in self._sizes.items())
            return any(start <= offset < start + size for start, size in itertools.chain(taken, freed))

    def begins(self, address: int) -> bool:
        """Whether an allocation begins at an address; safe in any thread at any time."""
        return address - GLOBAL_BASE in self._sizes

    def extent(self, address: int) -> tuple[int, int] | None:
        """Address and bytes of the allocation that has an address; None if there is none."""
        if not 0 <= address - GLOBAL_BASE < self._addresses.end:
            return None
        with self.lock:
            index = bisect.bisect_right(self._offsets, address - GLOBAL_BASE) - 1
            if index < 0:
                return None
            offset = self._offsets[index]
            if offset not in self._sizes:
                return None
            size = self._sizes[offset][0]
        return (GLOBAL_BASE + offset, size) if address - GLOBAL_BASE < offset + max(size, 1) else None

    def allocations(self) -> list[tuple[int, int]]:
        """Address and bytes of every allocation, in order."""
        with self.lock:
            return [(GLOBAL_BASE + offset, self._sizes[offset][0]) for offset in sorted(self._sizes)]

    def clear(self, address: int, size_bytes: int) -> None:
        """Make bytes at a device address zero again, without using host memory."""
        self._arena.clear(address - GLOBAL_BASE, size_bytes)

    def buffer(self, address: int, size_bytes: int) -> memoryview:
        """The bytes at a device address."""
        return self._arena.buffer_at(address - GLOBAL_BASE, size_bytes)

    def view(self, address: int, size_bytes: int) -> npt.NDArray[np.uint8]:
        """The bytes at a device address, as an array, which takes five times as long to make."""
        return self._arena.bytes_at(address - GLOBAL_BASE, size_bytes)

    @contextlib.contextmanager
    def restored(self) -> Iterator[Callable[[], list[int]]]:
        """Restore all allocations at the end of the block, whatever kernels do in between.

        Yields a function that returns the addresses of the allocations that have changed so far.

        Raises OutOfMemoryError: the host has no room for their contents.
        """
        if why := refused(sum(size for _, size in self.allocations())):
            raise OutOfMemoryError(f"the contents of GPU memory are kept and restored, so {why}; allocate less")
        before = {address: self.view(address, size).copy() for address, size in self.allocations()}

        def changed() -> list[int]:
            return [at for at, old in before.items() if not np.array_equal(self.view(at, len(old)), old)]

        try:
            yield changed
        finally:
            for address in changed():
                self.view(address, len(before[address]))[:] = before[address]

"""Work that a program has submitted to streams and not yet waited for. Until then the host must not use its memory.

The simulated GPU has finished all work when a call returns, but a real GPU may not have. So this module records the
order that streams, events and synchronisation define, and the host and device memory that each task reads and writes.

Source: CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; CUDA Driver API, "API synchronization
behavior" and "Stream synchronization behavior".
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.simulate.observer import Launch
from tilewright.simulate.programs.array_arguments import span

#: The default stream, which synchronises with all streams that are not independent; and its other handle.
LEGACY, _LEGACY_TOO = 0, 1
#: Most tasks, and most bytes of their masks, that are kept; beyond these the oldest tasks count as done.
_MOST, _MOST_BYTES = 512, 256 << 20

Bytes = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class UsedBytes:
    """Used bytes of memory: those from an address for which the mask is set."""

    address: int
    used: Bytes

    @classmethod
    def of(cls, address: int, used: Bytes) -> tuple[UsedBytes, ...]:
        """From the first used byte to the last one; empty if none is used."""
        first = int(used.argmax()) if used.size else 0
        if not used[first : first + 1].any():
            return ()
        last = used.size - int(used[::-1].argmax())
        if used[first:last].all():
            return (cls.whole(address + first, last - first),)
        return (cls(address + first, used[first:last].copy()),)

    @classmethod
    def whole(cls, address: int, size_bytes: int) -> UsedBytes:
        """All bytes of a range."""
        return cls(address, np.broadcast_to(np.True_, size_bytes))

    def meets(self, other: UsedBytes) -> bool:
        """Whether both use a byte."""
        low = max(self.address, other.address)
        high = min(self.address + self.used.size, other.address + other.used.size)
        if low >= high:
            return False
        mine, its = (one.used[low - one.address : high - one.address] for one in (self, other))
        return bool((mine & its).any())


def used_by(array: npt.NDArray[Any], selected: Bytes | None = None) -> UsedBytes:
    """The bytes of an array's elements, all or the selected ones.

    >>> x = np.zeros(4, np.uint8)
    >>> used_by(x[::2]).used.tolist(), used_by(x, x == 1).meets(used_by(x))
    ([True, False, True], False)
    """
    low, high = span(array)
    if selected is None and array.flags.forc:
        return UsedBytes.whole(low, high - low)
    used = np.zeros(high - low, np.bool_)
    start, shape = array.__array_interface__["data"][0] - low, (*array.shape, array.itemsize)
    elements: Bytes = np.ndarray(shape, np.bool_, used.data, start, (*array.strides, 1))
    elements[... if selected is None else selected] = True
    return UsedBytes(low, used)


@dataclass(eq=False, slots=True)
class Task:
    """A launch or a copy."""

    what: str  #: Its name in a sentence.
    kernel: str  #: The kernel of a launch.
    line: str  #: `file:line` where the program submitted it.
    #: `reads`, `writes`: memory that the host has too; for launches of several streams, all memory.
    reads: tuple[UsedBytes, ...]
    writes: tuple[UsedBytes, ...]
    reported: set[str] = field(default_factory=set)  #: Lines at which its races were reported.
    launch: Launch | None = None  #: The launch, if races with other streams' launches are looked for.

    @property
    def size_bytes(self) -> int:
        """Size of its masks."""
        return sum(max(one.used.strides[0] * one.used.size, 64) for one in (*self.reads, *self.writes))


class Outstanding:
    """The tasks of one GPU that may still run as far as the host knows; streams and events are handles.

    >>> outstanding, memory = Outstanding(), np.zeros(4, np.uint8)
    >>> outstanding.queued(16, Task("`k`", "k", "", (), (used_by(memory[:2]),)))
    >>> [task.what for task, _ in outstanding.races(used_by(memory), writes=False)]
    ['`k`']
    >>> outstanding.synchronised(16)
    >>> outstanding.pending
    False
    """

    def __init__(self) -> None:
        #: stream -> the index of its last launch, if neither a copy nor a wait came after it.
        self.latest: dict[int, int] = {}
        self._live: dict[Task, None] = {}
        self._before: dict[int, set[Task]] = {}  # stream -> tasks that are done when its work is done
        self._events: dict[int, set[Task]] = {}  # event -> tasks that are done when it has completed
        self._independent: set[int] = set()  # streams that do not synchronise with the default stream
        self._lock = threading.RLock()  # held briefly; Python may collect arrays in the meantime, which are freed

    @property
    def pending(self) -> bool:
        """Whether any task is pending."""
        return bool(self._live)

    def made_independent(self, stream: int) -> None:
        """A new stream does not synchronise with the default stream."""
        self._independent.add(stream)

    def queued(self, stream: int, task: Task | None = None) -> None:
        """A stream gets a task, or (None) one that uses no host memory."""
        if task is None and not self._live:
            return
        with self._lock:
            before = self._before_next(stream)
            if task is not None:
                before.add(task)
                self._live[task] = None
                while len(self._live) > _MOST or sum(one.size_bytes for one in self._live) > _MOST_BYTES:
                    self._done({next(iter(self._live))})

    def recorded(self, event: int, stream: int) -> None:
        """An event completes when all earlier work of the stream is done."""
        with self._lock:
            self._events[event] = set(self._before_next(stream)) if self._live else set()

    def waits(self, stream: int, event: int) -> None:
        """Later work of a stream runs after an event."""
        self.latest.pop(stream, None)
        with self._lock:
            self._before_next(stream).update(self._events.get(event, ()))

    def before(self, stream: int) -> frozenset[Task]:
        """The tasks that are done when all work of a stream is done."""
        with self._lock:
            return frozenset(self._before_next(stream))

    def known_done(self, tasks: frozenset[Task]) -> None:
        """The host knows that these tasks are done."""
        with self._lock:
            self._done(tasks)

    def synchronised(self, stream: int) -> None:
        """The host has waited for a stream."""
        self.latest.pop(stream, None)
        if self._live:
            self.known_done(self.before(stream))

    def event_came(self, event: int) -> None:
        """The host knows that an event has completed."""
        self.latest.clear()
        with self._lock:
            self._done(self._events.get(event, ()))

    def event_ended(self, event: int) -> None:
        """An event is destroyed; streams that wait for it already know its tasks."""
        with self._lock:
            self._events.pop(event, None)

    def all_done(self) -> None:
        """The host has waited for everything."""
        self.latest.clear()
        with self._lock:
            self._done(tuple(self._live))

    def stream_ended(self, stream: int) -> None:
        """A destroyed stream still completes its work; a wait for everything includes it."""
        with self._lock:
            self._before.setdefault(LEGACY, set()).update(self._before.pop(stream, ()))
            self._independent.discard(stream)

    def freed(self, address: int, size_bytes: int) -> None:
        """The memory is no longer in use."""
        if self._live:
            with self._lock:
                gone = UsedBytes.whole(address, size_bytes)
                for task in self._live:
                    task.reads = tuple(one for one in task.reads if not one.meets(gone))
                    task.writes = tuple(one for one in task.writes if not one.meets(gone))
                self._done([task for task in self._live if not (task.reads or task.writes)])

    def races(self, used: UsedBytes, *, writes: bool) -> Iterator[tuple[Task, bool]]:
        """Tasks that may use the memory before or after the host does, and whether each writes there."""
        with self._lock:
            for task in tuple(self._live):
                if any(one.meets(used) for one in task.writes):
                    yield task, True
                elif writes and any(one.meets(used) for one in task.reads):
                    yield task, False

    def unordered(self, stream: int, task: Task) -> Iterator[tuple[Task, bool, bool]]:
        """Launches that may run during a stream's next one and use its bytes; whether they and it write."""
        with self._lock:
            before = self._before_next(stream)
            for other in [one for one in self._live if one.launch is not None and one not in before]:
                writes = _meet(task.writes, (*other.reads, *other.writes))
                other_writes = _meet(other.writes, (*task.reads, *task.writes))
                if writes or other_writes:
                    yield other, writes, other_writes

    def _before_next(self, stream: int) -> set[Task]:
        """The tasks that are done before the next work of a stream."""
        stream = LEGACY if stream == _LEGACY_TOO else stream
        before = self._before.setdefault(stream, set())
        if stream == LEGACY:
            before.update(*(its for other, its in self._before.items() if other not in self._independent))
        elif stream not in self._independent:
            before.update(self._before.get(LEGACY, ()))
        return before

    def _done(self, tasks: Any) -> None:
        for one in tuple(tasks):
            self._live.pop(one, None)
        for known in (*self._before.values(), *self._events.values()):
            known.intersection_update(self._live)


def _meet(some: Sequence[UsedBytes], others: Sequence[UsedBytes]) -> bool:
    return any(one.meets(other) for one in some for other in others)

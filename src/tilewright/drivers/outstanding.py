"""Work that a program gave to streams and has not waited for: what the host must not use yet.

The simulated GPU has done everything when a call returns; a GPU has not. So the order that streams, events and
synchronisation give is kept here, with the bytes of memory of both sides that each task reads and writes.

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

from tilewright.programs.host_arrays import span
from tilewright.simt.observer import Launch

#: The default stream, which waits for all others that are not independent, and they for it; and its other handle.
LEGACY, _LEGACY_TOO = 0, 1
#: Tasks, and bytes of their masks, that are kept; beyond them the oldest count as done.
_MOST, _MOST_BYTES = 512, 256 << 20

Bytes = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class UsedBytes:
    """Bytes of memory that are used: those from an address on for which the mask is set."""

    address: int
    used: Bytes

    @classmethod
    def of(cls, address: int, used: Bytes) -> tuple[UsedBytes, ...]:
        """From the first byte that is used to the last one; none where none is."""
        first = int(used.argmax()) if used.size else 0
        if not used[first : first + 1].any():
            return ()
        last = used.size - int(used[::-1].argmax())
        if used[first:last].all():
            return (cls.whole(address + first, last - first),)
        return (cls(address + first, used[first:last].copy()),)

    @classmethod
    def whole(cls, address: int, size_bytes: int) -> UsedBytes:
        """All of so many bytes."""
        return cls(address, np.broadcast_to(np.True_, size_bytes))

    def meets(self, other: UsedBytes) -> bool:
        """Whether a byte is used by both."""
        low = max(self.address, other.address)
        high = min(self.address + self.used.size, other.address + other.used.size)
        if low >= high:
            return False
        mine, its = (one.used[low - one.address : high - one.address] for one in (self, other))
        return bool((mine & its).any())


def used_by(array: npt.NDArray[Any], selected: Bytes | None = None) -> UsedBytes:
    """The bytes of an array's elements, of all or of those selected.

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

    what: str  #: As a sentence calls it.
    kernel: str  #: A launch's kernel.
    line: str  #: `file:line` where the program asked for it.
    #: `reads`, `writes`: of memory that the host has too, and of launches of several streams of all memory.
    reads: tuple[UsedBytes, ...]
    writes: tuple[UsedBytes, ...]
    reported: set[str] = field(default_factory=set)  #: Lines at which its races were reported.
    launch: Launch | None = None  #: Whose races with those of other streams are looked for.

    @property
    def size_bytes(self) -> int:
        """Memory of its masks."""
        return sum(max(one.used.strides[0] * one.used.size, 64) for one in (*self.reads, *self.writes))


class Outstanding:
    """The tasks of one GPU that the host does not know to be done; streams and events by their handles.

    >>> outstanding, memory = Outstanding(), np.zeros(4, np.uint8)
    >>> outstanding.queued(16, Task("`k`", "k", "", (), (used_by(memory[:2]),)))
    >>> [task.what for task, _ in outstanding.races(used_by(memory), writes=False)]
    ['`k`']
    >>> outstanding.synchronised(16)
    >>> outstanding.pending
    False
    """

    def __init__(self) -> None:
        self._live: dict[Task, None] = {}
        self._before: dict[int, set[Task]] = {}  # stream -> what is done when all that it was given is
        self._events: dict[int, set[Task]] = {}  # event -> what is done when it has come
        self._independent: set[int] = set()  # streams that the default stream does not wait for
        self._lock = threading.RLock()  # held for short; Python may collect arrays meanwhile, which are freed

    @property
    def pending(self) -> bool:
        """Whether there is any."""
        return bool(self._live)

    def made_independent(self, stream: int) -> None:
        """A stream begins that neither waits for the default stream nor is waited for by it."""
        self._independent.add(stream)

    def queued(self, stream: int, task: Task | None = None) -> None:
        """A stream gets a task; None is one that uses no memory of the host."""
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
        """An event comes when all that a stream was given is done."""
        with self._lock:
            self._events[event] = set(self._before_next(stream)) if self._live else set()

    def waits(self, stream: int, event: int) -> None:
        """What a stream is given from now on is done after an event."""
        with self._lock:
            self._before_next(stream).update(self._events.get(event, ()))

    def before(self, stream: int) -> frozenset[Task]:
        """What is done when all that a stream was given is."""
        with self._lock:
            return frozenset(self._before_next(stream))

    def known_done(self, tasks: frozenset[Task]) -> None:
        """The host knows that some tasks are done."""
        with self._lock:
            self._done(tasks)

    def synchronised(self, stream: int) -> None:
        """The host has waited for a stream."""
        if self._live:
            self.known_done(self.before(stream))

    def event_came(self, event: int) -> None:
        """The host knows that an event has come."""
        with self._lock:
            self._done(self._events.get(event, ()))

    def event_ended(self, event: int) -> None:
        """An event is given up; what waits for it has been told what comes before."""
        with self._lock:
            self._events.pop(event, None)

    def all_done(self) -> None:
        """The host has waited for everything."""
        with self._lock:
            self._done(tuple(self._live))

    def stream_ended(self, stream: int) -> None:
        """A stream that is given up does its work all the same; what waits for all waits for it."""
        with self._lock:
            self._before.setdefault(LEGACY, set()).update(self._before.pop(stream, ()))
            self._independent.discard(stream)

    def freed(self, address: int, size_bytes: int) -> None:
        """Nobody uses memory any more."""
        if self._live:
            with self._lock:
                gone = UsedBytes.whole(address, size_bytes)
                for task in self._live:
                    task.reads = tuple(one for one in task.reads if not one.meets(gone))
                    task.writes = tuple(one for one in task.writes if not one.meets(gone))
                self._done([task for task in self._live if not (task.reads or task.writes)])

    def races(self, used: UsedBytes, *, writes: bool) -> Iterator[tuple[Task, bool]]:
        """Tasks that may use memory before or after the host does, and whether each writes there."""
        with self._lock:
            for task in tuple(self._live):
                if any(one.meets(used) for one in task.writes):
                    yield task, True
                elif writes and any(one.meets(used) for one in task.reads):
                    yield task, False

    def unordered(self, stream: int, task: Task) -> Iterator[tuple[Task, bool, bool]]:
        """Launches that may run at once with a stream's next one and use its bytes; whether that and they write."""
        with self._lock:
            before = self._before_next(stream)
            for other in [one for one in self._live if one.launch is not None and one not in before]:
                writes = _meet(task.writes, (*other.reads, *other.writes))
                other_writes = _meet(other.writes, (*task.reads, *task.writes))
                if writes or other_writes:
                    yield other, writes, other_writes

    def _before_next(self, stream: int) -> set[Task]:
        """What is done before the next thing that a stream is given."""
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

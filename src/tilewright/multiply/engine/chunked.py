"""A product of arrays in chunks: a chunk of C is a chain of steps along k, each a task for a scheduler such as Dask's.

A step copies the sums of the step before it and continues them. It must copy: a task's arguments may be read-only, and
a retried task or another worker may read them again. As the sums are added in one order along k, the
result has the bits of :func:`tilewright.matmul` for any chunks of the three arrays.
"""

from __future__ import annotations

import bisect
import itertools
import multiprocessing
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentValueError
from tilewright.multiply.engine.known_layouts import thread_count
from tilewright.multiply.engine.partial import Partial
from tilewright.multiply.engine.request import Request
from tilewright.multiply.engine.shapes import Shape

Array = npt.NDArray[Any]
Chunks = tuple[int, ...]
Key = Any
#: Most chunks along k that a step holds in memory when its threads compute chunks in advance.
_AT_ONCE = 4
#: Fewest multiply-adds of a step: about 10 ms of one core, more than a scheduler's overhead for a task.
_ENOUGH = 1 << 29


class Segment(NamedTuple):
    """A range of k within one chunk of A and one chunk of B."""

    a: int  #: Index of A's chunk along k.
    b: int
    in_a: slice
    in_b: slice

    @property
    def depth(self) -> int:
        """Columns of A."""
        return int(self.in_a.stop - self.in_a.start)


def segments(a: Chunks, b: Chunks) -> list[Segment]:
    """Cut k where a chunk of either operand ends.

    >>> [(s.a, s.b, s.depth) for s in segments((4, 2), (3, 3))]
    [(0, 0, 3), (0, 1, 1), (1, 1, 2)]
    """
    begins = [[0, *itertools.accumulate(x)] for x in (a, b)]
    found, start = [], 0
    for stop in sorted({*begins[0], *begins[1]} - {0}):
        i, j = (bisect.bisect_right(x, start) - 1 for x in begins)
        found.append(Segment(i, j, *(slice(start - x, stop - x) for x in (begins[0][i], begins[1][j]))))
        start = stop
    return found or [Segment(0, 0, slice(0, 0), slice(0, 0))]


def steps(
    found: Sequence[Segment], work: int, bytes_given: int, most_bytes: int, enough: int = _ENOUGH
) -> tuple[tuple[Segment, ...], ...]:
    """Join neighbouring segments into steps of at least `enough` work, with operands of at most `most_bytes`.

    `work` is the work of one column of A with one row of B, and `bytes_given` is their size.

    >>> cut = segments((2,) * 6, (2,) * 6)
    >>> [len(x) for x in steps(cut, 1, 10, 50)], [len(x) for x in steps(cut, 1, 0, 50, enough=6)]
    ([2, 2, 2], [3, 3])
    """
    made: list[list[Segment]] = []
    depth = 0
    for segment in found:
        if not made or depth * work >= enough or (depth + segment.depth) * bytes_given > most_bytes:
            made.append([])
            depth = 0
        made[-1].append(segment)
        depth += segment.depth
    return tuple(map(tuple, made))


@dataclass(frozen=True, eq=False)
class Operand:
    """The chunks of A, or of B."""

    name: str  #: The array's name in the graph, the first item of its chunks' keys.
    dtype: np.dtype[Any]
    chunks: tuple[Chunks, ...]
    is_left: bool

    def key(self, at: tuple[int, ...], along: int) -> tuple[Any, ...]:
        """The key of the chunk that a step needs for the chunk `at` of C; an axis with one chunk broadcasts."""
        if len(self.chunks) == 1:
            return self.name, along
        ends = (at[-2], along) if self.is_left else (along, at[-1])
        batch = at[len(at) - len(self.chunks) : -2]
        return self.name, *(min(n, len(x) - 1) for n, x in zip(batch, self.chunks, strict=False)), *ends

    def matrices(self, key: tuple[Any, ...], value: Any) -> Array:
        """A chunk, as a matrix or a stack of them.

        Raises ArgumentValueError: the chunk's shape is not the one in `chunks`.
        """
        found: Array = np.asarray(value, self.dtype)
        wanted = tuple(x[n] for x, n in zip(self.chunks, key[1:], strict=True))
        if found.shape != wanted:
            raise ArgumentValueError(
                f"chunk {key[1:]} of {self.name} must have shape {wanted}, as the array states (got {found.shape}); "
                "pass the true `chunks` to the function that makes the array"
            )
        return found if found.ndim > 1 else found[None, :] if self.is_left else found[:, None]


class _Values:
    """The values that a step multiplies. Some are given; it computes the others, a few segments in advance."""

    def __init__(
        self, tasks: Mapping[Key, Any], given: Mapping[Key, Any], wanted: list[list[Key]], threads: int
    ) -> None:
        self.tasks, self.given, self.wanted = tasks, given, wanted
        self.ahead = min(threads, _AT_ONCE, len(wanted)) - 1
        self.threads = ThreadPoolExecutor(self.ahead) if self.ahead else None
        self.found: dict[Key, Any] = {}

    def turn(self, number: int) -> None:
        """Start a segment: drop values that are no longer needed and compute those that are."""
        soon = list(dict.fromkeys(itertools.chain(*self.wanted[number : number + 1 + self.ahead])))
        self.found = {key: self.found[key] for key in soon if key in self.found}
        for key in soon:
            if key in self.tasks and key not in self.found:
                self.found[key] = self._made(key) if self.threads is None else self.threads.submit(self._made, key)

    def __getitem__(self, key: Key) -> Any:
        """A value of this segment."""
        if key in self.given:
            return self.given[key]
        found = self.found[key]
        return found.result() if self.threads is not None else found

    def _made(self, key: Key) -> Any:
        task = self.tasks[key]
        return task({x: self[x] for x in task.dependencies})

    def close(self) -> None:
        """End its threads."""
        if self.threads is not None:
            self.threads.shutdown(cancel_futures=True)


@dataclass(eq=False)
class Product:
    """The state that the tasks of one product share; each worker of a cluster gets it once."""

    a: Operand
    b: Operand
    shape: Shape  #: Of C.
    chunks: tuple[Chunks, ...]  #: Of C, which has one row or one column if an operand is a vector.
    steps: tuple[tuple[Segment, ...], ...]
    asked: Request
    #: Key -> the task that computes this value inside a step, from the values of the task's `dependencies`. Values
    #: without a task here are computed before the step and passed to it.
    tasks: Mapping[Key, Any]
    _partials: dict[int, Partial] = field(default_factory=dict, init=False)

    def __reduce__(self) -> Any:
        """Pickle without `_partials`, which each process makes for itself."""
        return Product, (self.a, self.b, self.shape, self.chunks, self.steps, self.asked, self.tasks)

    def given(self, at: tuple[int, ...], step: int) -> list[Key]:
        """Keys of the values to pass to :meth:`made` for a step, besides the sums."""
        return list(dict.fromkeys(x for s in self.steps[step] for x in self._wanted(at, s) if x not in self.tasks))

    def _wanted(self, at: tuple[int, ...], segment: Segment) -> list[Key]:
        """Keys of the values that a segment needs, each after those that it is computed from."""
        found: dict[Key, None] = {}

        def add(key: Key) -> None:
            if key in found:
                return
            if key in self.tasks:
                for x in sorted(self.tasks[key].dependencies, key=str):
                    add(x)
            found[key] = None

        add(self.a.key(at, segment.a))
        add(self.b.key(at, segment.b))
        return list(found)

    def made(self, at: tuple[int, ...], step: int, before: Array | None, given: Sequence[Any]) -> Any:
        """Add a step to the sums `before` of a chunk of C: returns the new sums, or the chunk after the last step."""
        partial = self._partial()
        shape = tuple(x[n] for x, n in zip(self.chunks, at, strict=True))
        sums = np.empty(shape, partial.sums) if before is None else before.copy()
        wanted = [self._wanted(at, x) for x in self.steps[step]]
        values = _Values(self.tasks, dict(zip(self.given(at, step), given, strict=True)), wanted, partial.threads)
        first = before is None
        try:
            if partial.splits_k:
                for number, segment in enumerate(self.steps[step]):
                    values.turn(number)
                    partial.add(*self._panels(at, segment, values), sums, first=first and number == 0)
            else:  # the one step has all of k
                panels = []
                for number, segment in enumerate(self.steps[step]):
                    values.turn(number)
                    panels.append(self._panels(at, segment, values))
                left, right = zip(*panels, strict=True)
                partial.add(np.concatenate(left, -1), np.concatenate(right, -2), sums, first=True)
        finally:
            values.close()
        return sums if step < len(self.steps) - 1 else self._finished(at, sums, partial)

    def _panels(self, at: tuple[int, ...], segment: Segment, values: _Values) -> tuple[Array, Array]:
        """The parts of A and B that a segment multiplies."""
        a, b = self.a.key(at, segment.a), self.b.key(at, segment.b)
        left, right = self.a.matrices(a, values[a]), self.b.matrices(b, values[b])
        return left[..., segment.in_a], right[..., segment.in_b, :]

    def _finished(self, at: tuple[int, ...], sums: Array, partial: Partial) -> Any:
        c = sums
        if not partial.is_finished:
            c = np.empty(sums.shape, partial.out)
            first = [sum(x[:n]) for x, n in zip(self.chunks, at, strict=True)]
            rows, columns = (slice(i, i + n) for i, n in zip(first[-2:], sums.shape[-2:], strict=True))
            for batch in np.ndindex(sums.shape[:-2]):
                where = tuple(i + n for i, n in zip(first, batch, strict=False))
                c[batch] = partial.finish(sums[batch], where, rows, columns)
        left_out = ((-2,) if len(self.a.chunks) == 1 else ()) + ((-1,) if len(self.b.chunks) == 1 else ())
        return c.squeeze(left_out)[()]

    def _partial(self) -> Partial:
        threads = self.asked.threads or self._threads()
        if threads not in self._partials:
            ndims = len(self.a.chunks), len(self.b.chunks)
            asked = replace(self.asked, threads=threads)
            self._partials[threads] = Partial.of(self.a.dtype, self.b.dtype, self.shape, asked, ndims=ndims)
        return self._partials[threads]

    def _threads(self) -> int:
        """Threads of the engine in a task: all if the scheduler runs one task at a time, else a share."""
        here = threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None
        others = 1 if here else int(np.prod([len(x) for x in self.chunks]))
        most = thread_count(None)
        return max(1, most // min(most, others))

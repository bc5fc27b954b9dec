"""TW501, TW503 and TW506: parts of arrays that a launch leaves out because its grid does not reach them.

Kernels leave parts of arrays out on purpose, so elements that were not touched are no finding by themselves. One of
these must explain them:

- The launch has several blocks or threads on an axis whose index the kernel does not use. All of them do the same
  elements, and an array that it writes has others (TW501); not so where an atomic gives each its own.
- The kernel is given arrays, and nothing in its code writes (TW501).
- What was touched is a box at the array's beginning, or near it, where a stencil leaves out as much at both ends. It
  reaches as far as the grid: on each axis that is left short, blocks times threads, times a whole number of elements a
  thread. Then, one of these:

  - Less than a block's share is missing: the grid came from a floor division.
  - More is missing, and the kernel compares its index with the array's whole extent, or compares it with nothing and
    does several arrays of this shape to the same element: the grid is too small.
  - One row was done, by a launch of one dimension of a kernel that addresses by its y index (TW503).
  - More is missing of an input, and the number of blocks decides how often a loop runs (TW506).

  The first two are TW501 of arrays that are written, and TW506 of arrays that are only read. They are no finding where
  another array, or a number among the arguments, ends where the grid does.

Other launches may touch the rest of the same memory, in whatever views. So a finding waits until the program ends or
frees the array. `reach` says what explains a part. What they did before anybody looked, in earlier cells of a
notebook, is not known: an array that other kernels had then is left alone.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.checking.text import reach
from tilewright.checking.text.values import Values
from tilewright.instruments.findings import Finding
from tilewright.instruments.touched import TouchedResult
from tilewright.simt.observer import ArgumentFact, Launch

_Mask = npt.NDArray[np.bool_]
_Key = tuple[int, tuple[int, ...], tuple[int, ...]]
_Waiting = tuple[str, _Key, _Mask, Finding]  # how elements are used, of which array, which are not, what to say


@dataclass(slots=True)
class Coverage:
    """What the launches of a program have touched of each array, and what they seem to have left out."""

    _touched: dict[tuple[str, _Key], _Mask] = field(default_factory=dict)
    _waiting: list[_Waiting] = field(default_factory=list)
    _settled: list[Finding] = field(default_factory=list)
    _before: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)  # start, end and kernels of memory
    _owners: dict[int, weakref.ref[Any]] = field(default_factory=dict)  # of arrays of the host, by address

    def add(self, launch: Launch, touched: TouchedResult, values: Values | None) -> None:
        """Look at the arrays of a launch that ended well."""
        self._settle_ended()
        parts = list(_parts(launch.arguments, touched))
        found = []
        for argument, access, part, other in parts:
            own = (access, _key(argument))
            if argument.owner is not None:
                self._owners[own[1][0]] = argument.owner
            known = self._touched.get(own)
            together = part if known is None else known | part
            self._touched[own] = np.broadcast_to(np.True_, part.shape) if together.all() else together  # no memory
            if self._had_by_others(own[1][0], launch.name):
                continue
            if part.any() and not part.all() and not (access == "written" and (other & ~part).any()):
                alike = [p for a, _, p, _ in parts if a.shape == argument.shape]
                same = len(alike) > 1 and all((p == part).all() for p in alike)
                left = reach.left_out(launch, argument, part, access, values, same)
                found += [(*own, ~part, finding) for finding in left]
        outputs = any(access == "written" for access, *_ in found)  # what is not written need not be read
        self._waiting += [entry for entry in found if not outputs or entry[0] == "written"]

    def used_before(self, address: int, size_bytes: int, kernels: frozenset[str]) -> None:
        """Kernels that used memory before this observer came."""
        if kernels:
            self._before.append((address, address + size_bytes, kernels))

    def _had_by_others(self, address: int, kernel: str) -> bool:
        """Whether another kernel had memory before; the same one again does what it does now."""
        return any(start <= address < end and kernels - {kernel} for start, end, kernels in self._before)

    def freed(self, address: int, size_bytes: int) -> None:
        """No more launches use the memory: what is known of its arrays is final."""
        self._before = [entry for entry in self._before if entry[0] != address]
        self._settle(lambda key: address <= key[0] < address + max(size_bytes, 1))

    def so_far(self) -> list[Finding]:
        """What was left out by all launches so far, of which later ones may do more."""
        return [*self._settled, *(entry[-1] for entry in self._waiting if self._is_left_out(entry))]

    def findings(self) -> list[Finding]:
        """What was left out by all launches, where no more come."""
        self._settle(lambda key: True)
        return list(self._settled)

    @property
    def settled(self) -> Sequence[Finding]:
        """What was left out of arrays that no launch uses any more, in the order in which the memory was freed."""
        self._settle_ended()
        return self._settled

    def _settle_ended(self) -> None:
        """Arrays of the host that the program has given up have had their last launch."""
        ended = {address for address, owner in self._owners.items() if owner() is None}
        if ended:
            self._owners = {address: owner for address, owner in self._owners.items() if address not in ended}
            self._settle(lambda key: key[0] in ended)

    def _settle(self, gone: Callable[[_Key], bool]) -> None:
        waiting = []
        for entry in self._waiting:
            if not gone(entry[1]):
                waiting.append(entry)
            elif self._is_left_out(entry):
                self._settled.append(entry[-1])
        self._waiting = waiting
        self._touched = {name: part for name, part in self._touched.items() if not gone(name[1])}

    def _is_left_out(self, entry: _Waiting) -> bool:
        access, key, missing, _ = entry
        touched = (self._touched[access, key] & missing).any()
        return not touched and not self._through_views(access, key, missing)

    def _through_views(self, access: str, key: _Key, missing: _Mask) -> bool:
        """Whether launches have touched some of what is missing as an element of another array in the same memory."""
        wanted = _addresses(key)[missing]
        for (how, other), part in self._touched.items():
            if how == access and other != key:
                theirs = _addresses(other)
                if theirs.min() <= wanted.max() and wanted.min() <= theirs.max():
                    if np.isin(theirs[part], wanted).any():
                        return True
        return False


def _parts(
    arguments: Sequence[ArgumentFact], touched: TouchedResult
) -> Iterator[tuple[ArgumentFact, str, _Mask, _Mask]]:
    """Of each array whether it was written, else read, which elements were, and which were read as well."""
    for argument in arguments:
        if argument.dtype is None or not argument.shape or 0 in argument.shape:
            continue
        place = (argument.address, argument.shape, argument.strides)
        written, read = touched.of(touched.written, *place), touched.of(touched.read, *place)
        yield (argument, "written", written, read) if written.any() else (argument, "read", read, read)


def _key(argument: ArgumentFact) -> _Key:
    """The memory of an array as the program has it, not of its copy for a launch."""
    address, strides = argument.given or (argument.address, argument.strides)
    return address, argument.shape, strides


def _addresses(key: _Key) -> npt.NDArray[np.int64]:
    """The address of each element, in the array's shape."""
    address, shape, strides = key
    found = np.full(shape, address, np.int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(extent, dtype=np.int64) * stride).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return found

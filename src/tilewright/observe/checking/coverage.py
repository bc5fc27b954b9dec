"""TW501, TW503 and TW506: parts of arrays that a launch leaves out because its grid does not reach them.

Kernels leave parts of arrays out on purpose, so untouched elements alone are no finding. One of these must explain
them:

- The launch has several blocks or threads on an axis whose index the kernel does not use. All of them process the same
  elements, and an output array has others (TW501). Not if an atomic gives each thread its own work.
- The kernel gets arrays, and its code writes nothing (TW501). Not if its source has no statements but assertions.
- The touched part is a box at the array's beginning, or near it for a stencil, which leaves out the same number of
  elements at both ends. The box ends where the grid ends: on each axis that is left short, its extent is blocks times
  threads, times a whole number of elements a thread. In addition, one of these holds:

  - Less than one block's share is missing: the grid size was rounded down.
  - More is missing, and the kernel compares its index with the array's whole extent; or it compares it with nothing
    and processes several arrays of this shape up to the same element: the grid is too small.
  - One row was processed, by a one-dimensional launch of a kernel that uses its y index in addresses (TW503).
  - More of an input is missing, and the number of blocks decides how often a loop runs (TW506).

  The first two are TW501 for arrays that are written, and TW506 for arrays that are only read. They are no finding if
  another array, or a number among the arguments, ends where the grid ends.

Later launches may touch the rest of the same memory through other views. So a finding waits until the program ends or
frees the array. `reach` decides what explains a part. Launches before the observer was installed (earlier cells of a
notebook) are unknown: arrays that other kernels used then get no finding.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.observe.checking.static import reach
from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.instruments.touched import TouchedResult
from tilewright.simulate.observer import ArgumentFact, Launch

_Mask = npt.NDArray[np.bool_]
_Key = tuple[int, tuple[int, ...], tuple[int, ...]]
_Waiting = tuple[str, _Key, _Mask, Finding]  # access, array, elements not touched, finding to report


@dataclass(slots=True)
class Coverage:
    """The elements of each array that a program's launches have touched, and those that they seem to have left out."""

    _touched: dict[tuple[str, _Key], _Mask] = field(default_factory=dict)
    _waiting: list[_Waiting] = field(default_factory=list)
    _settled: list[Finding] = field(default_factory=list)
    _before: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)  # start, end, earlier kernels
    _owners: dict[int, weakref.ref[Any]] = field(default_factory=dict)  # owners of host arrays, by address

    def add(self, launch: Launch, touched: TouchedResult, values: Values | None) -> None:
        """Record what a launch that ended without an error touched of its arrays."""
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
        outputs = any(access == "written" for access, *_ in found)  # an input need not be read whole
        self._waiting += [entry for entry in found if not outputs or entry[0] == "written"]

    def used_before(self, address: int, size_bytes: int, kernels: frozenset[str]) -> None:
        """Kernels that used memory before this observer came."""
        if kernels:
            self._before.append((address, address + size_bytes, kernels))

    def _had_by_others(self, address: int, kernel: str) -> bool:
        """Whether another kernel used the memory earlier. The same kernel does then what it does now."""
        return any(start <= address < end and kernels - {kernel} for start, end, kernels in self._before)

    def freed(self, address: int, size_bytes: int) -> None:
        """The memory was freed: no later launch can touch its arrays, so what is known of them is final."""
        self._before = [entry for entry in self._before if entry[0] != address]
        self._settle(lambda key: address <= key[0] < address + max(size_bytes, 1))

    def so_far(self) -> list[Finding]:
        """The elements that all launches so far left out; later ones may still touch them."""
        return [*self._settled, *(entry[-1] for entry in self._waiting if self._is_left_out(entry))]

    def findings(self) -> list[Finding]:
        """The elements that all launches left out, when no more launches come."""
        self._settle(lambda key: True)
        return list(self._settled)

    @property
    def settled(self) -> Sequence[Finding]:
        """Elements left out of arrays that no launch can use any more, in the order in which their memory was freed."""
        self._settle_ended()
        return self._settled

    def _settle_ended(self) -> None:
        """Settle host arrays that the program has released: no later launch can use them."""
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
        """Whether launches touched some of the missing elements through another array in the same memory."""
        wanted = _addresses(key)[missing]
        for (how, other), part in self._touched.items():
            if how == access and other != key:
                theirs = _addresses(other)
                if theirs.min() <= wanted.max() and wanted.min() <= theirs.max():
                    if np.isin(theirs[part], wanted).any():
                        return True
        return False


def is_whole(arguments: Sequence[ArgumentFact], touched: TouchedResult) -> bool:
    """Whether a launch touched all of each array that it touched, and one of these has several elements."""
    parts = [part | other for _, _, part, other in _parts(arguments, touched)]
    used = [part for part in parts if part.any()]
    return any(part.size > 1 for part in used) and all(part.all() for part in used)


def _parts(
    arguments: Sequence[ArgumentFact], touched: TouchedResult
) -> Iterator[tuple[ArgumentFact, str, _Mask, _Mask]]:
    """For each array: its access ("written", else "read"), the elements so accessed, and those that were also read."""
    for argument in arguments:
        if argument.dtype is None or not argument.shape or 0 in argument.shape:
            continue
        place = (argument.address, argument.shape, argument.strides)
        written, read = touched.of(touched.written, *place), touched.of(touched.read, *place)
        yield (argument, "written", written, read) if written.any() else (argument, "read", read, read)


def _key(argument: ArgumentFact) -> _Key:
    """The program's memory of an array, not that of its copy for a launch."""
    address, strides = argument.given or (argument.address, argument.strides)
    return address, argument.shape, strides


def _addresses(key: _Key) -> npt.NDArray[np.int64]:
    """The address of each element, in the array's shape."""
    address, shape, strides = key
    found = np.full(shape, address, np.int64)
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(extent, dtype=np.int64) * stride).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return found

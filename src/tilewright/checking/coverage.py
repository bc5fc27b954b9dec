"""TW501, TW503 and TW506: parts of arrays that a launch leaves out because its grid does not reach them.

Kernels leave parts of arrays out on purpose, so a finding needs more than elements that were not touched. All that was
touched must be a box at the array's beginning, and its extent on each axis that it leaves short must be what the grid
reaches there: blocks times threads, times a whole number of elements a thread. Then

- where less than a block's share is missing, and no other array ends just there, the grid came from a floor division
  (TW501 of arrays that are written, TW506 of arrays that are only read);
- where one row is done by a launch of one dimension of a kernel that addresses by its y index, it lacks a dimension
  (TW503);
- where more is missing of an input, and the number of blocks decides how often a loop runs, its length was taken from
  the grid (TW506).

What another launch does of the same array counts too: a finding waits until the program ends or frees the array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tilewright.checking import launches
from tilewright.checking.dimensions import own_axes
from tilewright.checking.values import Values
from tilewright.instruments.findings import Finding
from tilewright.instruments.touched import TouchedResult
from tilewright.simt.observer import ArgumentFact, Launch

#: Most elements that a thread is taken to do on one axis.
_THREAD_ELEMENTS = 64
_Mask = npt.NDArray[np.bool_]
_Key = tuple[int, tuple[int, ...], tuple[int, ...]]


@dataclass(slots=True)
class Coverage:
    """What the launches of a program have touched of each array, and what they seem to have left out."""

    _touched: dict[tuple[str, _Key], _Mask] = field(default_factory=dict)
    _waiting: list[tuple[str, _Key, _Mask, Finding]] = field(default_factory=list)
    _settled: list[Finding] = field(default_factory=list)

    def add(self, launch: Launch, touched: TouchedResult, values: Values | None) -> None:
        """Look at the arrays of a launch that ended well."""
        found = []
        for argument in launch.arguments:
            if argument.dtype is None or not argument.shape or 0 in argument.shape:
                continue
            place = (argument.address, argument.shape, argument.strides)
            written, read = touched.of(touched.written, *place), touched.of(touched.read, *place)
            access = "written" if written.any() else "read"
            part = written if access == "written" else read
            known = self._touched.get((access, place))
            self._touched[access, place] = part if known is None else known | part
            if part.any() and not (access == "written" and (read & ~written).any()):
                left_out = _left_out(launch, argument, part, access, values)
                found += [(access, place, ~part, finding) for finding in left_out]
        outputs = any(access == "written" for access, *_ in found)  # what is not written need not be read
        self._waiting += [entry for entry in found if not outputs or entry[0] == "written"]

    def freed(self, address: int, size_bytes: int) -> None:
        """What lay there has had its last launch."""
        self._settle(lambda key: address <= key[0] < address + max(size_bytes, 1))

    def findings(self) -> list[Finding]:
        """What was left out by all launches so far."""
        self._settle(lambda key: True)
        return list(self._settled)

    @property
    def settled(self) -> Sequence[Finding]:
        """What was left out of arrays that have had their last launch, in the order in which that became known."""
        return self._settled

    def _settle(self, gone: Callable[[_Key], bool]) -> None:
        waiting = []
        for entry in self._waiting:
            access, key, missing, finding = entry
            if not gone(key):
                waiting.append(entry)
            elif not (self._touched[access, key] & missing).any():
                self._settled.append(finding)
        self._waiting = waiting
        self._touched = {name: part for name, part in self._touched.items() if not gone(name[1])}


def _left_out(
    launch: Launch, argument: ArgumentFact, part: _Mask, access: str, values: Values | None
) -> Iterator[Finding]:
    """A finding where a part is a box that the grid explains."""
    reached = [int(axis.max()) + 1 for axis in np.nonzero(part)]
    short = [axis for axis, extent in enumerate(argument.shape) if reached[axis] < extent]
    if not short or int(part.sum()) != int(np.prod(reached)):
        return
    missing = f"elements from {_words(short, reached)} on were never {access} (its shape is {argument.shape})"
    details = {"array": argument.name, "reached": reached, "shape": list(argument.shape)}
    text = f"the grid reaches {tuple(reached)} of array `{argument.name}`; {missing}"
    if all(_by_floor(launch, reached[axis], argument.shape[axis]) for axis in short):
        yield launches.at(launch, "TW501" if access == "written" else "TW506", text, details=details)
    elif access == "written" and values is not None and _lacks_dimension(launch, reached, argument, short, values):
        text = f"grid {launch.grid} and block {launch.block} have one dimension, and the kernel uses its y index"
        yield launches.at(launch, "TW503", f"{text}; {missing}", details=details)
    elif access == "read" and values is not None and all(_by_blocks(launch, reached[axis]) for axis in short):
        if _blocks_bound_a_loop(values):
            text = f"a loop runs as often as the grid has blocks, and reaches {tuple(reached)} of `{argument.name}`"
            yield launches.at(launch, "TW506", f"{text}; {missing}", details=details)


def _words(short: list[int], reached: list[int]) -> str:
    return " and ".join(f"{reached[axis]:,} of axis {axis}" for axis in short)


def _by_floor(launch: Launch, reached: int, extent: int) -> bool:
    """Whether a grid from floor division reaches so far: less than a block's share is missing.

    Where another array ends there, the grid was made for that one.
    """
    if any(reached in argument.shape for argument in launch.arguments):
        return False
    for blocks, threads in zip(launch.grid, launch.block, strict=True):
        each, rest = divmod(reached, blocks * threads)
        if threads > 1 and not rest and each <= _THREAD_ELEMENTS and extent - reached < threads * each:
            return True
    return False


def _by_blocks(launch: Launch, reached: int) -> bool:
    """Whether so many tiles as the grid has blocks on some axis reach so far."""
    return any(b * t == reached and b * t > 1 for b, t in itertools.product(launch.grid, launch.block))


def _lacks_dimension(
    launch: Launch, reached: list[int], argument: ArgumentFact, short: list[int], values: Values
) -> bool:
    """Whether a launch of one dimension did one row (column) of an array that a kernel of two is for."""
    one = launch.grid[1:] == (1, 1) == launch.block[1:]
    rows = [axis for axis in short if reached[axis] == 1]
    return (
        one
        and len(rows) > 0
        and all(axis in rows or _by_floor(launch, reached[axis], argument.shape[axis]) for axis in short)
        and "y" in own_axes(values)
    )


def _blocks_bound_a_loop(values: Values) -> bool:
    """Whether the grid's number of blocks decides when some loop ends."""
    for block in values.graph.blocks:
        in_loop = any(header <= block.index <= tail for tail, header in values.graph.back_edges)
        if in_loop and block.kind == "branch":
            deciding = values.origins([block.predicate])
            if any(name.startswith("%nctaid.") for op in deciding for name in values.special(op)):
                return True
    return False

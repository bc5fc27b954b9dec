"""How far a launch reaches in an array, and why it leaves the rest out."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.observe.checking import launches, statements
from tilewright.observe.checking.static.bounds import Bounds, stays
from tilewright.observe.checking.static.dimensions import own_axes
from tilewright.observe.checking.static.values import Values, of_kernel
from tilewright.observe.instruments.findings import Finding
from tilewright.simulate.isa import Role
from tilewright.simulate.observer import ArgumentFact, Launch
from tilewright.simulate.translate.analysis.graph import Op

#: Most elements on one axis that one thread is assumed to process.
_THREAD_ELEMENTS = 64
#: Most elements that a stencil is assumed to leave out at one end of an axis.
_EDGE_ELEMENTS = 16
#: Effects outside the kernel besides stores and atomics to global memory.
_LEAVING = (Role.CALL, Role.TRAP, Role.SLEEP)
_Mask = npt.NDArray[np.bool_]


def without_result(launch: Launch) -> list[Finding]:
    """TW501 for a kernel without a result, if it gets arrays.

    A kernel whose source has no statements, or only assertions, is meant so: it measures launches, or checks its input.
    """
    if not any(fact.dtype is not None for fact in launch.arguments):
        return []
    if statements.writes_nothing(*launch.program.definition[:2]):
        return []
    return [launches.at(launch, "TW501", how="no store")]


@functools.lru_cache(maxsize=256)
def has_result(ptx: str, entry: str) -> bool:
    """Whether a kernel's PTX contains a write, print or trap."""
    return any(_leaves_something(op) for op in of_kernel(ptx, entry).ops)


def _leaves_something(op: Op) -> bool:
    if op.form.has("bulk_group"):  # a copy to global memory
        return True
    if op.form.row.stores:
        return not stays(op)
    return op.form.row.role in _LEAVING


def left_out(
    launch: Launch, argument: ArgumentFact, part: _Mask, access: str, values: Values | None, alike: bool
) -> Iterator[Finding]:
    """A finding, if something explains what is left out of an array, or of the matrix that C++ passes as a pointer.

    `part` marks the touched elements: those written, or those read if `access` is "read". `alike` says whether the
    launch touched exactly the same part of the other arrays of this shape.
    """
    bounds = None if values is None else Bounds(launch, values)
    shapes = _matrices(launch, argument, bounds) if access == "written" and bounds is not None else ()
    for shape in (argument.shape, *shapes):
        found = list(_left_out(launch, replace(argument, shape=shape), part.reshape(shape), access, bounds, alike))
        if found:
            yield from found
            return


def _matrices(launch: Launch, argument: ArgumentFact, bounds: Bounds) -> Iterator[tuple[int, int]]:
    """The shapes of a flat array as a matrix: its extents are arguments that the kernel compares its indices with."""
    if len(argument.shape) == 1 and min(launch.grid[1] * launch.block[1], launch.grid[0] * launch.block[0]) > 1:
        extents = {fact.value for fact in launch.arguments if fact.value and fact.value in bounds.compared}
        yield from (
            (rows, argument.shape[0] // rows)
            for rows in sorted(extents)
            if not argument.shape[0] % rows and argument.shape[0] // rows in extents
        )


def _left_out(
    launch: Launch, argument: ArgumentFact, part: _Mask, access: str, bounds: Bounds | None, alike: bool
) -> Iterator[Finding]:
    address = argument.given[0] if argument.given else argument.address
    unread = {} if bounds is None or access != "written" or bounds.shares_work else _unread(launch, bounds.values)
    about = {"array": argument.name, "shape": list(argument.shape), "address": address}
    if unread and part.sum() > 1:
        counts = {"missing": part.size - int(part.sum()), "elements": part.size}
        yield launches.at(launch, "TW501", how="index", **unread, **counts, **about)
        return
    touched = np.nonzero(part)
    reached = [int(axis.max()) + 1 for axis in touched]
    edges = [int(axis.min()) for axis in touched]  # a stencil leaves out the same number at both ends
    short = [axis for axis, extent in enumerate(argument.shape) if reached[axis] < extent - edges[axis]]
    if not short or int(part.sum()) != int(np.prod(np.subtract(reached, edges))):
        return
    if max(edges) > (_EDGE_ELEMENTS if access == "written" and bounds is not None else 0):
        return
    if access == "written" and bounds is not None and bounds.by_data(argument):
        return
    about |= {"reached": reached, "ends": [[reached[axis], axis] for axis in short]}
    if access == "written" and bounds is not None and _is_swapped(launch, reached, argument.shape, bounds):
        yield launches.at(launch, "TW501", how="swapped", **_of_indices(launch), **about)
        return
    extents = [(reached[axis], argument.shape[axis] - edges[axis]) for axis in short]
    other = any(_made_for_another(launch, argument, reached[axis], bounds) for axis in short)
    if not other and all(_by_floor(launch, *each) or _too_small(launch, *each, bounds, alike) for each in extents):
        yield launches.at(launch, "TW501" if access == "written" else "TW506", how="grid", **about)
    elif access == "written" and bounds is not None and _lacks_dimension(launch, reached, argument, short, bounds):
        yield launches.at(launch, "TW503", how="grid", grid=list(launch.grid), block=list(launch.block), **about)
    elif access == "read" and bounds is not None and all(_by_blocks(launch, reached[axis]) for axis in short):
        if _blocks_bound_a_loop(bounds.values):
            yield launches.at(launch, "TW506", how="loop", **about)


def _is_swapped(launch: Launch, reached: list[int], shape: tuple[int, ...], bounds: Bounds) -> bool:
    """Whether the grid has a thread in x for each column and in y for each row, but rows end where x ends.

    The kernel says so itself: it compares its index in x with the number of rows, and that in y with the columns.
    """
    x, y = (launch.grid[axis] * launch.block[axis] for axis in (0, 1))
    if len(shape) != 2 or reached != [min(x, shape[0]), min(y, shape[1])]:
        return False
    made = shape[1] <= x < shape[1] + launch.block[0] and shape[0] <= y < shape[0] + launch.block[1]
    return made and shape[0] in bounds.compared_on("x") and shape[1] in bounds.compared_on("y")


def _of_indices(launch: Launch) -> dict[str, str]:
    """A kernel's names for the row and the column that it takes from the indices in x and in y."""
    row, column = statements.of_axes(*launch.program.definition[:2])
    return {"row": f"`{row}`" if row else "the row", "column": f"`{column}`" if column else "the column"}


def _made_for_another(launch: Launch, array: ArgumentFact, reached: int, bounds: Bounds | None) -> bool:
    """Whether the kernel's guard, an array of another shape or a numeric argument also ends there.

    A guard for another axis of the same array that happens to have this extent explains nothing.
    """
    guarded = bounds is not None and reached not in array.shape and bounds.ends_at(reached)
    return guarded or any(
        (reached in argument.shape and argument.shape != array.shape) or argument.value == reached
        for argument in launch.arguments
    )


def _by_threads(launch: Launch, reached: int) -> Iterator[tuple[int, int]]:
    """Threads of a block, and elements for each thread, with which some axis of the launch ends exactly there."""
    for blocks, threads in zip(launch.grid, launch.block, strict=True):
        each, rest = divmod(reached, blocks * threads)
        if blocks * threads > 1 and not rest and each <= _THREAD_ELEMENTS:
            yield threads, each


def _by_floor(launch: Launch, reached: int, extent: int) -> bool:
    """Whether a grid size that was rounded down ends there: less than one block's share is missing."""
    return any(threads > 1 and extent - reached < threads * each for threads, each in _by_threads(launch, reached))


def _too_small(launch: Launch, reached: int, extent: int, bounds: Bounds | None, alike: bool) -> bool:
    """Whether the grid is too small for a kernel that is meant for the whole array.

    Either the kernel compares its index with the array's extent, and no thread comes near it; or it compares it with
    nothing, and several arrays of this shape end at the same element.
    """
    if bounds is None or all(each > 1 for _, each in _by_threads(launch, reached)):
        return False
    return extent in bounds.compared or (alike and not bounds.compared and not bounds.begins_where_given)


def _unread(launch: Launch, values: Values) -> dict[str, Any]:
    """An axis with several threads or blocks whose index the kernel does not read."""
    read = {name for op in values.ops for name in values.special(op)}
    if any(name.startswith(("%laneid", "%warpid")) for name in read):
        read |= {f"%tid.{axis}" for axis in "xyz"}
    for what, register, extents in (("blocks", "ctaid", launch.grid), ("threads", "tid", launch.block)):
        for axis, extent in zip("xyz", extents, strict=True):
            if extent > 1 and f"%{register}.{axis}" not in read:
                index = f"{'block' if what == 'blocks' else 'thread'}Idx.{axis}"
                return {"extent": extent, "what": what, "axis": axis, "index": index}
    return {}


def _by_blocks(launch: Launch, reached: int) -> bool:
    """Whether one tile for each block of some axis of the grid ends there."""
    return any(b * t == reached and b * t > 1 for b, t in itertools.product(launch.grid, launch.block))


def _lacks_dimension(
    launch: Launch, reached: list[int], argument: ArgumentFact, short: list[int], bounds: Bounds
) -> bool:
    """Whether a one-dimensional launch processed one row (or column) of an array for a two-dimensional kernel.

    A launch that is written with further extents of 1 is meant so.
    """
    one = launch.grid[1:] == (1, 1) == launch.block[1:] and not launches.has_extents(launch)
    rows = [axis for axis in short if reached[axis] == 1]
    return (
        one
        and len(rows) > 0
        and all(
            axis in rows
            or (
                _by_floor(launch, reached[axis], argument.shape[axis])
                and not _made_for_another(launch, argument, reached[axis], bounds)
            )
            for axis in short
        )
        and "y" in own_axes(bounds.values)
    )


def _blocks_bound_a_loop(values: Values) -> bool:
    """Whether the grid's number of blocks decides when a loop ends."""
    for block in values.graph.blocks:
        in_loop = any(header <= block.index <= tail for tail, header in values.graph.back_edges)
        if in_loop and block.kind == "branch":
            deciding = values.origins([block.predicate])
            if any(name.startswith("%nctaid.") for op in deciding for name in values.special(op)):
                return True
    return False

"""Defects of what a launch leaves in arrays: results that are lost (TW510), unwritten elements (TW205), NaN (TW603).

numba-cuda copies each host array of a launch to the device, and back afterwards, one after the other. Two arrays that
share memory become two on the device. The copy back of the last one overwrites the others, even if the kernel wrote
only through the first.

TW603: a kernel stored NaN or infinity although every value that it read was finite. Reported at the store, if such a
value is in an array after the launch. Not reported

- if the kernel read a non-finite element, or an array that it read had one;
- if the kernel names such a constant, such as the start value of a minimum: then it may store it;
- if the value was only copied, for example from an argument.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator

import numpy as np

from tilewright.observe.checking import launches
from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding, split
from tilewright.observe.instruments.nonfinite import KINDS, FloatArray, NonfiniteResult, NonfiniteRow
from tilewright.observe.instruments.shadow.cells import READABLE
from tilewright.observe.instruments.shadow.states import States
from tilewright.observe.instruments.touched import TouchedResult
from tilewright.simulate.events import GLOBAL_BASE
from tilewright.simulate.isa import Role
from tilewright.simulate.observer import ArgumentFact, Launch
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op, registers_of

#: Instructions that name a constant as data; in others it may be a step of a library function.
_NAMING = (Role.COPY, Role.CHOOSE, Role.LEAST, Role.GREATEST)
_COPYING = (Role.COPY, Role.CHOOSE)


def lost(launch: Launch, touched: TouchedResult) -> Iterator[Finding]:
    """A finding for each two host arrays of a launch where the copy of the second overwrites results of the first."""
    copied = [fact for fact in launch.arguments if fact.host_address]
    for first, second in itertools.combinations(copied, 2):  # in the order of the copies back
        start = max(first.host_address, second.host_address)
        size = min(first.host_address + _bytes(first), second.host_address + _bytes(second)) - start
        if size <= 0:
            continue
        one, other = (
            touched.written[fact.address - GLOBAL_BASE + start - fact.host_address :][:size] for fact in (first, second)
        )
        count = int((one[: other.size] > other[: one.size]).sum())
        if count:
            yield launches.at(launch, "TW510", array=first.name, other_array=second.name, lost=count)


def _bytes(fact: ArgumentFact) -> int:
    """The bytes that are copied."""
    return 0 if fact.dtype is None else math.prod(fact.shape) * fact.dtype.itemsize


def unwritten(array: ArgumentFact, source_line: str, states: States) -> list[Finding]:
    """A finding for a device array that the host copies although some of its elements were never written.

    An element with any written byte counts as written, because structures are copied with their padding.
    """
    if array.dtype is None or 0 in array.shape or not array.dtype.itemsize:
        return []
    start = array.address - GLOBAL_BASE
    bytes_ = np.ndarray((*array.shape, array.dtype.itemsize), np.uint8, states.bytes_.data, start, (*array.strides, 1))
    unset = ~(bytes_ & READABLE).any(-1)
    if not unset.any():
        return []
    file, line = split(source_line)
    details = {
        "unset": int(unset.sum()),
        "elements": unset.size,
        "element_bytes": array.dtype.itemsize,
        "first": [int(part[0]) for part in np.nonzero(np.atleast_1d(unset))],
        "shape": list(array.shape),
        "address": array.address,
    }
    return [Finding(code="TW205", kernel="", source=file, line=line, details=details)]


def float_arrays(launch: Launch) -> list[FloatArray]:
    """The floating-point arrays among a launch's arguments."""
    return [
        FloatArray(a.address, a.dtype, a.shape, a.strides)
        for a in launch.arguments
        if a.dtype is not None and a.dtype.kind in "fc"
    ]


def nonfinite(launch: Launch, values: Values, result: NonfiniteResult, touched: TouchedResult) -> list[Finding]:
    """A finding for each store and kind of value."""
    if not result.rows:
        return []
    given = float_arrays(launch)
    for array, before in zip(given, result.before, strict=True):
        read = touched.of(touched.read, array.address, array.shape, array.strides)
        if (before[read] != 0).any():
            return []
    left = {kind for number, kind in enumerate(KINDS, 1) if any((after == number).any() for after in result.after)}
    named = set(_named(values))
    found = []
    for row in result.rows:
        op = values.at_sites[row.site.ptx_line, row.site.opcode]
        if row.kind in left and row.kind not in named and not _only_copied(values, op):
            found.append(_finding(values, op, row, launch))
    return found


def _finding(values: Values, op: Op, row: NonfiniteRow, launch: Launch) -> Finding:
    return values.finding(
        "TW603",
        op,
        launch.name,
        {"kind": row.kind, "stored": row.count},
        block=row.block,
        thread=row.thread,
        count=row.count,
        launch=launch.index,
    )


def _named(values: Values) -> Iterator[str]:
    """The non-finite constants that the kernel names, by kind."""
    for op in values.ops:
        if op.form.row.role in _NAMING or op.form.row.access == "store":
            for source in op.sources:
                if isinstance(source, tree.Immediate) and source.kind in ("f32", "f64"):
                    code = "<f" if source.kind == "f32" else "<d"
                    number = struct.unpack(code, source.value.to_bytes(struct.calcsize(code), "little"))[0]
                    if not np.isfinite(number):
                        yield KINDS[int(np.isnan(number))]


def _only_copied(values: Values, op: Op) -> bool:
    """Whether a stored value comes from loads and constants without arithmetic."""
    stored = [register for source in op.sources[1:] for register in registers_of(source)]
    origins = list(values.origins(stored, through=lambda o: o.form.row.role in _COPYING))
    return all(o.form.row.role in _COPYING or o.form.row.access == "load" for o in origins)

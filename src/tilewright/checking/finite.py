"""TW603: NaN or infinity that a kernel stored though all that it read was finite.

Reported at the store, where a value of that kind is left in an array after the launch. Not reported

- where an element that is not finite was read, or one was in an array that the launch read;
- where the kernel names such a constant, as minima begin with: then it may well store it;
- where the value was only copied, from an argument for one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from tilewright.checking.values import Values
from tilewright.instruments.findings import Finding
from tilewright.instruments.nonfinite import KINDS, FloatArray, NonfiniteResult, NonfiniteRow
from tilewright.instruments.touched import TouchedResult
from tilewright.simt.observer import Launch
from tilewright.simt.ptx import tree
from tilewright.simt.translate.graph import Op

#: Instructions that name a constant for its own sake; others are the steps of libraries' functions.
_NAMING = ("mov", "selp", "st", "min", "max")
_COPYING = ("mov", "selp")
_LOADS = ("ld", "ldu")


def arrays(launch: Launch) -> list[FloatArray]:
    """The arrays of floating-point numbers among a launch's arguments."""
    return [
        FloatArray(a.address, a.dtype, a.shape, a.strides)
        for a in launch.arguments
        if a.dtype is not None and a.dtype.kind in "fc"
    ]


def findings(launch: Launch, values: Values, result: NonfiniteResult, touched: TouchedResult) -> list[Finding]:
    """A finding for each store and kind of value."""
    if not result.rows:
        return []
    given = arrays(launch)
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
    threads = f"{row.count:,} value{'s' * (row.count != 1)}"
    message = f"{threads} of those stored here are {row.kind}, and all that the kernel read was finite"
    return values.finding(
        "TW603", message, op, launch.name, block=row.block, thread=row.thread, count=row.count, launch=launch.index,
        details={"kind": row.kind},
    )  # fmt: skip


def _named(values: Values) -> Iterator[str]:
    """The kinds of constants that the kernel names."""
    for op in values.ops:
        if op.instruction.opcode in _NAMING:
            for source in op.sources:
                if isinstance(source, tree.Immediate) and source.kind in ("f32", "f64"):
                    code = "<f" if source.kind == "f32" else "<d"
                    number = struct.unpack(code, source.value.to_bytes(struct.calcsize(code), "little"))[0]
                    if not np.isfinite(number):
                        yield KINDS[int(np.isnan(number))]


def _only_copied(values: Values, op: Op) -> bool:
    """Whether what a store writes comes from loads and constants with no arithmetic on the way."""
    stored = [
        item.name
        for source in op.sources[1:]
        for item in (source.items if isinstance(source, tree.Vector) else (source,))
        if isinstance(item, tree.Register)
    ]
    origins = list(values.origins(stored, through=lambda o: o.instruction.opcode in _COPYING))
    return all(o.instruction.opcode in (*_COPYING, *_LOADS) for o in origins)

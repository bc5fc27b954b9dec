"""TW314: what a kernel uses before it waits for the launch before, with which it may overlap.

A launch with the attribute for programmatic serialization begins while the launch before it in the stream may still
run, whether or not that allows it. Until a thread has passed `griddepcontrol.wait`, nothing that the other launch reads
or writes is safe. An access that some way reaches behind a wait is left out: one thread may wait for its whole block.

Source: PTX ISA, 9.7.12.8 (griddepcontrol); CUDA Programming Guide, "Programmatic Dependent Launch".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.instruments.touched import Touched, TouchedResult
from tilewright.simulate.observer import Launch
from tilewright.simulate.translate.analysis.graph import Op

#: Most lines of a kernel that get findings of their own.
_LINES_MAX = 16
_STRONG = ("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")


def _lines(values: Values) -> list[list[Op]]:
    """The accesses of global memory that no way reaches behind a wait, by the user's lines."""
    waits = [op for op in values.ops if op.instruction.name == "griddepcontrol.wait"]
    behind = {id(op) for wait in waits for op in values.after(wait)}
    found: dict[tuple[str, int], list[Op]] = {}
    for op in values.ops:
        if op.form.row.access in ("load", "store") and id(op) not in behind and not any(map(op.form.has, _STRONG)):
            found.setdefault(values.key(op), []).append(op)
    return list(found.values())[:_LINES_MAX]


def instruments(values: Values) -> list[Touched]:
    """What a launch touches at each of these lines."""
    lines = (frozenset(op.instruction.ptx_line for op in ops) for ops in _lines(values))
    return [Touched(f"early {number}", one) for number, one in enumerate(lines)]


def findings(
    launch: Launch, values: Values, results: Mapping[str, Any], before: Launch, touched: TouchedResult
) -> list[Finding]:
    """A finding for each line that uses bytes too early which the launch before uses, if either writes them."""
    found = []
    for number, ops in enumerate(_lines(values)):
        mine = results.get(f"early {number}")
        size = min(mine.read.size, touched.read.size) if mine is not None else 0
        if mine is None or not size:
            continue
        read, written, its_read, its_written = (
            map_[:size] for map_ in (mine.read, mine.written, touched.read, touched.written)
        )
        for does, meets, access, other in (
            ("load", read & its_written, "read", "writes"),
            ("store", written & its_written, "write", "writes"),
            ("store", written & its_read, "write", "reads"),
        ):
            if meets.any():
                op = next(op for op in ops if op.form.row.access == does)
                others = [before.source_line] if before.source_line else []
                details = {"access": access, "other_access": other, "work": before.name, "others": others}
                found.append(values.finding("TW314", op, launch.name, details))
                break
    return found

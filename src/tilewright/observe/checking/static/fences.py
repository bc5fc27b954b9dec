"""TW420: tensor memory used on both sides of an mbarrier whose relaxed arrival or wait orders nothing, without a fence.

An arrival that releases and a wait that acquires need no fence (CUTLASS and Triton have none); with relaxed ones the
manual's patterns have `tcgen05.fence::before_thread_sync` before the arrival, and `::after_thread_sync` after the wait.

Source: PTX ISA, 9.7.16.6.4 (canonical synchronization patterns), 9.7.16.11.1 (tcgen05.fence), 9.7.13.15.13 and
9.7.13.15.16 (the order of an mbarrier's instruction that names none).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding
from tilewright.simulate.translate.analysis.graph import Op


def findings(values: Values, kernel: str) -> Iterator[Finding]:
    """A finding for each relaxed arrival after a use, and each use after a relaxed wait, with no fence in between."""
    arrives = any(_is_relaxed(op, "mbarrier") for op in values.ops)  # most kernels have no such arrival
    for op in values.ops:
        if _is_relaxed(op, "await"):
            yield from _first(values, kernel, op, "after", _uses)
        elif arrives and _moves(op):
            yield from _first(values, kernel, op, "before", lambda other: _is_relaxed(other, "mbarrier"))


def _first(values: Values, kernel: str, op: Op, side: str, meant: Callable[[Op], bool]) -> Iterator[Finding]:
    """The first instruction of kind `meant` that can be reached from another one without the fence."""
    for other in values.after(op, lambda other: _orders(other, side)):
        if meant(other):
            first, second = op.instruction, values.where(op.instruction.ptx_line)
            yield values.finding("TW420", other, kernel, {"how": side, "other": first.name, "others": [second]})
            return


def _is_relaxed(op: Op, kind: str) -> bool:
    """Whether an instruction is a relaxed wait for an mbarrier (`await`), or a relaxed arrival at one."""
    form = op.form
    arrives = form.has("arrive") or form.has("arrive_drop")
    return form.row.kind == kind and form["sem"] == "relaxed" and (arrives or kind == "await")


def _moves(op: Op) -> bool:
    """Whether an instruction moves registers to or from tensor memory."""
    return op.form.row.kind == "columns" and op.form.row.counts is not None


def _uses(op: Op) -> bool:
    return _moves(op) or op.form.row.kind == "tensor_product" or (op.form.row.kind == "columns" and op.form.has("cp"))


def _orders(op: Op, side: str) -> bool:
    """Whether an instruction is the fence, or one for all memory."""
    return op.form.has(f"fence::{side}_thread_sync") or _is_fence_of_memory(op)


def _is_fence_of_memory(op: Op) -> bool:
    return op.form.row.kind == "fence" and not op.form.has("proxy") and not op.form.has("mbarrier_init")

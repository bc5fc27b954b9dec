"""Strong reads whose value decides what a kernel does next, so that this depends on which warp came first; unused ones.

A loop that only waits does not decide: it ends when the value has come, in whatever order the warps run.
"""

from __future__ import annotations

from tilewright.observe.checking.static.idle import is_own
from tilewright.observe.checking.static.values import Values
from tilewright.simulate.isa import Role
from tilewright.simulate.programs.device_runtime import heap_lines
from tilewright.simulate.ptx import tree
from tilewright.simulate.ptx.printing import operand_text
from tilewright.simulate.translate.analysis.graph import Block, Op, is_strong


def decides(values: Values) -> bool:
    """Whether a kernel has a read that decides.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k(.param .u64 x) { .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    ... ld.param.u64 %rd1, [x];
    ... WAIT: ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0;
    ... @%p1 bra WAIT; st.global.u32 [%rd1+4], 1; ret; }'''
    >>> decides(of_kernel(text, "k")), decides(of_kernel(text.replace("bra WAIT", "ret"), "k"))
    (False, True)
    """
    loops = [_Loop(values, tail, header) for tail, header in sorted(values.graph.back_edges)]
    waiting = {block.index for loop in loops if loop.waits for block in loop.exits}
    heap = heap_lines(values.module)  # which block malloc gives is no decision
    reads = [op for op in values.ops if op.writes and is_strong(op.form) and op.instruction.ptx_line not in heap]
    return any(_decides(values, op, waiting) for op in reads)


def unused(values: Values) -> frozenset[int]:
    """PTX lines of strong reads whose value nothing uses: whatever such a read orders, it might have come earlier.

    Reads of a place that another one waits for are left out.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k(.param .u64 x) { .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ... ld.param.u64 %rd1, [x];
    ... ld.acquire.gpu.global.u32 %r1, [%rd1];
    ... atom.global.add.u32 %r2, [%rd1+8], 1;
    ... st.global.u32 [%rd1+4], %r2; red.global.add.u32 [%rd1+16], 1; ret; }'''
    >>> sorted(unused(of_kernel(text, "k")))
    [4, 6]
    """
    deciding = {block.predicate for block in values.graph.blocks}
    reads = [op for op in values.ops if is_strong(op.form) and op.form.row.access in ("load", "atomic")]
    used = [op for op in reads if any(w in values.readers or w in deciding for w in op.writes)]
    known = {op.instruction.ptx_line for op in used}
    places = {place for op in used for place in _places(op)}  # a wait may have ended at the same place
    return frozenset(
        op.instruction.ptx_line for op in reads if op.instruction.ptx_line not in known and not places & _places(op)
    )


def data(values: Values) -> frozenset[int]:
    """PTX lines of volatile accesses and exchanges whose values reach no branch, address or other lane.

    They are data, and no flags or locks.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k(.param .u64 x) { .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    ... ld.param.u64 %rd1, [x];
    ... WAIT: ld.volatile.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0;
    ... @%p1 bra WAIT;
    ... ld.volatile.global.u32 %r2, [%rd1+8];
    ... st.volatile.global.u32 [%rd1+4], %r2; ret; }'''
    >>> sorted(data(of_kernel(text, "k")))
    [6, 7]
    """
    of_data: set[int] = set()
    flags: set[int] = set()
    for op in values.ops:
        if op.form.has("volatile") or op.form.has("exch"):
            reached = op.form.row.access != "store" and _decides(values, op, set(), stores=op.form.has("volatile"))
            (flags if reached else of_data).add(op.instruction.ptx_line)
    return frozenset(of_data - flags)


def _places(op: Op) -> set[str]:
    """The addresses of an instruction, as its text has them."""
    return {operand_text(one) for one in op.instruction.operands if isinstance(one, tree.Address)}


class _Loop:
    """The blocks of a loop, from its header to the block that goes back."""

    def __init__(self, values: Values, tail: int, header: int) -> None:
        self._blocks = values.graph.blocks[header : tail + 1]
        inside = {block.index for block in self._blocks}
        self.exits: list[Block] = [block for block in self._blocks if not inside.issuperset(block.successors)]

    @property
    def waits(self) -> bool:
        """Whether all that it does is to read through strong loads until it ends."""
        ops = [op for block in self._blocks for op in (*block.ops, *([block.end] if block.end else []))]
        return any(map(_asks, ops)) and all(_asks(op) or _is_idle(op) for op in ops)


def _asks(op: Op) -> bool:
    return op.form.row.access == "load" and is_strong(op.form)


def _is_idle(op: Op) -> bool:
    """Whether an instruction of a waiting loop has no effect but on its own registers, and no other thread's."""
    row = op.form.row
    return is_own(op) or row.kind == "fence" or row.role in (Role.SLEEP, Role.JUMP)


def _decides(values: Values, read: Op, waiting: set[int], *, stores: bool = False) -> bool:
    """Whether the value of a read reaches more than the ends of loops that wait, and with `stores` than stores."""
    deciding = {block.predicate for block in values.graph.blocks if block.predicate and block.index not in waiting}
    seen, registers = {id(read)}, list(read.writes)
    while registers:
        register = registers.pop()
        if register in deciding:
            return True
        for op in values.readers.get(register, ()):
            if op.form.row.role is Role.JUMP or (stores and op.form.row.access == "store"):
                continue
            if not is_own(op):
                return True
            if id(op) not in seen:
                seen.add(id(op))
                registers += op.writes
    return False

"""TW602: which 32-bit arithmetic feeds addresses of global memory, and what is found where it wraps around.

From the address of each access back through 64-bit arithmetic to where a 32-bit value is widened, and from there back
through sums and products of 32 bits. How it is widened, with its sign or without, tells how the value is read. What
goes through a remainder, a mask or a shift to the right is a hash, not an index, and may wrap.

Source: PTX ISA, 9.7.1.3 (mul), 9.7.1.4 (mad), 9.7.9.22 (cvt).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.checking.values import ACCESSES, Values
from tilewright.instruments.findings import Finding
from tilewright.instruments.wraparound import WraparoundRow, operation_of
from tilewright.simt.ptx import tree
from tilewright.simt.translate.graph import Op

_OTHER_SPACES = ("shared", "local", "param", "const")
#: 64-bit instructions through which an index goes on its way to an address; those of 32 bits are the instrument's.
_PASSING = ("add", "sub", "mul", "mad", "shl", "or", "mov", "selp", "cvta", "cvt")
#: Instructions that make 64 bits of 32: what they read is signed (`s`) or unsigned (`u`).
_WIDENING = re.compile(r"(?:mul\.wide|mad\.wide)\.([su])32|cvt\.[su]64\.([su])32")


def lines(values: Values) -> dict[int, bool]:
    """PTX lines of the arithmetic -> whether its result is read as signed; those that are read both ways are left out.

    Examples
    --------
    >>> from tilewright.checking.values import of_kernel
    >>> text = '''.version 8.0
    ... .target sm_90
    ... .address_size 64
    ... .visible .entry k(.param .u64 x) { .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ... ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x;
    ... mul.lo.s32 %r2, %r1, %r1;
    ... mul.wide.s32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
    ... st.global.u32 [%rd3], %r1; ret; }'''
    >>> lines(of_kernel(text, "k"))
    {6: True}
    """
    found: dict[int, set[bool]] = {}
    seen: set[tuple[str, bool]] = set()
    for widening, signed in _widenings(values):
        registers = [s.name for s in widening.sources if isinstance(s, tree.Register)]
        narrow = [r for r in registers if values.type_of(r)[1:] == "32" and (r, signed) not in seen]
        seen |= {(r, signed) for r in narrow}
        for op in values.origins(narrow, through=_is_index):
            if operation_of(op.instruction.name):
                found.setdefault(op.instruction.ptx_line, set()).add(signed)
    return {line: next(iter(signs)) for line, signs in sorted(found.items()) if len(signs) == 1}


def findings(values: Values, kernel: str, rows: tuple[WraparoundRow, ...], signs: dict[int, bool]) -> list[Finding]:
    """A finding for each instruction that wrapped."""
    found = []
    for row in rows:
        signed = signs[row.site.ptx_line]
        most = "2,147,483,647" if signed else "4,294,967,295"
        message = (
            f"the {'signed' if signed else 'unsigned'} 32-bit result of `{row.site.opcode}` passes {most}, and an "
            "address is computed from what is left of it"
        )
        op = values.at_sites[row.site.ptx_line, row.site.opcode]
        found.append(values.finding(
            "TW602", message, op, kernel, block=row.block, thread=row.thread, count=row.count
        ))  # fmt: skip
    return found


def _widenings(values: Values) -> Iterator[tuple[Op, bool]]:
    """The instructions that widen part of an address of global memory, and whether they do with its sign."""
    bases = []
    for op in values.ops:
        if op.instruction.opcode in ACCESSES and not any(op.form.has(space) for space in _OTHER_SPACES):
            bases += [
                o.base.name for o in op.sources if isinstance(o, tree.Address) and isinstance(o.base, tree.Register)
            ]
    for op in values.origins(dict.fromkeys(bases), through=_is_wide):
        match = _WIDENING.fullmatch(op.instruction.name)
        if match is not None:
            yield op, "s" in match.groups()


def _is_wide(op: Op) -> bool:
    return op.instruction.opcode in _PASSING and not _WIDENING.fullmatch(op.instruction.name)


def _is_index(op: Op) -> bool:
    return bool(operation_of(op.instruction.name)) or op.instruction.opcode in ("mov", "selp")

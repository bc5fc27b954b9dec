"""TW602: the 32-bit arithmetic that feeds addresses of global memory, and the findings where it wraps around.

The analysis follows each address back through 64-bit arithmetic to where a 32-bit value is widened, and from there
through 32-bit sums and products. A sign-extended value is read as signed, any other as unsigned. A value that goes
through a remainder, a mask or a right shift is a hash, not an index, and may wrap.

Source: PTX ISA, 9.7.1.3 (mul), 9.7.1.4 (mad), 9.7.9.22 (cvt).
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.observe.checking.static.values import Values
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.instruments.wraparound import WraparoundRow, operation_of
from tilewright.simulate.isa import Linear, Role
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis.graph import Op

_OTHER_SPACES = ("shared", "local", "param", "const")
#: Operations between a 64-bit address and the widened index; the instrument watches the 32-bit ones.
_PASSING = (Linear.ADD, Linear.SUB, Linear.MUL, Linear.MAD, Linear.SHL, Linear.OR, Linear.MOVE, Linear.CVT)


def lines(values: Values) -> dict[int, bool]:
    """PTX lines of 32-bit arithmetic -> whether its result is read as signed; without those read both ways.

    >>> from tilewright.observe.checking.static.values import of_kernel
    >>> text = '''.version 8.0 .target sm_90 .address_size 64
    ... .visible .entry k(.param .u64 x) { .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ... ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x;
    ... mul.lo.s32 %r2, %r1, %r1;
    ... mul.wide.s32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
    ... st.global.u32 [%rd3], %r1; ret; }'''
    >>> lines(of_kernel(text, "k"))
    {4: True}
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
    """A finding for each instruction that wrapped around."""
    found = []
    for row in rows:
        op, signed = values.at_sites[row.site.ptx_line, row.site.opcode], signs[row.site.ptx_line]
        details = {"sign": "signed" if signed else "unsigned", "most": (1 << 32 - signed) - 1}
        found.append(values.finding("TW602", op, kernel, details, block=row.block, thread=row.thread, count=row.count))
    return found


def _widenings(values: Values) -> Iterator[tuple[Op, bool]]:
    """The instructions that widen part of a global address, and whether they sign-extend."""
    bases = []
    for op in values.ops:
        elsewhere = any(op.form.has(space) for space in _OTHER_SPACES) and not op.form.has("global")  # copies have both
        if op.form.row.access and not elsewhere:
            bases += values.address_registers(op)
    for op in values.origins(dict.fromkeys(bases), through=_is_wide):
        if narrow := _widened(op):
            yield op, narrow == "s32"


def _widened(op: Op) -> str:
    """The 32-bit type that an instruction widens to 64 bits; "" for any other instruction."""
    form = op.form
    source, result = form.type_of("a"), form.type_of("d")
    known = form.row.linear in (Linear.MUL_WIDE, Linear.MAD_WIDE, Linear.CVT) and not form.has("sat")
    return source if known and source in ("s32", "u32") and result in ("s64", "u64") else ""


def _is_wide(op: Op) -> bool:
    row = op.form.row
    wide = row.linear in (*_PASSING, Linear.MUL_WIDE, Linear.MAD_WIDE) or row.kind == "cvta" or row.role is Role.CHOOSE
    return wide and not _widened(op)


def _is_index(op: Op) -> bool:
    return (
        bool(operation_of(op.instruction.name)) or op.form.row.linear is Linear.MOVE or op.form.row.role is Role.CHOOSE
    )

"""A register that is set at the beginning of a kernel and again in a loop, as two registers.

The translator gives a register one shape for the whole kernel. Where a loop's counter begins as a thread's index, all
that is computed from the index before the loop then counts as computed from the counter, of which nothing is known, and
addresses that are affine in the lane are looked at lane by lane. Compilers emit such registers for arrays of any
strides. Up to the first label a kernel is one straight line, so there a second name can stand for the first value.
"""

from __future__ import annotations

import re
from collections import Counter

from tilewright.programs.program import Program

#: An unguarded instruction with an integer result, at the beginning of its line.
_SETS = re.compile(r"^\s*(?!st\b|red\b|bra\b|bar\b|setp\b|ld\.v|call\b)[a-z][\w.:]*\s+(%r[sd]?\d+),")
_SETS_GUARDED = re.compile(r"^\s*@!?%\w+\s+[a-z][\w.:]*\s+(%\w+),")
#: What may set a register in another way: vectors, pairs, barriers and calls. Registers named there are left alone.
_OTHERWISE = re.compile(r"[{|]|\b(?:bar|barrier|call)\b")
_LABEL = re.compile(r"^\s*\$?[\w$]+:")
_DECLARED = re.compile(r"^\s*\.reg\s+(\.b\d+)\s+(%r[sd]?)<\d+>;")


def renamed(program: Program) -> str:
    r"""The PTX with second names up to the first label of the kernel; every instruction keeps its line.

    Examples
    --------
    >>> text = '''.version 8.0
    ... .target sm_90
    ... .visible .entry k() {
    ... .reg .b32 %r<2>;
    ... mov.u32 %r1, %tid.x;
    ... add.s32 %r0, %r1, 1;
    ... L:
    ... add.s32 %r1, %r1, %r0;
    ... bra L; }'''
    >>> print("\n".join(renamed(Program.from_ptx(text)).splitlines()[3:6]))
    .reg .b32 %r<2>; .reg .b32 %r1_first;
    mov.u32 %r1_first, %tid.x; mov.b32 %r1, %r1_first;
    add.s32 %r0, %r1_first, 1;
    """
    lines = program.ptx.split("\n")
    start = next((i for i, line in enumerate(lines) if re.search(rf"\.entry\s+{re.escape(program.entry)}\b", line)), 0)
    end = next((i for i in range(start, len(lines)) if lines[i].rstrip().endswith("}")), len(lines))
    first = next((i for i in range(start, end) if _LABEL.match(lines[i])), start)
    if any(line.count(";") > 1 for line in lines[start:first]):  # no compiler's text
        return program.ptx
    types = {m[2]: (m[1], i) for i in range(start, first) if (m := _DECLARED.match(lines[i]))}
    everywhere = Counter(m[1] for line in lines[start:end] if (m := _SETS.match(line) or _SETS_GUARDED.match(line)))
    here = Counter(m[1] for line in lines[start:first] if (m := _SETS.match(line)))
    apart = {m[1] for line in lines[start:first] if (m := _SETS_GUARDED.match(line))}
    apart |= {name for line in lines[start:first] if _OTHERWISE.search(line) for name in re.findall(r"%\w+", line)}
    for register, count in here.items():
        kind = types.get(register.rstrip("0123456789"))
        if count == 1 and everywhere[register] > 1 and register not in apart and kind is not None:
            _rename(lines, start, first, register, kind)
    return "\n".join(lines)


def _rename(lines: list[str], start: int, first: int, register: str, kind: tuple[str, int]) -> None:
    """Rename one register from where it is set to the first label, and hand its value over."""
    type_, declared = kind
    fresh = f"{register}_first"
    name = re.compile(rf"{re.escape(register)}(?![\w])")
    lines[declared] += f" .reg {type_} {fresh};"
    known = False
    for i in range(start, first):
        match = _SETS.match(lines[i])
        sets = match is not None and match[1] == register
        if known or sets:
            if sets and len(name.findall(lines[i])) > 1:  # it reads what was never set: leave that to be found
                lines[declared] = lines[declared].removesuffix(f" .reg {type_} {fresh};")
                return
            lines[i] = name.sub(fresh, lines[i])
        if sets:
            lines[i] += f" mov{type_} {register}, {fresh};"
            known = True

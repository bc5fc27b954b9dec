"""Memory on a thread's stack, of a size known only at run time (PTX ISA 9.7.17).

A thread's stack is in its local memory. What a function allocates there is released when it returns; the translator
does that. Here the stack grows upwards, which no program can detect: pointers are only restored to saved ones.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Table

rows = Table()

_stack = functools.partial(rows.placed, kind="stack", cost="control", type="u32 u64", types={"align": "u32"})

_stack(
    "alloca.type ptr, a{, align};",
    section="9.7.17.3",
    note="the manual calls the operand `a` size; `align` is 8 where it is left out",
)
_stack("stacksave.type d;", section="9.7.17.1")
_stack("stackrestore.type a;", section="9.7.17.2", note="to a value of stacksave, not beyond the stack's end")

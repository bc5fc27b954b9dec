"""Control flow: rows that the flow graph and the translator place (PTX ISA 9.7.12)."""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Table

rows = Table()

_flow = functools.partial(rows.placed, kind="control", cost="control")
_ignored = functools.partial(rows.placed, kind="nothing", cost="control", note="no effect")


_flow("bra{.uni} a;", section="9.7.12.3")
_flow("brx.idx{.uni} a, list;", section="9.7.12.4", types={"a": "u32"})
_flow(
    "call{.uni} a;",
    section="9.7.12.5",
    note="direct calls are inlined; recursive and indirect ones are called; vprintf is implemented",
)
_flow("ret{.uni};", section="9.7.12.6")
_flow("exit;", section="9.7.12.7")
_flow("trap;", section="9.7.19.5")
_ignored("brkpt;", "nanosleep.u32 a;", "pmevent{.mask} a;", section="9.7.19", types={"a": "u32"})
_ignored("setmaxnreg.action.sync.aligned.u32 a;", section="9.7.19.5", action="inc dec")
_ignored("griddepcontrol.action;", section="9.7.12.8", action="launch_dependents wait")

"""Control flow: rows that the flow graph and the translator place (PTX ISA 9.7.12)."""

from __future__ import annotations

from typing import Any

from tilewright.simt.isa.table import Table

rows = Table()


def _placed(*_: Any) -> Any:
    """Control flow is placed by `translate.graph` and `translate.flow`."""
    raise NotImplementedError("placed by the translator")


rows.row("bra{.uni} a;", section="9.7.12.3", kind="control", cost="control")(_placed)
rows.row("brx.idx{.uni} a, list;", section="9.7.12.4", kind="control", cost="control", types={"a": "u32"})(_placed)
rows.row(
    "call{.uni} a;",
    section="9.7.12.5",
    kind="control",
    cost="control",
    note="direct calls are inlined; recursive and indirect ones are called; vprintf is known",
)(_placed)
rows.row("ret{.uni};", section="9.7.12.6", kind="control", cost="control")(_placed)
rows.row("exit;", section="9.7.12.7", kind="control", cost="control")(_placed)
rows.row("trap;", section="9.7.19.5", kind="control", cost="control")(_placed)
rows.row(
    "brkpt;",
    "nanosleep.u32 a;",
    "pmevent{.mask} a;",
    section="9.7.19",
    kind="nothing",
    cost="control",
    types={"a": "u32"},
    note="no effect",
)(_placed)
rows.row(
    "setmaxnreg.action.sync.aligned.u32 a;",
    section="9.7.19.5",
    kind="nothing",
    cost="control",
    action="inc dec",
    note="no effect",
)(_placed)
rows.row(
    "griddepcontrol.action;",
    section="9.7.12.8",
    kind="nothing",
    cost="control",
    action="launch_dependents wait",
    note="no effect",
)(_placed)

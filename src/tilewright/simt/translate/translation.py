"""From PTX to LLVM text: the passes, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.errors import PtxError
from tilewright.simt.events import EventKind, Instrument, Site
from tilewright.simt.ptx import tree
from tilewright.simt.translate import graph, inline
from tilewright.simt.translate.emit import emit_function
from tilewright.simt.translate.emitter import Emitter, register_bits
from tilewright.simt.translate.layout import Layout, lay_out
from tilewright.simt.translate.shapes import Shapes
from tilewright.simt.translate.special import LaunchClass

#: Blocks of a kernel spin on memory: warps get little fuel, so that those they wait for run soon.
SPIN_QUANTUM = 20_000
QUANTUM = 2_000_000

_ATTRIBUTES = (
    'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" "no-trapping-math"="true" }'
)
_HANDLER_ARGUMENTS = {EventKind.RUN: "ptr, i32", EventKind.ACCESS: "ptr, ptr, i32, i32"}
_WEIGHTS = '!0 = !{!"branch_weights", i32 2000, i32 1}\n!1 = !{!"branch_weights", i32 1, i32 2000}'


@dataclass(slots=True)
class Translation:
    """A kernel as LLVM text, and what running it needs to know.

    Attributes
    ----------
    ir : str
        LLVM module text that defines `symbol`.
    symbol : str
    warp_bytes, points : int
        Size of a warp record, and its barrier points.
    spins : bool
        Whether some loop waits for other threads.
    sites : list of Site
    counter_rows : list of list of int
        For each instrument, the sites of its counters in order.
    layout : Layout
    """

    ir: str
    symbol: str
    warp_bytes: int
    points: int
    spins: bool
    sites: list[Site]
    counter_rows: list[list[int]]
    layout: Layout = field(default_factory=Layout)


def translate(
    module: tree.Module, entry: str, launch: LaunchClass, instruments: Sequence[Instrument] = ()
) -> Translation:
    """Translate one kernel for a class of launches.

    Raises
    ------
    PtxError
        For anything in the kernel that the machine does not do; the message starts with `file:line:`.
    """
    function = module.functions.get(entry)
    if function is None or not function.is_entry:
        known = ", ".join(f.name for f in module.entries) or "none"
        raise PtxError(f"{module.path}: no kernel '{entry}'; kernels here: {known}")
    function = inline.inline_calls(module, function)
    layout = lay_out(module, function)
    flow_graph = graph.build(function, module.path)
    registers = flow_graph.registers
    shapes = Shapes(flow_graph, launch, lambda name: register_bits(registers[name]), layout.params)
    emitter = Emitter(module, flow_graph, shapes, layout, launch, instruments)
    flow = emit_function(emitter, "tw.warp")
    text = _join(emitter, instruments)
    return Translation(
        ir=text,
        symbol="tw.warp",
        warp_bytes=flow.warp_bytes,
        points=len(flow.points),
        spins=bool(flow_graph.spin_headers),
        sites=emitter.sites,
        counter_rows=emitter.counter_rows,
        layout=layout,
    )


def _join(emitter: Emitter, instruments: Sequence[Instrument]) -> str:
    """The module's text, with each instrument's counters placed after those of the one before."""
    starts, total = [], 0
    for instrument, rows in zip(instruments, emitter.counter_rows, strict=True):
        starts.append(total)
        total += instrument.slots * len(rows)
    body = "\n".join(emitter.code.lines)
    if instruments:
        body = re.sub(
            r"<counters\.(\d+)\+(\d+)>", lambda match: str(starts[int(match[1])] + int(match[2])), body
        )
    for instrument in instruments:
        for kind, (symbol, _) in instrument.handlers.items():
            emitter.code.declare(symbol, f"declare void @{symbol}({_HANDLER_ARGUMENTS[kind]})")
    return "\n".join([*emitter.globals, body, *emitter.code.declarations.values(), _ATTRIBUTES, _WEIGHTS])

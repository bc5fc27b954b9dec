"""From PTX to LLVM text: the passes, in order. The modules that emit text are not imported for cached translations."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.errors import LaunchError, PtxError, TilewrightError, TranslatorError
from tilewright.simulate.events import Instrument, Site
from tilewright.simulate.handlers import check_names
from tilewright.simulate.hosts import HostVectors
from tilewright.simulate.ptx import tree
from tilewright.simulate.translate.analysis import graph, inline, webs
from tilewright.simulate.translate.analysis.layout import Layout, lay_out
from tilewright.simulate.translate.analysis.shapes import Shapes
from tilewright.simulate.translate.analysis.special import LaunchClass
from tilewright.simulate.translate.lowering import stack
from tilewright.simulate.translate.lowering.calls import (
    STACK_BYTES,
    STACK_BYTES_MOST,
    called_functions,
    frame_layout,
    with_frame,
)

if TYPE_CHECKING:
    from tilewright.simulate.translate.lowering.emitter import Emitter

#: Fuel of a warp's turn in a kernel that spins on memory: little, so that the awaited warps run soon.
SPIN_QUANTUM = 20_000
QUANTUM = 2_000_000

_ATTRIBUTES = (
    'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" "no-trapping-math"="true" }'
)
_UNFORESEEN = (IndexError, KeyError, TypeError, ValueError, AttributeError, AssertionError, RecursionError)
_WEIGHTS = '!0 = !{!"branch_weights", i32 2000, i32 1}\n!1 = !{!"branch_weights", i32 1, i32 2000}'


@dataclass(slots=True)
class Translation:
    """A kernel as LLVM text, and the data to run it."""

    ir: str  #: LLVM module text that defines `symbol`.
    symbol: str
    #: Size of a warp record, and the number of its barrier points with counted arrivals.
    warp_bytes: int
    points: int
    spins: bool  #: Whether some loop waits for other threads,
    waits_for_blocks: bool  #: and for threads of other blocks.
    waits_in_calls: bool  #: Whether some loop of a called function waits for other threads.
    prints: bool  #: Whether it calls vprintf.
    addresses_params: bool  #: Whether it uses addresses of parameters, which must then be in device memory.
    slowness: int  #: How many times fewer instructions a warp's turn has than usual.
    sites: list[Site]
    counter_rows: list[list[int]]  #: For each instrument, the sites of its counters in order.
    tallies: int  #: Counters before the instruments' counters: how often straight lines ran with all lanes.
    #: For each instrument, what tallies add to its counters: row, number of the tally, and summand of each slot.
    multiples: list[list[list[int]]]
    layout: Layout = field(default_factory=Layout)
    #: LLVM modules of the instruments' handlers that `ir` calls, and of their parts; for compiling.
    handlers: list[str | bytes] = field(default_factory=list)
    #: Digest of `ir`, which is not cached on disk: two codes with one digest can continue each other's warps.
    digest: str = ""
    #: In quick code the keys of the libraries that have the handlers' C functions (`run/parts.py`).
    parts: list[str] = field(default_factory=list)
    making_seconds: float = 0.0  #: Time to translate and compile it.


def translate(
    module: tree.Module,
    entry: str,
    launch: LaunchClass,
    instruments: Sequence[Instrument] = (),
    host: HostVectors | None = None,
) -> Translation:
    """Translate one kernel for a class of launches, on a host with mask registers by default.

    Raises PtxError: the kernel has something that the machine does not implement; the message starts with `file:line:`.
    LaunchError: the kernel's own directives do not allow such blocks.
    """
    if entry in module.functions:
        _check_directives(module, module.functions[entry], launch)
    try:
        return _translate(module, entry, launch, instruments, host)
    except TilewrightError:
        raise
    except _UNFORESEEN as error:
        raise TranslatorError(
            f"{module.path}: '{entry}' could not be translated ({type(error).__name__}: {error}); this is a defect of "
            "Tilewright, not of the PTX; please report it with the PTX"
        ) from error


@contextlib.contextmanager
def _reading(module: tree.Module, name: str) -> Iterator[None]:
    """Turn unforeseen errors while a function is read into PtxError: they come from invalid operands."""
    try:
        yield
    except TilewrightError:
        raise
    except _UNFORESEEN as error:
        raise PtxError(f"{module.path}: '{name}' is malformed ({type(error).__name__}: {error})") from error


def _check_directives(module: tree.Module, function: tree.Function, launch: LaunchClass) -> None:
    """Refuse blocks that the kernel's directives exclude.

    Source: PTX ISA, 11.4 (performance-tuning directives).
    """
    where = f"{module.path}:{function.ptx_line}: '{function.name}'"
    directives = function.directives
    most = math.prod(directives.get(".maxntid", ()) or (launch.threads,))
    if launch.threads > most:
        raise LaunchError(
            f"{where} must be launched with at most {most} threads a block, as its .maxntid says (got "
            f"{launch.threads}); make blocks smaller or change its launch bounds"
        )
    required = directives.get(".reqntid", ())
    if required and (*required, 1, 1)[:3] != launch.block:
        raise LaunchError(
            f"{where} must be launched with blocks of {(*required, 1, 1)[:3]} threads, as its .reqntid says (got "
            f"{launch.block})"
        )


def _translate(
    module: tree.Module,
    entry: str,
    launch: LaunchClass,
    instruments: Sequence[Instrument],
    host: HostVectors | None,
) -> Translation:
    """The passes, in order."""
    from tilewright.simulate.translate.lowering.emit import emit_function
    from tilewright.simulate.translate.lowering.function import emit_called

    function = module.functions.get(entry)
    if function is None or not function.is_entry:
        known = ", ".join(f.name for f in module.entries) or "none"
        raise PtxError(f"{module.path}: no kernel '{entry}'; kernels here: {known}")
    gap = max((i.gap_bytes for i in instruments), default=0)
    with _reading(module, entry):
        function = inline.inline_calls(module, function)
        called = _called(module, function)
        if stacked := stack.is_used([function, *called.values()]):
            function, called = stack.passing(function), _called(module, function, stacked=True)
        layout = lay_out(module, function, gap, called.values())
    frames = STACK_BYTES if stacked else min(max(STACK_BYTES, launch.stack_bytes), STACK_BYTES_MOST)
    layout.stack_start = layout.local_bytes = layout.local_bytes + frames * bool(called)
    layout.local_bytes += launch.stack_bytes * stacked
    main = _emitter(module, function, layout, launch, instruments, host, gives_way=launch.gives_way)
    main.functions = {name: _taking(module.functions[name], stacked=stacked) for name in called}
    flow = emit_function(main, "tw.warp")
    graphs = [main.graph]
    for name, callee in called.items():
        emitter = _emitter(module, callee, frame_layout(layout, callee), launch, instruments, host)
        emitter.share(main)
        emit_called(emitter, f"function.{layout.functions.index(name)}")
        main.code.lines += emitter.code.lines
        main.prints |= emitter.prints
        main.addresses_params |= emitter.addresses_params
        graphs.append(emitter.graph)
    return Translation(
        ir=_join(main, instruments),
        symbol="tw.warp",
        warp_bytes=flow.warp_bytes,
        points=len(flow.points),
        spins=bool(main.graph.spin_headers),
        waits_for_blocks=any(graph.waits_for_blocks for graph in graphs),
        waits_in_calls=any(graph.spin_headers for graph in graphs[1:]),
        prints=main.prints,
        addresses_params=main.addresses_params,
        slowness=max(graph.slowness for graph in graphs),
        sites=main.sites,
        counter_rows=main.counter_rows,
        tallies=len(main.tallies),
        multiples=main.multiples,
        layout=layout,
        handlers=_handlers(main),
    )


def _handlers(main: Emitter) -> list[str | bytes]:
    """The modules of all handlers and of their parts, each once."""
    found = [*dict.fromkeys(text for handler in main.handlers.values() for text in (*handler.needs, handler.text))]
    check_names(found)
    return found


def _emitter(
    module: tree.Module,
    function: tree.Function,
    layout: Layout,
    launch: LaunchClass,
    instruments: Sequence[Instrument],
    host: HostVectors | None,
    *,
    gives_way: bool = False,
) -> Emitter:
    """The graph and shapes of one function, ready to emit."""
    from tilewright.simulate.translate.lowering.emitter import Emitter, register_bits

    with _reading(module, function.name):
        flow_graph = graph.build(function, module.path, gives_way=gives_way)
    webs.split(flow_graph)
    registers = flow_graph.registers
    shapes = Shapes(flow_graph, launch, lambda name: register_bits(registers[name]), layout.params)
    return Emitter(module, flow_graph, shapes, layout, launch, instruments, host)


def _called(module: tree.Module, function: tree.Function, *, stacked: bool = False) -> dict[str, tree.Function]:
    """Functions that are not inlined, and those that they call, each with a frame and its own calls inlined."""
    found: dict[str, tree.Function] = {}
    bodies = [function]
    while bodies:
        fresh = [f for f in called_functions(module, bodies) if f.name not in found]
        bodies = []
        for callee in fresh:
            whole = inline.inline_calls(module, with_frame(_taking(callee, stacked=stacked)))
            found[callee.name] = stack.passing(whole) if stacked else whole
            bodies.append(found[callee.name])
    return found


def _taking(function: tree.Function, *, stacked: bool) -> tree.Function:
    """A called function, with the stack as an argument if there is one."""
    return stack.with_stack(function) if stacked else function


def _join(emitter: Emitter, instruments: Sequence[Instrument]) -> str:
    """The module's text, with the instruments' counters in order after the tallies."""
    starts, total = {"tally": 0}, len(emitter.tallies)
    for number, (instrument, rows) in enumerate(zip(instruments, emitter.counter_rows, strict=True)):
        starts[str(number)] = total
        total += instrument.slots * len(rows)
    body = "\n".join(emitter.code.lines)
    if instruments:
        body = re.sub(r"<counters\.(\w+)\+(\d+)>", lambda match: str(starts[match[1]] + int(match[2])), body)
    return "\n".join([*emitter.globals, body, *emitter.code.declarations.values(), _ATTRIBUTES, _WEIGHTS])

"""Emitting a called function: the flow of a kernel, without leaving and resuming.

Where its fuel is spent it pauses, if its warp has a thread of its own (`run/turns.py`).
"""

from __future__ import annotations

import functools

from tilewright.errors import PtxError
from tilewright.simulate.code import Value
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.isa import Role
from tilewright.simulate.state import CALL_DEPTH, CONTEXT, FAULT, STOP_REQUEST
from tilewright.simulate.translate.analysis.graph import Block
from tilewright.simulate.translate.lowering import outline, reconvergence
from tilewright.simulate.translate.lowering.emit import emit_block
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.lowering.flow import Flow


class FunctionFlow(Flow):
    """Flow of a called function: `ret` ends lanes, spent fuel is renewed after a check of the limits."""

    in_record = False  # a function may call itself

    def prologue(self) -> None:
        """Allocas, arena pointers, and a first check of the limits, for recursion without loops."""
        outline.allocas(self)
        code = self.e.code
        code.line("store i32 %mask.in, ptr %mask")
        outline.clear_pending(self)
        self._guard_stack()
        self._poll()
        code.branch("B0")

    def _guard_stack(self) -> None:
        """Leave if the host's stack runs low, whatever the limit of calls."""
        code = self.e.code
        here = code.op("ptrtoint ptr %addresses to i64", "i64")
        low = code.icmp("ult", here, self.e.context("stack_low"))
        on, out = code.label("on"), code.label("deep")
        code.branch_if(low, out, on, likely=False)
        code.place(out)
        self._stop(CALL_DEPTH)
        code.place(on)

    def _stop(self, kind: int) -> None:
        code = self.e.code
        items = [op.instruction for block in self.graph.blocks for op in block.ops]
        source = self.e.source_of(items[0]) if items else ""
        site = self.e.add_site(Site(EventKind.RUN, self.graph.blocks[0].ptx_line, source, "call"))
        code.invoke("tw_stop", "void", "ptr %context", "ptr %warp", f"i32 {site}", "i32 %mask.in", f"i64 {kind}")
        code.branch("fault")

    def epilogue(self) -> None:
        """Leave with 0, or with a fault."""
        code = self.e.code
        if self.turns.parks:
            reconvergence.others(self.turns)
        code.place("fault")
        code.line(f"store i32 {FAULT}, ptr %status")
        code.branch("leave")
        code.place("finish")
        code.line("store i32 0, ptr %status")
        code.branch("leave")
        code.place("leave")
        self._account()
        status = code.op("load i32, ptr %status", "i32")
        code.line(f"ret {status}")
        outline.emit_shared(self)

    def _account(self) -> None:
        """Add the instructions run to the context, and renew the fuel."""
        code = self.e.code
        fuel = code.op("load i64, ptr %fuel", "i64")
        quantum = self.e.context("quantum")
        total = code.add(self.e.context("instructions"), code.sub(quantum, fuel))
        self.e.set_field("%context", CONTEXT["instructions"], total)
        code.line(f"store {quantum}, ptr %fuel")

    def _poll(self) -> None:
        """Leave if the launch is stopped or the limit of instructions is passed."""
        code = self.e.code
        self._account()
        stop = self.e.context("stop", "ptr")
        asked = code.op(f"load atomic i32, ptr {stop.text} monotonic, align 4", "i32")
        over = code.icmp("ugt", self.e.context("instructions"), self.e.context("instruction_limit"))
        halt = code.or_(code.icmp("ne", asked, code.const("i32", 0)), over)
        on, out = code.label("on"), code.label("halt")
        code.branch_if(halt, out, on, likely=False)
        code.place(out)
        self._stop(STOP_REQUEST)
        code.place(on)

    def _spend(self, block: Block, target: int, waits: list[tuple[int, Value]]) -> None:
        code = self.e.code
        on, out = code.label("on"), code.label("empty")
        code.branch_if(self._empty(), out, on, likely=False)
        code.place(out)
        self._poll()
        ended = code.icmp("ne", Value(code.invoke("tw_pause", "i32"), "i32"), code.const("i32", 0))
        code.branch_if(ended, "fault", on, likely=False)
        code.place(on)

    def _give_way(self, block: Block, target: int, waits: list[tuple[int, Value]]) -> None:
        line = block.end.instruction.ptx_line if block.end else block.ptx_line
        raise PtxError(
            f"{self.e.module.path}:{line}: a loop that waits for an mbarrier inside '{self.graph.name}', which is "
            "called recursively or through a pointer, is not implemented"
        )

    def _barrier(self, block: Block) -> None:
        raise PtxError(
            f"{self.e.module.path}:{block.end.instruction.ptx_line if block.end else 0}: a barrier inside "
            f"'{self.graph.name}', which is called recursively or through a pointer, is not implemented"
        )

    def _exit(self, block: Block) -> None:
        if block.end is not None and block.end.form.row.role is Role.EXIT:
            raise PtxError(
                f"{self.e.module.path}:{block.end.instruction.ptx_line}: 'exit' inside '{self.graph.name}', which is "
                "called recursively or through a pointer, is not implemented"
            )
        self.turns.dispatch(sorted(self.frontiers[block.index]))
        self.e.code.branch("finish")


def emit_called(emitter: Emitter, symbol: str) -> None:
    """Emit one called function into `emitter.code`."""
    code = emitter.code
    emitter.frame = Value("%frame", "i64")
    emitter.depth = Value("%depth", "i32")
    flow = FunctionFlow(emitter)
    code.line(
        f"define internal i32 @{symbol}(ptr %context, ptr %slot, ptr %warp, i32 %mask.in, i64 %frame, i32 %depth) "
        "noinline #0 {"
    )
    flow.begin(flow.pieces[0])
    flow.prologue()
    outline.emit_blocks(flow, flow.pieces[0], functools.partial(emit_block, emitter))
    flow.epilogue()
    code.line("}")

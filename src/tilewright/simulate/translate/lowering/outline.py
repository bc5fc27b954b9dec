"""The LLVM functions around a kernel's blocks: their starts, the resume points of a warp, and their ends.

A short kernel is one function. A long one is one function for each piece, and one that runs them in turn: a piece
returns `ELSEWHERE` and stores the next block in the warp's record. In the latter, each block is a call of its piece.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import VALUES_MAX, VALUES_STRIDE_BYTES
from tilewright.simulate.state import AWAITS, BLOCKED, CONTEXT, DONE, FAULT, POINT, SLOT, WARP, YIELDED
from tilewright.simulate.translate.analysis.graph import Block
from tilewright.simulate.translate.analysis.layout import align_up
from tilewright.simulate.translate.analysis.pieces import Piece
from tilewright.simulate.translate.lowering import reconvergence
from tilewright.simulate.translate.lowering.flow import AGAIN, ELSEWHERE, OTHERS, Flow
from tilewright.simulate.translate.memory.gathers import ADDRESSES, IN_MEMORY

_PARAMETERS = "ptr noalias %context, ptr noalias %slot, ptr noalias %warp"
#: Counters that pieces share: byte offsets after `Flow.counters_at`.
_COUNTERS = {"fuel": 0, "spins": 8, "parks": 12, "avoid": 16}


def emit_kernel(flow: Flow, symbol: str, emit_block: Callable[[Block], None]) -> None:
    """Emit a kernel, in one function or in pieces, under the warp function's name."""
    code = flow.e.code
    if not flow.is_cut:
        flow.begin(flow.pieces[0])
        code.line(f"define i32 @{symbol}({_PARAMETERS}) #0 {{")
        allocas(flow)
        code.branch("resume.switch")
        emit_blocks(flow, flow.pieces[0], emit_block)
        _end_kernel(flow)
        return
    for number, piece in enumerate(flow.pieces):
        flow.begin(piece)
        code.line(f"define internal i32 @{symbol}.{number}({_PARAMETERS}, i32 %at) noinline #0 {{")
        allocas(flow)
        code.branch("resume.switch")
        emit_blocks(flow, piece, emit_block)
        _end_piece(flow, piece)
    flow.begin(None)
    code.line(f"define i32 @{symbol}({_PARAMETERS}) #0 {{")
    allocas(flow)
    code.put(flow.e.context("quantum"), "%fuel")
    code.put(code.const("i32", 0), "%spins")
    code.put(code.const("i32", 0), "%parks")
    code.branch("resume.switch")
    _call_pieces(flow, symbol)
    _end_kernel(flow)


def emit_blocks(flow: Flow, piece: Piece, emit_block: Callable[[Block], None]) -> None:
    """The blocks of a piece, with their ends."""
    for block in flow.graph.blocks[piece.blocks.start : piece.blocks.stop]:
        flow.enter(block)
        emit_block(block)
        flow.leave(block)


def allocas(flow: Flow) -> None:
    """A function's own variables, its registers, and pointers to the arenas."""
    code, e = flow.e.code, flow.e
    code.place("entry")
    code.line("%mask = alloca i32")
    code.line("%status = alloca i32")
    code.line("%remaining = alloca i32")
    if flow.is_cut:
        for name, offset in _COUNTERS.items():
            code.line(f"%{name} = getelementptr i8, ptr %warp, i64 {flow.counters_at + offset}")
    else:
        code.line("%fuel = alloca i64")
        code.put(e.context("quantum"), "%fuel")
        code.line("%spins = alloca i32")
        code.put(code.const("i32", 0), "%spins")
        code.line("%parks = alloca i32")
        code.put(code.const("i32", 0), "%parks")
        code.line("%avoid = alloca i32")
    code.line(f"{ADDRESSES.text} = alloca <{LANES} x i64>, align 64")
    code.line(f"%lanes.scratch = alloca [{_scratch_bytes(flow)} x i8], align 64")
    code.line(f"{IN_MEMORY.text} = alloca <{LANES} x ptr>, align 64")
    # In memory: as LLVM values, the masks would need thousands of phis where blocks join.
    in_record = f"getelementptr i8, ptr %warp, i64 {flow.pending_offset}"
    code.line(f"%pending = {in_record if flow.in_record else f'alloca [{len(flow.turns.waitable)} x i32], align 64'}")
    flow.frame.declare()
    if flow.turns.piece is not None:
        e.declare_registers(flow.turns.piece.touched - flow.frame.held)
    _arenas(flow)


def _scratch_bytes(flow: Flow) -> int:
    """Scratch memory: 16 bytes a lane for each operand of the widest atomic (v8, cache policy), 4 for a register."""
    lists = (sum(op.form.lists.values()) for block in flow.graph.blocks for op in block.ops if op.form.row.counts)
    return LANES * max(18 * 16, 4 * max(lists, default=0))


def _arenas(flow: Flow) -> None:
    code, e = flow.e.code, flow.e
    code.line(f"%global = getelementptr i8, ptr {e.context('global_base', 'ptr').text}, i64 0")
    code.line(f"%global.limit = add i64 {e.context('global_limit').text}, 0")
    code.line(f"%shared.limit = add i64 {e.context('shared_bytes').text}, 0")
    code.line(f"%shared = getelementptr i8, ptr {e.field('%slot', SLOT['shared'], 'ptr').text}, i64 0")
    warp = code.cast("zext", e.field("%warp", WARP["index"], "i32"), "i64")
    stride = align_up(e.layout.local_bytes, 16) * LANES  # for a whole warp
    offset = code.mul(warp, code.const("i64", stride))
    local = e.field("%slot", SLOT["local"], "ptr")
    code.line(f"%local = getelementptr i8, ptr {local.text}, i64 {offset.text}")
    for index in range(len(e.instruments)):
        _observer(flow, index)


def _observer(flow: Flow, index: int) -> None:
    """Pointers to each instrument's memory, and space for the addresses and values that handlers get."""
    e = flow.e
    tables = {"launch": e.context("observed_launch", "ptr"), "block": e.field("%slot", SLOT["observed"], "ptr")}
    for name, table in tables.items():
        start = e.field(table.text, 8 * index, "ptr")
        e.code.line(f"%observed.{name}.{index} = getelementptr i8, ptr {start.text}, i64 0")
    if index == 0:
        e.code.line(f"%values = alloca [{VALUES_MAX} x [{VALUES_STRIDE_BYTES} x i8]], align 64")


# -- a whole kernel, and the function that runs pieces ----------------------------------------------------------------


def _end_kernel(flow: Flow) -> None:
    """The common exits, and the resume points that are needed."""
    code, e = flow.e.code, flow.e
    if flow.turns.parks:
        reconvergence.others(flow.turns)
    code.place("fault")
    code.put(code.const("i32", FAULT), "%status")
    code.branch("leave")
    code.place("finish")
    if flow.dispatches and flow.points:
        blocked = code.const("i32", 0)
        for point in flow.points.values():
            blocked = code.or_(blocked, e.field("%warp", flow.point_at(point) + POINT["blocked"], "i32"))
        code.branch_if(code.icmp("ne", blocked, code.const("i32", 0)), "wait.all", "done")
        code.place("wait.all")
        flow.save_all()
        flow.leave_with(BLOCKED, resume=AGAIN)
        code.place("done")
    flow.leave_with(DONE, resume=0)
    code.place("leave")
    fuel = code.op("load i64, ptr %fuel", "i64")
    used = code.sub(e.context("quantum"), fuel)
    e.set_field("%context", CONTEXT["instructions"], code.add(e.context("instructions"), used))
    status = code.op("load i32, ptr %status", "i32")
    code.line(f"ret {status}")
    _resume_switch(flow)
    emit_shared(flow)
    code.line("}")


def _resume_switch(flow: Flow) -> None:
    """The place where a warp continues when the scheduler runs it again."""
    code, e = flow.e.code, flow.e
    code.place("resume.switch")
    resume = e.field("%warp", WARP["resume"], "i32")
    cases = [f"i32 {b + 1}, label %resume.{b}" for b in sorted(flow.resumes)]
    if flow.dispatches:
        cases += [f"i32 {resume}, label %resume.all" for resume in (AGAIN, OTHERS)]
    code.line(f"switch {resume}, label %start [{' '.join(cases)}]")
    code.place("start")
    clear_pending(flow)
    flow.frame.clear(flow.graph.blocks[0].live_in if flow.is_cut else flow.frame.held)
    live = e.field("%warp", WARP["live"], "i32")
    code.put(live, "%mask")
    code.branch("B0")
    for block in sorted(flow.resumes):
        code.place(f"resume.{block}")
        flow.frame.restore(flow.graph.blocks[block].live_in)
        mask = e.field("%warp", WARP["mask"], "i32")
        code.put(mask, "%mask")
        flow.released(block, mask)
        code.branch(f"B{block}")
    if flow.dispatches:
        _resume_all(flow)


def clear_pending(flow: Flow) -> None:
    """Clear all pending masks."""
    for block in flow.turns.waitable:
        flow.e.code.put(flow.e.code.const("i32", 0), flow.turns.pending(block))


def _resume_all(flow: Flow) -> None:
    """Go on after a wait in divergent code: released lanes become pending, the lowest block runs."""
    code, e = flow.e.code, flow.e
    code.place("resume.all")
    flow.frame.restore(flow.frame.at)
    for block, point in flow.points.items():
        after = flow.graph.blocks[block].successors[0]
        if not flow.frontiers[block]:  # resumes with one mask, which is stored elsewhere
            continue
        ready = e.field("%warp", flow.point_at(point) + POINT["ready"], "i32")
        e.set_field("%warp", flow.point_at(point) + POINT["ready"], code.const("i32", 0))
        flow.released(after, ready)
        flow.turns.add_pending(after, ready)
    if flow.graph.await_headers and flow.turns.parks:
        code.put(e.field("%warp", WARP["avoid"], "i32"), "%avoid")
        after_others = code.icmp("eq", e.field("%warp", WARP["resume"], "i32"), code.const("i32", OTHERS))
        code.branch_if(after_others, "others", "resume.lowest")
        code.place("resume.lowest")
    flow.turns.dispatch(flow.turns.waitable)
    code.branch("finish")


def emit_shared(flow: Flow) -> None:
    """The shared code of many blocks' ends, in a crowded function."""
    code = flow.e.code
    _returns(flow)
    if "dispatch" not in flow.turns.shared:
        return
    code.place("dispatch")
    code.branch("dispatch.look")
    code.place("dispatch.look")
    code.line("%dispatch.at = phi i64 [ 0, %dispatch ], [ %dispatch.next, %dispatch.on ]")
    at = Value("%dispatch.at", "i64")
    code.branch_if(code.icmp("uge", at, code.const("i64", len(flow.turns.waitable))), "finish", "dispatch.test")
    code.place("dispatch.test")
    place = code.op(f"getelementptr i32, ptr %pending, {at}", "ptr")
    pending = code.op(f"load i32, ptr {place.text}", "i32")
    code.branch_if(code.icmp("ne", pending, code.const("i32", 0)), "dispatch.found", "dispatch.on")
    code.place("dispatch.on")
    code.line("%dispatch.next = add i64 %dispatch.at, 1")
    code.branch("dispatch.look")
    code.place("dispatch.found")
    code.put(code.const("i32", 0), place.text)
    code.put(pending, "%mask")
    cases = " ".join(f"i64 {index}, label %B{block}" for index, block in enumerate(flow.turns.waitable))
    code.line(f"switch {at}, label %finish [{cases}]")


def _returns(flow: Flow) -> None:
    """The shared ends of a warp's turn: they save all registers, wherever lanes resume."""
    for label, status, resume in (("yield.all", YIELDED, AGAIN), ("await.all", AWAITS, OTHERS)):
        if label in flow.turns.shared:
            flow.e.code.place(label)
            flow.save_all()
            flow.leave_with(status, resume=resume)


def _call_pieces(flow: Flow, symbol: str) -> None:
    """Each entry block is a call of its piece; then the warp leaves, or goes on where the piece says."""
    code, e = flow.e.code, flow.e
    owners = {block: number for number, piece in enumerate(flow.pieces) for block in piece.blocks}
    for block in sorted(flow.entries):
        code.place(f"B{block}")
        e.set_field("%warp", WARP["mask"], code.op("load i32, ptr %mask", "i32"))
        call = f"call i32 @{symbol}.{owners[block]}(ptr %context, ptr %slot, ptr %warp, i32 {block})"
        code.put(code.op(call, "i32"), "%status")
        code.branch("returned")
    code.place("returned")
    status = code.op("load i32, ptr %status", "i32")
    code.branch_if(code.icmp("eq", status, code.const("i32", ELSEWHERE)), "next", "leave")
    code.place("next")
    code.put(e.field("%warp", WARP["mask"], "i32"), "%mask")
    cases = [f"i32 {block + 1}, label %B{block}" for block in sorted(flow.entries)]
    cases += [f"i32 {OTHERS}, label %others"] if flow.turns.parks else []
    code.line(f"switch {e.field('%warp', WARP['resume'], 'i32')}, label %next.any [{' '.join(cases)}]")
    code.place("next.any")
    flow.turns.dispatch(flow.turns.waitable)
    code.branch("finish")


# -- pieces -----------------------------------------------------------------------------------------------------------


def _end_piece(flow: Flow, piece: Piece) -> None:
    """The exits of a piece, and the blocks at which it can be entered."""
    code = flow.e.code
    if "others" in flow.turns.shared:
        code.place("others")
        flow.save_all()
        flow.leave_with(ELSEWHERE, resume=OTHERS)
    _returns(flow)
    if "dispatch" in flow.turns.shared:
        code.place("dispatch")
        code.branch("finish")
    code.place("finish")
    flow.save_all()
    flow.leave_with(ELSEWHERE, resume=AGAIN)
    code.place("fault")
    code.put(code.const("i32", FAULT), "%status")
    code.branch("leave")
    code.place("leave")
    code.line(f"ret {code.op('load i32, ptr %status', 'i32')}")
    _enter_piece(flow, piece)
    code.line("}")


def _enter_piece(flow: Flow, piece: Piece) -> None:
    """Jump to the caller's block, with the registers that the piece needs."""
    code, e = flow.e.code, flow.e
    code.place("resume.switch")
    mask = e.field("%warp", WARP["mask"], "i32")
    code.put(mask, "%mask")
    entries = sorted(flow.entries.intersection(piece.blocks))
    among = [block for block in entries if flow.frontiers[block]]  # other lanes may wait: restore their registers too
    alone = [block for block in entries if not flow.frontiers[block]]
    cases = " ".join(f"i32 {block}, label %enter.{block}" for block in alone)
    code.line(f"switch i32 %at, label %enter.all [{cases}]")
    for block in alone:
        code.place(f"enter.{block}")
        flow.frame.restore(flow.graph.blocks[block].live_in)
        code.branch(f"B{block}")
    code.place("enter.all")
    if not among:
        code.line("unreachable")
        return
    flow.frame.restore(flow.frame.at)
    cases = " ".join(f"i32 {block}, label %B{block}" for block in among)
    code.line(f"switch i32 %at, label %fault [{cases}]")

"""The code of a warp at a barrier: check the operands, call the runtime, read a reduction's result.

Source: PTX ISA, 9.7.13.1 (bar, barrier).
"""

from __future__ import annotations

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import (
    ARRIVE,
    BARRIER_COUNTS,
    BARRIER_IDS,
    BARRIERS,
    CLUSTER_BARRIER,
    POINT,
    REDUCE,
    SYNC,
    WARP,
)
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter


def form_of(op: Op) -> int:
    """The action of a barrier instruction: SYNC, ARRIVE or REDUCE."""
    modifiers = op.instruction.modifiers
    return ARRIVE if ".arrive" in modifiers else REDUCE if ".red" in modifiers else SYNC


def identity_of(op: Op) -> tree.Operand:
    """The operand with the barrier's number."""
    if op.form.has("cluster"):
        return tree.Immediate(CLUSTER_BARRIER)
    return op.sources[0] if op.sources else tree.Immediate(0)


def count_of(op: Op) -> tree.Operand | None:
    """The operand with the number of threads, if there is one; a reduction's predicate comes last."""
    return op.sources[1] if len(op.sources) > 1 + (form_of(op) == REDUCE) else None


def check_literals(emitter: Emitter, op: Op) -> None:
    """Refuse literal numbers and counts that no GPU has: 16 barriers, counts in whole warps."""
    item = op.instruction
    where = f"{emitter.module.path}:{item.ptx_line}"
    identity, count = identity_of(op), count_of(op)
    if op.sources and isinstance(identity, tree.Immediate) and not 0 <= identity.value < BARRIERS:
        raise PtxError(f"{where}: the barrier of '{item.name}' must be 0 to 15 (got {identity.value})")
    if isinstance(count, tree.Immediate) and (count.value <= 0 or count.value % LANES):
        raise PtxError(
            f"{where}: the threads of '{item.name}' must be a positive multiple of {LANES} (got {count.value})"
        )


def is_plain(op: Op) -> bool:
    """Whether all threads wait at a barrier with a literal number, without a reduction."""
    whole = form_of(op) == SYNC and count_of(op) is None and not op.form.has("cluster")
    return whole and isinstance(identity_of(op), tree.Immediate)


def reach(emitter: Emitter, op: Op, point: int) -> None:
    """Make the running lanes wait at a point, given by its byte offset in the warp's record."""
    e, code = emitter, emitter.code
    site = _site(e, op)
    identity, count = _operands(e, op, site)
    votes = code.const("i32", 0)
    if form_of(op) == REDUCE:
        value = code.splat(e.read(op.sources[-1], "pred"))
        votes = code.and_(code.op(f"bitcast {value} to i32", "i32"), e.mask)
    if isinstance(identity_of(op), tree.Immediate) and isinstance(count_of(op), tree.Immediate | None):
        lanes = {"blocked": e.mask} | ({"predicate": votes} if form_of(op) == REDUCE else {})
        _wait(e, point, lanes, (identity, count, code.const("i32", form_of(op)), code.const("i32", site)))
        return
    at = code.op(f"getelementptr i8, ptr %warp, i64 {point}", "ptr")
    counted = int(count_of(op) is not None)
    facts = (at, f"i32 {site}", e.mask, f"i32 {form_of(op)}", votes, identity, count, f"i32 {counted}")
    _or_fault(e, "tw_reach", "ptr %warp", *facts)


def _wait(emitter: Emitter, point: int, lanes: dict[str, Value], facts: tuple[Value, ...]) -> None:
    """The inlined `tw_reach` for literal operands, which need no check: `facts` are the fields from "id" on."""
    e, code = emitter, emitter.code
    for name, more in lanes.items():
        at = point + POINT[name]
        e.set_field("%warp", at, code.or_(e.field("%warp", at, "i32"), more))
    packed = ", ".join(str(fact) for fact in facts)
    e.set_field("%warp", point + POINT["id"], Value(f"<{packed}>", "i32", len(facts)))


def pass_by(emitter: Emitter, op: Op) -> None:
    """A whole warp arrives and goes on."""
    site = _site(emitter, op)
    identity, count = _operands(emitter, op, site)
    _or_fault(emitter, "tw_pass", "ptr %slot", "ptr %warp", f"i32 {site}", emitter.mask, identity, count)


def arrive_at_cluster(emitter: Emitter, op: Op) -> None:
    """Lanes arrive at the barrier of the cluster, and go on."""
    _or_fault(emitter, "tw_cluster_arrive", "ptr %slot", "ptr %warp", f"i32 {_site(emitter, op)}", emitter.mask)


def emit_reduction_result(emitter: Emitter, op: Op) -> Value:
    """The result of a reduction, which the runtime stored in the warp's record when the barrier completed.

    A warp waits at one barrier at a time, with all its lanes. So the next result comes after all lanes have read this.
    """
    code = emitter.code
    votes = emitter.field("%warp", WARP["votes"], "i32")
    if ".popc" in op.instruction.modifiers:
        return votes
    if ".and" in op.instruction.modifiers:
        return code.icmp("eq", votes, emitter.field("%warp", WARP["voters"], "i32"))
    return code.icmp("ne", votes, code.const("i32", 0))


def notify(emitter: Emitter, op: Op) -> None:
    """Notify instruments that lanes have arrived at a barrier."""
    if not emitter.instruments:
        return
    identity = emitter.first_lane(emitter.read(identity_of(op), "u32"))
    count = count_of(op)
    threads = emitter.code.const("i32", 0) if count is None else emitter.first_lane(emitter.read(count, "u32"))
    waits = emitter.code.const("i32", int(form_of(op) != ARRIVE))
    emitter.event(EventKind.ARRIVE, op.instruction, emitter.mask, identity, threads, waits)


def _site(emitter: Emitter, op: Op) -> int:
    item = op.instruction
    return emitter.add_site(Site(EventKind.RUN, item.ptx_line, emitter.source_of(item), item.name))


def _operands(emitter: Emitter, op: Op, site: int) -> tuple[Value, Value]:
    """Number and count, which the lanes must agree on; a missing count is 0."""
    count = count_of(op)
    return (
        _agreed(emitter, identity_of(op), site, BARRIER_IDS),
        emitter.code.const("i32", 0) if count is None else _agreed(emitter, count, site, BARRIER_COUNTS),
    )


def _agreed(emitter: Emitter, operand: tree.Operand, site: int, kind: int) -> Value:
    """An operand's value in all lanes that run, or a fault."""
    e, code = emitter, emitter.code
    value = e.read(operand, "u32")
    if value.lanes == 1:
        return value
    first = e.first_lane(value)
    unlike = code.op(f"bitcast {code.icmp('ne', value, first)} to i32", "i32")
    others = code.and_(unlike, e.mask)
    bad, fine = code.label("disagree"), code.label("agree")
    code.branch_if(code.icmp("ne", others, code.const("i32", 0)), bad, fine, likely=False)
    code.place(bad)
    lane = code.and_(code.call("llvm.cttz", "i32", others, flags="i1 false"), code.const("i32", LANES - 1))
    got = code.lane(value, lane)
    facts = (f"i32 {site}", others, f"i64 {kind}", got, first)
    code.invoke("tw_blame", "void", "ptr %context", "ptr %warp", *facts)
    code.branch("fault")
    code.place(fine)
    return first


def _or_fault(emitter: Emitter, function: str, *arguments: object) -> None:
    """Call a function of the runtime; go on if it finds no fault."""
    code = emitter.code
    on = code.label("on")
    code.branch_if(Value(code.invoke(function, "i1", "ptr %context", *arguments), "i1"), "fault", on, likely=False)
    code.place(on)

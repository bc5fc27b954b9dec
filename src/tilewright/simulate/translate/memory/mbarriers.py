"""The code of a warp at an mbarrier: find it in shared memory, call the runtime, read the result.

Source: PTX ISA, 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from tilewright.errors import PtxError
from tilewright.simulate.code import LANES, Value
from tilewright.simulate.events import EventKind
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import MBARRIER_DROPS, MBARRIER_EXPECTS, MBARRIER_NO_COMPLETION, SHARED_WINDOW
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.analysis.operands import SINK
from tilewright.simulate.translate.analysis.shape import UNIFORM
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory import clusters
from tilewright.simulate.translate.memory.access import CLUSTER, Access, base_offset, resolve
from tilewright.simulate.translate.memory.access_events import event_site, notify
from tilewright.simulate.translate.memory.bounds import fault_unless, within
from tilewright.simulate.translate.memory.clusters import Place, There

#: Bytes of an mbarrier.
_BYTES = 8
#: Further actions of an arrival, by a part of its name.
_DOES = {"arrive_drop": MBARRIER_DROPS, "expect_tx": MBARRIER_EXPECTS, "noComplete": MBARRIER_NO_COMPLETION}


def emit(emitter: Emitter, op: Op) -> list[Value]:
    """Emit an instruction that initialises, changes or invalidates mbarriers; an arrival returns the old states."""
    if op.form["space"] == CLUSTER and op.form.row.writes and op.destinations != (SINK,):
        raise PtxError(
            f"{emitter.module.path}:{op.instruction.ptx_line}: the result of '{op.form.name}' must be '_' "
            f"(got {op.destinations[0]}): an mbarrier of another block returns no state"
        )
    if op.form["space"] != CLUSTER or not emitter.launch.clustered:
        return _emit(emitter, op, places_of(emitter, op, op.sources[0]), "ptr %shared")
    place = clusters.place_of(emitter, op, op.sources[0], "b64", store=True)

    def emit_there(there: There) -> None:
        _emit(emitter, op, places_there(emitter, op, place, there), there.shared)

    clusters.at_each(emitter, clusters.ranks_of(emitter, place), emit_there)
    return [emitter.code.const("i64", 0)] * len(op.destinations)


def _emit(emitter: Emitter, op: Op, lanes: tuple[tuple[object, ...], str], shared: str) -> list[Value]:
    """Emit an operation on mbarriers in a block's shared memory."""
    code, form = emitter.code, op.form
    where, places = lanes
    if form.has("inval"):
        code.invoke("tw_mbarrier_inval", "void", "ptr %context", emitter.mask, shared, places)
        _notify(emitter, op)
        return []
    number = emitter.read(op.sources[1], "u32") if len(op.sources) > 1 else code.const("i32", 1)
    arguments = ("ptr %context", *where, shared, places, scratch(emitter, 1, number))
    if form.has("async"):  # copies of the thread, which are complete
        if form.has("noinc"):
            or_fault(emitter, "tw_mbarrier_arrive", *arguments, scratch(emitter, 2, code.const("i64", 0)), "i32 0")
    elif form.has("init"):
        or_fault(emitter, "tw_mbarrier_init", *arguments)
    elif not op.form.row.writes:
        or_fault(emitter, "tw_mbarrier_expect", *arguments, f"i32 {int(form.has('complete_tx'))}")
    else:
        return [arrive(emitter, op, lanes, shared, number)]
    _notify(emitter, op)
    return []


def arrive(
    emitter: Emitter, op: Op, lanes: tuple[tuple[object, ...], str], shared: str, number: Value | None = None
) -> Value:
    """Arrive at mbarriers in a block's shared memory, once or by a count; returns their old states."""
    code, (where, places) = emitter.code, lanes
    counts = scratch(emitter, 1, code.const("i32", 1) if number is None else number)
    states = scratch(emitter, 2, code.const("i64", 0))
    does = sum(bit for word, bit in _DOES.items() if op.form.has(word))
    or_fault(emitter, "tw_mbarrier_arrive", "ptr %context", *where, shared, places, counts, states, f"i32 {does}")
    _notify(emitter, op)
    return code.op(f"load <{LANES} x i64>, {states}, align 64", "i64", LANES)


def emit_test(emitter: Emitter, op: Op) -> Value:
    """Whether a phase is complete: one answer if all lanes test the same mbarrier and phase."""
    code = emitter.code
    (warp, site, mask), places = places_of(emitter, op, op.sources[0])
    parity = op.form.has("parity")
    token = emitter.read(op.sources[1], "u32" if parity else "b64")
    tokens = scratch(emitter, 1, code.resize(token, "i64", signed=False))
    uniform = emitter.shapes.results(op)[0].kind == UNIFORM
    if uniform:
        mask = code.and_(emitter.mask, code.sub(code.const("i32", 0), emitter.mask))  # the lowest lane tests for all
    arguments = (warp, site, mask, "ptr %shared", places, tokens, f"i32 {int(parity)}")
    complete = Value(code.invoke("tw_mbarrier_test", "i32", *arguments), "i32")
    _notify(emitter, op)
    return code.icmp("ne", complete, code.const("i32", 0)) if uniform else code.mask_lanes(complete)


def emit_completion(emitter: Emitter, op: Op, operand: tree.Operand, number: Value) -> None:
    """Count the bytes of copies at mbarriers: `number` for each running lane."""
    complete(emitter, places_of(emitter, op, operand), "ptr %shared", number)


def complete(emitter: Emitter, lanes: tuple[tuple[object, ...], str], shared: str, number: Value) -> None:
    """Count a number of bytes at mbarriers in a block's shared memory."""
    where, places = lanes
    arguments = ("ptr %context", *where, shared, places, scratch(emitter, 1, number))
    or_fault(emitter, "tw_mbarrier_expect", *arguments, "i32 1")


def places_there(emitter: Emitter, op: Op, place: Place, there: There) -> tuple[tuple[object, ...], str]:
    """As `places_of`, of mbarriers in the shared memory of a block of the cluster."""
    code = emitter.code
    offsets = code.sub(place.offsets, code.splat(there.start))
    low = code.and_(offsets, code.const("i64", _BYTES - 1))
    inside = code.and_(
        within(emitter, "shared", offsets, code.const("i64", _BYTES)), code.icmp("eq", low, code.const("i64", 0))
    )
    fault_unless(emitter, place.access, inside, place.offsets, 0)
    if emitter.instruments:
        notify(emitter, place.access, place.offsets, "atomic")
    site = emitter.add_site(event_site(emitter, place.access, "atomic"))
    return ("ptr %warp", f"i32 {site}", emitter.mask), scratch(emitter, 0, offsets)


def places_of(emitter: Emitter, op: Op, operand: tree.Operand) -> tuple[tuple[object, ...], str]:
    """The runtime's arguments: the warp, the site, the lanes, and each lane's offset of its mbarrier in the block."""
    code, item = emitter.code, op.instruction
    named = "shared" if op.form["space"] or op.form.row.kind in ("tensor", "bulk") else "generic"
    base, offset, space = resolve(emitter, item, operand, named)
    access = Access(op, "shared", base, offset, 1, "b64", True, True)
    window = SHARED_WINDOW if space == "generic" else 0
    offsets = code.splat(code.add(base_offset(emitter, access, base=False), code.const("i64", offset - window)))
    inside = within(emitter, "shared", offsets, code.const("i64", _BYTES))
    low = code.and_(offsets, code.const("i64", _BYTES - 1))
    fault_unless(emitter, access, code.and_(inside, code.icmp("eq", low, code.const("i64", 0))), offsets, window)
    if emitter.instruments:
        notify(emitter, access, offsets, "atomic")
    site = emitter.add_site(event_site(emitter, access, "atomic"))
    return ("ptr %warp", f"i32 {site}", emitter.mask), scratch(emitter, 0, offsets)


def scratch(emitter: Emitter, number: int, value: Value) -> str:
    """Store a value of all lanes for the runtime; returns a pointer argument."""
    code = emitter.code
    at = code.op(slot(number), "ptr")
    code.store(code.splat(value), at.text)
    return str(at)


def slot(number: int) -> str:
    """The place of a value of all lanes in scratch memory, 64 bits each."""
    return f"getelementptr i8, ptr %lanes.scratch, i64 {number * 8 * LANES}"


def _notify(emitter: Emitter, op: Op) -> None:
    """Notify instruments of an operation, with the operands in scratch memory."""
    if emitter.instruments:
        places, operands = (emitter.code.op(slot(number), "ptr") for number in range(2))
        emitter.event(EventKind.MBARRIER, op.instruction, emitter.mask, places, operands)


def or_fault(emitter: Emitter, function: str, *arguments: object) -> None:
    """Call a function of the runtime that returns true for a fault."""
    code = emitter.code
    on = code.label("on")
    code.branch_if(Value(code.invoke(function, "i1", *arguments), "i1"), "fault", on, likely=False)
    code.place(on)

"""Reconvergence: lanes of a warp wait for each other at an instruction that names them, such as `shfl.sync`.

Source: PTX ISA, 9.7.9 (`.sync` instructions wait until all lanes of `membermask` execute the same instruction).
"""

from __future__ import annotations

import itertools

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.state import WARP
from tilewright.simulate.translate.analysis.graph import Block
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.lowering.turns import Turns


def wait(turns: Turns, block: Block, *, counts_parks: bool) -> None:
    """Wait for the lanes in the instruction's member mask, as long as any of them can still arrive.

    Lanes park in this block's own pending mask. If no other lane of the warp can run, they go on as they are. They also
    do so if all other lanes wait to reconverge: then each pending block has parked once and nothing has run since.
    """
    code, e = turns.e.code, turns.e
    here = block.index
    if here not in turns.places:
        return
    mask = code.op("load i32, ptr %mask", "i32")
    e.mask = mask
    first = block.ops[0]
    member = _all_named(e, e.read(first.instruction.operands[-1], "b32"))
    live = e.field("%warp", WARP["live"], "i32")
    missing = code.and_(code.and_(member, live), code.not_(mask))
    go, wait = f"B{here}.met", f"B{here}.wait"
    code.branch_if(code.icmp("eq", missing, code.const("i32", 0)), go, wait)
    code.place(wait)
    anyone = code.const("i32", 0)
    for other in sorted(turns.frontiers[here] - {here}):
        anyone = code.or_(anyone, code.op(f"load i32, ptr {turns.pending(other)}", "i32"))
    rest = f"B{here}.rest"
    hopeful = code.icmp("ne", anyone, code.const("i32", 0))
    if counts_parks:
        parks = code.op("load i32, ptr %parks", "i32")
        code.put(code.add(parks, code.const("i32", 1)), "%parks")
        hopeful = code.and_(hopeful, code.icmp("ule", parks, code.const("i32", len(turns.waitable))))
    code.branch_if(hopeful, rest, go)
    code.place(rest)
    turns.add_pending(here, mask)
    code.put(code.const("i32", here), "%avoid")
    turns.parks = True
    turns.share("others")
    code.place(go)


def others(turns: Turns) -> None:
    """Shared by all waits: run the next pending block after `%avoid`, cyclically."""
    code = turns.e.code
    code.place("others")
    avoid = code.op("load i32, ptr %avoid", "i32")
    for predicate, block in itertools.product(("ult", "ugt"), turns.waitable):
        pending = code.op(f"load i32, ptr {turns.pending(block)}", "i32")
        waits = code.icmp("ne", pending, code.const("i32", 0))
        runs = code.and_(waits, code.icmp(predicate, avoid, code.const("i32", block)))
        yes, no = code.label("run"), code.label("skip")
        code.branch_if(runs, yes, no)
        code.place(yes)
        turns.run(block, pending)
        code.place(no)
    turns.dispatch(turns.waitable)  # no other block can run, so the avoided one runs
    code.branch("finish")


def _all_named(emitter: Emitter, members: Value) -> Value:
    """The union of the running lanes' member masks: several groups may reconverge at one instruction."""
    code = emitter.code
    if members.lanes == 1:
        return members
    running = code.op(f"bitcast {emitter.mask} to <{LANES} x i1>", "i1", LANES)
    kept = code.select(running, members, code.const("i32", 0))
    return Value(code.invoke(f"llvm.vector.reduce.or.v{LANES}i32", "i32", kept), "i32")

"""Operations in the shared memory of a cluster's blocks: emitted once, run for each block that some lane names."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.ptx import tree
from tilewright.simulate.state import RANK_SHIFT, SHARED_WINDOW, SLOT, SLOT_BYTES
from tilewright.simulate.translate.analysis.graph import Op
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import CLUSTER, Access, arena, base_offset, resolve, shared_start
from tilewright.simulate.translate.memory.bounds import fault_unless

#: The place of the rank in scratch memory, after the data of copies.
_RANK = f"getelementptr i8, ptr %lanes.scratch, i64 {10 * 8 * LANES}"
OFFSET_MASK = (1 << RANK_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class There:
    """A block of the cluster: the start of its shared memory, in the cluster's and in host memory."""

    start: Value
    shared: str  #: As an argument.


@dataclass(frozen=True, slots=True)
class Place:
    """The place that an operand points to, in each lane: an offset in the cluster's shared memory."""

    access: Access
    offsets: Value


def place_of(
    emitter: Emitter,
    op: Op,
    operand: tree.Operand,
    type_: str,
    *,
    store: bool,
    named: str = CLUSTER,
    count: int = 1,
    own: bool = False,
) -> Place:
    """An operand that is an address of shared::cluster, or a generic one in that space.

    Without clusters, or with `own`, the offset is in the block's own shared memory.
    """
    code = emitter.code
    base, offset, space = resolve(emitter, op.instruction, operand, named)
    clustered = emitter.launch.clustered
    access = Access(op, CLUSTER if clustered else "shared", base, offset, count, type_, store, fenced=True)
    offsets = code.add(base_offset(emitter, access, base=False), code.const("i64", offset))
    if space == "generic":
        offsets = code.sub(offsets, code.const("i64", SHARED_WINDOW))
    variable = isinstance(base, tree.Immediate)  # in the block's own memory
    if clustered and own and not variable:
        offsets = code.sub(offsets, shared_start(emitter))
    elif clustered and not own and variable:
        offsets = code.add(offsets, shared_start(emitter))
    if own:
        access = replace(access, space="shared")
    return Place(access, emitter.code.splat(offsets))


def ranks_of(emitter: Emitter, place: Place) -> Callable[[Value], Value]:
    """The lanes whose address is in the block of a rank; a rank outside the cluster is a fault."""
    code = emitter.code
    ranks = code.binary("lshr", place.offsets, code.const("i64", RANK_SHIFT))
    fault_unless(emitter, place.access, code.icmp("ult", ranks, _blocks(emitter)), place.offsets, 0)
    return lambda rank: code.mask_bits(code.icmp("eq", ranks, rank))


def ranks_in(emitter: Emitter, place: Place, operand: tree.Operand) -> Callable[[Value], Value]:
    """The lanes whose mask of blocks has a rank; a rank outside the cluster is a fault."""
    code = emitter.code
    mask = code.splat(code.resize(emitter.read(operand, "b16"), "i64", signed=False))
    beyond = code.binary("lshr", mask, _blocks(emitter))
    there = code.or_(place.offsets, code.binary("shl", _blocks(emitter), code.const("i64", RANK_SHIFT)))
    fault_unless(emitter, place.access, code.icmp("eq", beyond, code.const("i64", 0)), code.splat(there), 0)

    def named(rank: Value) -> Value:
        bit = code.and_(code.binary("lshr", mask, rank), code.const("i64", 1))
        return code.mask_bits(code.icmp("ne", bit, code.const("i64", 0)))

    return named


def _blocks(emitter: Emitter) -> Value:
    return emitter.code.const("i64", math.prod(emitter.launch.cluster or ()))


def at_each(emitter: Emitter, named: Callable[[Value], Value], emit: Callable[[There], None]) -> None:
    """Emit an operation for each block that lanes name by rank; instruments read the block in the slot's `target`."""
    code, outer = emitter.code, emitter.mask
    at = code.op(_RANK, "ptr").text
    head, body, some, done = (code.label(name) for name in ("ranks", "rank", "named", "done"))
    code.put(code.const("i64", 0), at)
    code.branch(head)
    code.place(head)
    rank = code.op(f"load i64, ptr {at}", "i64")
    code.branch_if(code.icmp("ult", rank, _blocks(emitter)), body, done)
    code.place(body)
    code.put(code.add(rank, code.const("i64", 1)), at)
    emitter.mask = code.and_(outer, named(rank))
    code.branch_if(code.icmp("ne", emitter.mask, code.const("i32", 0)), some, head)
    code.place(some)
    start = code.binary("shl", rank, code.const("i64", RANK_SHIFT))
    first = code.mul(rank, code.const("i64", SLOT_BYTES))
    cluster = emitter.field("%slot", SLOT["cluster"], "ptr")
    emitter.set_field("%slot", SLOT["target"], code.op(f"getelementptr i8, ptr {cluster.text}, {first}", "ptr"))
    emit(There(start, str(code.op(f"getelementptr i8, ptr {arena(emitter, CLUSTER)}, {start}", "ptr"))))
    code.branch(head)
    code.place(done)
    emitter.set_field("%slot", SLOT["target"], Value("%slot", "ptr"))
    emitter.mask = outer

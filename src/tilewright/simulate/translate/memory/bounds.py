"""The check that an access is inside its arena, under the mask.

Accesses of one straight line that share a base register and have no guard are checked together, once. On failure, a
cold path (`tw_recheck`) checks lane by lane. It either records the fault or finds that only inactive lanes are outside,
which is harmless because arenas have slack.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.state import GLOBAL_BASE, RANK_SHIFT, SPACES
from tilewright.simulate.translate.analysis.shape import Shape
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import (
    CLUSTER,
    Access,
    Group,
    arena,
    base_address,
    base_offset,
    limit,
    local_stride,
)
from tilewright.simulate.translate.memory.access_events import event_site, notify
from tilewright.simulate.translate.memory.gathers import ADDRESSES, IN_MEMORY, as_vector


def vector_pointers(emitter: Emitter, access: Access, kind: str) -> Value:
    """Host pointers of an access with arbitrary addresses, checked under the mask."""
    if emitter.is_cut and access.space != CLUSTER:
        return as_vector(emitter, lane_places(emitter, access, kind))
    offsets = checked_offsets(emitter, access, kind)
    if access.space == "local":
        stride = local_stride(emitter)
        offsets = emitter.code.add(offsets, emitter.code.constants("i64", [lane * stride for lane in range(LANES)]))
    return emitter.code.op(f"getelementptr i8, ptr {arena(emitter, access.space)}, {offsets}", "ptr", LANES)


def lane_places(emitter: Emitter, access: Access, kind: str) -> Value:
    """Each lane's host address, found by the runtime, which leaves them in memory.

    LLVM takes long for vectors of 32 addresses: in a long kernel, half of its time went to such checks.
    """
    code = emitter.code
    addresses = code.add(base_address(emitter, access, base=False), code.const("i64", access.offset))
    addresses = code.splat(addresses)
    code.store(addresses, ADDRESSES.text)
    own = [x for space in ("shared", "local") for x in (f"ptr {arena(emitter, space)}", limit(emitter, space))]
    what = (f"i32 {SPACES[access.space]}", f"i32 {access.total_bytes}", f"i32 {access.alignment}")
    outside = code.invoke("tw_places", "i32", IN_MEMORY, ADDRESSES, "ptr %context", *own, *what)
    _fault_where(emitter, access, Value(outside, "i32"))
    if emitter.instruments and not access.notified:
        notify(emitter, access, addresses if access.space == "generic" else ADDRESSES, kind)
    return IN_MEMORY


def checked_offsets(emitter: Emitter, access: Access, kind: str = "") -> Value:
    """Arena offsets of all lanes, after a check of those that run; notifies instruments that were not yet notified."""
    code = emitter.code
    offsets = code.splat(code.add(base_offset(emitter, access, base=False), code.const("i64", access.offset)))
    inside = within(emitter, access.space, offsets, code.const("i64", access.total_bytes))
    start = GLOBAL_BASE if access.space == "global" else 0
    fault_unless(emitter, access, aligned(emitter, access, inside, offsets), offsets, start)
    if emitter.instruments and not access.notified:
        notify(emitter, access, code.add(offsets, code.const("i64", start)), kind)
    return offsets


def aligned(emitter: Emitter, access: Access, inside: Value, offsets: Value) -> Value:
    """Whether lanes are `inside`, and at a multiple of what they move at once."""
    code = emitter.code
    if access.alignment == 1:
        return inside
    low = code.and_(offsets, code.const("i64", access.alignment - 1))
    return code.and_(inside, code.icmp("eq", low, code.const("i64", 0)))


def within(emitter: Emitter, space: str, offsets: Value, size: Value) -> Value:
    """Whether the bytes are in an arena, or in the shared memory of a block of the cluster."""
    code, bound = emitter.code, limit(emitter, space)
    exists = Value("true", "i1")
    if space == CLUSTER:
        ranks = code.binary("lshr", offsets, code.const("i64", RANK_SHIFT))
        exists = code.icmp("ult", ranks, code.const("i64", math.prod(emitter.launch.cluster or ())))
        offsets = code.and_(offsets, code.const("i64", (1 << RANK_SHIFT) - 1))
    inside = code.and_(code.icmp("ule", offsets, bound), code.icmp("ule", code.add(offsets, size), bound))
    return code.and_(inside, exists)


def fault_unless(emitter: Emitter, access: Access, inside: Value, offsets: Value, start: int) -> None:
    """Leave with a fault when a lane that runs is not inside."""
    code = emitter.code

    def addresses() -> None:
        code.store(code.splat(code.add(offsets, code.const("i64", start))), ADDRESSES.text)

    _fault_where(emitter, access, code.not_(code.mask_bits(inside)), addresses)


def _fault_where(
    emitter: Emitter, access: Access, outside: Value, store_addresses: Callable[[], None] = lambda: None
) -> None:
    """Leave with a fault when a lane of a set runs."""
    code = emitter.code
    bad = code.and_(emitter.mask, outside)
    fine, cold = code.label("inside"), code.label("outside")
    code.branch_if(code.icmp("eq", bad, code.const("i32", 0)), fine, cold, likely=True)
    code.place(cold)
    store_addresses()
    where = ("ptr %context", "ptr %warp", f"i32 {_site(emitter, access)}", bad, ADDRESSES)
    code.invoke("tw_fault", "void", *where, f"i32 {access.total_bytes}")
    code.branch("fault")
    code.place(fine)


def check_group(emitter: Emitter, access: Access, shape: Shape) -> Value:
    """The arena offset of lane 0's base, checked for the whole group at its first access."""
    group = access.group
    assert group is not None
    if group.relative is not None:
        return group.relative
    code = emitter.code
    relative = group.relative = base_offset(emitter, access, base=True)
    good = all_inside(emitter, group, relative, shape)
    fine, cold = code.label("inside"), code.label("outside")
    code.branch_if(good, fine, cold, likely=True)
    code.place(cold)
    bad = _recheck(emitter, group, relative, limit(emitter, access.space), shape.offsets)
    code.branch_if(bad, "fault", fine, likely=False)
    code.place(fine)
    return relative


def all_inside(emitter: Emitter, group: Group, relative: Value, shape: Shape) -> Value:
    """Whether every lane of a group's accesses, active or not, is in the arena and aligned."""
    code, offsets = emitter.code, shape.offsets
    low = min(m.offset for m in group.members) + min(offsets)
    high = max(m.offset + m.total_bytes for m in group.members) + max(offsets)
    bound = limit(emitter, group.members[0].space)
    start = code.add(relative, code.const("i64", low))
    end = code.add(start, code.const("i64", high - low))
    good = code.and_(code.icmp("ule", start, bound), code.icmp("ule", end, bound))
    alignment, always = _alignment(group, offsets)
    if always:
        return code.const("i1", 0)
    if alignment > shape.align:
        low_bits = code.and_(relative, code.const("i64", alignment - 1))
        good = code.and_(good, code.icmp("eq", low_bits, code.const("i64", 0)))
    return good


def _alignment(group: Group, offsets: tuple[int, ...]) -> tuple[int, bool]:
    """The alignment the base must have, and whether some access is always misaligned."""
    needed = 1
    for member in group.members:
        if any((member.offset + o) % member.alignment for o in set(offsets)):
            return needed, True
        needed = max(needed, member.alignment)
    return needed, False


def _recheck(emitter: Emitter, group: Group, relative: Value, bound: Value, offsets: tuple[int, ...]) -> Value:
    """Call the cold path; an i1 that is set if a lane that runs is outside or misaligned."""
    rows: list[int] = []
    for member in group.members:
        rows += [_site(emitter, member), member.offset, member.total_bytes]
    table = emitter.constant_array("i32", rows)
    apart = emitter.constant_array("i32", offsets)
    start = emitter.code.const("i64", GLOBAL_BASE if group.members[0].space == "global" else 0)
    facts = (relative, bound, start, emitter.mask, f"ptr {apart}", f"ptr {table}", f"i32 {len(group.members)}")
    return Value(emitter.code.invoke("tw_recheck", "i1", "ptr %context", "ptr %warp", *facts), "i1")


def _site(emitter: Emitter, access: Access) -> int:
    kind = "atomic" if access.op.form.row.access == "atomic" else ""
    return emitter.add_site(event_site(emitter, access, kind))

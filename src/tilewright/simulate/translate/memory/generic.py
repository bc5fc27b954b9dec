"""Generic addresses: each lane's window gives its state space (PTX ISA 5.4, generic addressing)."""

from __future__ import annotations

from tilewright.simulate.code import LANES, Value
from tilewright.simulate.state import GLOBAL_BASE, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import (
    CLUSTER,
    Access,
    arena,
    base_offset,
    local_stride,
    shared_start,
)
from tilewright.simulate.translate.memory.access_events import notify
from tilewright.simulate.translate.memory.bounds import aligned, fault_unless, lane_places, vector_pointers, within
from tilewright.simulate.translate.memory.gathers import as_vector


def access_pointers(emitter: Emitter, access: Access, kind: str = "") -> Value:
    """Host pointers of all lanes of an access, checked under the mask and reported to instruments."""
    return as_vector(emitter, access_places(emitter, access, kind))


def access_places(emitter: Emitter, access: Access, kind: str = "") -> Value:
    """Each lane's host address, as a vector or in memory: see `tilewright.simulate.translate.memory.gathers.gather`."""
    if access.space == "generic":
        return (_in_cluster if emitter.launch.clustered else lane_places)(emitter, access, kind)
    if emitter.is_cut and access.space != CLUSTER:
        return lane_places(emitter, access, kind)
    return vector_pointers(emitter, access, kind)


def _in_cluster(emitter: Emitter, access: Access, kind: str) -> Value:
    """Host pointers of generic addresses where the shared window has the memory of several blocks."""
    code, stride = emitter.code, local_stride(emitter)
    addresses = code.splat(code.add(base_offset(emitter, access, base=False), code.const("i64", access.offset)))
    spaces = (
        ("global", GLOBAL_BASE, code.const("i64", 0)),
        (CLUSTER, SHARED_WINDOW, code.const("i64", 0)),
        ("local", LOCAL_WINDOW, code.constants("i64", [lane * stride for lane in range(LANES)])),
    )
    pointers = Value("zeroinitializer", "ptr", LANES)
    inside = Value("zeroinitializer", "i1", LANES)
    for space, start, shift in spaces:
        offsets = code.sub(addresses, code.const("i64", start))
        fits = within(emitter, space, offsets, code.const("i64", access.total_bytes))
        moved = code.splat(code.add(offsets, shift))
        here = code.op(f"getelementptr i8, ptr {arena(emitter, space)}, {moved}", "ptr", LANES)
        pointers = code.select(code.splat(fits), here, pointers)
        inside = code.or_(inside, fits)
    fault_unless(emitter, access, aligned(emitter, access, inside, addresses), addresses, 0)
    if emitter.instruments:
        notify(emitter, access, addresses, kind)
    return pointers


def window_of(space: str) -> int:
    """The number that `cvta` adds to a state-space address to make it generic."""
    return {"shared": SHARED_WINDOW, CLUSTER: SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)


def is_space(emitter: Emitter, address: Value, space: str) -> Value:
    """`isspacep`: whether a generic address is in a space's window."""
    code = emitter.code
    if space == "shared" and emitter.launch.clustered:
        ahead = code.sub(code.sub(address, code.const("i64", SHARED_WINDOW)), shared_start(emitter))
        return code.icmp("ult", ahead, code.const("i64", 1 << RANK_SHIFT))
    if space in ("shared", CLUSTER, "local"):
        window = code.binary("lshr", address, code.const("i64", 32))
        return code.icmp("eq", window, code.const("i64", window_of(space) >> 32))
    if space == "global":
        return code.icmp("uge", address, code.const("i64", GLOBAL_BASE))
    return code.const("i1", 0)

"""Generic addresses: each lane's window gives its state space (PTX ISA 5.4, generic addressing)."""

from __future__ import annotations

import functools
from dataclasses import replace

from tilewright.simt.translate.access import CLUSTER, Access, arena, base_offset, local_stride, shared_start
from tilewright.simt.translate.access_events import by_lanes, notify
from tilewright.simt.translate.bounds import fault_unless, vector_pointers, within
from tilewright.simt.translate.code import LANES, Value
from tilewright.simt.translate.emitter import Emitter
from tilewright.simt.translate.state import GLOBAL_BASE, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW


def access_pointers(emitter: Emitter, access: Access, kind: str = "") -> Value:
    """Host pointers of all lanes of an access, checked under the mask and reported to instruments."""
    if access.space == "generic":
        return _generic_pointers(emitter, access, kind)
    return vector_pointers(emitter, access, kind)


def _generic_pointers(emitter: Emitter, access: Access, kind: str = "") -> Value:
    """Host pointers of a generic access, checked under the mask."""
    code = emitter.code
    addresses = code.splat(code.add(base_offset(emitter, access, base=False), code.const("i64", access.offset)))
    stride = local_stride(emitter)
    spaces = (
        ("global", GLOBAL_BASE, code.const("i64", 0)),
        (_shared(emitter), SHARED_WINDOW, code.const("i64", 0)),
        ("local", LOCAL_WINDOW, code.constants("i64", [lane * stride for lane in range(LANES)])),
    )
    pointers = Value("zeroinitializer", "ptr", LANES)
    inside = Value("zeroinitializer", "i1", LANES)
    size = code.const("i64", access.total_bytes)
    for space, start, shift in spaces:
        offsets = code.sub(addresses, code.const("i64", start))
        fits = within(emitter, space, offsets, size)
        moved = code.splat(code.add(offsets, shift))
        here = code.op(f"getelementptr i8, ptr {arena(emitter, space)}, {moved}", "ptr", LANES)
        pointers = code.select(code.splat(fits), here, pointers)
        inside = code.or_(inside, fits)
    natural = access.total_bytes & -access.total_bytes
    if natural > 1:
        low = code.and_(addresses, code.const("i64", natural - 1))
        inside = code.and_(inside, code.icmp("eq", low, code.const("i64", 0)))
    fault_unless(emitter, access, inside, addresses, 0)
    if emitter.instruments:
        _notify_by_space(emitter, access, addresses, kind)
    return pointers


def _shared(emitter: Emitter) -> str:
    """The space of the shared window: the block's own memory, or that of its cluster."""
    return CLUSTER if emitter.launch.clustered else "shared"


def _notify_by_space(emitter: Emitter, access: Access, addresses: Value, kind: str) -> None:
    """Notify instruments of the lanes in each space separately, with addresses of that space."""
    code = emitter.code
    windows = code.binary("lshr", addresses, code.const("i64", 32))
    for space, start in (("global", 0), (_shared(emitter), SHARED_WINDOW), ("local", LOCAL_WINDOW)):
        if space == "global":
            here = code.icmp("uge", addresses, code.const("i64", GLOBAL_BASE))
        else:
            here = code.icmp("eq", windows, code.const("i64", start >> 32))
        offsets, one = code.sub(addresses, code.const("i64", start)), replace(access, space=space)
        by_lanes(emitter, here, functools.partial(notify, emitter, one, offsets, kind))


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

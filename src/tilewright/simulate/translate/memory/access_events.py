"""Events of loads, stores and atomics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from tilewright.simulate.code import Value
from tilewright.simulate.events import VALUES_STRIDE_BYTES, EventKind, Handler, Site
from tilewright.simulate.state import GLOBAL_BASE, LOCAL_WINDOW, RANK_SHIFT, SHARED_WINDOW
from tilewright.simulate.translate.analysis.shape import Shape
from tilewright.simulate.translate.lowering.emitter import Emitter
from tilewright.simulate.translate.memory.access import CLUSTER, Access, base_offset, shared_start
from tilewright.simulate.translate.memory.gathers import ADDRESSES


def notify_affine(emitter: Emitter, access: Access, relative: Value, shape: Shape) -> None:
    """Notify instruments of a checked access with an affine address."""
    if not emitter.instruments:
        return
    code = emitter.code
    start = code.const("i64", GLOBAL_BASE if access.space == "global" else 0)
    offsets = tuple(o + access.offset for o in shape.offsets)

    def arguments(handler: Handler) -> str:
        base = code.add(relative, start)
        if handler.affine:
            base = code.add(base, code.const("i64", handler.ahead_bytes))
            return f"{emitter.mask}, {base}{_values_argument(emitter, access, handler)}"
        addresses = code.add(code.splat(base), code.constants("i64", offsets))
        return _told_addresses(emitter, access, addresses, handler)

    notified: set[int] = set()
    if access.together is not None and len(access.together.members) > 1:
        if access.together.notified is None:
            sites = [event_site(emitter, member) for member in access.together.members]
            each = [tuple(o + member.offset for o in shape.offsets) for member in access.together.members]
            access.together.notified = emitter.notify_together(sites, arguments, each)
        notified = access.together.notified
    emitter.notify(event_site(emitter, access), arguments, offsets, notified)


def notify(emitter: Emitter, access: Access, addresses: Value, kind: str = "") -> None:
    """Notify instruments of an access; `addresses` are those of its own state space, or already at `ADDRESSES`."""
    if access.space == "generic":
        _notify_by_space(emitter, access, addresses, kind)
        return
    if access.space == CLUSTER:
        _notify_by_block(emitter, access, addresses, kind)
        return
    _notify(emitter, access, addresses, kind)


def _notify_by_space(emitter: Emitter, access: Access, addresses: Value, kind: str) -> None:
    """Notify instruments of the lanes in each space separately, with addresses of that space."""
    code, shared = emitter.code, CLUSTER if emitter.launch.clustered else "shared"
    windows = code.binary("lshr", addresses, code.const("i64", 32))
    for space, start in (("global", 0), (shared, SHARED_WINDOW), ("local", LOCAL_WINDOW)):
        if space == "global":
            here = code.icmp("uge", addresses, code.const("i64", GLOBAL_BASE))
        else:
            here = code.icmp("eq", windows, code.const("i64", start >> 32))
        offsets, one = code.sub(addresses, code.const("i64", start)), replace(access, space=space)
        by_lanes(emitter, here, functools.partial(notify, emitter, one, offsets, kind))


def by_lanes(emitter: Emitter, here: Value, emit: Callable[[], None]) -> None:
    """Notify instruments of the lanes for which a condition holds, if there are any."""
    code, outer = emitter.code, emitter.mask
    lanes = code.and_(code.mask_bits(here), outer)
    yes, no = code.label("notify"), code.label("skip")
    code.branch_if(code.icmp("ne", lanes, code.const("i32", 0)), yes, no)
    code.place(yes)
    emitter.mask = lanes
    emit()
    code.branch(no)
    code.place(no)
    emitter.mask = outer


def _notify_by_block(emitter: Emitter, access: Access, addresses: Value, kind: str) -> None:
    """Notify instruments of lanes in the block's own shared memory, and of those in another's of its cluster."""
    code = emitter.code
    own = code.sub(addresses, shared_start(emitter))
    mine = code.icmp("ult", own, code.const("i64", 1 << RANK_SHIFT))
    by_lanes(emitter, mine, lambda: _notify(emitter, replace(access, space="shared"), own, kind))
    by_lanes(emitter, code.not_(mine), lambda: _notify(emitter, access, addresses, kind))


def _notify(emitter: Emitter, access: Access, addresses: Value, kind: str) -> None:
    emitter.notify(
        event_site(emitter, access, kind), lambda handler: _told_addresses(emitter, access, addresses, handler)
    )


def notify_strided(emitter: Emitter, access: Access, relative: Value, stride: Value, shape: Shape) -> None:
    """Notify instruments of a checked access whose lanes are in rows of one stride."""
    code = emitter.code
    start = code.const("i64", access.offset + (GLOBAL_BASE if access.space == "global" else 0))

    def arguments(handler: Handler) -> str:
        if handler.strided:
            return f"{emitter.mask}, {code.add(relative, start)}, {stride}{_values_argument(emitter, access, handler)}"
        addresses = code.add(base_offset(emitter, access, base=False), start)
        return _told_addresses(emitter, access, addresses, handler)

    emitter.notify(event_site(emitter, access), arguments, strided=shape)


def event_site(emitter: Emitter, access: Access, kind: str = "") -> Site:
    """The site of an access; `kind` if it is neither a load nor a store."""
    item = access.op.instruction
    action = kind or ("store" if access.store else "load")
    later = access.store and access.op.form.row.kind in ("copy", "counted")
    what = (access.space, action, access.total_bytes, later)
    return Site(EventKind.ACCESS, item.ptx_line, emitter.source_of(item), item.name, 1, *what)


def _told_addresses(emitter: Emitter, access: Access, addresses: Value, handler: Handler) -> str:
    if addresses is not ADDRESSES:
        emitter.code.store(emitter.code.splat(addresses), ADDRESSES.text)
    return f"{emitter.mask}, {ADDRESSES}, i32 {access.total_bytes}{_values_argument(emitter, access, handler)}"


def _values_argument(emitter: Emitter, access: Access, handler: Handler) -> str:
    """The last argument of a handler that takes the values of a store."""
    if not handler.values:
        return ""
    for index, value in enumerate(access.values):
        store_values(emitter, index, value)
    return ", ptr %values"


def store_values(emitter: Emitter, index: int, value: Value) -> None:
    """Store a value where handlers read it."""
    at = emitter.code.op(f"getelementptr i8, ptr %values, i64 {index * VALUES_STRIDE_BYTES}", "ptr")
    emitter.code.store(emitter.code.splat(value), at.text)

"""Handlers of accesses: the constants of each, and a call of the C code that judges its state space.

Affine accesses, alone or several with one base, have a table of their cells, with which a quick test judges all of them
at once. The test passes if nothing can be wrong and the new state does not depend on the order of the lanes: all lanes
run, every cell was written at a clock that the warp knows, and no cell is overwritten that others read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.observe.instruments.shadow import records
from tilewright.observe.instruments.shadow.cells import (
    ACQUIRES,
    DATA,
    NARROW,
    READ_ONLY,
    READS,
    RELEASES,
    RUN,
    SHARED,
    STRONG,
    VOLATILE,
    WRITES,
)
from tilewright.observe.instruments.shadow.tables import PLAIN_TYPE, TOUCHED_TYPE, Table
from tilewright.simulate.events import CFunction, EventKind, Handler, Site, words
from tilewright.simulate.isa import Role, role_of, table

_NAMES = "shared shared_quick several local global global_quick heap accesses flights clusters clocks sent"
_FILES = tuple(f"{name}.c" for name in _NAMES.split())
#: The C files that judge accesses.
PARTS = (*(bitcode(Path(__file__).with_name(name)) for name in _FILES), records.PART)
#: State of a byte of local memory that belongs to no variable.
OUTSIDE_STATE = 0xFF
#: State spaces other than local memory, as `tw_shadow_carried_out` numbers them.
_CARRIED_OUT = {"global": 0, "shared": 1, "shared::cluster": 2}
_POINTER_BYTES = 8
#: Most rows of one table; wider accesses are judged lane by lane.
_ROWS_MAX = 1024
#: Forms that are relaxed or stronger at some scope; two of them do not race. Source: PTX ISA, 8.3 (morally strong) and
#: 9.7.9.8: `.volatile` has the synchronisation semantics of `.relaxed` at system scope.
_STRONG = ("volatile", "relaxed", "acquire", "release", "acq_rel", "mmio")


def how(site: Site) -> int:
    """The bits of what an access does."""
    parts = site.opcode.split(".")
    narrow = NARROW if site.space == "global" and is_narrow(site.opcode) else 0
    if site.access == "atomic":
        return READS | WRITES | STRONG | narrow
    strong = STRONG | narrow if any(part in _STRONG for part in parts) else 0
    more = (READ_ONLY if is_read_only(site.opcode) else 0) | (VOLATILE if "volatile" in parts else 0)
    return strong | more | (WRITES if site.access == "store" else READS)


def is_read_only(opcode: str) -> bool:
    """Whether a load goes through the cache that is not coherent."""
    return opcode.startswith("ldu.") or ".nc." in opcode


def is_narrow(opcode: str) -> bool:
    """Whether the scope of an atomic, a strong access or a fence is its own block.

    >>> [is_narrow(name) for name in ("red.relaxed.cta.global.add.u32", "membar.gl", "atom.shared::cta.add.u32")]
    [True, False, False]
    """
    return "cta" in opcode.split(".")


def without_cluster(site: Site) -> Site:
    """An access or a fence of a block that is in no cluster: the scope .cluster is its own block.

    >>> without_cluster(Site(EventKind.ACCESS, 1, "", "st.relaxed.cluster.shared::cluster.u32")).opcode
    'st.relaxed.cta.shared::cluster.u32'
    """
    parts = ("cta" if part == "cluster" else part for part in site.opcode.split("."))
    return replace(site, opcode=".".join(parts))


def handler(
    site: Site, offsets: tuple[int, ...] | None, cell_bytes: int, *, unused: bool = False, data: bool = False
) -> Handler:
    """The handler of an access; `unused`: nothing uses the value that it reads; `data`: see `deciding.data`."""
    if site.asynchronous:
        facts = (WRITES, _element_bytes(site), 0)
        function = CFunction("tw_shadow_copy", EventKind.ACCESS, PARTS)
        name = f"tw.memory.copy.{'.'.join(map(str, facts))}"
        return function.handler(name, ["ptr null", *(f"i32 {fact}" for fact in facts)])
    if _is_source(site):
        return _free(site, "tw_shadow_source")
    found = together([site], [offsets], cell_bytes) if offsets is not None else None
    return found or _free(site, unused=unused, data=data)


def fence(site: Site) -> Handler:
    """The handler of fences between threads."""
    narrow = int(is_narrow(site.opcode))
    return CFunction("tw_shadow_fence", EventKind.FENCE, PARTS).handler(f"tw.memory.fence.{narrow}", [f"i32 {narrow}"])


def heap(site: Site) -> Handler | None:
    """The handler of the store with which malloc ends or free begins; None for their other instructions."""
    if site.access != "store" or site.bytes_per_lane < _POINTER_BYTES:
        return None
    name = "tw_shadow_heap_back" if site.bytes_per_lane == _POINTER_BYTES else "tw_shadow_heap_given"
    return CFunction(name, EventKind.ACCESS, PARTS, values=True).handler(f"tw.memory.{name}", [])


def lanes_of(threads: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Threads of a block as the lanes of each warp.

    >>> lanes_of(np.arange(48) % 16 == 1)
    (131074, 2)
    """
    padded = np.pad(threads, (0, -threads.size % 32))
    return tuple(int(lanes) for lanes in np.packbits(padded, bitorder="little").view("<u4"))


def idle(site: Site, lanes: tuple[int, ...]) -> Handler:
    """The handler of a load of global memory that these lanes of each warp do not use."""
    name = f"tw.memory.idle.{hashlib.sha256(repr((site.opcode, lanes)).encode()).hexdigest()[:16]}"
    function = CFunction("tw_shadow_idle_global", EventKind.ACCESS, PARTS)
    constants = ["ptr null", f"i32 {how(site)}", f"i32 {_element_bytes(site)}", "i32 0", f"ptr @{name}.lanes"]
    return function.handler(name, constants, f"\n@{name}.lanes = internal constant {words(lanes)}, align 16")


def carried_from(site: Site, slots: tuple[int, ...]) -> Handler:
    """The handler of a load of local memory that only copies, with a slot for each store that takes its value."""
    name = f"tw.memory.carried_from.{hashlib.sha256(repr((site.opcode, slots)).encode()).hexdigest()[:16]}"
    function = CFunction("tw_shadow_carried_from", EventKind.ACCESS, PARTS)
    constants = ["ptr null", f"i32 {READS}", f"i32 {_element_bytes(site)}", "i32 0", f"ptr @{name}.slots"]
    tables = f"\n@{name}.slots = internal constant {words(slots)}, align 16"
    return function.handler(name, [*constants, f"i64 {len(slots)}"], tables)


def carried_to(site: Site, parts: tuple[tuple[int, ...], ...]) -> Handler:
    """The handler of a store that takes parts of such loads: each a slot, and what `struct tw_carried` has after it."""
    name = f"tw.memory.carried_to.{hashlib.sha256(repr((site.opcode, site.space, parts)).encode()).hexdigest()[:16]}"
    local = site.space == "local"
    function = CFunction(f"tw_shadow_carried_{'local' if local else 'out'}", EventKind.ACCESS, PARTS, values=True)
    constants = [f"i32 {WRITES}", f"i32 {_element_bytes(site)}", "i32 0", f"ptr @{name}.parts", f"i64 {len(parts)}"]
    space = [] if local else [f"i32 {_CARRIED_OUT[site.space]}"]
    tables = f"\n@{name}.parts = internal constant {words([word for part in parts for word in part])}, align 16"
    return function.handler(name, [*constants, *space], tables)


def arrival(*, relaxed: bool) -> Handler:
    """The handler of arrivals at the barrier of a cluster."""
    function = CFunction("tw_shadow_cluster_arrive", EventKind.CLUSTER, PARTS)
    return function.handler(f"tw.memory.cluster_arrive.{int(relaxed)}", [f"i32 {int(relaxed)}"])


def stack(site: Site) -> Handler:
    """The handler of allocations and releases on threads' stacks."""
    ends = role_of(site.opcode) is not Role.ALLOCATE
    function = CFunction("tw_shadow_stack", EventKind.STACK, PARTS)
    return function.handler(f"tw.memory.stack.{int(ends)}", [f"i32 {OUTSIDE_STATE if ends else 0}"])


def _is_source(site: Site) -> bool:
    """Whether it is what an asynchronous copy reads; `flights.c` follows it until the wait."""
    form = table().find(site.opcode)
    return site.space == "global" and form is not None and form.row.kind == "copy"


def reads_later(site: Site | None) -> bool:
    """Whether an asynchronous copy to shared memory makes the access, which reads global memory until it completes.

    >>> names = ("cp.async.ca.shared.global", "cp.async.bulk.global.shared::cta.bulk_group", "ld.global.u32")
    >>> [reads_later(Site(EventKind.ACCESS, 1, "", name)) for name in names]
    [True, False, False]
    """
    form = table().find(site.opcode) if site is not None else None
    return form is not None and form.row.kind in ("copy", "bulk", "tensor") and not form.has("bulk_group")


def _free(site: Site, source: str = "", *, unused: bool = False, data: bool = False) -> Handler:
    """The handler of an access whose addresses are known only at run time."""
    does, values = how(site), site.access == "store"
    order_bits = _order_bits(site, unused=unused) if does & STRONG and site.space != "local" else 0
    facts = (does | (DATA if data else 0), _element_bytes(site), order_bits)
    space = site.space.removeprefix("shared::")  # "cluster": of other blocks
    name = source or f"tw_shadow_{'free' if space == 'global' else 'turns'}_{space}"
    constants = [*([] if values else ["ptr null"]), *(f"i32 {fact}" for fact in facts)]
    function = CFunction(name, EventKind.ACCESS, PARTS, values=values)
    return function.handler(f"tw.memory.{source or 'access'}.{space}.{'.'.join(map(str, facts))}", constants)


def together(sites: Sequence[Site], offsets: Sequence[tuple[int, ...]], cell_bytes: int) -> Handler | None:
    """The handler of accesses of one kind with one base, whose lanes have constant offsets from it, or None."""
    space, does = sites[0].space, how(sites[0])
    if any(_is_source(site) for site in sites):
        return None
    sizes = [site.bytes_per_lane for site in sites]
    # inactive lanes may have other offsets; a misaligned access is a fault anyway
    aligned = all(o % size == 0 for lanes, size in zip(offsets, sizes, strict=True) for o in lanes)
    if space == "local" or does & STRONG or not aligned:
        return None
    if space == "global" and does & ~READ_ONLY != READS and not (does == WRITES and _are_in_rows(sites, offsets)):
        return None
    if any(how(site) != does for site in sites):
        return None
    first = offsets[0][0]
    offsets = [tuple(o - first for o in lanes) for lanes in offsets]  # one handler for every first offset
    table = Table(offsets, sizes, cell_bytes)
    if len(table.rows) > _ROWS_MAX or (does == WRITES and table.shared_by_lanes):
        return None
    shared = space == "shared"
    kind, rows = (TOUCHED_TYPE, table.touched()) if shared else (PLAIN_TYPE, table.plain())
    members = [
        word
        for lanes, site in zip(offsets, sites, strict=True)
        for word in (lanes[0], site.bytes_per_lane, _element_bytes(site))
    ]
    name = hashlib.sha256(repr((space, does, rows, members, offsets[0])).encode()).hexdigest()[:16]
    symbol, values = f"tw.memory.{name}", does == WRITES
    tables = f"""
@{symbol}.rows = internal constant [{len(table.rows)} x {kind}] [{rows}], align 16
@{symbol}.members = internal constant {words(members)}, align 16
@{symbol}.offsets = internal constant {words(offsets[0])}, align 64"""
    constants = [
        *([] if values else ["ptr null"]),
        f"i32 {does}",
        f"ptr @{symbol}.rows",
        f"i64 {len(table.rows)}",
        f"ptr @{symbol}.members",
        f"i64 {len(sites)}",
        f"ptr @{symbol}.offsets",
    ]
    function = CFunction(f"tw_shadow_affine_{space}", EventKind.ACCESS, PARTS, affine=True, values=values)
    return function.handler(symbol, constants, tables, ahead_bytes=first)


def _are_in_rows(sites: Sequence[Site], offsets: Sequence[tuple[int, ...]]) -> bool:
    """Whether there is one access, and each eight lanes of it are in a row."""
    size, lanes = sites[0].bytes_per_lane, offsets[0]
    return len(sites) == 1 and all(o == lanes[i - i % RUN] + i % RUN * size for i, o in enumerate(lanes))


def _element_bytes(site: Site) -> int:
    """Bytes of one element of a vector access; a word for untyped copies, and where a load has elements within one.

    Compilers load the end of a structure, its padding too, byte by byte.
    """
    form = table().find(site.opcode)
    if form is not None and form.row.kind in ("copy", "rows") and site.access == "load":
        return min(4, site.bytes_per_lane)
    count = next((int(part[1:]) for part in site.opcode.split(".") if part in ("v2", "v4", "v8")), 1)
    one = max(1, site.bytes_per_lane // count)
    return max(one, min(4, site.bytes_per_lane)) if site.access == "load" else one


def _order_bits(site: Site, *, unused: bool) -> int:
    """The bits that `orders.Orders` gets of a strong access; a read whose value nothing uses is none there."""
    parts = site.opcode.split(".")
    releases = RELEASES if "release" in parts or "acq_rel" in parts else 0
    acquires = ACQUIRES if "acquire" in parts or "acq_rel" in parts else 0
    # no pattern begins to acquire with a reduction's read
    does = how(site) & ~(READS if unused or parts[0] == "red" else 0)
    return does | releases | acquires | (SHARED if site.space.startswith("shared") else 0)

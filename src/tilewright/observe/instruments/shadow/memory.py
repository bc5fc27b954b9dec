"""The instrument that checks memory: bounds, initialisation and races of every access."""

from __future__ import annotations

import copy
import ctypes
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.errors import DeadlockError, KernelError
from tilewright.observe.instruments.areas import areas
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.instruments.shadow import accesses, mbarriers, orders, records, waits
from tilewright.observe.instruments.shadow.cells import (
    AHEAD_BYTES,
    BEHIND_BYTES,
    BLOCK,
    BLOCK_BYTES,
    BULKS_BYTES,
    CLOCK_SHIFT,
    CLOCKS_BYTES,
    FAR_BYTES,
    FLIGHTS_BYTES,
    GAP,
    LANES_BYTES,
    LAUNCH,
    LAUNCH_BYTES,
    LAYOUT_BYTES,
    LAYOUT_OF_BYTES,
    NOW_ROW,
    READERS_BYTES,
    READINGS_BYTES,
    ROWS_END,
    SEVERAL_BYTES,
    STRONG_BIT,
    WARPS_MAX,
    WATCHED_BYTES,
    WATCHED_MAX,
)
from tilewright.observe.instruments.shadow.found import finding_of, is_finding, settled
from tilewright.observe.instruments.shadow.states import States
from tilewright.simulate.events import (
    GLOBAL_BASE,
    RESERVED,
    EventKind,
    Facts,
    Handler,
    Instrument,
    Site,
    Storage,
    align_up,
)
from tilewright.simulate.isa import Form, table
from tilewright.simulate.programs.device_runtime import HEAP, HEAP_END, heap_lines
from tilewright.simulate.ptx.tree import Address, Immediate, Instruction, Module, Register

#: Events that order accesses; `clocks.c` keeps clocks of warps and lanes by them.
_ORDERING_EVENTS = (
    EventKind.ARRIVE,
    EventKind.RELEASE,
    EventKind.SYNC,
    EventKind.EXIT,
    EventKind.COMMIT,
    EventKind.WAIT,
)
#: Events of mbarriers and bulk copies.
_MBARRIER_EVENTS = (EventKind.MBARRIER, EventKind.BULK, EventKind.TENSOR, EventKind.BULK_COMMIT, EventKind.BULK_WAIT)
#: Unused bytes between variables of shared and of local memory.
GAP_BYTES = 512
#: A block's local memory is not judged if it is larger: every block starts with a copy of its states.
_LOCAL_MAX_BYTES = 16 << 20
#: With more global memory in use, the reads of a cell are not kept for each block: they take 8 times its bytes or more.
_READERS_MAX_BYTES = 32 << 20
#: Copies that are followed at once in any case; and the bytes of shared memory for each, and the most, of a warp's
#: copies and of a block's bulk copies.
_FOLLOWED = 256
_COPIES_MAX = (64, 2048), (16, 8192)
#: Reads of a warp's products that are followed: 120 products of 128 columns.
_READINGS_MAX = 2048
#: The member mask of a whole warp.
_WHOLE_WARP = (1 << 32) - 1
#: Semantics of accesses that order other accesses.
_ORDERING = frozenset({"acquire", "release", "acq_rel"})


#: Counters of a launch's memory, and the sentence for one that is not 0.
_NOT_JUDGED = {
    records.FOUND["lost"]: "{:,} more findings did not fit in the table of a launch",
    LAUNCH["untracked"]: "{:,} asynchronous copies were not followed: too many were in flight at once",
    LAUNCH[
        "unwatched"
    ]: f"{{:,}} uses of mbarriers were not followed: of a block's mbarriers the first {WATCHED_MAX} are",
    LAUNCH["unvisited"]: "{:,} accesses of other blocks' shared memory were not followed to those blocks' ends",
}


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """The findings, and what was not judged."""

    findings: tuple[Finding, ...]
    not_judged: tuple[str, ...] = ()  #: Sentences about limits that were exceeded.
    #: Whether two warps may have met at a word that one of them wrote, both by strong accesses; without fences always.
    contested: bool = True


#: By PTX line: the slots of each load that only copies, and the words of each part that a store takes of them.
Carried = tuple[Mapping[int, tuple[int, ...]], Mapping[int, tuple[tuple[int, ...], ...]]]
_NOTHING: Carried = ({}, {})
#: Kinds of rows that access shared memory through another proxy.
_BY_PROXY = ("bulk", "tensor", "warpgroup", "tensor_product", "counted", "fill")


class MemoryCheck(Instrument):
    """Find accesses out of bounds, reads of what was never written, and races.

    The narrowest access of the kernel's module sets the size of the cells that races are detected in. Without `states`
    all global memory in use counts as written. `idle` has PTX lines of loads of global memory, and the threads of a
    block that do not use their values: these threads race with no store. `carried` has the slots of loads that only
    copy local memory, and for each store what it takes of them, by PTX lines too. `unused` has PTX lines of strong
    reads whose values nothing uses: such a read orders nothing. `data` has those of strong accesses that are no flags
    (`deciding.data`), and `whole` those of accesses that use elements as numbers (`unset.whole`). `clusters`: whether
    a block may be in a cluster with others.

    >>> from tilewright.simulate.ptx import parse
    >>> text = ".version 8.0 .target sm_90 .entry k() { ld.global.u8 %r1, [%rd1]; st.shared.f32 [%r2], %f1; }"
    >>> MemoryCheck(parse(text)).cell_bytes
    1
    """

    gap_bytes = GAP_BYTES

    # tables of affine accesses list cells
    parameters = ("cell_bytes", "_mbarriers", "_bulks", "_idle", "_carried", "_unused", "_data", "_alone", "_heap")

    def __init__(
        self,
        module: Module,
        kernel: str = "",
        states: States | None = None,
        idle: Mapping[int, npt.NDArray[np.bool_]] | None = None,
        carried: Carried = _NOTHING,
        unused: frozenset[int] = frozenset(),
        data: frozenset[int] = frozenset(),
        whole: frozenset[int] = frozenset(),
        clusters: bool = True,
    ) -> None:
        self.name = "memory"
        self._alone = not clusters
        self._carried, self._unused, self._data, self._whole = carried, unused, data, whole
        self._slots = max((slot + 1 for slots in carried[0].values() for slot in slots), default=0)
        self._idle = {line: accesses.lanes_of(threads) for line, threads in (idle or {}).items()}
        self._heap = heap_lines(module)
        forms = [(one, form) for one, form in _forms(module) if one.ptx_line not in self._heap]
        self.cell_bytes = min((_width_bytes(form) for _, form in forms), default=4)
        self._copies = any(_is_of_copies(form) for _, form in forms)
        self._mbarriers = any(mbarriers.has_event(form) for _, form in forms)
        self._bulks = any(form.row.kind in _BY_PROXY for _, form in forms)
        self._products = any(mbarriers.is_product(form) for _, form in forms)
        self._points_to_params = any(_is_to_params(instruction, form) for instruction, form in forms)
        self.orders = any(_orders(form) for _, form in forms)
        scoped = (one.name.split(".") for one, form in forms if _orders(form) or form.row.access)
        self._scoped = any("cta" in parts or (self._alone and "cluster" in parts) for parts in scoped)
        self._meets = any(form.has("cluster") and form.row.kind == "cluster" for _, form in forms)
        self._parts = any(_is_of_lanes(instruction, form) for instruction, form in forms)
        of_some = any(_is_of_some(instruction, form) for instruction, form in forms)
        self._waits_for_some = self._mbarriers or self._bulks or self.orders or self._meets or of_some
        self._read_only = any(map(accesses.is_read_only, (one.name for one, _ in forms)))
        self._kernel = kernel
        self._awaited: tuple[tuple[int, int, int], list[waits.Wait]] = ((0, 0, 0), [])
        self._states = states

    def on(self, states: States) -> MemoryCheck:
        """The same check of another launch of the kernel, with the states of its memory."""
        made = copy.copy(self)
        made._states = states
        return made

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        """Every access, and every event that orders accesses."""
        if site.ptx_line in self._heap:
            return accesses.heap(site)
        form = table().find(site.opcode)
        if self._alone and site.kind in (EventKind.ACCESS, EventKind.FENCE) and not _is_of_inits(form):
            site = accesses.without_cluster(site)
        match site.kind:
            case EventKind.CLUSTER:
                return accesses.arrival(relaxed=form is not None and form.has("relaxed"))
            case EventKind.FENCE if _is_of_inits(form):
                return Handler("tw_shadow_init_fence", needs=accesses.PARTS)
            case EventKind.FENCE if self._bulks and form is not None and form.has("proxy"):
                return mbarriers.handler(site)
            case EventKind.FENCE:
                return accesses.fence(site)
            case EventKind.EXIT if self._mbarriers or self._products:
                return mbarriers.handler(site)
            case kind if kind in _MBARRIER_EVENTS or mbarriers.is_product(form):
                return mbarriers.handler(site)
            case EventKind.STACK:
                return accesses.stack(site)
            case EventKind.ACCESS if not mbarriers.has_event(form):
                own = mbarriers.columns_handler(form) if form is not None else None
                unused, data = site.ptx_line in self._unused, site.ptx_line in self._data
                return (
                    own
                    or self._with_known_use(site)
                    or accesses.handler(site, offsets, self.cell_bytes, unused=unused, data=data)
                )
            case kind if kind in _ORDERING_EVENTS:
                return Handler(f"tw_shadow_{kind.value}", needs=accesses.PARTS)
        return None

    def _with_known_use(self, site: Site) -> Handler | None:
        """The handler of an access whose value is known to be unused by some lanes, or only copied; None for others."""
        loads, stores = self._carried
        if idle := self._idle_lanes(site):
            return accesses.idle(site, idle)
        if (site.space, site.access) == ("local", "load") and site.ptx_line in loads:
            return accesses.carried_from(site, loads[site.ptx_line])
        if site.access == "store" and site.ptx_line in stores:
            return accesses.carried_to(site, stores[site.ptx_line])
        return None

    def together(self, sites: Sequence[Site], offsets: Sequence[tuple[int, ...]]) -> Handler | None:
        """Loads with one base, whose cells are judged at once."""
        if any(site.ptx_line in self._heap or self._with_known_use(site) for site in sites):
            return None
        return accesses.together(sites, offsets, self.cell_bytes)

    def _idle_lanes(self, site: Site) -> tuple[int, ...]:
        """For each warp, the lanes that do not use what a load of global memory gives them; () if all may."""
        return self._idle.get(site.ptx_line, ()) if (site.space, site.access) == ("global", "load") else ()

    def _mark(self, facts: Facts) -> States:
        """The states of global memory, in which constants are marked."""
        if self._states is None:
            self._states = States(facts.global_bytes)
            self._states.allocated(GLOBAL_BASE, facts.global_bytes)
            self._states.host_wrote(GLOBAL_BASE, facts.global_bytes)
        for name, variable in facts.module.variables.items():
            if variable.space == "const" and name in facts.layout.places:
                self._states.constant(facts.module_address + facts.layout.places[name][1], variable.size)
        self._before = self._states.held(facts.params_address, facts.params_bytes)
        if self._points_to_params:
            self._states.constant(facts.params_address, facts.params_bytes)
        return self._states

    def _heap_places(self, facts: Facts) -> tuple[int, int, int]:
        """Where the module's heap begins and ends, and from where on all its blocks are known; zeros without one."""
        places = facts.layout.places
        if not self._heap or HEAP not in places or self._states is None:
            return 0, 0, 0
        heap, used = (facts.module_address + places[name][1] for name in (HEAP, HEAP_END))
        size = facts.module.variables[HEAP].size
        taken = int.from_bytes(ctypes.string_at(facts.global_address + used - GLOBAL_BASE, 4), "little")
        return heap, heap + size, self._states.heap(heap, size, min(taken, size), used)

    def begin(self, facts: Facts) -> Storage:
        """Cells of global memory and records for the launch; clocks, cells and local states for each block."""
        warps = -(-facts.block[0] * facts.block[1] * facts.block[2] // 32)
        self._facts = facts
        self._table = records.empty()
        self._orders = orders.Orders(math.prod(facts.grid), scoped=self._scoped) if self.orders else None
        cells = facts.global_bytes // self.cell_bytes + 8
        # one mapping for all: only whole large pages can be used
        readers = READERS_BYTES * (self.orders and facts.global_bytes <= _READERS_MAX_BYTES)
        each = (8, 8, 8, readers, 4 if self._waits_for_some and warps > 1 else 0, 1)  # bytes of a cell
        ends = [cells * end for end in itertools.accumulate(each)]
        self._cells = np.split(areas().take(ends[-1]), ends[:-1])
        states = self._mark(facts)
        heap, heap_end, heap_known = self._heap_places(facts)
        shared = _shared_cells(facts, self.cell_bytes)
        local = _local_states(facts, warps)
        start = BLOCK_BYTES + 2 * shared.nbytes + local.size
        rest, end = self._places(start, warps, facts.cluster_blocks, shared.nbytes)
        lists, behind = _lists(end, warps, facts.shared_bytes, self._copies, self._bulks, self._products)
        self._launch = np.zeros(LAUNCH_BYTES // 8, np.uint64)
        begins = records.launch_words(self._table, facts)
        self._launch[: begins.size] = begins
        words = {
            "cell_bytes": self.cell_bytes,
            "base": GLOBAL_BASE,
            "states": states.host_address,
            "writes": self._cells[0].ctypes.data,
            "reads": self._cells[1].ctypes.data,
            "stored": self._cells[2].ctypes.data,
            "readers": self._cells[3].ctypes.data if self._cells[3].size else 0,
            "lists": self._cells[4].ctypes.data if self._cells[4].size else 0,
            "quiet": self._cells[5].ctypes.data,
            "order": facts.callback(self._orders.call, orders.ARGUMENTS, 0) if self._orders else 0,
            "shared_reads": BLOCK_BYTES + shared.nbytes,
            "local_states": BLOCK_BYTES + 2 * shared.nbytes,
            "local_bytes": facts.layout.local_bytes if local.size else 0,
            "warps": warps,
            "ranks": facts.cluster_blocks,
            "global_bytes": facts.global_bytes,
            "heap": heap,
            "heap_end": heap_end,
            "heap_known": heap_known,
            "has_read_only": self._read_only,
        } | {name: at for name, at in rest.items() if name in LAUNCH}
        for name, value in words.items():
            self._launch[LAUNCH[name] // 8] = value
        for name, place in lists.items():
            self._launch[LAUNCH[name] // 8 :][:2] = place
        block = np.concatenate(
            [
                np.frombuffer(_initial_clocks(rest["lanes_at"]), np.uint8),
                shared.view(np.uint8),
                np.zeros(shared.nbytes, np.uint8),
                local,
                np.zeros(end - start, np.uint8),
            ]
        )
        return Storage(self._launch, block, behind)

    def _places(self, start: int, warps: int, ranks: int, shared_bytes: int) -> tuple[dict[str, int], int]:
        """The offsets of the optional parts of a block's memory, 0 for a part that is absent; and its end."""
        rows = ROWS_END if self._mbarriers else NOW_ROW
        sizes = {
            "far_at": (self._meets or ranks > 1) * (FAR_BYTES + rows * ranks * CLOCKS_BYTES),
            "far_reads": (ranks > 1) * shared_bytes,
            "lanes_at": self._parts * warps * LANES_BYTES,
            "flights_at": self._copies * warps * FLIGHTS_BYTES,
            "watched_at": self._mbarriers * WATCHED_BYTES,
            "ahead_at": self._mbarriers * AHEAD_BYTES,
            "bulks_at": self._bulks * BULKS_BYTES,
            "readings_at": self._products * warps * READINGS_BYTES,
            "carried_at": self._slots * warps * 32 * 8,
            "several_at": self._waits_for_some * SEVERAL_BYTES,
            "layouts_at": self._products * LAYOUT_BYTES * -(-self._facts.shared_bytes // LAYOUT_OF_BYTES),
        }
        places, at = {}, align_up(start, 64)
        for name, size in sizes.items():
            places[name] = at if size else 0
            at += align_up(size, 64)
        return places, at

    def failed(self, error: KernelError, block: npt.NDArray[np.uint8]) -> None:
        """Keep the waits of warps at mbarriers, if the launch failed because no thread can complete them."""
        at = int(self._launch[LAUNCH["watched_at"] // 8])
        if at and error.block is not None and isinstance(error, DeadlockError) and error.fault.startswith("mbarrier"):
            self._awaited = (error.block, waits.of(block[at : at + WATCHED_BYTES]))

    def collect(self, sites: list[Site], counters: npt.NDArray[np.uint64]) -> MemoryResult:
        """Turn the records into findings; the cells' memory is released."""
        self._cells = []
        assert self._states is not None
        self._states.put_back(self._facts.params_address, self._before)
        module, all_ = self._facts.module, records.read(self._table)
        known = [one for one in all_ if is_finding(one, sites, module, self._data, self._whole)]
        found = [finding_of(record, sites, self._facts, self._kernel) for record in known]
        found += [waits.finding_of(one, self._awaited[0], sites, self._facts, self._kernel) for one in self._awaited[1]]
        counts = {text: int(self._launch[at // 8]) for at, text in _NOT_JUDGED.items()}
        sentences = tuple(text.format(n) for text, n in counts.items() if n)
        return MemoryResult(tuple(settled(found)), sentences, self._orders is None or self._orders.contested)


@functools.lru_cache(maxsize=256)
def _lists(
    start: int, warps: int, shared_bytes: int, copies: bool, bulks: bool, products: bool
) -> tuple[dict[str, tuple[int, int]], int]:
    """Where each list behind a block's memory starts, and its most entries; and the bytes of all.

    Copies in flight write different bytes of shared memory. So shared memory limits how many of ordinary sizes there
    can be, and the lists have room for that many.
    """
    of_warp, of_block = (min(max(_FOLLOWED, shared_bytes // size), most) for size, most in _COPIES_MAX)
    most = {"flights": of_warp * copies, "sources": of_warp * copies, "readings": _READINGS_MAX * products}
    found, at = {}, align_up(start, 64)
    for name, count in (most | {"bulks": of_block * bulks, "outgoing": of_block * bulks}).items():
        found[name] = at, count
        at += align_up(count * BEHIND_BYTES[name] * (warps if name in most else 1), 64)
    return found, at - align_up(start, 64)


def _forms(module: Module) -> Iterator[tuple[Instruction, Form]]:
    """The instructions of a module that the machine knows."""
    for function in module.functions.values():
        for item in function.body:
            if isinstance(item, Instruction) and (form := table().find(item.name)) is not None:
                yield item, form


def _is_of_inits(form: Form | None) -> bool:
    """Whether it is the fence of mbarriers' initialisations, which has one scope."""
    return form is not None and form.has("mbarrier_init")


def _orders(form: Form) -> bool:
    """Whether an instruction orders accesses of several blocks in a way that `clusters.c` does not track."""
    if form.row.kind == "fence":
        return not (form.has("proxy") or form.has("mbarrier_init"))
    return form["sem"] in _ORDERING and form.row.kind != "cluster" and not mbarriers.has_event(form)


def _width_bytes(form: Form) -> int:
    """Bytes of one element of a memory access, at most 4; 4 for parameters and for other instructions."""
    if not form["type"] or not form.row.access or form["ss"].startswith("param"):
        return 4
    return min(4, int(form["type"].partition("x")[0].lstrip("usbf")) // 8)


def _is_of_copies(form: Form) -> bool:
    """Whether it copies asynchronously, or groups, awaits or counts such copies, even if there are none."""
    return form.has("async") and form.row.kind in ("copy", "group", "mbarrier")


def _is_to_params(instruction: Instruction, form: Form) -> bool:
    """Whether an instruction computes with the address of parameters, or accesses them through a register."""
    if form.row.kind == "cvta":
        return form.has("param")
    places = [o for o in instruction.operands if isinstance(o, Address) and isinstance(o.base, Register)]
    return form.has("param") and bool(places)


def _is_of_lanes(instruction: Instruction, form: Form) -> bool:
    """Whether this is a barrier of a warp that may be of a part of its lanes."""
    if form.row.kind != "barrier" or not form.has("warp"):
        return False
    members = next(iter(instruction.operands), None)  # the translator refuses a barrier without members
    return not isinstance(members, Immediate) or members.value & _WHOLE_WARP != _WHOLE_WARP


def _is_of_some(instruction: Instruction, form: Form) -> bool:
    """Whether this is a barrier that may be of some of a block's warps, or at which not all wait."""
    if form.row.kind != "barrier" or form.has("warp") or form.has("cluster"):
        return False
    return form.has("arrive") or len(instruction.operands) > (3 if form.has("red") else 1)


def _shared_cells(facts: Facts, cell_bytes: int) -> npt.NDArray[np.uint64]:
    """The W words of shared memory at a block's start: gaps between variables, zeros in what the GPU reserves."""
    inside = np.zeros(facts.shared_bytes, bool)
    for name, (space, offset) in facts.layout.places.items():
        if space == "shared":
            inside[offset : offset + facts.layout.sizes.get(name, 0)] = True
    start = facts.layout.dynamic_start
    inside[start : start + facts.dynamic_shared_bytes] = True
    count = -(-facts.shared_bytes // cell_bytes)
    padded = np.zeros(count * cell_bytes, bool)
    padded[: inside.size] = inside
    cells = np.where(padded.reshape(count, cell_bytes).any(axis=1), np.uint64(0), np.uint64(GAP))
    start = facts.layout.places.get(RESERVED, ("shared", 0))[1]
    cells[start // cell_bytes :][: facts.layout.sizes.get(RESERVED, 0) // cell_bytes] = 1 << STRONG_BIT
    return np.concatenate([cells.astype(np.uint64), np.full(8, GAP, np.uint64)])


def _local_states(facts: Facts, warps: int) -> npt.NDArray[np.uint8]:
    """States of a block's local memory at its start; empty if it is larger than the limit."""
    size = facts.layout.local_bytes
    if size * warps * WARPS_MAX > _LOCAL_MAX_BYTES:
        return np.zeros(0, np.uint8)
    one = np.full(size, accesses.OUTSIDE_STATE, np.uint8)
    one[facts.layout.frame_bytes :] = 1  # the frames of called functions are not distinguished
    one[facts.layout.stack_start :] = accesses.OUTSIDE_STATE  # nothing is allocated yet
    functions = facts.module.functions.values()
    passed = {v.name for f in functions for v in f.variables if v.space == "param"}  # calls write them, not stores
    for name, (space, offset) in facts.layout.places.items():
        if space == "local":
            one[offset : offset + facts.layout.sizes.get(name, 0)] = int(name in passed)
    return np.tile(one, warps * 32)


def _initial_clocks(lanes_at: int) -> bytes:
    """The clocks at the start of a block, up to its cells: every clock is 1, and no warp knows another's.

    `lanes_at` is the byte offset of the clocks of its lanes, 0 where there are none.
    """
    area = np.zeros(BLOCK_BYTES, np.uint8)
    clocks = area[BLOCK["clocks"] : BLOCK["known"]].view(np.uint64)
    clocks[0::2], clocks[1::2] = 1, 1 << CLOCK_SHIFT
    area[BLOCK["known"] : BLOCK["inbox"]].view(np.uint32)[:] = 1
    area[BLOCK["whole"] : BLOCK["rounds"]].view(np.uint64)[:] = 1
    area.view(np.uint64)[BLOCK["lanes_at"] // 8] = lanes_at
    return area.tobytes()

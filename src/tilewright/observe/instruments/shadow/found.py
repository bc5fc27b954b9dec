"""Turns records of shadow memory into findings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tilewright.observe.instruments.findings import Finding, split
from tilewright.observe.instruments.places import place
from tilewright.observe.instruments.shadow import cells
from tilewright.observe.instruments.shadow.accesses import is_narrow, is_read_only, reads_later
from tilewright.observe.instruments.shadow.cells import SITE_MAX, THREAD_MAX, WHO_MASK
from tilewright.observe.instruments.shadow.mbarriers import is_product
from tilewright.observe.instruments.shadow.records import Record
from tilewright.simulate.events import Facts, Site
from tilewright.simulate.isa import table
from tilewright.simulate.programs.device_runtime import HEAP, heap_lines
from tilewright.simulate.ptx.tree import Module

#: The code of each kind of record.
_CODES = {
    cells.SHARED_GAP: "TW103",
    cells.SHARED_UNWRITTEN: "TW202",
    cells.SHARED_RACE: "TW301",
    cells.SHARED_LANES: "TW304",
    cells.GLOBAL_OUTSIDE: "TW101",
    cells.GLOBAL_FREED: "TW105",
    cells.GLOBAL_CONSTANT: "TW106",
    cells.GLOBAL_ROW_GAP: "TW107",
    cells.GLOBAL_UNWRITTEN: "TW201",
    cells.GLOBAL_RACE: "TW302",
    cells.GLOBAL_BLOCKS: "TW303",
    cells.GLOBAL_LANES: "TW304",
    cells.LOCAL_OUTSIDE: "TW104",
    cells.LOCAL_UNWRITTEN: "TW203",
    cells.SHARED_PARTLY: "TW202",
    cells.GLOBAL_PARTLY: "TW201",
    cells.LOCAL_PARTLY: "TW203",
    cells.SHARED_BLOCKS: "TW308",
    cells.AWAY_EARLY: "TW108",
    cells.AWAY_LATE: "TW108",
    cells.AWAY_SENT: "TW108",
    cells.SHARED_IN_FLIGHT: "TW306",
    cells.GLOBAL_IN_FLIGHT: "TW306",
    cells.GLOBAL_READ_ONLY: "TW310",
    cells.HEAP_TWICE: "TW105",
    cells.HEAP_FOREIGN: "TW111",
    cells.SHARED_SOURCE: "TW306",
    cells.NOT_FENCED: "TW412",
    cells.DESCRIPTOR: "TW415",
    cells.SHARED_ARRIVED: "TW411",
    cells.SHARED_OBJECT: "TW410",
    cells.MBARRIER_UNSET: "TW406",
    cells.MBARRIER_UNKNOWN: "TW406",
    cells.MBARRIER_BUSY: "TW406",
    cells.MBARRIER_REMADE: "TW406",
    cells.MBARRIER_AGAIN: "TW407",
    cells.MBARRIER_STALE: "TW407",
    cells.MBARRIER_PARITY: "TW407",
    cells.MBARRIER_LEFT_BYTES: "TW409",
}
#: Most pairs of instructions that are kept for the races of one line.
_PAIRS = 16
#: Threads of a warpgroup, whose products count as one warp after those of the block (`products.c`).
_GROUP_THREADS = 128
#: Kinds of reads of elements of which a part was not written.
_PARTLY = (cells.SHARED_PARTLY, cells.GLOBAL_PARTLY, cells.LOCAL_PARTLY)
#: The unit that swizzles exchange.
_UNIT_BYTES = 16
#: Kinds of race in shared memory.
_SHARED = (
    cells.SHARED_RACE,
    cells.SHARED_BLOCKS,
    cells.SHARED_LANES,
    cells.SHARED_ARRIVED,
    cells.SHARED_IN_FLIGHT,
    cells.SHARED_SOURCE,
)
#: Kinds of race of a block in global memory.
_GLOBAL = (cells.GLOBAL_RACE, cells.GLOBAL_LANES, cells.GLOBAL_IN_FLIGHT)
#: Kinds of race, from the widest scope on. A line that races in a wide scope is not also reported for a narrower one,
#: which depends on the order of execution.
_WIDEST = ("TW306", "TW307", "TW303", "TW302", "TW308", "TW411", "TW301", "TW304")
#: Reads of what was never written, and the races that may cause it, in the space of the read.
UNSET = {
    "TW201": ("TW302", "TW303", "TW304"),
    "TW202": ("TW301", "TW304", "TW308", "TW306", "TW307", "TW411"),
    "TW203": (),
}
#: Races that `--strict` reports, by what a record says of them.
_LOCKSTEP, _ONE_VALUE, _UNORDERED = "TW311", "TW312", "TW313"
#: The same of every finding that a race at its line explains: a load through the non-coherent cache is one only if the
#: write came first, which a race leaves to chance.
_EXPLAINED = UNSET | dict.fromkeys(("TW310", _LOCKSTEP, _ONE_VALUE, _UNORDERED), _WIDEST)
#: The variable in which Triton's compiler places all shared memory.
TILES = "global_smem"
#: Whose the other access of a race is.
_OTHERS = {"TW303": "block", "TW308": "block of the cluster", "TW304": "lane of the warp"}


def finding_of(record: Record, sites: list[Site], facts: Facts, kernel: str) -> Finding:
    """The finding of a record. A race is reported at its write, or at the later line of two writes."""
    code, site = _CODES[record.kind], sites[record.row]
    of_strong = _LOCKSTEP if record.lockstep else _UNORDERED if record.unordered else ""
    copies = _is_of_copies(record, facts.module)
    strict = of_strong or (_ONE_VALUE if record.one_value or (copies and record.rounded) else "")
    details: dict[str, Any] = {"address": record.address, "space": site.space, "access": site.access}
    heap = _of_heap(record, facts)
    if code in _WIDEST:
        other = sites[record.other] if record.other < min(SITE_MAX, len(sites)) else None
        if record.kind in _SHARED:  # which of the two ran first is chance
            code = _in_flight(site, other) or code
        if record.kind in _GLOBAL and (reads_later(site) or reads_later(other)):
            code = "TW306"
        site, other, wrote, other_wrote = _first_the_write(site, other, record)
        if code == "TW306":
            copies = other is not None and other.asynchronous and site.asynchronous and wrote and other_wrote
            details |= {"how": "copies" if copies else "writes" if other_wrote or other is None else "reads"}
        if code in ("TW306", "TW307", "TW308"):
            details |= {"space": "global" if record.kind in _GLOBAL else "shared"}
        details |= {"how": "copies"} if copies else {}
        details |= {"access": _verb(wrote, site), "other_access": _verb(other_wrote, other)}
        details["others"] = [_line(other)] if other is not None else []
        details |= _other_thread(record, facts) | _symbol(record, site, facts)
        scoped = [one.opcode for one in (site, other) if one is not None and is_narrow(one.opcode)]
        details |= {"scoped": scoped[0]} if code == "TW303" and scoped else {}
        details |= {"how": "ends"} if heap and wrote and site.ptx_line in heap_lines(facts.module) else {}
        if other is not None:
            details["pairs"] = [[site.ptx_line, other.ptx_line, details["access"], details["other_access"]]]
    if code == "TW310":
        other = sites[record.other] if record.other < min(SITE_MAX, len(sites)) else None
        details |= {"other_access": "read" if record.wrote else "write"}
        details |= {"others": [_line(other)] if other is not None else [], "how": "write" if record.wrote else "load"}
        details |= _other_thread(record, facts)
    elif record.kind in _PARTLY:
        details |= {"how": "part"}
    elif heap and code not in _WIDEST:
        details |= {"how": "twice" if record.kind == cells.HEAP_TWICE else "heap"}
    details |= _of_mbarrier(record, sites)
    details["bytes"] = site.bytes_per_lane
    if strict:
        details |= {"race": code, "who": _OTHERS.get(code, "warp of the block")}
    return recorded(strict or code, record, site, facts, kernel, details)


def _of_heap(record: Record, facts: Facts) -> bool:
    """Whether a record is about the heap of the kernel's module."""
    if not heap_lines(facts.module) or record.kind == cells.HEAP_FOREIGN or HEAP not in facts.layout.places:
        return False
    return 0 <= record.address - facts.module_address - facts.layout.places[HEAP][1] < facts.module.variables[HEAP].size


def _is_of_copies(record: Record, module: Module) -> bool:
    """Whether one instruction of a kernel by Triton stores one element in several threads.

    Triton addresses shared memory by itself, and each element of a tile has its own place there. So such threads hold
    copies of one element, of a tile that has fewer elements than the block has threads.
    """
    of_one = record.kind in (cells.SHARED_RACE, cells.SHARED_LANES) and record.row == record.other
    return of_one and record.wrote and record.other_wrote and TILES in module.variables


def is_finding(
    record: Record,
    sites: list[Site],
    module: Module,
    data: frozenset[int] = frozenset(),
    whole: frozenset[int] = frozenset(),
) -> bool:
    """Whether a record is a finding. For descriptors, what wrote the bytes decides; for strong accesses, the other.

    An element of which a part was not written may be a structure with padding, except where its PTX line is in `whole`.

    The layout of a matrix is known only if the last instruction that wrote it is a tensor copy. A volatile access and
    an atomic one, or a flag's, may be meant to meet; `data` has the PTX lines of those that are no flags. Equal copies
    of an element are the compiler's.
    """
    if record.one_value and _is_of_copies(record, module):
        return False
    if record.kind in _PARTLY:
        return sites[record.row].ptx_line in whole
    if record.kind == cells.GLOBAL_READ_ONLY and record.wrote:
        loads = [one for one in sites if one.access == "load" and one.space == "global"]
        others = [sites[record.other]] if record.other < min(SITE_MAX, len(sites)) else loads
        return all(is_read_only(one.opcode) for one in others)
    if record.lockstep and record.other < min(SITE_MAX, len(sites)):
        return "volatile" in sites[record.other].opcode
    if record.unordered:
        other = sites[record.other] if record.other < min(SITE_MAX, len(sites)) else None
        if other is None or other.ptx_line not in data:
            return False
        accesses = {other.access, sites[record.row].access}
        return accesses != {"atomic"} and not (record.one_value and accesses == {"store"})
    if record.kind != cells.DESCRIPTOR or _laid(record) == cells.LAID_TWICE:
        return True
    form = table().find(sites[record.other].opcode) if record.other < min(SITE_MAX, len(sites)) else None
    return form is not None and form.row.kind == "tensor"


def _laid(record: Record) -> int:
    """How a descriptor differs from the layout of its matrix; 0 for a record of another kind."""
    return record.cell & 0x1F if record.kind == cells.DESCRIPTOR else 0


def _of_descriptor(record: Record) -> dict[str, Any]:
    """The details of a descriptor's record; `descriptors.c` lists the bits of its cell."""
    read, layout = record.cell >> 5 & 0xF, record.cell >> 9 & 0x7FF
    written, row = 1 << (layout & 3), layout >> 3
    match _laid(record):
        case cells.LAID_TWICE:
            offsets = {"leading": record.cell >> 20 & 0xFFFFF, "stride": record.cell >> 40}
            return {"how": "twice", **offsets}
        case cells.LAID_BASE:
            return {"how": "base"}
        case cells.LAID_ROWS:
            return {"how": "rows", "line": read * _UNIT_BYTES, "row": row * _UNIT_BYTES}
    return {"how": "swizzle", "read_by": _swizzle(read), "written_by": _swizzle(written)}


def _swizzle(units: int) -> str:
    return f"a swizzle of {units * _UNIT_BYTES} bytes" if units > 1 else "no swizzle"


def _of_mbarrier(record: Record, sites: list[Site]) -> dict[str, Any]:
    """The details of a record of an mbarrier or a fence, with the name of the sentence."""
    match record.kind:
        case cells.AWAY_EARLY:
            return {"how": "early"}
        case cells.AWAY_LATE:
            return {"how": "late"}
        case cells.AWAY_SENT:
            return {"how": "sent"}
        case cells.MBARRIER_UNSET:
            return {"how": "ended" if record.cell else "never"}
        case cells.MBARRIER_UNKNOWN:
            return {"how": "unordered"}
        case cells.MBARRIER_BUSY:
            return {"how": "busy", "others": [_line(sites[record.cell])]}
        case cells.MBARRIER_REMADE:
            return {"how": "remade"}
        case cells.MBARRIER_AGAIN:
            return {"how": "again"}
        case cells.MBARRIER_STALE:
            return {"how": "stale", "behind": record.cell}
        case cells.MBARRIER_PARITY:
            return {"how": "parity", "parity": record.cell}
        case cells.MBARRIER_LEFT_BYTES:
            left, expected = _signed(record.cell & 0x1FFFFF), record.cell >> 32
            how = "left" if left > 0 else "over"
            return {"how": how, "left": abs(left), "expected": expected, "came": expected - left}
        case cells.NOT_FENCED:
            return {"how": "overwrites" if record.wrote else "reads", "others": [_line(sites[record.other])]}
        case cells.DESCRIPTOR:
            others = [_line(sites[record.other])] if record.other < len(sites) else []
            return _of_descriptor(record) | {"others": others}
    return {}


def _signed(bytes_: int) -> int:
    """The byte count of an mbarrier, a signed number of 21 bits."""
    return bytes_ - (1 << 21) * (bytes_ >> 20)


def accessed(finding: Finding, kind: int) -> Finding:
    """The finding of an access outside live memory, as `cells.GLOBAL_OUTSIDE` or `cells.GLOBAL_FREED`."""
    return replace(finding, code=_CODES[kind])


def recorded(code: str, record: Record, site: Site, facts: Facts, kernel: str, details: dict[str, Any]) -> Finding:
    """The finding of a record at the place of its first instance."""
    source, line = split(site.source)
    return Finding(
        code=code,
        kernel=kernel,
        source=source,
        line=line,
        opcode=site.opcode,
        ptx_line=site.ptx_line,
        block=place(record.block, facts.grid),
        thread=place(record.thread, facts.block),
        count=record.count,
        details=details,
    )


def settled(findings: list[Finding]) -> list[Finding]:
    """Findings that do not depend on the order of execution: races in their widest scope, reads that no race explains.

    A read of unwritten memory that races with a write there is reported as that race. A race of a copy with unknown
    lines is dropped if another race names the line of the copy.
    """
    copies = {other for one in findings if one.code == "TW306" for other in one.details["others"]}
    best: dict[tuple[object, ...], str] = {}
    racing: set[tuple[str, bool, object]] = set()
    for one in findings:
        if one.code in _WIDEST:
            best[_place(one)] = min(best.get(_place(one), one.code), one.code, key=_WIDEST.index)
            racing |= {(one.code, _is_global(one), line) for line in (one.where, *one.details["others"])}
    kept: list[Finding] = []
    races: dict[tuple[str, ...], list[Finding]] = {}
    for one in findings:
        if one.code in _WIDEST:
            unknown = one.code == "TW306" and not one.details["others"] and one.where in copies
            if not unknown and one.code == best[_place(one)]:
                races.setdefault(_place(one), []).append(one)
        elif not any((race, _is_global(one), one.where) in racing for race in _EXPLAINED.get(one.code, ())):
            if "race" in one.details:
                races.setdefault((*_place(one), one.code), []).append(one)
            else:
                kept.append(one)
    return [*kept, *(_as_one(group) for group in races.values())]


def _as_one(races: list[Finding]) -> Finding:
    """All races of a line as one finding, which names the other lines that are known."""
    first = min(races, key=lambda one: (_WIDEST.index(one.details.get("race", one.code)), one.first))
    others = sorted({other for one in races for other in one.details["others"]}, key=split)
    details = first.details | {"others": others}
    details |= next(({"scoped": one.details["scoped"]} for one in races if "scoped" in one.details), {})
    if any("pairs" in one.details for one in races):
        details["pairs"] = [pair for one in races for pair in one.details.get("pairs", ())][:_PAIRS]
    return replace(first, count=sum(one.count for one in races), details=details)


def _is_global(one: Finding) -> bool:
    return bool(one.details["space"] == "global")


def _place(one: Finding) -> tuple[str, str]:
    """The line of a race, and its space."""
    return one.where, one.details["space"]


def _first_the_write(site: Site, other: Site | None, record: Record) -> tuple[Site, Site | None, bool, bool]:
    """A race turned to its write, or to the later line of two writes; a race with a copy turned to the other access."""
    here = (site, other, record.wrote, record.other_wrote)
    if other is None:
        return here
    there = (other, site, record.other_wrote, record.wrote)
    if site.asynchronous != other.asynchronous:
        return there if site.asynchronous else here
    if record.wrote != record.other_wrote:
        return here if record.wrote else there
    return here if _order(site) >= _order(other) else there


def _order(site: Site) -> tuple[str, int, int]:
    return (*split(site.source), site.ptx_line)


def _in_flight(*sites: Site | None) -> str:
    """The code of a race with an operation in flight: a copy, or the reads of a product; "" for none."""
    if any(site is not None and site.asynchronous for site in sites):
        return "TW306"
    return "TW307" if any(site is not None and is_product(table().find(site.opcode)) for site in sites) else ""


def _verb(wrote: bool, site: Site | None) -> str:
    if site is not None and site.asynchronous:
        return "copy"
    return "write" if wrote else "read"


def _line(site: Site) -> str:
    return site.source or f"PTX line {site.ptx_line}"


def _other_thread(record: Record, facts: Facts) -> dict[str, object]:
    """The thread of the other access, or the first and last lane of the part of its warp, if either was kept."""
    who = record.cell & WHO_MASK
    if record.cell == cells.GAP or record.kind == cells.SHARED_BLOCKS or who >= cells.SEVERAL_RANKS:
        return {}
    known: dict[str, object] = {}
    if record.kind == cells.GLOBAL_BLOCKS:
        known = {"other_block": list(place(record.cell >> cells.BLOCK_SHIFT, facts.grid))}
    if who < THREAD_MAX:
        return known | {"other_thread": list(place(who, facts.block))}
    tile, warp = divmod(who - THREAD_MAX, cells.WARPS_MAX)
    warps = -(-math.prod(facts.block) // 32)
    size = 32 >> (tile + 1).bit_length() - 1 if warp < warps else _GROUP_THREADS
    first = 32 * warp + ((tile + 1) * size) % 32 if warp < warps else (warp - warps) * size
    last = min(first + size, math.prod(facts.block)) - 1
    return known | {"other_threads": [list(place(first, facts.block)), list(place(last, facts.block))]}


def _symbol(record: Record, site: Site, facts: Facts) -> dict[str, object]:
    """The variable of shared memory at the address, by its name in the PTX."""
    for name, (space, offset) in facts.layout.places.items() if site.space == "shared" else ():
        if space == "shared" and offset <= record.address < offset + facts.layout.sizes.get(name, 0):
            return {"symbol": name}
    return {}

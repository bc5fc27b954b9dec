"""From a record of shadow memory to a finding in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from tilewright.instruments.findings import Finding, split
from tilewright.instruments.shadow import cells
from tilewright.instruments.shadow.cells import SITE_MAX, THREAD_MAX, WHO_MASK
from tilewright.instruments.shadow.records import Record
from tilewright.simt.events import Facts, Site

#: The other line of a race, where it is not known, and where it is the same.
_ANOTHER, _AGAIN = "another line", "the same line"


class _Kind(NamedTuple):
    code: str
    words: str  # of what was accessed
    race: str = ""  # who else did, for a race


_KINDS = {
    cells.SHARED_GAP: _Kind("TW103", "outside every shared variable"),
    cells.SHARED_UNWRITTEN: _Kind("TW202", "of shared memory that no thread of the block has written"),
    cells.SHARED_RACE: _Kind("TW301", "in shared memory", "another warp"),
    cells.SHARED_LANES: _Kind("TW304", "in shared memory", "another lane of the warp"),
    cells.GLOBAL_OUTSIDE: _Kind("TW101", "outside every allocation"),
    cells.GLOBAL_FREED: _Kind("TW105", "of memory that was freed"),
    cells.GLOBAL_CONSTANT: _Kind("TW106", "of constant memory"),
    cells.GLOBAL_ROW_GAP: _Kind("TW107", "past the end of a row"),
    cells.GLOBAL_UNWRITTEN: _Kind("TW201", "of global memory that nothing has written"),
    cells.GLOBAL_RACE: _Kind("TW302", "in global memory", "another warp of the block"),
    cells.GLOBAL_BLOCKS: _Kind("TW303", "in global memory", "another block"),
    cells.GLOBAL_LANES: _Kind("TW304", "in global memory", "another lane of the warp"),
    cells.LOCAL_OUTSIDE: _Kind("TW104", "outside every local variable"),
    cells.LOCAL_UNWRITTEN: _Kind("TW203", "of local memory that the thread has not written"),
}


def finding_of(record: Record, sites: list[Site], facts: Facts, kernel: str) -> Finding:
    """The finding that a record stands for; of a race the later line where both wrote, else that of the write."""
    kind, site = _KINDS[record.kind], sites[record.row]
    details: dict[str, object] = {"address": record.address}
    if not kind.race:
        message = f"{site.access} of {site.bytes_per_lane} bytes {kind.words}"
    else:
        other = sites[record.other] if record.other < min(SITE_MAX, len(sites)) else None
        site, other, wrote, other_wrote = _first_the_write(site, other, record)
        there = _line(other) if other is not None else _ANOTHER
        details["other"] = there
        again = _AGAIN if other is not None and there == _line(site) else there
        message = (
            f"{_verb(wrote)} of {site.bytes_per_lane} bytes {kind.words} races with a {_verb(other_wrote)} by "
            f"{kind.race} at {again}: nothing orders them"
        )
        details |= _other_thread(record, facts)
    return Finding(
        code=kind.code, message=message, kernel=kernel, opcode=site.opcode, ptx_line=site.ptx_line, count=record.count,
        details=details, **place_of(record, site, facts),
    )  # fmt: skip


def told_as(finding: Finding, kind: int) -> Finding:
    """An access to no live memory as of another kind: `cells.GLOBAL_OUTSIDE` or `cells.GLOBAL_FREED`."""
    words = next((k.words for k in _KINDS.values() if k.words and finding.message.endswith(k.words)), None)
    message = finding.message if words is None else finding.message.removesuffix(words) + _KINDS[kind].words
    return replace(finding, code=_KINDS[kind].code, message=message)


def place_of(record: Record, site: Site, facts: Facts) -> dict[str, Any]:
    """Where a record's first instance is, as a finding's fields."""
    source, line = split(site.source)
    block, thread = _unfold(record.block, facts.grid), _unfold(record.thread, facts.block)
    return {"source": source, "line": line, "block": block, "thread": thread}


#: Kinds of race from the widest on: a line that races in one way is not reported for a narrower one, which the order of
#: execution may hide.
_WIDEST = ("TW303", "TW302", "TW301", "TW304")
UNSET = {"TW201": ("TW302", "TW303", "TW304"), "TW202": ("TW301", "TW304"), "TW203": ()}


def settled(findings: list[Finding]) -> list[Finding]:
    """What does not depend on the order of execution: races at their widest, and no read that came before its write.

    A read of what was never written that races with a write is that race.
    """
    best: dict[tuple[object, ...], str] = {}
    racing: set[tuple[str, object]] = set()
    for one in findings:
        if one.code in _WIDEST:
            best[_place(one)] = min(best.get(_place(one), one.code), one.code, key=_WIDEST.index)
            racing |= {(one.code, one.details["other"]), (one.code, one.where)}
    kept: list[Finding] = []
    races: dict[tuple[str, bool], list[Finding]] = {}
    for one in findings:
        if one.code in _WIDEST:
            if one.code == best[_place(one)]:
                races.setdefault(_place(one), []).append(one)
        elif not any((race, one.where) in racing for race in UNSET.get(one.code, ())):
            kept.append(one)
    return [*kept, *(_as_one(group) for group in races.values())]


def _as_one(races: list[Finding]) -> Finding:
    """All races of a line as one finding, which names the other lines as far as they are known."""
    first = min(races, key=lambda one: one.first)
    known = sorted({str(one.details["other"]) for one in races} - {_ANOTHER})
    there = " and ".join(_AGAIN if other == first.where else other for other in known) or _ANOTHER
    head = first.message.rpartition(" at ")[0]
    return replace(
        first,
        message=f"{head} at {there}: nothing orders them",
        count=sum(one.count for one in races),
        details=first.details | {"other": ", ".join(known) or _ANOTHER},
    )


def _place(one: Finding) -> tuple[str, bool]:
    """The line of a race, and whether it is one of shared memory."""
    return one.where, "shared" in one.message


def _first_the_write(site: Site, other: Site | None, record: Record) -> tuple[Site, Site | None, bool, bool]:
    """A race at the line of its write, of two writes the later line, whoever came first."""
    here = (site, other, record.wrote, record.other_wrote)
    if other is None:
        return here
    there = (other, site, record.other_wrote, record.wrote)
    if record.wrote != record.other_wrote:
        return here if record.wrote else there
    return here if _order(site) >= _order(other) else there


def _order(site: Site) -> tuple[str, int, int]:
    return (*split(site.source), site.ptx_line)


def _verb(wrote: bool) -> str:
    return "write" if wrote else "read"


def _line(site: Site) -> str:
    return site.source or f"PTX line {site.ptx_line}"


def _other_thread(record: Record, facts: Facts) -> dict[str, object]:
    """The other access's thread, where one is kept."""
    who = record.cell & WHO_MASK
    if record.cell == cells.GAP or who >= THREAD_MAX:
        return {}
    return {"other_thread": list(_unfold(who, facts.block))}


def _unfold(linear: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = extents
    return linear % x, linear // x % y, linear // (x * y)

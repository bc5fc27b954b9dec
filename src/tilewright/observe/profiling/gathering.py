"""Sums the results of instruments: counts by PTX instruction, by source line, and for the launch."""

from __future__ import annotations

import bisect
import functools
import itertools
import linecache
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tilewright.observe.instruments.findings import split
from tilewright.observe.profiling.counts import Counts, Served, Summable, Wavefronts
from tilewright.observe.profiling.record import LineCounts, SiteCounts
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.isa import Role, role_of, table
from tilewright.simulate.programs.program import Program

#: Operations of one lane: one for an addition or multiplication, two for a multiply-add. Source: Nsight Compute,
#: Profiling Guide, "Roofline Charts".
_OPERATIONS = {Role.SUM: 1, Role.PRODUCT: 1, Role.MULTIPLY_ADD: 2}
#: Field of Operations, and elements for each lane, by the PTX type at the end of an opcode.
_KINDS = {
    **dict.fromkeys(("f16", "bf16"), ("float16", 1)),
    **dict.fromkeys(("f16x2", "bf16x2"), ("float16", 2)),
    "f32": ("float32", 1),
    "f32x2": ("float32", 2),
    "f64": ("float64", 1),
    **{f"{letter}{bits}": ("integer", 1) for letter in "su" for bits in (16, 32, 64)},
}
#: Field of Counts, by state space and kind of access.
_ACCESSES = {
    (space, access): f"{space}_{access}s"
    for space, access in (
        ("global", "load"),
        ("global", "store"),
        ("global", "atomic"),
        ("local", "load"),
        ("local", "store"),
        ("shared", "load"),
        ("shared", "store"),
        ("shared", "atomic"),
    )
} | {("shared::cluster", access): f"remote_{access}s" for access in ("load", "store", "atomic")}
#: The instruments that count; the first has every instruction.
_INSTRUMENTS = ("mix", "divergence", "coalescing", "banks")
#: The fields of Counts that are records.
_RECORDS = {f.name: type(f.default) for f in fields(Counts) if isinstance(f.default, Summable)}
#: Some of the counts: numbers by field of Counts, or by `record.field`.
_Part = dict[str, Any]
_Key = tuple[int, str, str]
_Kind = tuple[str, str, int, bool]


def operations(opcode: str) -> tuple[str, int]:
    """The field of Operations for an instruction, and how many operations each lane does; ("", 0) for none.

    >>> operations("fma.rn.f32"), operations("add.f16x2"), operations("mul.wide.s32"), operations("mov.f32")
    (('float32', 2), ('float16', 2), ('integer', 1), ('', 0))
    """
    kind, elements = _KINDS.get(opcode.rpartition(".")[2], ("", 0))
    each = _OPERATIONS.get(role_of(opcode), 0)
    return (kind, each * elements) if kind and each else ("", 0)


def gathered(
    results: Mapping[str, Any], program: Program, served: Sequence[Served] = ()
) -> tuple[tuple[SiteCounts, ...], tuple[LineCounts, ...], Counts]:
    """Counts of each PTX instruction that was executed or requested, of each source line, and in total.

    Without a line table, a line is one of the PTX.

    `results`: the results of a run's instruments, by name. `program`: the program that ran. `served`: where the sectors
    of each row of `coalescing` were found; empty if unknown.
    """
    layout = _layout(program, *(tuple(row.site for row in results[name].rows) for name in _INSTRUMENTS))
    parts = list(_parts(results, layout.kinds, served))
    alike: dict[tuple[int, ...], Counts] = {}  # equal instructions of a straight line share one record
    counts = []
    for numbers in layout.groups:
        which = tuple(id(parts[number]) for number in numbers)
        if which not in alike:
            alike[which] = _counts(_sum((parts[number], 1) for number in numbers))
        counts.append(alike[which])
    sites = tuple(
        SiteCounts(line, opcode, source, counts[group], inner) for line, opcode, source, inner, group in layout.places
    )
    for file in {line.file for line in layout.lines}:
        linecache.checkcache(file)  # an earlier program may have used this file name
    sums = [_sum((parts[number], times) for number, times in line.parts) for line in layout.lines]
    lines = tuple(
        LineCounts(line.file, line.line, line.text or _text(line.file, line.line), _counts(part), line.inner)
        for line, part in zip(layout.lines, sums, strict=True)
    )
    return sites, lines, _counts(_sum((part, 1) for part in sums))


def _sum(parts: Iterable[tuple[_Part, int]]) -> _Part:
    """The sum of parts, each multiplied by its factor."""
    found: _Part = {}
    for part, times in parts:
        for name, value in part.items():
            more = value if times == 1 else value * times
            found[name] = found[name] + more if name in found else more
    return found


def _counts(part: _Part) -> Counts:
    """Convert a part to a Counts record."""
    found: dict[str, Any] = {}
    for name, value in part.items():
        record, _, field = name.partition(".")
        if field:
            found.setdefault(record, {})[field] = value
        else:
            found[record] = value
    for name in _RECORDS.keys() & found.keys():
        found[name] = _RECORDS[name](**found[name])
    return Counts(**found)


def _parts(results: Mapping[str, Any], kinds: Sequence[Sequence[_Kind]], served: Sequence[Served]) -> Iterator[_Part]:
    """The counts of each instrument as parts, in the order of `_numbered`."""
    for row, of in zip(results["mix"].rows, kinds, strict=True):
        for kind in of:
            yield _executed(kind, row.executions, row.lanes)
    for row in results["divergence"].rows:
        yield {"branches": row.branches, "divergent_branches": row.divergent}
    for index, row in enumerate(results["coalescing"].rows):
        if field := _ACCESSES.get((row.site.space, row.site.access)):
            found = served[index] if served else Served()
            yield {
                f"{field}.requests": row.requests,
                f"{field}.lanes": row.lanes,
                f"{field}.sectors": row.sectors,
                f"{field}.ideal_sectors": row.ideal_sectors,
                f"{field}.bytes_used": row.bytes_used,
                f"{field}.served": found,
            }
    same: dict[tuple[Any, ...], _Part] = {}
    for row in results["banks"].rows:
        if row.site.space != "shared":
            field = _ACCESSES[row.site.space, row.site.access]
            moved = row.lanes * row.site.bytes_per_lane
            yield {f"{field}.requests": row.requests, f"{field}.lanes": row.lanes, f"{field}.bytes": moved}
            continue
        counted = row.requests, row.lanes, row.wavefronts, row.ideal_wavefronts
        kind_of = row.site.space, row.site.access
        if (kind_of, counted) not in same:
            names = (f"{_ACCESSES[kind_of]}.{name}" for name in Wavefronts.__slots__)
            same[kind_of, counted] = dict(zip(names, counted, strict=True))
        yield same[kind_of, counted]


@dataclass(frozen=True, slots=True)
class _Line:
    """A source line, or a PTX line, which then has its `text`."""

    file: str
    line: int
    text: str
    inner: tuple[str, ...]  #: The library lines that it calls.
    parts: tuple[tuple[int, int], ...]  #: Indices of the parts that count for its instructions, and how often.


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which parts of the instruments' results count for which instruction; equal for all launches of a program."""

    kinds: tuple[tuple[_Kind, ...], ...]  #: For each straight line, the kinds of its instructions.
    groups: tuple[tuple[int, ...], ...]  #: Indices of the parts for a set of instructions.
    places: tuple[tuple[int, str, str, str, int], ...]  #: PTX line, opcode, source, library line, and group.
    lines: tuple[_Line, ...]  #: In order of file and line.


@functools.lru_cache(maxsize=64)
def _layout(program: Program, *rows: tuple[Site, ...]) -> _Layout:
    """The layout for the sites of each instrument in `_INSTRUMENTS`."""
    kinds = tuple(tuple(dict.fromkeys(_kind(opcode) for _, opcode, _ in site.steps)) for site in rows[0])
    found: dict[_Key, list[int]] = {}
    for number, key in _numbered(kinds, *rows):
        found.setdefault(key, []).append(number)
    place = _Places(program)
    groups: dict[tuple[int, ...], int] = {}
    places = []
    for (line, opcode, source), numbers in sorted(found.items()):
        group = groups.setdefault(tuple(numbers), len(groups))
        places.append((line, opcode, source or place.before(line), place.inner(line, source), group))
    return _Layout(kinds, tuple(groups), tuple(places), _lines(places, list(groups), program.ptx.splitlines()))


def _lines(
    places: Iterable[tuple[int, str, str, str, int]], groups: Sequence[tuple[int, ...]], ptx: Sequence[str]
) -> tuple[_Line, ...]:
    """The lines of some places."""
    parts: dict[tuple[str, int], Counter[int]] = {}
    inner: dict[tuple[str, int], set[str]] = {}
    for ptx_line, _, source, library, group in places:
        place = split(source) if source else ("", ptx_line)
        parts.setdefault(place, Counter()).update(groups[group])
        inner.setdefault(place, set()).add(library)
    return tuple(
        _Line(
            file,
            line,
            ptx[line - 1].strip() if not file and 0 < line <= len(ptx) else "",
            tuple(sorted(inner[file, line] - {""}, key=split)),
            tuple(counted.items()),
        )
        for (file, line), counted in sorted(parts.items())
    )


def _numbered(kinds: Sequence[Sequence[_Kind]], *rows: Sequence[Site]) -> Iterator[tuple[int, _Key]]:
    """The index of each part, and the instructions that it counts for."""
    number = 0
    for site, of in zip(rows[0], kinds, strict=True):
        for key in site.steps:
            yield number + of.index(_kind(key[1])), key
        number += len(of)
    for site in itertools.chain(*rows[1:]):
        if site.kind is EventKind.BRANCH or (site.space, site.access) in _ACCESSES:  # no generic local atomics
            yield number, (site.ptx_line, site.opcode, site.source)
            number += 1


@functools.lru_cache(maxsize=4096)
def _kind(opcode: str) -> _Kind:
    """An instruction's unit, its field of Operations and operations per lane, and whether it is a barrier."""
    form = table().find(opcode)
    unit = form.row.cost if form is not None else "control"
    waits = form is not None and form.row.kind == "barrier" and form.row.members is None  # `bar.warp.sync` has members
    return unit, *operations(opcode), waits


def _executed(kind: _Kind, executions: int, lanes: int) -> _Part:
    """The counts of one kind of instruction, executed by warps, with the total of active lanes."""
    unit, computed, each, barrier = kind
    part = {"warp_instructions": executions, "thread_instructions": lanes, f"mix.{unit}": executions}
    if computed:
        part[f"operations.{computed}"] = each * lanes
    if barrier:
        part["barriers"] = executions
    return part


class _Places:
    """Further places in a kernel's line table, besides the one that an instruction counts for."""

    def __init__(self, program: Program) -> None:
        self._lines = sorted(program.source_lines)
        self._sources, self._inner = program.source_lines, program.inner_lines

    def before(self, ptx_line: int) -> str:
        """The source of the last line up to this one that has one, or "": for instructions without a line."""
        at = bisect.bisect_right(self._lines, ptx_line)
        return self._sources[self._lines[at - 1]] if at else ""

    def inner(self, ptx_line: int, source: str) -> str:
        """The library line of an instruction that counts for a user's line; else ""."""
        inner = self._inner.get(ptx_line, source)
        return inner if source and inner != source else ""


def _text(file: str, line: int) -> str:
    """A line of a file; "" if it cannot be read."""
    return linecache.getline(file, line).rstrip("\n") if file else ""

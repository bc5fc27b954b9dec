"""From the instruments' results to counts by PTX instruction, by source line, and in all."""

from __future__ import annotations

import bisect
import functools
import itertools
import linecache
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.instruments.findings import split
from tilewright.profiling.counts import Counts, Mix, Operations, Sectors, Served, Wavefronts
from tilewright.profiling.record import LineCounts, SiteCounts
from tilewright.programs.program import Program
from tilewright.simt.events import EventKind, Site
from tilewright.simt.isa import Role, role_of, table

#: Operations of one lane. Source: Nsight Compute, Profiling Guide, "Roofline Charts": additions and
#: multiplications are one, multiply-adds two.
_OPERATIONS = {Role.SUM: 1, Role.PRODUCT: 1, Role.MULTIPLY_ADD: 2}
#: Field of Operations and elements a lane, by the PTX type that an instruction ends in.
_KINDS = {
    "f16": ("float16", 1), "bf16": ("float16", 1), "f16x2": ("float16", 2), "bf16x2": ("float16", 2),
    "f32": ("float32", 1), "f32x2": ("float32", 2), "f64": ("float64", 1),
    **{f"{letter}{bits}": ("integer", 1) for letter in "su" for bits in (16, 32, 64)},
}  # fmt: skip
#: Field of Counts, by state space and kind of access.
_ACCESSES = {
    (space, access): f"{space}_{access}s"
    for space, access in (
        ("global", "load"), ("global", "store"), ("global", "atomic"), ("local", "load"), ("local", "store"),
        ("shared", "load"), ("shared", "store"), ("shared", "atomic"),
    )
}  # fmt: skip
#: What is counted by; the first knows every instruction.
_INSTRUMENTS = ("mix", "divergence", "coalescing", "banks")
_Key = tuple[int, str, str]
_Kind = tuple[str, str, int, bool]


def operations(opcode: str) -> tuple[str, int]:
    """The field of Operations that an instruction counts for, and how many a lane; ("", 0) for none.

    Examples
    --------
    >>> operations("fma.rn.f32"), operations("add.f16x2"), operations("mul.wide.s32"), operations("mov.f32")
    (('float32', 2), ('float16', 2), ('integer', 1), ('', 0))
    """
    kind, elements = _KINDS.get(opcode.rpartition(".")[2], ("", 0))
    each = _OPERATIONS.get(role_of(opcode), 0)
    return (kind, each * elements) if kind and each else ("", 0)


def sites(results: Mapping[str, Any], program: Program, served: Sequence[Served] = ()) -> tuple[SiteCounts, ...]:
    """Counts of each PTX instruction that ran or was asked to.

    Parameters
    ----------
    results : mapping
        The results of a run's instruments, by name.
    program : Program
        What ran.
    served : sequence of Served
        Where the sectors of each row of the result of `coalescing` were found; empty where that is not known.
    """
    layout = _layout(program, *(tuple(row.site for row in results[name].rows) for name in _INSTRUMENTS))
    parts = list(_parts(results, layout.kinds, served))
    alike: dict[tuple[int, ...], Counts] = {}  # instructions of a straight line that count the same have one record
    counts = []
    for numbers in layout.groups:
        found = [parts[number] for number in numbers]
        which = tuple(map(id, found))
        if which not in alike:
            alike[which] = Counts(**functools.reduce(_joined, found))
        counts.append(alike[which])
    return tuple(
        SiteCounts(line, opcode, source, counts[group], inner) for line, opcode, source, inner, group in layout.places
    )


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Fields of Counts of both; inlined in several places, an instruction has several rows of an instrument."""
    both = one | other
    if len(both) == len(one) + len(other):
        return both
    return both | {name: one[name] + other[name] for name in one.keys() & other.keys()}


def _parts(
    results: Mapping[str, Any], kinds: Sequence[Sequence[_Kind]], served: Sequence[Served]
) -> Iterator[dict[str, Any]]:
    """Fields of Counts that each instrument counted, in the order in which `_numbered` numbers them."""
    for row, of in zip(results["mix"].rows, kinds, strict=True):
        for kind in of:
            yield _executed(kind, row.executions, row.lanes)
    for row in results["divergence"].rows:
        yield {"branches": row.branches, "divergent_branches": row.divergent}
    for index, row in enumerate(results["coalescing"].rows):
        if field := _ACCESSES.get((row.site.space, row.site.access)):
            found = served[index] if served else Served()
            yield {field: Sectors(row.requests, row.lanes, row.sectors, row.ideal_sectors, row.bytes_used, found)}
    same: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in results["banks"].rows:
        counted = row.requests, row.lanes, row.wavefronts, row.ideal_wavefronts
        kind_of = row.site.space, row.site.access
        if (kind_of, counted) not in same:
            same[kind_of, counted] = {_ACCESSES[kind_of]: Wavefronts(*counted)}
        yield same[kind_of, counted]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which parts of the instruments' results count for which instruction; launch by launch it is the same."""

    kinds: tuple[tuple[_Kind, ...], ...]  #: Of each straight line, those of its instructions.
    groups: tuple[tuple[int, ...], ...]  #: Numbers of the parts that some instructions are counted by.
    places: tuple[tuple[int, str, str, str, int], ...]  #: PTX line, opcode, source, library's line, and group.


@functools.lru_cache(maxsize=64)
def _layout(program: Program, *rows: tuple[Site, ...]) -> _Layout:
    """The layout for the sites of `_INSTRUMENTS`."""
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
    return _Layout(kinds, tuple(groups), tuple(places))


def _numbered(kinds: Sequence[Sequence[_Kind]], *rows: Sequence[Site]) -> Iterator[tuple[int, _Key]]:
    """Each part's number, and the instructions that it counts for."""
    number = 0
    for site, of in zip(rows[0], kinds, strict=True):
        for key in site.steps:
            yield number + of.index(_kind(key[1])), key
        number += len(of)
    for site in itertools.chain(*rows[1:]):
        if site.kind is EventKind.BRANCH or (site.space, site.access) in _ACCESSES:  # no generic atomic of local memory
            yield number, (site.ptx_line, site.opcode, site.source)
            number += 1


@functools.cache
def _kind(opcode: str) -> _Kind:
    """An instruction's unit, the field of Operations that it counts for and how many a lane, and whether it waits."""
    form = table().find(opcode)
    unit = form.row.cost if form is not None else "control"
    waits = form is not None and form.row.kind == "barrier" and form.row.members is None  # `bar.warp.sync` has members
    return unit, *operations(opcode), waits


def _executed(kind: _Kind, executions: int, lanes: int) -> dict[str, Any]:
    """An instruction of a kind that warps executed, with so many active lanes in all."""
    unit, computed, each, barrier = kind
    used: dict[str, int] = {unit: executions}
    fields: dict[str, Any] = {
        "warp_instructions": executions, "thread_instructions": lanes, "mix": Mix(**used)
    }  # fmt: skip
    if computed:
        done: dict[str, int] = {computed: each * lanes}
        fields["operations"] = Operations(**done)
    if barrier:
        fields["barriers"] = executions
    return fields


class _Places:
    """What the line table of a kernel says besides the place that an instruction counts for."""

    def __init__(self, program: Program) -> None:
        self._lines = sorted(program.source_lines)
        self._sources, self._inner = program.source_lines, program.inner_lines

    def before(self, ptx_line: int) -> str:
        """The source of the last line up to this one that has one, or "": for what the compiler gives none."""
        at = bisect.bisect_right(self._lines, ptx_line)
        return self._sources[self._lines[at - 1]] if at else ""

    def inner(self, ptx_line: int, source: str) -> str:
        """The library's line that an instruction is of which counts for a line of the user's; else ""."""
        inner = self._inner.get(ptx_line, source)
        return inner if source and inner != source else ""


def lines(counted: Iterable[SiteCounts], ptx: str) -> tuple[LineCounts, ...]:
    """Sum sites by source line, in order of files and lines; without a line table, by line of the PTX text."""
    by_source: dict[str | int, list[SiteCounts]] = {}
    for site in counted:
        by_source.setdefault(site.source or site.ptx_line, []).append(site)
    found = {(split(of) if isinstance(of, str) else ("", of)): sites for of, sites in by_source.items()}
    text = ptx.splitlines()
    for file in {file for file, _ in found}:
        linecache.checkcache(file)  # another program of that name may have been here before
    return tuple(
        LineCounts(file, line, _text(file, line, text), total(sites), _within(sites))
        for (file, line), sites in sorted(found.items())
    )


def _within(counted: Iterable[SiteCounts]) -> tuple[str, ...]:
    """The library's lines that sites are of, in order."""
    return tuple(sorted({site.inner for site in counted} - {""}, key=split))


def _text(file: str, line: int, ptx: list[str]) -> str:
    if file:
        return linecache.getline(file, line).rstrip("\n")
    return ptx[line - 1].strip() if 0 < line <= len(ptx) else ""


def total(counted: Iterable[SiteCounts | LineCounts]) -> Counts:
    """The sum of all sites, or of all lines; sites of a straight line have records in common."""
    every = [part.counts for part in counted]
    return Counts.total({id(one): one for one in every}.values(), Counter(map(id, every)).values())

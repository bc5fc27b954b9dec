"""From the instruments' results to counts by PTX instruction, by source line, and in all."""

from __future__ import annotations

import bisect
import functools
import linecache
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.instruments.findings import split
from tilewright.profiling.counts import Counts, Mix, Operations, Sectors, Served, Wavefronts
from tilewright.profiling.record import LineCounts, SiteCounts
from tilewright.programs.program import Program
from tilewright.simt.events import Site
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
    found: dict[_Key, list[dict[str, Any]]] = {}
    for key, fields in _parts(results, served):
        found.setdefault(key, []).append(fields)
    place = _Places(program)
    alike: dict[tuple[int, ...], Counts] = {}  # instructions of a straight line that count the same have one record
    counted = []
    for key in sorted(found):
        line, opcode, source = key
        parts = found[key]
        which = tuple(map(id, parts))
        if which not in alike:
            alike[which] = Counts(**functools.reduce(_joined, parts))
        inner = place.inner(line, source)
        counted.append(SiteCounts(line, opcode, source or place.before(line), alike[which], inner))
    return tuple(counted)


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Fields of Counts of both; inlined in several places, an instruction has several rows of an instrument."""
    both = one | other
    return both | {name: one[name] + other[name] for name in one.keys() & other.keys()}


def _parts(results: Mapping[str, Any], served: Sequence[Served]) -> Iterator[tuple[_Key, dict[str, Any]]]:
    """Fields of Counts that each instrument counted, instruction by instruction."""
    for row in results["mix"].rows:
        alike: dict[_Kind, dict[str, Any]] = {}
        for key in row.site.steps:
            kind = _kind(key[1])
            if kind not in alike:
                alike[kind] = _executed(kind, row.executions, row.lanes)
            yield key, alike[kind]
    for row in results["divergence"].rows:
        yield _key(row.site), {"branches": row.branches, "divergent_branches": row.divergent}
    for index, row in enumerate(results["coalescing"].rows):
        if (row.site.space, row.site.access) not in _ACCESSES:  # a generic atomic: of local memory there are none
            continue
        found = served[index] if served else Served()
        sectors = Sectors(row.requests, row.lanes, row.sectors, row.ideal_sectors, row.bytes_used, found)
        yield _key(row.site), {_ACCESSES[row.site.space, row.site.access]: sectors}
    same: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in results["banks"].rows:
        counted = row.requests, row.lanes, row.wavefronts, row.ideal_wavefronts
        kind_of = row.site.space, row.site.access
        if (kind_of, counted) not in same:
            same[kind_of, counted] = {_ACCESSES[kind_of]: Wavefronts(*counted)}
        yield _key(row.site), same[kind_of, counted]


def _key(site: Site) -> _Key:
    return site.ptx_line, site.opcode, site.source


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

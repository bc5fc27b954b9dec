"""From the instruments' results to counts by PTX instruction, by source line, and in all."""

from __future__ import annotations

import bisect
import functools
import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.profiling.counts import Counts, Mix, Operations, Sectors, Served, Wavefronts
from tilewright.profiling.record import LineCounts, SiteCounts
from tilewright.simt.events import Site
from tilewright.simt.isa import table

#: Operations of one lane, by opcode. Source: Nsight Compute, Profiling Guide, "Roofline Charts": additions and
#: multiplications are one, multiply-adds two.
_OPERATIONS = {"add": 1, "sub": 1, "mul": 1, "fma": 2, "mad": 2}
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
#: Instructions at which a block's warps wait for each other; `bar.warp.sync` is for one warp's lanes.
_BARRIERS = ("bar.sync", "bar.red", "bar.arrive", "bar.cta", "barrier.")
_Key = tuple[int, str, str]


@functools.cache
def operations(opcode: str) -> tuple[str, int]:
    """The field of Operations that an instruction counts for, and how many a lane; ("", 0) for none.

    Examples
    --------
    >>> operations("fma.rn.f32"), operations("add.f16x2"), operations("mul.wide.s32"), operations("mov.f32")
    (('float32', 2), ('float16', 2), ('integer', 1), ('', 0))
    """
    head, *parts = opcode.split(".")
    kind, elements = _KINDS.get(parts[-1] if parts else "", ("", 0))
    each = _OPERATIONS.get(head, 0)
    return (kind, each * elements) if kind and each else ("", 0)


@functools.cache
def _unit(opcode: str) -> str:
    """The class of an instruction, as the table has it."""
    form = table().find(opcode)
    return form.row.cost if form is not None else "control"


def sites(
    results: Mapping[str, Any], source_lines: Mapping[int, str], served: Sequence[Served] = ()
) -> tuple[SiteCounts, ...]:
    """Counts of each PTX instruction that ran or was asked to.

    Parameters
    ----------
    results : mapping
        The results of a run's instruments, by name.
    source_lines : mapping
        PTX line to `file:line`, of those that have one.
    served : sequence of Served
        Where the sectors of each row of the result of `coalescing` were found; empty where that is not known.
    """
    found: dict[_Key, dict[str, Any]] = {}
    for key, fields in _parts(results, served):
        known = found.setdefault(key, {})
        for name, value in fields.items():  # an instruction that is inlined in several places has several rows
            known[name] = known[name] + value if name in known else value
    place = _Places(source_lines)
    return tuple(
        SiteCounts(line, opcode, source or place.before(line), Counts(**found[line, opcode, source]))
        for line, opcode, source in sorted(found)
    )


def _parts(results: Mapping[str, Any], served: Sequence[Served]) -> Iterator[tuple[_Key, dict[str, Any]]]:
    """Fields of Counts that each instrument counted, instruction by instruction."""
    for row in results["mix"].rows:
        for key in row.site.steps:
            yield key, _executed(key[1], row.executions, row.lanes)
    for row in results["divergence"].rows:
        yield _key(row.site), {"branches": row.branches, "divergent_branches": row.divergent}
    for index, row in enumerate(results["coalescing"].rows):
        found = served[index] if served else Served()
        sectors = Sectors(row.requests, row.lanes, row.sectors, row.ideal_sectors, row.bytes_used, found)
        yield _key(row.site), {_ACCESSES[row.site.space, row.site.access]: sectors}
    for row in results["banks"].rows:
        fronts = Wavefronts(row.requests, row.lanes, row.wavefronts, row.ideal_wavefronts)
        yield _key(row.site), {_ACCESSES[row.site.space, row.site.access]: fronts}


def _key(site: Site) -> _Key:
    return site.ptx_line, site.opcode, site.source


def _executed(opcode: str, executions: int, lanes: int) -> dict[str, Any]:
    """An instruction that warps executed, with so many active lanes in all."""
    unit: dict[str, int] = {_unit(opcode): executions}
    fields: dict[str, Any] = {
        "warp_instructions": executions, "thread_instructions": lanes, "mix": Mix(**unit)
    }  # fmt: skip
    kind, each = operations(opcode)
    if kind:
        done: dict[str, int] = {kind: each * lanes}
        fields["operations"] = Operations(**done)
    if opcode.startswith(_BARRIERS):
        fields["barriers"] = executions
    return fields


class _Places:
    """The source of instructions that the compiler gives none: that of the nearest before them in the text."""

    def __init__(self, source_lines: Mapping[int, str]) -> None:
        self._lines = sorted(source_lines)
        self._sources = source_lines

    def before(self, ptx_line: int) -> str:
        """The source of the last line up to this one that has one, or ""."""
        at = bisect.bisect_right(self._lines, ptx_line)
        return self._sources[self._lines[at - 1]] if at else ""


def lines(counted: Iterable[SiteCounts], ptx: str) -> tuple[LineCounts, ...]:
    """Sum sites by source line, in order of files and lines; without a line table, by line of the PTX text."""
    found: dict[tuple[str, int], list[Counts]] = {}
    for site in counted:
        file, _, number = site.source.rpartition(":")
        key = (file, int(number)) if file else ("", site.ptx_line)
        found.setdefault(key, []).append(site.counts)
    text = ptx.splitlines()
    for file in {file for file, _ in found}:
        linecache.checkcache(file)  # another program of that name may have been here before
    return tuple(
        LineCounts(file, line, _text(file, line, text), Counts.total(found[file, line])) for file, line in sorted(found)
    )


def _text(file: str, line: int, ptx: list[str]) -> str:
    if file:
        return linecache.getline(file, line).rstrip("\n")
    return ptx[line - 1].strip() if 0 < line <= len(ptx) else ""


def total(counted: Iterable[SiteCounts]) -> Counts:
    """The sum of all sites."""
    return Counts.total(site.counts for site in counted)

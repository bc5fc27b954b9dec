"""TW305, TW309, TW502 to TW508: launches that race, that every GPU rejects, or that use too little of it.

TW305: the host uses memory that it shares with the device before it waits for a stream's work on it.

Source: CUDA C++ Programming Guide, appendix "Technical Specifications per Compute Capability"; `machine` has the
values.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilewright.observe.checking import arrays, mending, signatures
from tilewright.observe.checking.static import dimensions
from tilewright.observe.checking.static.values import Values, of_kernel
from tilewright.observe.instruments.findings import Finding, split
from tilewright.simulate.machine import Gpu
from tilewright.simulate.observer import HostRace, Launch, StreamRace
from tilewright.simulate.programs.launch_rules import Broken, Rule, broken, resident_blocks
from tilewright.simulate.programs.program import Program
from tilewright.simulate.ptx.frames import package


def at(launch: Launch, code: str, **details: Any) -> Finding:
    """A finding of a launch: at the launching line, or at the kernel's definition if that line is unknown."""
    source, line, ptx_line = launch.program.definition
    details = _named(details, launch.program) | ({"defined_at": f"{source}:{line}"} if source else {})
    file, _, number = launch.source_line.rpartition(":")
    if file:
        source, line, ptx_line = file, int(number), 0
    return Finding(
        code=code, kernel=launch.name, source=source, line=line, ptx_line=ptx_line, launch=launch.index, details=details
    )


def with_host(race: HostRace) -> Finding:
    """TW305 at the host's line.

    >>> found = with_host(HostRace("`x`", False, "a.py:9", "`double`", "double", "a.py:8", True))
    >>> found.line, found.message
    (9, 'the host reads `x` without waiting for `double`, launched at a.py:8, which writes it')
    """
    file, line = split(race.line)
    details = {
        "how": "launched" if race.kernel else "copied",
        "array": race.array.strip("`"),
        "memory": race.array,
        "work": race.work,
        "access": "writes" if race.writes else "reads",
        "other_access": "writes" if race.work_writes else "reads",
        "others": [race.work_line],
    }
    return Finding(code="TW305", kernel=race.kernel, source=file, line=line, details=details)


def between_streams(race: StreamRace) -> Finding:
    """TW309: two launches in unordered streams use the same bytes, and one of them writes there."""
    there = at(race.other, "TW309")
    return at(
        race.launch,
        "TW309",
        work=f"`{race.other.name}`",
        access="writes" if race.writes else "reads",
        other_access="writes" if race.other_writes else "reads",
        others=[f"{there.source}:{there.line}"],
    )


def findings(launch: Launch, gpu: Gpu) -> list[Finding]:
    """The faults of a launch's extents and shared memory; any such finding means that it cannot run."""
    static, dynamic = launch.program.shared_bytes, launch.shared_bytes
    wrong = broken(gpu, launch.grid, launch.block, static, dynamic, allowed=launch.allowed_shared_bytes)
    return [_finding(launch, gpu, one) for one in wrong]


def _finding(launch: Launch, gpu: Gpu, wrong: Broken) -> Finding:
    """The finding of a broken rule."""
    static, dynamic, shape = launch.program.shared_bytes, launch.shared_bytes, list(launch.block)
    match wrong.rule:
        case Rule.EMPTY:
            what, extents = wrong.part, launch.grid if wrong.part == "grid" else launch.block
            parts = "blocks" if what == "grid" else "threads"
            return at(launch, "TW507", what=what, parts=parts, extents=list(extents))
        case Rule.BLOCK:
            return at(launch, "TW502", how="block", threads=wrong.got, extents=shape, most=wrong.most)
        case Rule.BLOCK_AXIS:
            axis = wrong.axis
            return at(launch, "TW502", how="axis", threads=wrong.got, axis=axis, extents=shape, most=wrong.most)
        case Rule.GRID_AXIS:
            return at(launch, "TW504", blocks=wrong.got, axis=wrong.axis, most=wrong.most)
        case Rule.SHARED:
            return at(launch, "TW505", total=wrong.got, static=static, dynamic=dynamic, most=wrong.most, gpu=gpu.name)
        case Rule.DYNAMIC:
            return at(launch, "TW505", how="allowed", static=static, dynamic=dynamic, most=wrong.most)


def fewer_dimensions(launch: Launch) -> list[Finding]:
    """TW503 for a launch written with one extent, of a kernel that uses its y or z index in addresses."""
    if launch.written is None or has_extents(launch):
        return []
    grid, block = launch.written
    axis = _own_axis(launch.program.ptx, launch.program.entry)
    if not axis:
        return []
    given = {"grid": _as_written(grid), "block": _as_written(block)}
    return [at(launch, "TW503", how="given", extents="xyz".index(axis) + 1, axis=axis, **given)]


def has_extents(launch: Launch) -> bool:
    """Whether a launch is written with several extents, as far as that is known."""
    return any(isinstance(extents, Sequence) and len(extents) > 1 for extents in launch.written or ())


@functools.lru_cache(maxsize=256)
def _own_axis(ptx: str, entry: str) -> str:
    """The last axis whose index a kernel uses by itself in addresses; "" for x alone."""
    return max(dimensions.own_axes(of_kernel(ptx, entry)), default="")


def _as_written(extents: Any) -> int | list[int]:
    return [int(extent) for extent in extents] if isinstance(extents, Sequence) else int(extents)


def too_many_to_wait(launch: Launch, gpu: Gpu) -> list[Finding]:
    """TW508 for a cooperative launch of more blocks than the GPU holds at once."""
    blocks = math.prod(launch.grid)
    most = resident_blocks(launch.program, gpu, launch.block, launch.shared_bytes)
    if blocks <= most:
        return []
    return [at(launch, "TW508", blocks=blocks, threads=math.prod(launch.block), most=most, gpu=gpu.name)]


def of_refused(launch: Launch, gpu: Gpu) -> list[Finding]:
    """Findings for a launch that a driver rejected."""
    waiting = too_many_to_wait(launch, gpu) if launch.cooperative else []
    return findings(launch, gpu) or waiting


def of_launch(
    found: Sequence[Finding], launch: Launch, values: Values | None, freed: Callable[[int], bool]
) -> list[Finding]:
    """Findings of instruments, completed with what is known of their launch.

    This adds the launch's number, the array that an access was meant for, the library's line inside the finding's own,
    the user's line, and for a race the place of its barrier. `freed` says whether the memory at an address was freed.
    """
    named = [arrays.named(finding, launch, values, freed) for finding in found]
    known = [
        replace(one, launch=launch.index, details=_named(one.details, launch.program) | _inner(one, launch.program))
        for one in named
    ]
    return mending.mended([_at_users_line(one, launch) for one in known], values)


def _named(details: dict[str, Any], program: Program) -> dict[str, Any]:
    """The details with an array's name in the source of C++, where a pointer is only known by its number."""
    number = re.fullmatch(r"argument (\d+)", details.get("array", ""))
    known = signatures.of_program(program) if number else ()
    return details | ({"array": known[int(number[1])].name} if number and int(number[1]) < len(known) else {})


def _at_users_line(finding: Finding, launch: Launch) -> Finding:
    """Move a finding without a line, or at one of numba-cuda's, to the nearest line of the user.

    That is the kernel's definition, or else the launch. If neither is known, the finding stays as it is.
    """
    own = package(finding.source).endswith("numba_cuda")
    if finding.source and not own:
        return finding
    source, line, _ = ("", 0, 0) if own else launch.program.definition
    if not source:
        source, line = split(launch.source_line)
    if not source:
        return finding
    details = finding.details | ({"inner": [finding.where]} if own else {"ptx_line": finding.ptx_line})
    return replace(finding, source=source, line=line, details=details | {"defined_at": finding.where})


def _inner(finding: Finding, program: Program) -> dict[str, list[str]]:
    place = program.inner_lines.get(finding.ptx_line, finding.where)
    inner = {} if place == finding.where else {"inner": [place]}
    called = [call for call in program.call_lines.get(finding.ptx_line, ()) if call != finding.where]
    return inner | ({"called_at": called} if called else {})

"""A profile on the terminal: the user's source with counts beside each line, totals, and what bounds the launch."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tilewright.machine.alternatives import Alternative, Demand
from tilewright.profiling import Counts, Profile, Sectors, Served, Wavefronts
from tilewright.profiling.record import Extent, LineCounts
from tilewright.report import columns, figures, occupancy
from tilewright.report.columns import Column, Group
from tilewright.report.console import speaks_unicode
from tilewright.report.inner_lines import listed

#: Cells of the labels of totals.
_LABEL = 16
#: Block sizes that have a word.
_BLOCKS = (32, 64, 128, 256, 512, 1024)
#: Lines without counts that are shown between lines with some; more of them are left out.
GAP_LINES = 6
#: Least cells of source that a terminal shows; a table that leaves fewer goes on below.
LEAST_SOURCE = 32


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of source; `counts` is None where nothing of it ran, `line` is 0 where lines are left out."""

    line: int
    text: str
    counts: Counts | None = None


def show_program(profiles: Sequence[Profile], console: Console) -> None:
    """Print a table of a program's launches, and for each kernel that of its launches which takes longest.

    A launch of which nothing is left out stands alone.
    """
    slowest: dict[str, Profile] = {}
    for profile in profiles:
        if profile.kernel not in slowest or _least(profile) > _least(slowest[profile.kernel]):
            slowest[profile.kernel] = profile
    if len(profiles) > 1:
        _launches(profiles, list(slowest.values()), console)
    for profile in slowest.values():
        if len(profiles) > 1:
            console.print()
        show(profile, console)


def _least(profile: Profile) -> float:
    """The least time of a launch, in seconds; 0 where nothing ran."""
    return profile.units[0].seconds if profile.units else 0.0


def _launches(profiles: Sequence[Profile], shown: Sequence[Profile], console: Console) -> None:
    """A row a launch; those shown below are in bold."""

    def bold(words: str, profile: Profile) -> Text:
        return Text(words, style="bold" if profile in shown else "")

    key = Group(
        (
            Column("launch", lambda p: bold(figures.count(p.launch), p)),
            Column("kernel", lambda p: bold(p.kernel, p), "left"),
        )
    )
    what = Group(
        (
            Column("grid", lambda p: _extent(p.grid)),
            Column("block", lambda p: _extent(p.block)),
            Column("warp\ninstructions", lambda p: figures.count(p.totals.warp_instructions)),
        )
    )
    bound = Group(
        (
            Column("least\ntime", lambda p: _time(_least(p))),
            Column("bound by", lambda p: p.verdict.bound if p.verdict else "", "left"),
            Column("findings", lambda p: _some(len(p.findings))),
        )
    )
    where = Group((Column("launched at", lambda p: _path(p.launched_at), "left"),))
    columns.show(console, key, [what, bound, where], list(profiles))


def show(profile: Profile, console: Console) -> None:
    """Print one launch's profile."""
    _heading(profile, console)
    for file, rows in _files(profile.lines):
        console.print()
        console.print(Text(_path(file) or "PTX", style="cyan"), soft_wrap=True)
        _source(rows, profile.totals, console)
        for line in profile.lines:
            if line.file == file and line.inner:
                words = f"line {figures.count(line.line)} includes {listed(line.inner)}"
                console.print(Text(words, style="dim"), soft_wrap=True)
    console.print()
    for label, words in facts(profile):
        console.print(Text(f"{label:<{_LABEL}}", style="bold") + Text(words), soft_wrap=True)
    console.print()
    _verdict(profile, console)


def _heading(profile: Profile, console: Console) -> None:
    where = f", launched at {_path(profile.launched_at)}" if profile.launched_at else ""
    words = f"  grid {_extent(profile.grid)}, block {_extent(profile.block)}{where}  "
    console.print(Text.assemble((profile.kernel, "bold"), words, (f"as on {profile.gpu}", "cyan")), soft_wrap=True)


def _extent(extent: Extent) -> str:
    return "x".join(map(str, extent))


def _path(file: str) -> str:
    """A file as it is called from where the user is, where it lies below."""
    return file.removeprefix(f"{Path.cwd()}{os.sep}")


def _time(seconds: float) -> str:
    """A time that may be of nanoseconds."""
    return figures.seconds(seconds) if seconds >= 1e-6 else f"{seconds * 1e9:.3g} ns"


# -- the source ---------------------------------------------------------------------------------------------------


def _files(lines: Sequence[LineCounts]) -> Iterator[tuple[str, list[_Row]]]:
    """Each file's lines in order, with those between that nothing was counted for."""
    for file in dict.fromkeys(line.file for line in lines):
        rows: list[_Row] = []
        for line in (one for one in lines if one.file == file):
            last = rows[-1].line if rows else line.line - 1
            between = range(last + 1, line.line)
            if not file:
                between = range(0)  # PTX lines in between hold no instruction
            if len(between) <= GAP_LINES:
                rows += [_Row(number, linecache.getline(file, number).rstrip("\n")) for number in between]
            else:
                rows.append(_Row(0, ""))
            rows.append(_Row(line.line, line.text, line.counts))
        yield file, rows


def _source(rows: list[_Row], totals: Counts, console: Console) -> None:
    groups = _groups(totals)
    taken = sum(group.width(rows) for group in groups)
    number = Column("line", lambda row: figures.count(row.line) if row.line else "...")
    room = max(LEAST_SOURCE, console.width - taken - columns.GAP - number.width(rows) - 1)
    indent = min((len(row.text) - len(row.text.lstrip()) for row in rows if row.text.strip()), default=0)
    more = "…" if speaks_unicode(console) else "..."

    def source(row: _Row) -> Text:
        text = row.text[indent:].replace("\t", "    ")
        return Text(text if len(text) <= room else text[: room - len(more)] + more)

    columns.show(console, Group((number, Column("source", source, "left"))), groups, rows)


def _cell(words: Callable[[Counts], str | Text]) -> Callable[[_Row], str | Text]:
    """A cell of counts, empty where a line has none."""
    return lambda row: words(row.counts) if row.counts is not None else ""


def _groups(totals: Counts) -> list[Group]:
    """The columns that say something of this launch."""
    groups = [
        Group(
            (
                Column("warp\ninstructions", _cell(lambda c: figures.count(c.warp_instructions))),
                Column("active\nlanes", _cell(lambda c: f"{c.active_lanes:.1f}" if c.warp_instructions else "")),
            )
        )
    ]
    if totals.branches:
        groups.append(Group((Column("diverged\nbranches", _cell(_diverged)),)))
    for space, name in (("global", "in_global"), ("local", "in_local")):
        if getattr(totals, name):
            groups.append(_sectors(space, name, served=bool(getattr(totals, name).served)))
    if totals.in_shared:
        groups.append(
            Group(
                (
                    Column("shared\nrequests", _cell(lambda c: _some(c.in_shared.requests))),
                    Column("wavefronts\na request", _cell(lambda c: _beside(c.in_shared))),
                    Column("\nideal", _cell(lambda c: _mean(c.in_shared.requests, c.in_shared.ideal_per_request))),
                )
            )
        )
    return groups


def _sectors(space: str, name: str, *, served: bool) -> Group:
    """Columns of one memory."""

    def of(words: Callable[[Sectors], str | Text]) -> Callable[[_Row], str | Text]:
        return _cell(lambda counts: words(getattr(counts, name)))

    found = [
        Column(f"{space}\nrequests", of(lambda s: _some(s.requests))),
        Column("sectors\na request", of(_beside)),
        Column("\nideal", of(lambda s: _mean(s.requests, s.ideal_per_request))),
    ]
    if served:
        found += [
            Column("L1\nhits", _cell(lambda counts: _hits(getattr(counts, f"{space}_loads")))),
            Column("from\nDRAM", of(lambda s: _some(s.served.dram_sectors))),
        ]
    return Group(tuple(found))


def _hits(loads: Sectors) -> str:
    """Of loads: stores and atomics are done further away."""
    return figures.percent(loads.served.l1_hits / loads.sectors) if loads.sectors else ""


def _some(value: int) -> str:
    return figures.count(value) if value else ""


def _mean(requests: int, value: float) -> str:
    return f"{value:.1f}" if requests else ""


def _beside(counted: Sectors | Wavefronts) -> Text:
    """What a request takes, in red where that is a third more than it needs."""
    if isinstance(counted, Sectors):
        value, excess, whole = counted.sectors_per_request, counted.excess_sectors, counted.sectors
    else:
        value, excess, whole = counted.wavefronts_per_request, counted.excess_wavefronts, counted.wavefronts
    return Text(_mean(counted.requests, value), style="red" if 4 * excess > whole else "")


def _diverged(counts: Counts) -> Text:
    if not counts.branches:
        return Text("")
    parted = counts.divergent_branches
    return Text(figures.percent(parted / counts.branches), style="yellow" if parted else "")


# -- totals -------------------------------------------------------------------------------------------------------


def facts(profile: Profile) -> Iterator[tuple[str, str]]:
    """The totals: a label and its words, one a line."""
    totals = profile.totals
    yield "instructions", _instructions(totals)
    if totals.branches:
        split = f"{figures.count(totals.branches)}, {figures.count(totals.divergent_branches)} diverged"
        yield "branches", f"{split}: branch efficiency {figures.percent(totals.branch_efficiency)}"
    if totals.barriers:
        yield "barriers", f"{figures.count(totals.barriers)} arrivals of warps"
    for field in fields(totals):
        counted = getattr(totals, field.name)
        label = field.name.replace("_", " ")
        if isinstance(counted, Sectors) and counted:
            yield label, _moved(counted)
        if isinstance(counted, Wavefronts) and counted:
            yield label, _banked(counted)
    yield from _traffic(profile)
    yield from _footprint(profile)
    yield from _roofline(profile)
    for note in profile.notes:
        yield "note", note


def _instructions(totals: Counts) -> str:
    parts = sorted(((getattr(totals.mix, f.name), f.name) for f in fields(totals.mix)), reverse=True)
    mix = ", ".join(f"{name} {figures.percent(amount / totals.warp_instructions)}" for amount, name in parts if amount)
    return (
        f"{figures.count(totals.warp_instructions)} by warps, {totals.active_lanes:.1f} of 32 lanes active "
        f"({figures.percent(totals.lane_efficiency)}); {mix}"
    )


def _moved(counted: Sectors) -> str:
    words = (
        f"{figures.amount(counted.requests, 'request')}, {figures.amount(counted.sectors, 'sector')}: "
        f"{counted.sectors_per_request:.2f} a request (ideal {counted.ideal_per_request:.2f}), "
        f"{figures.percent(counted.efficiency)} of {figures.size(counted.bytes_moved)} used"
    )
    if counted.served.l1_hits:
        words += f"; {figures.percent(counted.served.l1_hits / counted.sectors)} found in L1"
    return words


def _banked(counted: Wavefronts) -> str:
    return (
        f"{figures.amount(counted.requests, 'request')}, {figures.amount(counted.wavefronts, 'wavefront')}: "
        f"{counted.wavefronts_per_request:.2f} a request (ideal {counted.ideal_per_request:.2f}), "
        f"{figures.count(counted.excess_wavefronts)} from bank conflicts"
    )


def _traffic(profile: Profile) -> Iterator[tuple[str, str]]:
    moved = profile.traffic
    if moved.dram_read_bytes is None:
        return
    served = Served.total(kind.served for kind in profile.totals.moved)
    found = f", of which it holds {figures.percent(served.l2_hits / served.l2_sectors)}" if served.l2_sectors else ""
    yield "caches", f"{figures.size(moved.l1_bytes)} asked of L1, {figures.size(moved.l2_bytes)} of L2{found}"
    first = f"{figures.size(moved.compulsory_bytes)} for the first time, {figures.size(moved.again_bytes)} again"
    written = f"{figures.size(moved.dram_written_bytes)} written"
    yield "DRAM", f"{figures.size(moved.dram_read_bytes)} read ({first}), {written}"


def _footprint(profile: Profile) -> Iterator[tuple[str, str]]:
    found = profile.resources
    if found is None or profile.occupancy is None:
        return
    spilled = found.spill_load_bytes + found.spill_store_bytes
    spills = f"{figures.size(spilled)} of spills a thread" if spilled else "no spills"
    shared = figures.size(found.shared_bytes + profile.shared_bytes)
    yield "registers", f"{found.registers_per_thread} a thread, {spills}; {shared} of shared memory a block"
    fit = profile.occupancy.occupancy
    held = f"{figures.amount(fit.active_blocks, 'block')}, {figures.amount(fit.active_warps, 'warp')} a multiprocessor"
    yield "occupancy", f"{figures.percent(fit.fraction)}: {held}, limited by {fit.limiter}"
    for sentence in occupancy.steps(profile.occupancy):
        yield "", sentence
    blocks = [other for other in profile.occupancy.blocks if other.demand.block_threads in _BLOCKS]
    each = (f"{figures.count(o.demand.block_threads)} {figures.percent(o.occupancy.fraction)}" for o in blocks)
    yield "  of blocks", ", ".join(each)
    yield "  of registers", _ladder(profile.occupancy.registers, lambda d: f"to {d.registers_per_thread}")
    yield "  of shared", _ladder(profile.occupancy.shared, lambda d: f"to {figures.size(d.shared_bytes)}")


def _ladder(others: Sequence[Alternative], words: Callable[[Demand], str]) -> str:
    """The most of something that gives each eighth of full occupancy or more, and the most that a block can have."""
    rungs: dict[str, str] = {}
    for least in (*(eighth / 8 for eighth in range(8, 0, -1)), 0.0):
        enough = [other for other in others if other.occupancy.fraction >= least]
        if enough:
            rungs[words(enough[-1].demand)] = figures.percent(enough[-1].occupancy.fraction)
    return ", ".join(f"{change} {fraction}" for change, fraction in rungs.items())


def _roofline(profile: Profile) -> Iterator[tuple[str, str]]:
    found = profile.position
    if found is not None:
        roof = found.roof
        levels = ", ".join(f"{level.intensity:.2f} a byte of {_LEVELS[level.name]}" for level in roof.levels)
        limit = f"{_LEVELS.get(roof.bound, roof.bound)} allows {roof.gflops:,.0f} of {roof.peak_gflops:,.0f} G a second"
        yield "roofline", f"{figures.count(found.operations)} {found.dtype} operations, {levels}; {limit}"
    if profile.units:
        slow = ", ".join(f"{unit.name} {_time(unit.seconds)}" for unit in profile.units)
        yield "least times", slow


_LEVELS = {"shared": "shared memory", "l1": "L1", "l2": "L2", "dram": "DRAM"}


def _verdict(profile: Profile, console: Console) -> None:
    """The bound, the lines that cause it, and the findings."""
    if profile.verdict is None:
        console.print("Nothing ran.")
        return
    sentence = profile.verdict.sentence
    console.print(Text(f"{sentence[0].upper()}{sentence[1:]}.", style="bold"), soft_wrap=True)
    texts = {(line.file, line.line): line.text.strip() for line in profile.lines}
    for cause in profile.verdict.causes:
        where = _path(f"{cause.file}:{cause.line}") if cause.file else f"PTX line {cause.line}"
        console.print(
            Text.assemble(
                f"  {figures.percent(cause.share)} of that at ", (where, "cyan"), f": {texts[cause.file, cause.line]}"
            ),
            soft_wrap=True,
        )
    for finding in profile.findings:
        console.print(
            Text.assemble(
                "  ", (finding.code, "yellow"), " at ", (_path(finding.where), "cyan"), f": {finding.message}"
            ),
            soft_wrap=True,
        )

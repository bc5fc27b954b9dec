"""A profile: the verdict, the user's source with counts beside each line, limits, and on demand everything else."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rich.text import Text

from tilewright.observe.prediction.record import Prediction
from tilewright.observe.profiling import Counts, Profile, Sectors, Served, Wavefronts
from tilewright.observe.profiling.record import LineCounts, Products
from tilewright.show.report import figures, occupancy, styles, tables, verdict
from tilewright.show.report.blocks import Block, Facts, Gap, legend, words
from tilewright.show.report.places import listed, path
from tilewright.show.report.prediction import extents, in_flight
from tilewright.show.report.tables import COUNT, PERCENT, RIGHT, SECONDS, SOME, Column, Form, Group, Table, group
from tilewright.simulate.machine.alternatives import Alternative, Demand
from tilewright.simulate.machine.limiters import phrase

#: Block sizes that have a word.
_BLOCKS = (32, 64, 128, 256, 512, 1024)
#: Most lines without counts that are shown between lines with counts.
GAP_LINES = 6
_TENTHS = Form(lambda value: f"{value:.1f}", lambda value: f"{value:.1f}")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of source; `counts` is None if it did not run, `line` is 0 for omitted lines."""

    line: int
    text: str
    counts: Counts | None = None


#: A profile with the verdict of its machine code, and its predicted time, where there is one.
Judge = Callable[[Profile], tuple[Profile, Prediction | None]]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Launches of one kernel with the same extents, of which the longest stands for all."""

    profile: Profile
    time: Prediction | None
    launches: int

    @property
    def seconds(self) -> float:
        """Of one: predicted, else that of the slowest unit."""
        return self.profile.least_seconds if self.time is None else self.time.seconds


def of_program(
    profiles: Sequence[Profile], judge: Judge = lambda profile: (profile, None), *, details: bool = False
) -> Iterator[Block]:
    """A table of a program's launches, if it has several, and each kernel's longest launch, the slowest first."""
    alike: dict[tuple[object, ...], list[Profile]] = {}
    for profile in profiles:
        alike.setdefault((profile.kernel, profile.grid, profile.block), []).append(profile)
    rows = [
        _Alike(*judge(max(group, key=lambda profile: profile.least_seconds)), len(group)) for group in alike.values()
    ]
    rows.sort(key=lambda row: -row.seconds * row.launches)
    if len(profiles) > 1:
        yield _launches(rows)
        yield Gap()
    slowest: dict[str, _Alike] = {}
    for row in rows:
        if row.profile.kernel not in slowest or row.seconds > slowest[row.profile.kernel].seconds:
            slowest[row.profile.kernel] = row
    for row in slowest.values():
        yield from blocks(row.profile, row.time, details=details)
        yield Gap()
    if details:
        yield from _meanings([row.profile for row in slowest.values()])


def _launches(rows: Sequence[_Alike]) -> Table:
    """A row for launches that are alike, the longest in total first."""
    extent = Form(extents, extents)
    key = group(Column("kernel", lambda row: row.profile.kernel, style="bold"))
    what = group(
        Column("grid", lambda row: row.profile.grid, extent),
        Column("block", lambda row: row.profile.block, extent),
        Column("launches", lambda row: row.launches, COUNT),
    )
    timed = any(row.time for row in rows)
    bound = group(
        Column("predicted\neach" if timed else "PTX-level\nleast", lambda row: row.seconds or None, SECONDS),
        Column("limited by", lambda row: row.profile.verdict.bound if row.profile.verdict else "", wrap_at=12),
        Column("cause", lambda row: row.profile.verdict.rule if row.profile.verdict else "", wrap_at=11),
    )
    found = group(Column("findings", lambda row: len(row.profile.findings), SOME), optional=True)
    where = group(Column("launched at", lambda row: path(row.profile.launched_at)), optional=True)
    return Table(key, (what, bound, found, where), list(rows))


def blocks(profile: Profile, time: Prediction | None = None, *, details: bool = True) -> Iterator[Block]:
    """One launch: the verdict, the source with its counts, and the limits; with `details`, everything."""
    where = f", launched at {path(profile.launched_at)}" if profile.launched_at else ""
    launch = f"  grid {extents(profile.grid)}, block {extents(profile.block)}{where}  "
    yield words((profile.kernel, styles.HEADING), launch, (f"as on {profile.gpu}", styles.PLACE))
    yield from verdict.blocks(profile.verdict, time)
    for file, table in _sources(profile):
        yield Gap()
        yield words((path(file) or "PTX", styles.PLACE))
        yield table
        for line in profile.lines:
            if line.file == file and line.inner and details:
                yield words((f"line {figures.count(line.line)} includes {listed(line.inner)}", styles.QUIET))
    said = verdict.PTX_LEVEL if details else f"{verdict.PTX_LEVEL} {_BRIEFLY}"
    yield words((said, styles.QUIET))
    yield Gap()
    if details:
        yield Facts(tuple(facts(profile)))
        yield Gap()
    yield from limits(profile, time, details=details)
    for finding in profile.findings:
        where = path(finding.where)
        yield words((finding.code, styles.WARNING), " at ", (where, styles.PLACE), f": {finding.message}", hang=2)
    for note in () if details else profile.notes:
        yield words((f"note: {note}", styles.QUIET), hang=2)


#: Units that are shown without details.
_FIRST = 4


def limits(profile: Profile, time: Prediction | None, *, details: bool = True) -> Iterator[Block]:
    """The least time of each unit, and what tensor cores multiplied."""
    if units := profile.units[: None if details else _FIRST]:
        level = "PTX-level limits" if profile.verdict is None or profile.verdict.share is None else "limits on the GPU"
        work = "has to do" if time is None else "a multiprocessor\nhas to do"
        yield Table(
            group(Column(level, lambda u: phrase(u.name)), Column("unit", lambda u: u.name)),
            (
                group(
                    Column(
                        work, lambda u: f"{figures.short(u.amount)} {u.of.removesuffix('s' * (u.amount == 1))}", RIGHT
                    ),
                    Column("at least", lambda u: u.seconds, SECONDS),
                    Column("", lambda u: figures.bar(u.seconds, units[0].seconds), style=styles.BAR),
                ),
            ),
            list(units),
        )
    if profile.products:
        yield Gap()
        yield _products(profile.products)
    if time is not None and time.tensor_share:
        ahead = "" if time.copies_in_flight is None else f"; copies: {in_flight(time)}"
        yield words(f"tensor cores: {figures.percent(time.tensor_share)} of the clocks{ahead}", hang=2)


def _products(products: Sequence[Products]) -> Table:
    """The work of tensor cores, by shape and format."""
    key = group(Column("tensor cores", lambda p: f"{p.shape} {p.format}"))
    work = group(
        Column("products", lambda p: p.times, COUNT),
        Column("multiply-\nadds", lambda p: figures.short(p.multiply_adds)),
    )
    return Table(key, (work, group(Column("at peak\nrate", lambda p: p.seconds, SECONDS))), list(products))


# -- the source ---------------------------------------------------------------------------------------------------


def _sources(profile: Profile) -> Iterator[tuple[str, Table]]:
    for file, rows in files(profile.lines):
        indent = min((len(row.text) - len(row.text.lstrip()) for row in rows if row.text.strip()), default=0)
        number = Column("line", lambda row: figures.count(row.line) if row.line else "...", Form(str, str))
        code = Column("source", lambda row, start=indent: row.text[start:].expandtabs(4))  # type: ignore[misc]
        yield file, Table(group(number), tuple(_groups(profile.totals)), rows, text=code)


def _meanings(profiles: Sequence[Profile]) -> list[Block]:
    """Titles of the columns of source lines."""
    return legend((table for profile in profiles for _, table in _sources(profile)), brief=True)


def files(lines: Sequence[LineCounts]) -> Iterator[tuple[str, list[Row]]]:
    """Each file's lines in order, with lines without counts between them."""
    for file in dict.fromkeys(line.file for line in lines):
        rows: list[Row] = []
        for line in (one for one in lines if one.file == file):
            last = rows[-1].line if rows else line.line - 1
            between = range(last + 1, line.line)
            if not file:
                between = range(0)  # PTX lines in between hold no instruction
            if len(between) <= GAP_LINES:
                rows += [Row(number, linecache.getline(file, number).rstrip()) for number in between]
            else:
                rows.append(Row(0, ""))
            rows.append(Row(line.line, line.text, line.counts))
        yield file, rows


def _of_counts(title: str, value: Callable[[Counts], Any], form: Form = tables.TEXT, meaning: str = "") -> Column:
    """A column of counts, empty for lines without any."""
    empty = Form(_unless_none(form.whole), _unless_none(form.brief))
    return Column(title, lambda row: value(row.counts) if row.counts is not None else None, empty, legend=meaning)


def _unless_none(write: Callable[[Any], str | Text]) -> Callable[[Any], str | Text]:
    return lambda value: "" if value is None else write(value)


def _groups(totals: Counts) -> Iterator[Group]:
    """The columns that matter for this launch, the most telling first: with little room the last are left out."""
    for space, name in (("global", "in_global"), ("local", "in_local")):
        if getattr(totals, name):
            yield group(
                _of_counts(f"{space}\nsectors\na req.", _of(name, _beside), meaning=f"of 32 bytes, {_WOULD_DO}")
            )
    if totals.in_shared:
        yield group(_of_counts("wave-\nfronts\na req.", lambda c: _beside(c.in_shared), meaning=_WOULD_DO))
    yield group(_of_counts("warp\ninstr.", lambda c: c.warp_instructions or None, COUNT, "executed by warps"))
    if totals.lane_efficiency < 1:
        yield group(_of_counts("active\nlanes", lambda c: c.active_lanes if c.warp_instructions else None, _TENTHS))
    if totals.divergent_branches:
        yield group(_of_counts("diverged", _diverged, meaning="branches at which the lanes of a warp part"))
    for space, name in (("global", "in_global"), ("local", "in_local")):
        if getattr(totals, name):
            yield from _sectors(space, name, served=bool(getattr(totals, name).served))
    if totals.in_shared:
        yield group(_of_counts("shared\nreq.", lambda c: c.in_shared.requests or None, COUNT, "requests of warps"))
    if totals.in_remote:
        remote = "to other blocks' shared memory"
        yield group(
            _of_counts("cluster\nreq.", lambda c: c.in_remote.requests or None, COUNT, remote),
            _of_counts("cluster\nbytes", lambda c: c.in_remote.bytes or None, COUNT),
        )


def _of(name: str, value: Callable[[Sectors], Any]) -> Callable[[Counts], Any]:
    return lambda counts: value(getattr(counts, name))


_BRIEFLY = "In brackets what would do; a sector is 32 bytes; k, M, G: thousands, millions, 10^9."
_WOULD_DO = "in brackets what would do"


def _sectors(space: str, name: str, *, served: bool) -> Iterator[Group]:
    """Further columns of one memory."""
    if served:
        of = "" if space == "global" else f"{space} "
        yield group(_of_counts(f"{of}L1\nhits", lambda counts: _hits(getattr(counts, f"{space}_loads")), PERCENT))
        dram = _of(name, lambda s: s.served.dram_sectors or None)
        yield group(_of_counts(f"{of}from\nDRAM", dram, COUNT, "sectors"))
    yield group(_of_counts(f"{space}\nreq.", _of(name, lambda s: s.requests or None), COUNT, "requests of warps"))


def _hits(loads: Sectors) -> float | None:
    """Hits of loads in L1; stores and atomics go to L2."""
    return loads.served.l1_hits / loads.sectors if loads.sectors else None


def _beside(counted: Sectors | Wavefronts) -> Text | None:
    """The cost of a request, and the needed cost if that is less; in red from a third more."""
    if not counted.requests:
        return None
    if isinstance(counted, Sectors):
        value, excess, whole = counted.sectors_per_request, counted.excess_sectors, counted.sectors
    else:
        value, excess, whole = counted.wavefronts_per_request, counted.excess_wavefronts, counted.wavefronts
    seen, ideal = (f"{number:.1f}".removesuffix(".0") for number in (value, counted.ideal_per_request))
    enough = "" if seen == ideal else f" ({ideal})"
    return Text(f"{seen}{enough}", style=styles.ERROR if 4 * excess > whole else "")


def _diverged(counts: Counts) -> Text | None:
    if not counts.branches:
        return None
    parted = counts.divergent_branches
    return Text(figures.percent(parted / counts.branches), style=styles.WARNING if parted else "")


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
    if profile.seconds:
        yield (
            "host time",
            f"{figures.seconds(profile.seconds)} of simulation on this host, which says nothing of a GPU",
        )
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
    kept = f"; {figures.size(moved.dram_kept_bytes)} more stay in L2" if moved.dram_kept_bytes else ""
    written = f"{figures.size(moved.dram_written_bytes)} written{kept}"
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
    """The most of a resource for each eighth of full occupancy, and the most that a block can have."""
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
        rates = f"{roof.gflops:,.0f} of {roof.peak_gflops:,.0f} G operations a second of the GPU"
        limit = f"{_LEVELS.get(roof.bound, roof.bound)} allows {rates}"
        yield "roofline", f"{figures.count(found.operations)} {found.dtype} operations, {levels}; {limit}"


_LEVELS = {"shared": "shared memory", "l1": "L1", "l2": "L2", "dram": "DRAM"}

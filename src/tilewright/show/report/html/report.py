"""The pages of reports: their parts and their main facts."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.observe.checking.causes import Findings
from tilewright.observe.prediction.record import Prediction
from tilewright.observe.profiling.record import Profile
from tilewright.observe.profiling.watching import Kept, Watched
from tilewright.show.ladder.rung import Climb
from tilewright.show.rates.record import Sweep
from tilewright.show.report import (
    figures,
    prediction,
    profile as profile_report,
    rates as rates_report,
    records,
    verdict,
)
from tilewright.show.report.blocks import Gap
from tilewright.show.report.charts import ladder, occupancy, rates
from tilewright.show.report.charts.records import Bars, Cell, Chart
from tilewright.show.report.html import lanes, page, partition
from tilewright.show.report.html.figures import Part, charted, folded, of_launches, section
from tilewright.show.report.page import html_of
from tilewright.show.report.places import path
from tilewright.simulate.machine import Gpu


@dataclass(frozen=True, slots=True)
class Ladder:
    """Kernels climbed at one size, and their times predicted at a larger one."""

    climb: Climb
    edge: int  #: Edge of the matrices of the predicted products.
    times: Mapping[str, Prediction]  #: Predictions by kernel, where possible.


@dataclass(frozen=True, slots=True)
class Material:
    """The data of a page."""

    gpu: Gpu
    seen: Watched
    found: Findings
    time: Prediction | None  #: The predicted time of the launch; None if there is no model of the GPU.
    ladder: Ladder | None
    sweep: Sweep | None


def text(material: Material) -> str:
    """The page of a kernel of the catalogue."""
    seen = material.seen
    m, n, k = seen.extents
    subtitle = (
        f"{seen.record.title}. C of {m} x {n} from A of {m} x {k} and B of {k} x {n}, {seen.dtype}, "
        f"on a simulated {material.gpu.name}"
    )
    facts = (*_predicted(material.time), *_facts(seen.kept.profile))
    return page.document(seen.record.name, subtitle, facts, tuple(_parts(material)))


def of_launch(kept: Kept, gpu: Gpu, time: Prediction | None) -> str:
    """The page of a program's launch, with the parts that apply to any kernel; without a time if none is predicted."""
    profile = kept.profile
    where = f", launched at {path(profile.launched_at)}" if profile.launched_at else ""
    extents = f"grid {prediction.extents(profile.grid)}, block {prediction.extents(profile.block)}"
    subtitle = f"Launch {profile.launch}: {extents}{where}, on a simulated {gpu.name}"
    parts = (lanes.part(kept), _bound(profile, time), *_occupancy(gpu, profile))
    return page.document(profile.kernel, subtitle, (*_predicted(time), *_facts(profile)), parts)


def of_program(name: str, launches: Sequence[tuple[Kept, Prediction | None]], gpu: Gpu) -> tuple[str, int]:
    """The page of a program: its launches to choose from, two beside each other; and how many fit in it.

    The longest launches come first into a page that has no room for all.
    """
    longest = sorted(range(len(launches)), key=lambda at: -launches[at][0].profile.least_seconds)
    made = {at: of_launch(launches[at][0], gpu, launches[at][1]) for at in longest}

    def first(shown: int) -> str:
        return _together(name, launches, {at: made[at] for at in longest[:shown]})

    whole, every = first(len(made)), len(made)
    if every == 1 or len(whole.encode()) <= page.MOST_BYTES:
        return whole, every
    shown = 1 + bisect.bisect_right(range(2, every), page.MOST_BYTES, key=lambda shown: len(first(shown).encode()))
    return first(shown), shown


def _together(name: str, launches: Sequence[tuple[Kept, Prediction | None]], made: Mapping[int, str]) -> str:
    if len(made) == 1:
        return next(iter(made.values()))
    rows = []
    for at in sorted(made):
        profile, time = launches[at][0].profile, launches[at][1]
        took = f", {figures.seconds(time.seconds)} predicted" if time else ""
        rows.append((f"{profile.launch}: {profile.kernel}, grid {prediction.extents(profile.grid)}{took}", made[at]))
    return page.document(name, f"{len(rows)} launches of a program", (), (of_launches(rows),))


def of_sweep(sweep: Sweep) -> str:
    """The page of a sweep alone."""
    contenders = ", ".join(dict.fromkeys(rate.point.contender for rate in sweep.rates))
    return page.document("Rates", contenders, (), (_rates(sweep),))


def charts(material: Material) -> tuple[Chart, ...]:
    """Every chart of the page."""
    fits = _of_occupancy(material.gpu, material.seen.kept.profile)
    swept = () if material.sweep is None else rates.charts(material.sweep)
    return (*_of_ladder(material.ladder), *swept, *fits)


def _parts(material: Material) -> Iterator[Part]:
    seen = material.seen
    yield partition.part(seen)
    yield lanes.part(seen.kept)
    yield _bound(seen.kept.profile, material.time)
    climbed = _of_ladder(material.ladder)
    if climbed:
        yield charted("ladder", "The ladder", _LADDER, climbed)
    if material.sweep is not None:
        yield _rates(material.sweep)
    yield from _occupancy(material.gpu, seen.kept.profile)
    yield section("findings", "Findings", _FINDINGS, records.blocks(material.found))


def _rates(sweep: Sweep) -> Part:
    said = (*rates_report.head(sweep), *rates_report.failures(sweep.rates))
    more = html_of(said) + folded("Each rate", rates_report.blocks(sweep))
    return charted("rates", "Rates", _RATES, rates.charts(sweep), more)


def _bound(profile: Profile, time: Prediction | None) -> Part:
    said = (*verdict.blocks(profile.verdict, time), Gap(), *profile_report.limits(profile, time))
    return section("bound", "What limits it", _BOUND, said)


def _occupancy(gpu: Gpu, profile: Profile) -> Iterator[Part]:
    fits = _of_occupancy(gpu, profile)
    if fits:
        yield charted("occupancy", "Occupancy", _OCCUPANCY, fits)


_BOUND = "The verdict, and how long each unit of the GPU must work at least."
_LADDER = (
    "The same product by kernels that each mend one thing. Counts are exact, of what the compiler made; the times are "
    "what a model of the GPU predicts from its machine code, and none was measured."
)
_RATES = (
    "Multiplications and additions a second. Solid lines and full marks were measured; dashed lines and hollow marks "
    "are predicted; marks without a line are a source's own figures."
)
_OCCUPANCY = (
    "Warps that a multiprocessor holds, as one of the three things that a block takes varies and the others stay as "
    "they are. More warps hide more latency; past some number they bring nothing."
)
_FINDINGS = "What tilewright check says of the same launch."


def _of_ladder(found: Ladder | None) -> Sequence[Chart]:
    if found is None:
        return ()
    bars = tuple(
        Cell(time.seconds, f"{figures.seconds(time.seconds)}, {time.limiter}", "predicted", name)
        for name, time in found.times.items()
    )
    title = f"Time on the {found.climb.machine.gpu}, {found.edge} x {found.edge} x {found.edge}"
    return (*((Bars(title, bars),) if bars else ()), *ladder.charts(found.climb))


def _of_occupancy(gpu: Gpu, profile: Profile) -> Sequence[Chart]:
    fits = profile.occupancy
    return () if fits is None else occupancy.charts(gpu, fits.demand, profile.kernel)


def _predicted(time: Prediction | None) -> Iterator[tuple[str, str, str]]:
    if time is not None:
        band = f"{figures.seconds(time.least_seconds)} to {figures.seconds(time.most_seconds)}; {time.limiter}"
        yield "predicted time", figures.seconds(time.seconds), band


def _facts(profile: Profile) -> Iterator[tuple[str, str, str]]:
    """A label, a figure, and a few words."""
    yield from _counted(profile)
    if profile.resources is not None and profile.occupancy is not None:
        fit = profile.occupancy.occupancy
        yield "registers a thread", str(profile.resources.registers_per_thread), "by the vendor's assembler"
        held = f"{figures.amount(fit.active_blocks, 'block')} a multiprocessor"
        yield "occupancy", figures.percent(fit.fraction), f"{held}, limited by {fit.limiter}"
    if profile.verdict is not None:
        yield "limited by", profile.verdict.bound, profile.verdict.rule


def _counted(profile: Profile) -> Iterator[tuple[str, str, str]]:
    moved, banked = profile.totals.in_global, profile.totals.in_shared
    if moved.requests:
        best = f"{moved.ideal_per_request:.1f} would do; {figures.percent(moved.efficiency)} of the bytes used"
        yield "sectors a request", f"{moved.sectors_per_request:.1f}", best
    if banked.requests:
        best = f"{banked.ideal_per_request:.1f} would do"
        yield "wavefronts a request", f"{banked.wavefronts_per_request:.1f}", best
        yield "bank conflicts", figures.count(banked.excess_wavefronts), "wavefronts that they add"

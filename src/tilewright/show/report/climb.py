"""The report of a climb: a row for each rung, explanations and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType

from rich.text import Text

from tilewright.ground import installation
from tilewright.show.ladder.rung import Climb, Rung
from tilewright.show.report import figures, styles
from tilewright.show.report.blocks import Block, Gap, words
from tilewright.show.report.listing import KERNEL, source
from tilewright.show.report.tables import COUNT, PERCENT, RATE, SECONDS, SIZE, Column, Group, Table, group
from tilewright.simulate.machine.limiters import ALU, DRAM, FMA, FP16, FP64, ISSUE, L1, L2, LSU, TAGS, TENSOR


def blocks(climb: Climb) -> Iterator[Block]:
    """The report: the rungs by their sources, explanations and verdicts."""
    yield from _heading(climb)
    yield Gap()
    shown = [rung for rung in climb.rungs if not rung.gpus]
    yield Table(group(KERNEL), tuple(_groups(climb)), shown, section=source)
    yield Gap()
    yield from _summary(climb)
    yield from _notes(shown)
    for extra, count in climb.missing.items():
        yield words(f"{figures.amount(count, 'kernel')} not run; to run them: {installation.extra(extra)}")
    if elsewhere := [rung.name for rung in climb.rungs if rung.gpus]:
        yield words(f"{needs(climb.rungs)}: {', '.join(elsewhere)}", hang=2)
    if climb.interrupted:
        yield words(("Stopped by Ctrl-C: these kernels ran until then.", styles.WARNING))


def needs(rungs: Sequence[Rung]) -> str:
    """Say how many kernels need another GPU, and the fewest GPUs that run all of them; "" if none does.

    >>> rung = Rung("x", "", "TC", "fma", False, "simulated", "float32", gpus=("a100", "h100"))
    >>> needs([rung, rung])
    '2 need --gpu a100'
    """
    left = [rung.gpus for rung in rungs if rung.gpus]
    count, chosen = len(left), []
    while left:
        known = dict.fromkeys(key for gpus in left for key in gpus)
        best = max(known, key=lambda key: sum(key in gpus for gpus in left))
        chosen.append(best)
        left = [gpus for gpus in left if best not in gpus]
    listed = " or ".join(filter(None, (", ".join(chosen[:-1]), *chosen[-1:])))
    return f"{count} need{'s' * (count == 1)} --gpu {listed}" if chosen else ""


def _heading(climb: Climb) -> Iterator[Block]:
    p, machine = climb.problem, climb.machine
    what = f"c[{p.m}, {p.n}] = a[{p.m}, {p.k}] @ b[{p.k}, {p.n}]"
    yield words((what, styles.HEADING), (f"   {p.operations:,} operations", styles.QUIET))
    if machine.device == "simulated":
        where = f", simulated by {machine.threads} threads of {machine.host}"
    else:
        where = "" if machine.limits in (machine.gpu, "") else f" (occupancy by the limits of {machine.limits})"
    yield words((machine.gpu, f"bold {styles.PLACE}"), (where, styles.QUIET), hang=2)


def _groups(climb: Climb) -> Iterator[Group]:
    """The column groups; a real GPU's time has its own heading and no counts."""
    if not climb.machine.limits:  # a device with kernels of its own
        yield from _own_groups(climb)
        return
    real = climb.machine.device == "cuda"
    of = climb.problem.operations
    yield group(
        _DTYPE,
        _BITS,
        Column("time" if real else "host\ntime", lambda r: r.seconds, SECONDS),
        Column(
            "G oper-\nations/s" if real else "host\nGFLOPS",
            lambda r: _rate(of, r.seconds) if real or r.device == "cpu" else None,
            RATE,
        ),
    )
    yield group(
        Column("regs", lambda r: r.footprint.registers_per_thread, COUNT),
        Column("shared\nmemory", lambda r: r.footprint.shared_bytes, SIZE),
        Column("occu-\npancy", lambda r: r.footprint.occupancy, PERCENT),
        Column("limited\nby", _limiter, wrap_at=11),
    )
    if not real:
        yield from _limits(climb)
        yield group(
            Column("GPU time\npredicted", lambda r: r.predicted.predicted_seconds, SECONDS),
            Column("\nfrom", lambda r: r.predicted.predicted_least_seconds, SECONDS),
            Column("\nto", lambda r: r.predicted.predicted_most_seconds, SECONDS),
        )
        yield from _counts(climb)


def _limiter(rung: Rung) -> str:
    """The resource that limits occupancy."""
    limiter = rung.footprint.occupancy_limiter
    return figures.MISSING if limiter is None else "" if rung.footprint.occupancy == 1 else limiter


def _limits(climb: Climb) -> Iterator[Group]:
    """Least times on the GPU, of each unit; the longest bounds the kernel."""

    def slowest(*units: str) -> Callable[[Rung], float | None]:
        return lambda rung: max((unit.seconds for unit in rung.limits if unit.name in units), default=None)

    titles = {
        "issue": (ISSUE,),
        "arithm.": (FMA, ALU, FP16, FP64, TENSOR),
        "sh., L1": (L1, TAGS, LSU),
        "L2": (L2,),
        "DRAM": (DRAM,),
    }
    columns = [
        Column(f"GPU:\n{title}", slowest(*units), SECONDS, _bold_where(units)) for title, units in titles.items()
    ]
    yield group(*columns, Column("bound by", _bound))


def _bound(rung: Rung) -> str:
    """The slowest unit."""
    if not rung.limits:
        return figures.MISSING
    return rung.limits[0].name


def _in_red(rung: Rung) -> str:
    return styles.ERROR_COLOUR if rung.counts.shared_bank_conflicts else ""


def _bold_where(units: Sequence[str]) -> Callable[[Rung], str]:
    return lambda rung: styles.HEADING if rung.limits and rung.limits[0].name in units else ""


def _counts(climb: Climb) -> Iterator[Group]:
    most = max((r.counts.global_load_sectors or 0 for r in climb.rungs), default=0)
    yield group(
        Column("warp\ninstr.", lambda r: r.counts.warp_instructions, COUNT),
        Column("global\nload\nsectors", lambda r: r.counts.global_load_sectors, COUNT),
        Column("global\nstore\nsectors", lambda r: r.counts.global_store_sectors, COUNT),
    )
    yield group(
        Column("shared\nload\nwavefr.", lambda r: r.counts.shared_load_wavefronts, COUNT),
        Column("shared\nstore\nwavefr.", lambda r: r.counts.shared_store_wavefronts, COUNT),
        Column("bank\nconflicts", lambda r: r.counts.shared_bank_conflicts, COUNT, _in_red),
    )
    bar = Column("global\nloads", lambda r: figures.bar(r.counts.global_load_sectors, most), style=styles.BAR)
    yield group(bar, optional=True)


def _own_groups(climb: Climb) -> Iterator[Group]:
    """The columns of S4's driver: both launches, and whether the product is close to np.dot's."""
    close = Column("close to\nnp.dot", lambda r: figures.MISSING if r.close is None else "yes" if r.close else "no")
    yield group(_DTYPE, _BITS, close)
    yield group(
        Column("compiled\nand run", lambda r: _sum(r.translate_seconds, r.seconds), SECONDS),
        Column("run\nagain", lambda r: r.seconds, SECONDS),
        Column("G oper-\nations/s", lambda r: _rate(climb.problem.operations, r.seconds), RATE),
    )


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


#: The order of sums of kernels that keep within a bound.
BOUNDED = "tensor-core"
#: The verdict of a correct product, by its order of sums.
_RIGHT = MappingProxyType({"fma": "✓ exact", BOUNDED: "✓ in bound"})


def verified(rung: Rung) -> Text:
    """Return a rung's verdict: a mark and a word, so that it reads without colour too.

    A kernel that follows its own stated order is correct, but its bits are not those of the canonical product.
    """
    if rung.verified is None:
        return Text("not run", style=styles.QUIET)
    if rung.verified:
        return Text(_RIGHT.get(rung.order, "✓ own order"), style=styles.GOOD)
    style = styles.WARNING_COLOUR if rung.published else styles.ERROR
    if rung.error:
        return Text("✗ stopped", style=style)
    return Text(f"✗ {figures.count(rung.mismatches)} differ", style=style)


_DTYPE = Column("dtype", lambda r: r.dtype)
_BITS = Column("bits", verified)


def _rate(operations: int, seconds: float | None) -> float | None:
    """Return 10^9 operations a second, for times of real processors only."""
    return operations / seconds / 1e9 if seconds else None


def _summary(climb: Climb) -> Iterator[Block]:
    ran = [r for r in climb.rungs if not r.published and r.verified is not None]
    text = Text("" if ran else "No trusted kernel ran.")
    for bounded, claim in ((False, "give the canonical product, bit for bit"), (True, "are within their bound")):
        trusted = [r for r in ran if (r.order == BOUNDED) == bounded]
        right = sum(bool(r.verified) for r in trusted)
        style = f"bold {styles.GOOD}" if right == len(trusted) else styles.ERROR
        which = f"{right} of {len(trusted)} {'tensor-core' if bounded else 'trusted'} kernels"
        if trusted:
            text = Text.assemble(text, " " * bool(text), (which, style), f" {claim}.")
    others = _others(climb.rungs)
    if others:
        text.append(f" Also shown, but not counted: {others}.")
    yield words(text)
    for sentence in _legend(climb):
        yield words((sentence, styles.QUIET), hang=2)


def _others(rungs: Sequence[Rung]) -> str:
    """Name the rungs that are not trusted kernels that ran, so that the numbers add up to the rows."""
    specimens = [r.name for r in rungs if r.published and not _of_vendor(r)]
    vendors = [r.name for r in rungs if _of_vendor(r)]
    idle = sum(r.verified is None and not r.published and not r.gpus for r in rungs)
    parts = (
        f"{figures.amount(len(specimens), 'published specimen')} ({', '.join(specimens)})" if specimens else "",
        f"a library's product ({', '.join(vendors)})" if vendors else "",
        f"{figures.amount(idle, 'kernel')} not run" if idle else "",
    )
    return "; ".join(filter(None, parts))


def _of_vendor(rung: Rung) -> bool:
    return rung.published and rung.source == "-"  # it is not a published kernel


def _legend(climb: Climb) -> Iterator[str]:
    """Explain the terms that appear in the rows."""
    rungs = climb.rungs
    if climb.machine.device == "simulated":
        yield "Host time: measured on this host. For a GPU's kernel it is the simulation's; it says nothing of a GPU."
    if any(r.limits for r in rungs):
        yield (
            "GPU: the least time that issue, arithmetic and each memory (sh.: shared) need for what was counted. "
            "The longest bounds the kernel: no GPU of this kind is faster."
        )
    if any(r.predicted.predicted_seconds for r in rungs):
        yield (
            "Predicted: a model of one multiprocessor computes it from machine code and counts; nothing was measured. "
            "Most published times lie between `from` and `to`."
        )
        unknown = [r.name for r in rungs if r.limits and not r.predicted.predicted_seconds]
        if unknown:
            yield (
                "No predicted time: the model needs one more run of a kernel whose warps wait for copies, or knows no "
                f"rate for its format. `tilewright predict --kernels {unknown[0]}` predicts it, or says why it cannot."
            )
    if any(r.published and not _of_vendor(r) for r in rungs):
        yield "Published: the kernel as its source has it, with its defects. Its results are shown, not trusted."
    if any(r.verified and r.order not in _RIGHT for r in rungs):
        yield "Own order: exact, bit for bit, in the source's order of sums, which is not the canonical one."


def _notes(rungs: Sequence[Rung]) -> Iterator[Block]:
    """Say why a rung stopped, differs or did not run; "" for all others."""
    for rung in rungs:
        reasons = [rung.error, rung.note if not rung.verified or rung.published else "", off_multiples(rung)]
        style = styles.SPECIMEN if rung.published else styles.HEADING
        for reason in filter(None, reasons):
            yield words((rung.name, style), ": ", reason, indent=2, hang=2)


def off_multiples(rung: Rung) -> str:
    """Say how a published specimen did at a shape that is not a multiple of its tile; "" if that was not tried.

    >>> from tilewright.ladder import OffMultiples
    >>> rung = Rung("x", "", "S2", "fma", True, "simulated", "float32", off_multiples=OffMultiples(3, 2, 5, 4))
    >>> off_multiples(rung)
    'run at 3x2x5: 4 of 6 elements are wrong'
    """
    seen = rung.off_multiples
    if seen is None:
        return ""
    where = f"run at {seen.m}x{seen.n}x{seen.k}: "
    if seen.error:
        # Only the kind of error; thread and address are seen by running the kernel.
        return f"{where}stopped, {seen.error.removeprefix(f'{rung.name}: ').partition(' at address')[0]}"
    elements = figures.count(seen.m * seen.n)
    if not seen.mismatches:
        return f"{where}all {elements} elements are right" + ("" if rung.order == "fma" else ", in its own order")
    return f"{where}{figures.count(seen.mismatches)} of {elements} elements are wrong"

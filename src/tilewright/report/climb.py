"""A climb on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from tilewright.ladder.rung import Climb, Rung
from tilewright.report import bank_claim, columns, figures
from tilewright.report.columns import Column, Group
from tilewright.report.console import PIPE_WIDTH, speaks_unicode

#: Width of terminal from which there is room for bars.
BAR_FROM_WIDTH = 100


def show(climb: Climb, console: Console) -> None:
    """Print what ran, a row a rung, and what to make of it."""
    unicode = speaks_unicode(console)
    _heading(climb, console)
    columns.show(console, _key(), _groups(climb, unicode=unicode, width=console.width), climb.rungs)
    console.print()
    _summary(climb, console)
    _notes(climb.rungs, console)
    _claim(climb.rungs, console)


def _heading(climb: Climb, console: Console) -> None:
    p, machine = climb.problem, climb.machine
    what = f"c[{p.m}, {p.n}] = a[{p.m}, {p.k}] @ b[{p.k}, {p.n}]"
    console.print(Text.assemble((what, "bold"), (f"   {p.operations:,} operations", "dim")))
    if machine.device == "simulated":
        where = f", simulated by {machine.threads} threads of {machine.host}"
    else:
        where = "" if machine.limits in (machine.gpu, "") else f" (occupancy by the limits of {machine.limits})"
    console.print(Text.assemble((machine.gpu, "bold cyan"), (where, "dim")))
    console.print()


def _key() -> Group:
    return Group(
        (
            Column("kernel", lambda r: Text(r.name, style="italic" if r.published else "bold"), "left"),
            Column("row", lambda r: Text(r.source, style="cyan"), "left"),
        )
    )


def _groups(climb: Climb, *, unicode: bool, width: int) -> list[Group]:
    """Return the column groups; a real GPU's time has its own heading, and no counts stand beside it."""
    if climb.machine.device == "opencl":
        return _opencl_groups(climb, unicode=unicode)
    real = climb.machine.device == "cuda"
    ran = (
        Column("dtype", lambda r: r.dtype, "left"),
        Column("bits", lambda r: verified(r, unicode=unicode), "left"),
        Column("time" if real else "host\ntime", lambda r: figures.seconds(r.seconds)),
    )
    instructions = Column("warp\ninstructions", lambda r: figures.count(r.counts.warp_instructions))
    most = max((r.counts.global_load_sectors or 0 for r in climb.rungs), default=0)
    traffic = [
        Column("global\nload\nsectors", lambda r: figures.count(r.counts.global_load_sectors)),
        Column("", lambda r: Text(figures.bar(r.counts.global_load_sectors, most), style="blue"), "left"),
        Column("global\nstore\nsectors", lambda r: figures.count(r.counts.global_store_sectors)),
    ]
    if not unicode or not most or width < BAR_FROM_WIDTH:
        del traffic[1]
    shared = (
        Column("shared\nload\nwavefronts", lambda r: figures.count(r.counts.shared_load_wavefronts)),
        Column("shared\nstore\nwavefronts", lambda r: figures.count(r.counts.shared_store_wavefronts)),
        Column("bank\nconflicts", lambda r: _conflicts(r.counts.shared_bank_conflicts)),
    )
    footprint = (
        Column("regs", lambda r: figures.count(r.footprint.registers_per_thread)),
        Column("shared\nmemory", lambda r: figures.size(r.footprint.shared_bytes)),
        Column("occu-\npancy", lambda r: figures.percent(r.footprint.occupancy)),
        Column("limited\nby", lambda r: r.footprint.occupancy_limiter or figures.MISSING, "left"),
    )
    if real:
        rate = Column("G oper-\nations/s", lambda r: _rate(climb.problem.operations, r.seconds))
        return [Group((*ran, rate)), Group(footprint)]
    return [Group((*ran, instructions)), Group(tuple(traffic)), Group(shared), Group(footprint)]


def _opencl_groups(climb: Climb, *, unicode: bool) -> list[Group]:
    """Return what S4's driver prints: both launches, and whether the product is close to np.dot's."""
    first = Column("compiled\nand run", lambda r: figures.seconds(_sum(r.translate_seconds, r.seconds)))
    ran = (
        Column("dtype", lambda r: r.dtype, "left"),
        Column("bits", lambda r: verified(r, unicode=unicode), "left"),
        Column(
            "close to\nnp.dot", lambda r: figures.MISSING if r.close is None else "yes" if r.close else "no", "left"
        ),
    )
    again = Column("run\nagain", lambda r: figures.seconds(r.seconds))
    rate = Column("G oper-\nations/s", lambda r: _rate(climb.problem.operations, r.seconds))
    return [Group(ran), Group((first, again, rate))]


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def verified(rung: Rung, *, unicode: bool) -> Text:
    """Return a rung's verdict: a mark and a word, so that it reads without colour too.

    A kernel that states an order of its own and keeps to it is right, but its bits are not the canonical product's.
    """
    good, bad = ("✓ ", "✗ ") if unicode else ("", "")
    if rung.verified is None:
        return Text("not run", style="dim")
    if rung.verified:
        return Text(f"{good}exact" if rung.order == "fma" else f"{good}own order", style="green")
    style = "yellow" if rung.published else "bold red"
    if rung.error:
        return Text(f"{bad}stopped", style=style)
    return Text(f"{bad}{figures.count(rung.mismatches)} differ", style=style)


def _rate(operations: int, seconds: float | None) -> str:
    """Return billions of operations a second; only ever asked for times of real processors."""
    return f"{operations / seconds / 1e9:,.1f}" if seconds else figures.MISSING


def _conflicts(value: int | None) -> Text:
    return Text(figures.count(value), style="red" if value else "")


def _summary(climb: Climb, console: Console) -> None:
    trusted = [r for r in climb.rungs if not r.published and r.verified is not None]
    exact = sum(bool(r.verified) for r in trusted)
    style = "bold green" if exact == len(trusted) else "bold red"
    if trusted:
        text = Text.assemble(
            (f"{exact} of {len(trusted)} trusted kernels", style), " give the canonical product, bit for bit."
        )
    else:
        text = Text("No trusted kernel ran.")
    besides = _besides(climb.rungs)
    if besides:
        text.append(f" Shown besides, not counted: {besides}.")
    if climb.machine.device == "simulated":
        text.append(" Counts are the simulated GPU's; times are this host's, not a GPU's.", style="dim")
    console.print(text)
    for words in _legend(climb.rungs):
        console.print(Text(words, style="dim"))


def _besides(rungs: Sequence[Rung]) -> str:
    """Say which rungs are not among the trusted kernels that ran, so that the numbers add up to the rows shown."""
    specimens = [r.name for r in rungs if r.published and not _of_vendor(r)]
    vendors = [r.name for r in rungs if _of_vendor(r)]
    idle = sum(r.verified is None and not r.published for r in rungs)
    parts = (
        f"{figures.amount(len(specimens), 'published specimen')} ({', '.join(specimens)})" if specimens else "",
        f"a library's product ({', '.join(vendors)})" if vendors else "",
        f"{figures.amount(idle, 'kernel')} not run" if idle else "",
    )
    return "; ".join(filter(None, parts))


def _of_vendor(rung: Rung) -> bool:
    return rung.published and rung.source == "-"  # nobody published it as a kernel


def _legend(rungs: Sequence[Rung]) -> list[str]:
    """Explain the words that stand in the rows, and no others."""
    published = any(r.published and not _of_vendor(r) for r in rungs)
    own_order = any(r.verified and r.order != "fma" for r in rungs)
    return [
        *(["Published: as its source has it, defects included; what it does is shown, not trusted."] * published),
        *(["Own order: exact, bit for bit, in the order of sums its source has, which is not the canonical one."]
          * own_order),
    ]  # fmt: skip


def _notes(rungs: Sequence[Rung], console: Console) -> None:
    """Say why a rung stopped, differs or did not run; a rung without news says nothing."""
    for rung in rungs:
        reasons = [rung.error, rung.note if not rung.verified or rung.published else "", off_multiples(rung)]
        for reason in filter(None, reasons):
            _item(Text.assemble((rung.name, "italic" if rung.published else "bold"), ": ", reason), console)


def off_multiples(rung: Rung) -> str:
    """Say what a published specimen did at a shape that is no multiple of its tile; "" where that was not tried.

    Examples
    --------
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
        # Of the error, what it is: which thread comes first, and at what address, is told by running the kernel.
        return f"{where}stopped, {seen.error.removeprefix(f'{rung.name}: ').partition(' at address')[0]}"
    elements = figures.count(seen.m * seen.n)
    if not seen.mismatches:
        return f"{where}all {elements} elements are right" + ("" if rung.order == "fma" else ", in its own order")
    return f"{where}{figures.count(seen.mismatches)} of {elements} elements are wrong"


def _claim(rungs: Sequence[Rung], console: Console) -> None:
    counted = bank_claim.tiles(rungs)
    words = bank_claim.verdict(counted)
    if not words:
        return
    console.print()
    console.print(Text("Do small tiles lose to bank conflicts (S10)?", style="bold"))
    for line in bank_claim.evidence(counted):
        _item(Text(line), console)
    _item(Text(words, style="bold"), console)


def _item(text: Text, console: Console) -> None:
    """Print one indented paragraph; where the width is a pipe's, it stays a line."""
    if console.width < PIPE_WIDTH:
        console.print(Padding(text, (0, 0, 0, 2), expand=False))
    else:
        console.print(Text("  ") + text, soft_wrap=True)

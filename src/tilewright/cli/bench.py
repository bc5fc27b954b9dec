"""`tilewright bench`: rates of kernels, of tw.matmul and of other libraries, measured or predicted."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Names, Text, option
from tilewright.cli.statuses import FOUND, INTERRUPTED
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.show.rates.plan import Asked
    from tilewright.show.rates.record import Rate, Sweep

#: The default of `--against` for measured devices.
_YARDSTICK = "numpy"


def bench(
    kernels: Annotated[Names, option("--kernels", "matmul; all on a predicted GPU")] = None,
    sizes: Annotated[Names, option("--sizes", "256,512,1024")] = None,
    blocks: Annotated[Names, option("--blocks", "all")] = None,
    results: Annotated[Names, option("--results", "all")] = None,
    dtypes: Annotated[Names, option("--dtypes", "each source's own")] = None,
    device: Annotated[Names, option("--device", "cpu; for a table a GPU")] = None,
    gpu: Annotated[Names, option("--gpu", "none is predicted")] = None,
    against: Annotated[Names, option("--against", "numpy, if measured")] = None,
    table: Annotated[Text, option("--table")] = None,
    caches: Annotated[Names, option("--caches", "warm")] = None,
    samples: Annotated[Text, option("--samples", "31")] = None,
    output: Annotated[Path | None, option("--output", "none")] = None,
    json: Annotated[bool, option("--json")] = False,
    html: Annotated[Path | None, option("--html")] = None,
    force: Annotated[bool, option("--force")] = False,
) -> None:
    """Measure or predict rates, verify every product, and compare with other libraries and the sources' figures.

    `--gpu a6000` predicts the times of a GPU that need not be here; they are labelled as predicted.
    """
    from tilewright.cli.report import write_page
    from tilewright.show.report.html import report as page

    grid = {"--kernels": kernels, "--sizes": sizes, "--blocks": blocks, "--results": results, "--dtypes": dtypes}
    asked = _asked(grid, device, gpu, against, table, caches, samples)
    _check_page(html, output, force=force)
    sweep, planned = _swept(asked, output, peers_named=against is not None)
    _show(sweep, asked, json=json)
    if len(sweep.rates) < planned:
        raise typer.Exit(_interrupted(len(sweep.rates), planned, output))
    if html is not None:
        write_page(page.of_sweep(sweep), html, force=force)
    if any(rate.wrong or rate.failed for rate in sweep.rates):
        raise typer.Exit(FOUND)


def _asked(
    grid: dict[str, Names], device: Names, gpu: Names, against: Names, table: Text, caches: Names, samples: Text
) -> Asked:
    """The sweep that the options describe.

    Raises ArgumentValueError: one is wrong, or does not go with another.
    """
    from tilewright.cli import values
    from tilewright.show.rates import plan, tables
    from tilewright.show.rates.record import CACHES

    if table is not None and (given := [name for name, words in grid.items() if words is not None]):
        raise ArgumentValueError(
            f"--table must come without {' and '.join(given)}, which the table sets; leave them out"
        )
    source = tables.table(table).source if table is not None else ""
    here = values.words("--device", device)
    if predicted := [name for name in here if plan.is_predicted(name)]:
        raise ArgumentValueError(
            f"--device must name what is measured here (got {predicted[0]}); --gpu {predicted[0]} predicts it"
        )
    devices = (*here, *values.gpus(gpu))
    if not devices:
        devices = (_table_device(),) if source else plan.Asked().devices
    measured = [name for name in devices if not plan.is_predicted(name)]
    default = (_YARDSTICK,) if measured and not source else ()
    peers = values.words("--against", against) or default
    found = values.words("--caches", caches) or CACHES[:1]
    return plan.Asked(
        kernels=values.words("--kernels", grid["--kernels"]),
        sizes=values.sizes(grid["--sizes"]),
        blocks=values.numbers("--blocks", grid["--blocks"], "8,16,32"),
        results=values.numbers("--results", grid["--results"], "8,16,32"),
        dtypes=values.dtypes(grid["--dtypes"]),
        devices=devices,
        against=() if peers == ("none",) else peers,
        caches=tuple(values.one_of("--caches", name, CACHES) for name in found),
        table=source,
        samples=plan.SAMPLES if samples is None else values.whole("--samples", samples, 1, str(plan.SAMPLES), 10_000),
    )


def _table_device() -> str:
    """A real GPU or a predicted one."""
    from tilewright.multiply.backends.cuda.backend import describe
    from tilewright.show.rates import tables

    return tables.GPU if describe()[0].missing else "cuda"


def _check_page(html: Path | None, output: Path | None, *, force: bool) -> None:
    """Refuse a page that exists or cannot be written, before the sweep starts."""
    from tilewright.cli import files

    if html is None:
        return
    files.check_output(html, force=force)
    if output is not None and html.absolute() == output.absolute():
        raise ArgumentValueError(f"--html must be another file than --output (got {html} for both); name another")


def _show(sweep: Sweep, asked: Asked, *, json: bool) -> None:
    """Print a sweep and notes on what it leaves out."""
    from tilewright.show.rates import plan
    from tilewright.show.report import console, rates as report, terminal

    left_out = plan.left_out(asked)
    if json:
        console.document("rates", report.document(sweep, left_out))
    else:
        terminal.show((*report.blocks(sweep), *report.without(left_out, sweep.rates)), console.output())


def _swept(asked: Asked, output: Path | None, *, peers_named: bool) -> tuple[Sweep, int]:
    """The sweep, complete or up to Ctrl-C, and its planned number of points."""
    from tilewright.ground.native.interrupts import DeferredSigint, until_ctrl_c
    from tilewright.show.rates import plan, store
    from tilewright.show.rates.conditions import conditions
    from tilewright.show.rates.peers import PEERS
    from tilewright.show.rates.record import Sweep
    from tilewright.show.rates.sweeping import Sweeping
    from tilewright.show.report import console

    sweeping = Sweeping(asked)
    for reason in plan.without_rows(asked if peers_named else replace(asked, against=())):
        console.note(reason)
    wanted, facts = plan.document(asked), conditions([PEERS[name].package for name in asked.against])
    found: list[Rate] = []
    with contextlib.ExitStack() as stack:
        file = None
        if output is not None:
            file = stack.enter_context(store.kept(output, wanted, facts, sweeping.whole))
            facts = dict(file.sweep.conditions)
            found += file.sweep.rates
        with until_ctrl_c():
            for rates in sweeping.rates(len(found)):
                with DeferredSigint():  # report the file's problem
                    if file is not None:
                        file.add(rates)
                    found += rates
    return Sweep(wanted, facts, tuple(found)), len(sweeping.points)


def _interrupted(known: int, planned: int, output: Path | None) -> int:
    """Report how many points are stored; return the exit status."""
    from tilewright.show.report import console

    kept = (
        f"are kept in {output}; the same command goes on" if output is not None else "were known; --output keeps them"
    )
    console.error(f"stopped by Ctrl-C; {known:,} of {planned:,} rates {kept}", title="interrupted")
    return INTERRUPTED

"""`tilewright bench`: rates of kernels, of tw.matmul and of other libraries, measured or predicted."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import completion
from tilewright.cli.options import option
from tilewright.cli.statuses import FOUND, INTERRUPTED
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.rates.plan import Asked
    from tilewright.rates.record import Rate, Sweep

_TABLES = "S8|S10|S12|S13"
#: The default of `--against` for measured devices.
_YARDSTICK = "numpy"


def bench(
    kernels: Annotated[
        list[str] | None,
        option("NAMES", "Names or source rows, with `*`, and matmul.", "matmul; all on a predicted GPU"),
    ] = None,
    sizes: Annotated[str | None, option("SIZES", "Extents of the matrices: N or MxNxK.", "256,512,1024")] = None,
    blocks: Annotated[str | None, option("EDGES", "Block edges, for kernels that have them.", "all")] = None,
    results: Annotated[str | None, option("NUMBERS", "Results per thread, for kernels that have them.", "all")] = None,
    dtypes: Annotated[str | None, option("NAMES", "Dtypes, for kernels that take them.", "each source's own")] = None,
    device: Annotated[
        str | None,
        option(
            "NAMES",
            "Names of `tilewright devices` (measured) and `tilewright gpus` (predicted).",
            "cpu; for a table a GPU",
            complete=completion.bench_devices,
        ),
    ] = None,
    against: Annotated[
        str | None,
        option("NAMES", "Other libraries to compare with: numpy, torch, jax, cupy; none.", "numpy, if measured"),
    ] = None,
    table: Annotated[str | None, option(_TABLES, "A source's table, beside its figures.")] = None,
    caches: Annotated[str | None, option("warm,cold", "State of the caches when a product starts.", "warm")] = None,
    samples: Annotated[str | None, option("N", "Samples of each time.", "31")] = None,
    output: Annotated[
        Path | None,
        option("FILE", "Store each rate at once; resume an unfinished file.", "none"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    html: Annotated[Path | None, option("PAGE", "Also write the sweep's page, as `tilewright report` does.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing page.")] = False,
) -> None:
    """Measure or predict rates, verify every product, and compare with other libraries and the sources' figures.

    Without a GPU, `--device a6000` predicts its times, which are labelled as predicted.
    """
    from tilewright.cli.report import write_page
    from tilewright.report.html import report as page

    names = ",".join(kernels) if kernels else None
    grid = {"--kernels": names, "--sizes": sizes, "--blocks": blocks, "--results": results, "--dtypes": dtypes}
    asked = _asked(grid, _words("--device", device), against, table, caches, samples)
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
    grid: dict[str, str | None],
    devices: tuple[str, ...],
    against: str | None,
    table: str | None,
    caches: str | None,
    samples: str | None,
) -> Asked:
    """The sweep that the options describe.

    Raises ArgumentValueError: one is wrong, or does not go with another.
    """
    from tilewright.cli import values
    from tilewright.rates import plan, tables
    from tilewright.rates.record import CACHES

    if table is not None and (given := [name for name, text in grid.items() if text is not None]):
        raise ArgumentValueError(
            f"--table must come without {' and '.join(given)}, which the table sets; leave them out"
        )
    source = tables.table(table).source if table is not None else ""
    devices = tuple(map(_device, devices)) or ((_table_device(),) if source else plan.Asked().devices)
    measured = [name for name in devices if not plan.is_predicted(name)]
    peers = _words("--against", against) if against is not None else (_YARDSTICK,) if measured and not source else ()
    found = _words("--caches", caches) or CACHES[:1]
    return plan.Asked(
        kernels=_words("--kernels", grid["--kernels"]),
        sizes=tuple(_extents(word) for word in _words("--sizes", grid["--sizes"])),
        blocks=_numbers("--blocks", grid["--blocks"]),
        results=_numbers("--results", grid["--results"]),
        dtypes=_words("--dtypes", grid["--dtypes"]),
        devices=devices,
        against=() if peers == ("none",) else peers,
        caches=tuple(values.one_of("--caches", name, CACHES) for name in found),
        table=source,
        samples=plan.SAMPLES if samples is None else values.whole("--samples", samples, 1, str(plan.SAMPLES), 10_000),
    )


def _device(name: str) -> str:
    """The GPU's key if the name is one of a predicted GPU, else the name."""
    from tilewright import machine
    from tilewright.backends.inventory import row_of

    if row_of(name) is None:
        with contextlib.suppress(ArgumentValueError):
            return machine.gpu(name).key
    return name


def _table_device() -> str:
    """A real GPU or a predicted one."""
    from tilewright.backends.cuda.backend import describe
    from tilewright.rates import tables

    return tables.GPU if describe()[0].missing else "cuda"


def _words(option: str, text: str | None) -> tuple[str, ...]:
    """Comma-separated words, each once."""
    found = tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))
    if text is not None and not found:
        raise ArgumentValueError(f"{option} must name at least one (got {text!r}); leave it out for the default")
    return found


def _numbers(option: str, text: str | None) -> tuple[int, ...]:
    from tilewright.cli import values

    return tuple(values.whole(option, word, 1, "8,16,32") for word in _words(option, text))


def _extents(word: str) -> tuple[int, int, int]:
    """M, n and k, from `256` or `31x33x32`."""
    from tilewright.cli import values

    if "x" in word:
        return values.extents("--sizes", word, between="x")
    edge = values.whole("--sizes", word, 1, "256,31x33x32")
    return edge, edge, edge


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
    from tilewright.rates import plan
    from tilewright.report import console, rates as report, terminal

    left_out = plan.left_out(asked)
    if json:
        console.document(report.document(sweep, left_out))
    else:
        terminal.show((*report.blocks(sweep), *report.without(left_out, sweep.rates)), console.output())


def _swept(asked: Asked, output: Path | None, *, peers_named: bool) -> tuple[Sweep, int]:
    """The sweep, complete or up to Ctrl-C, and its planned number of points."""
    from tilewright.native.interrupts import HeldBack, until_ctrl_c
    from tilewright.rates import plan, store
    from tilewright.rates.conditions import conditions
    from tilewright.rates.peers import PEERS
    from tilewright.rates.record import Sweep
    from tilewright.rates.sweeping import Sweeping
    from tilewright.report import console

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
                with HeldBack():  # report the file's problem
                    if file is not None:
                        file.add(rates)
                    found += rates
    return Sweep(wanted, facts, tuple(found)), len(sweeping.points)


def _interrupted(known: int, planned: int, output: Path | None) -> int:
    """Report how many points are stored; return the exit status."""
    from tilewright.report import console

    kept = (
        f"are kept in {output}; the same command goes on" if output is not None else "were known; --output keeps them"
    )
    console.error(f"stopped by Ctrl-C; {known:,} of {planned:,} rates {kept}", title="interrupted")
    return INTERRUPTED

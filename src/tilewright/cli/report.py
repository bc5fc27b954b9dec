"""`tilewright report`: one HTML page of a kernel and a sweep; charts as files or in the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Names, option
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.multiply.kernels.catalogue import Record
    from tilewright.observe.prediction.record import Prediction
    from tilewright.show.rates.record import Sweep
    from tilewright.show.report.charts.records import Chart
    from tilewright.show.report.html.report import Ladder, Material
    from tilewright.simulate.machine import Gpu

_KERNEL, _LADDER = "block_partitioned_16", "SGEMM"
#: Edges of the ladder's products: what is counted, and what is predicted.
_COUNTED, _PREDICTED = 128, 1024
_NONE = "none"


def report(
    sweep: Annotated[
        Path | None, typer.Argument(metavar="[SWEEP]", help="A file of `tilewright bench --output`.")
    ] = None,
    output: Annotated[Path | None, option("--output")] = None,
    charts: Annotated[Path | None, option("--charts")] = None,
    kernels: Annotated[Names, option("--kernels", f"{_KERNEL}; none for none")] = None,
    sizes: Annotated[Names, option("--sizes", "three by three blocks of C")] = None,
    dtypes: Annotated[Names, option("--dtypes", "its own")] = None,
    gpu: Annotated[Names, option("--gpu", "h100")] = None,
    ladder: Annotated[Names, option("--ladder", _LADDER)] = None,
    force: Annotated[bool, option("--force")] = False,
) -> None:
    """Write one HTML page that needs no network: blocks, lanes, ladder, rates, occupancy, findings.

    With a sweep but neither --output nor --charts, print the sweep's charts.
    """
    from tilewright.show.rates import store

    rates = None if sweep is None else store.read(sweep)
    if output is None and charts is None:
        _print(rates)
        return
    from tilewright.cli import values
    from tilewright.show.report.html import report as page

    kernel = values.one("--kernels", kernels) or _KERNEL
    rungs = values.words("--ladder", ladder) or (_LADDER,)
    _check(output, charts, force=force)
    if kernel == _NONE:
        text, drawn = _of_sweep(rates)
    else:
        material = _gathered(kernel, sizes, values.only_dtype(dtypes), values.gpu(gpu), rungs, rates)
        text, drawn = page.text(material), page.charts(material)
    if output is not None:
        write_page(text, output, force=force)
    if charts is not None:
        _write_charts(drawn, charts, force=force)


def _print(sweep: Sweep | None) -> None:
    """Draw a sweep's charts in the terminal.

    Raises ArgumentValueError: there is no sweep, or nothing in it that a chart shows.
    """
    from tilewright.show.report import console, terminal
    from tilewright.show.report.blocks import Gap
    from tilewright.show.report.charts import rates
    from tilewright.show.report.charts.terminal import blocks

    if sweep is None:
        raise ArgumentValueError("a report must go somewhere (got neither a sweep nor -o); give -o page.html")
    found = rates.charts(sweep)
    if not found:
        raise ArgumentValueError("a sweep must have rates of square matrices to be drawn (got none); see its table")
    for number, chart in enumerate(found):
        terminal.show([*([Gap()] if number else []), *blocks(chart)], console.output())


def _of_sweep(sweep: Sweep | None) -> tuple[str, Sequence[Chart]]:
    """The page and the charts of a sweep without a kernel.

    Raises ArgumentValueError: there is none.
    """
    from tilewright.show.report.charts import rates
    from tilewright.show.report.html import report as page

    if sweep is None:
        raise ArgumentValueError("--kernels none must come with a sweep (got none); name its file")
    return page.of_sweep(sweep), rates.charts(sweep)


def _check(output: Path | None, charts: Path | None, *, force: bool) -> None:
    """Refuse outputs that exist or cannot be made, before any work."""
    from tilewright.cli import files

    if output is not None:
        files.check_output(output, force=force)
    if charts is None:
        return
    if charts.exists() and not charts.is_dir():
        raise ArgumentValueError(f"{charts}: --charts must name a folder (got a file); name another")
    if charts.is_dir() and any(charts.iterdir()) and not force:
        raise ArgumentValueError(
            f"{charts}: --charts must name a new or empty folder (got one with files in it); --force writes into it"
        )
    if not charts.absolute().parent.is_dir():
        raise ArgumentValueError(f"{charts}: --charts must name a folder in one that exists; make that first")


# -- what the page is made of -------------------------------------------------------------------------------------


def _gathered(
    kernel: str, sizes: Names, dtype: str | None, gpu: str | None, ladder: Sequence[str], sweep: Sweep | None
) -> Material:
    """Run, check, predict and climb."""
    from tilewright.cli import values
    from tilewright.ground.progress import announced
    from tilewright.multiply.kernels import catalogue
    from tilewright.observe.checking import check
    from tilewright.observe.prediction.launches import judged
    from tilewright.observe.profiling import watching
    from tilewright.show.ladder import operands, select
    from tilewright.show.report.html.report import Material
    from tilewright.simulate import machine

    record = catalogue.find(kernel)
    target = machine.chosen(gpu)
    rungs = [] if ladder == (_NONE,) else select(catalogue.records(), ladder, "ladder")
    m, n, k = values.only_size(sizes, watching.usual_extents(record))
    with announced("running", record.name):
        seen = watching.watch(record, m, n, k, dtype or record.dtypes[0], target)
    a, b = operands(m, n, k, seen.dtype)
    rule = record.launch_rule(m, n, k)
    program = record.program(seen.dtype, target.compute_capability)
    with announced("checking", record.name):
        found = check(
            program,
            rule.grid,
            rule.block,
            record.arguments(a, b, record.blank(m, n, seen.dtype)),
            shared_bytes=rule.shared_bytes,
            gpu=target.key,
        )
    time = _predicted(record, (m, n, k), seen.dtype, target)
    seen = replace(seen, kept=replace(seen.kept, profile=judged(seen.kept.profile, time)))
    return Material(target, seen, found, time, _climbed(rungs, target), sweep)


def _predicted(record: Record, extents: tuple[int, int, int], dtype: str, gpu: Gpu) -> Prediction | None:
    """The predicted time; if there is none, a note on the page says why."""
    from tilewright.errors import TilewrightError
    from tilewright.observe.prediction import products
    from tilewright.show.report import console

    try:
        return products.predict_product(record, products.Product(*extents, dtype), gpu)
    except TilewrightError as error:
        console.note(f"the page has no predicted time of {record.name}: {error}")
        return None


def _climbed(records: Sequence[Record], gpu: Gpu) -> Ladder | None:
    """Counts at one size, and predicted times at a larger one, of the ladder's GPU kernels."""
    from tilewright.ground.progress import announced
    from tilewright.show.ladder import climb_dtypes, operands
    from tilewright.show.report.html.report import Ladder

    chosen = [record for record in records if record.backend == "gpu"]
    if not chosen:
        return None
    dtypes = dict.fromkeys(record.dtypes[0] for record in chosen)
    pairs = {dtype: operands(_COUNTED, _COUNTED, _COUNTED, dtype) for dtype in dtypes}
    climb = climb_dtypes(pairs, records=chosen, gpu=gpu.key)
    times: dict[str, Prediction] = {}
    with announced("predicting", "", len(chosen), "kernels", lambda: len(times)):
        for record in chosen:
            time = _predicted(record, (_PREDICTED,) * 3, record.dtypes[0], gpu)
            if time is not None:
                times[record.name] = time
    return Ladder(climb, _PREDICTED, times)


# -- files --------------------------------------------------------------------------------------------------------


def write_page(text: str, path: Path, *, force: bool) -> None:
    """Write a page, completely or not at all.

    Raises ArgumentValueError: it is too large.
    """
    from tilewright.cli import files
    from tilewright.show.report.html import page

    size = len(text.encode())
    if size > page.MOST_BYTES:
        raise ArgumentValueError(
            f"{path}: a page must have at most {page.MOST_BYTES:,} bytes (got {size:,}); show a smaller product, or a "
            "sweep of fewer kernels"
        )
    files.write_text(path, text, force=force)


def _write_charts(charts: Sequence[Chart], folder: Path, *, force: bool) -> None:
    """Each chart as SVG and PNG, named by its number and title; all are drawn before the first is written."""
    from tilewright.cli import files
    from tilewright.show.report.charts import png, svg

    drawn: dict[str, bytes] = {}
    for number, chart in enumerate(charts, 1):
        name = f"{number:02}-{re.sub(r'[^a-z0-9]+', '-', chart.title.lower()).strip('-')}"
        drawn |= {f"{name}.svg": svg.text(chart).encode(), f"{name}.png": png.image(chart)}
    folder.mkdir(exist_ok=True)
    for name, data in drawn.items():
        files.write_bytes(folder / name, data, force=force)

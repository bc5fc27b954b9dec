"""`tilewright predict`: how long a program's launches, or kernels of the catalogue, take on a GPU."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import program
from tilewright.cli.options import Names, Text, option
from tilewright.cli.usage import in_flags
from tilewright.errors import ArgumentValueError, CompileError, KernelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.cli.values import Extents
    from tilewright.multiply.kernels.catalogue import Record
    from tilewright.show.report.prediction import Predicted
    from tilewright.simulate.machine import Gpu

_SIZE = 1024


@program.takes_a_program("seed", on_each_gpu=True)
def predict(
    ctx: typer.Context,
    given: program.Given,
    kernels: Annotated[Names, option("--kernels", "all")] = None,
    sizes: Annotated[Names, option("--sizes", str(_SIZE))] = None,
    dtypes: Annotated[Names, option("--dtypes", "each source's own")] = None,
    clock: Annotated[Text, option("--clock", "its boost clock")] = None,
    all_blocks: Annotated[bool, option("--all-blocks")] = False,
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Predict times from machine code, counts and a model of a multiprocessor; nothing is measured.

    With a program, predict each of its launches; without one, kernels of the catalogue. The documentation of
    predictions lists what the model leaves out, and its errors against published times.
    """
    from tilewright.cli import values

    names = values.words("--kernels", kernels)
    if given.named:
        _check_left_out((("--sizes", sizes), ("--dtypes", dtypes)), "a product of the catalogue", "a program is given")
        raise typer.Exit(_of_program(ctx, given.chosen(), names, clock, all_blocks=all_blocks, json=json))
    _check_left_out((("--limit", given.limit), ("--all-blocks", all_blocks)), "a program", "none is given")
    products = itertools.product(values.sizes(sizes, (_SIZE,) * 3), values.dtypes(dtypes) or ("",))
    _of_catalogue(names, tuple(products), values.gpus(given.gpu), clock, json=json)


def _check_left_out(options: Sequence[tuple[str, object]], kind: str, got: str) -> None:
    """Refuse options that a program, or the catalogue, does not take."""
    for name, value in options:
        if value is not None and value is not False:
            raise ArgumentValueError(f"{name} must come with {kind} (got it, and {got}); leave one out")


def _of_program(
    ctx: typer.Context, what: program.Chosen, kernels: tuple[str, ...], clock: Text, *, all_blocks: bool, json: bool
) -> int:
    """Run a program, show the time of each launch, and return its status."""
    from tilewright.cli import values
    from tilewright.observe.prediction.launches import REFUSED
    from tilewright.observe.prediction.programs import Predictions
    from tilewright.observe.prediction.sampling import CAREFUL
    from tilewright.show.report import console, prediction as report, terminal
    from tilewright.simulate import machine

    mhz = None if clock is None else values.whole("--clock", clock, 1, str(machine.gpu(what.gpu).boost_mhz))
    sample = None if all_blocks else CAREFUL
    seen = Predictions(gpu=what.gpu, kernel=kernels or None, clock_mhz=mhz, once=True, sample=sample)
    ended = program.followed(ctx, what, seen, quiet=json)
    found, failed = [], list(seen.failed)
    for one in seen.counted:
        try:
            found.append(seen.predicted(one))
        except REFUSED as refused:
            failed.append((one.launch.name, str(refused).splitlines()[0]))
    for name, error in failed:
        console.error(f"{name}: its launch has no prediction: {error}")
    library = list(seen.library())
    for unknown in (one for one in library if one.time is None):
        console.note(f"{unknown.call.name} has no prediction: {unknown.refused}")
    if not found and not failed and not library:
        if ended.error is None:
            program.check_kernels(kernels, seen.kernels)
        console.note("nothing to predict: the program launched no kernel")
    if json:
        console.document("predictions", report.program_document(found, library, failed, ended))
    elif found or library:
        said = [replace(one, notes=tuple(in_flags(note, ["--all-blocks"]) for note in one.notes)) for one in found]
        terminal.show(report.of_program(said, library), console.output())
    return ended.status


def _of_catalogue(
    names: Sequence[str], wanted: Sequence[tuple[Extents, str]], gpus: Sequence[str], clock: Text, *, json: bool
) -> None:
    """Show the times of kernels on each GPU, of each product."""
    from tilewright.show.report import console, prediction as report, terminal
    from tilewright.show.report.blocks import Gap
    from tilewright.simulate import machine

    chosen = _records(names)
    rows: list[Predicted] = []
    for target in map(machine.chosen, gpus or (None,)):
        for extents, dtype in wanted:
            alone = len(chosen) == 1
            found = list(_predicted(chosen, extents, dtype, target, clock, changes=json or alone, told=bool(names)))
            if not found:
                raise ArgumentValueError(
                    f"a product must be one that a kernel takes (got {'x'.join(map(str, extents))} in "
                    f"{dtype or 'their dtypes'}); see `tilewright kernels`"
                )
            if not json:
                shown = report.blocks(found[0].time) if len(found) == 1 else report.products(found, target)
                terminal.show((*[Gap()] * bool(rows), *shown), console.output())
            rows += found
    if json:
        console.document("catalogue_predictions", {"predictions": [report.product_document(one) for one in rows]})


def _predicted(
    chosen: Sequence[Record], extents: Extents, dtype: str, gpu: Gpu, clock: Text, *, changes: bool, told: bool
) -> Iterator[Predicted]:
    """Kernels' times; notes say which kernel has none, and if the kernels were named, which takes no such product."""
    from tilewright.cli import values
    from tilewright.observe.prediction import products
    from tilewright.show.report import console, prediction as report

    mhz = None if clock is None else values.whole("--clock", clock, 1, str(gpu.boost_mhz))
    for record in chosen:
        product = products.Product(*extents, dtype or record.dtypes[0])
        if refused := record.accepts(*extents, product.dtype):
            if told:
                console.note(f"{record.name}: {refused}")
            continue
        try:
            time = products.predict_product(record, product, gpu, mhz, changes=changes)
        except (ArgumentValueError, CompileError, KernelError) as error:  # a specimen's limits, or an unknown rate
            if len(chosen) == 1:
                raise
            console.note(f"{record.name} has no prediction: {str(error).splitlines()[0]}")
            continue
        yield report.Predicted(record.name, product, time)


def _records(names: Sequence[str]) -> Sequence[Record]:
    from tilewright.multiply.kernels import catalogue
    from tilewright.show.ladder import select

    chosen = select(catalogue.records(), names) if names else catalogue.records()
    found = [record for record in chosen if record.backend == "gpu"]
    if not found:
        raise ArgumentValueError(f"--kernels must name kernels that GPUs run (got {', '.join(names)})")
    return found

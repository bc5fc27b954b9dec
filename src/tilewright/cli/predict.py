"""`tilewright predict`: how long a program's launches, or kernels of the catalogue, take on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import program
from tilewright.cli.options import option
from tilewright.errors import ArgumentValueError, KernelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.kernels.catalogue import Record

_SIZE = 1024


@program.takes_a_program("seed")
def predict(
    ctx: typer.Context,
    given: program.Given,
    size: Annotated[str | None, option("N", "Square matrices, N by N.", str(_SIZE))] = None,
    shape: Annotated[str | None, option("M,N,K", "c is M by N, a is M by K, b is K by N.")] = None,
    dtype: Annotated[str | None, option("DTYPE", "One dtype for all.", "each source's own")] = None,
    kernels: Annotated[
        list[str] | None,
        option("NAMES", "Kernels of the catalogue; may be repeated: s9*,S6."),
    ] = None,
    clock: Annotated[str | None, option("MHZ", "Sustained clock of the GPU.", "its boost clock")] = None,
    kernel: Annotated[str | None, option("NAME", "Only this kernel of the program.")] = None,
    all_blocks: Annotated[
        bool, typer.Option("--all-blocks", help="Count all blocks of a program's large launches, not a sample.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Predict times from machine code, counts and a model of a multiprocessor; nothing is measured.

    With a program, predict each of its launches; without one, kernels of the catalogue. The documentation of
    predictions lists what the model leaves out, and its errors against published times.
    """
    options = {"--size": size, "--shape": shape, "--dtype": dtype, "--kernels": kernels}
    if given.named:
        if wrong := [name for name, value in options.items() if value is not None]:
            raise ArgumentValueError(
                f"{wrong[0]} is for the catalogue, but a program is given; leave one out, or write the program's own "
                "options after it"
            )
        raise typer.Exit(_of_program(ctx, given.chosen(), kernel, clock, all_blocks=all_blocks, json=json))
    of_program = (("--kernel", kernel is not None), ("--limit", given.limit is not None), ("--all-blocks", all_blocks))
    if wrong := [name for name, is_given in of_program if is_given]:
        raise ArgumentValueError(f"{wrong[0]} is for a program, but none is given; name one, or use --kernels")
    _of_catalogue(_extents(size, shape), dtype, kernels, given.gpu, clock, json=json)


def _of_program(
    ctx: typer.Context, what: program.Chosen, kernel: str | None, clock: str | None, *, all_blocks: bool, json: bool
) -> int:
    """Run a program, show the time of each launch, and return its status."""
    from tilewright import machine
    from tilewright.cli import values
    from tilewright.drivers.following import follow
    from tilewright.prediction.launches import REFUSED
    from tilewright.prediction.programs import Predictions
    from tilewright.prediction.sampling import CAREFUL
    from tilewright.report import console, prediction as report, terminal

    mhz = None if clock is None else values.whole("--clock", clock, 1, str(machine.gpu(what.gpu).boost_mhz))
    seen = Predictions(gpu=what.gpu, kernel=kernel, clock_mhz=mhz, once=True, sample=None if all_blocks else CAREFUL)
    ended = follow(what.program, what.argv, seen, what.gpu, limits=what.limits, quiet=json)
    ended.report()
    program.point_out_options(ctx, what, ended)
    found, failed = [], list(seen.failed)
    for one in seen.counted:
        try:
            found.append(seen.predicted(one))
        except REFUSED as refused:
            failed.append((one.launch.name, str(refused).splitlines()[0]))
    for name, error in failed:
        console.error(f"{name}: its launch has no prediction: {error}")
    if not found and not failed:
        if kernel is not None and ended.error is None:
            launched = ", ".join(seen.kernels) or "none"
            raise ArgumentValueError(
                f"--kernel must name a kernel that SCRIPT launches (got {kernel!r}); it launches {launched}"
            )
        console.note("nothing to predict: the program launched no kernel")
    if json:
        console.document(report.program_document(found, failed, ended))
    elif found:
        terminal.show(report.of_program(found), console.output())
    return ended.status


def _of_catalogue(
    extents: tuple[int, int, int], dtype: str | None, kernels: Sequence[str] | None, gpu: str | None, clock: str | None,
    *, json: bool,
) -> None:  # fmt: skip
    from tilewright import machine
    from tilewright.cli import values
    from tilewright.prediction import products
    from tilewright.report import console, prediction as report, terminal

    target = machine.chosen(None if gpu is None else values.gpu_name("--gpu", gpu))
    mhz = None if clock is None else values.whole("--clock", clock, 1, str(target.boost_mhz))
    found, chosen = [], _records(kernels)
    changes = json or len(chosen) == 1  # a table has no room for them
    for record in chosen:
        product = products.Product(*extents, dtype or record.dtypes[0])
        refused = record.accepts(*extents, product.dtype)
        if refused and kernels:
            console.note(f"{record.name}: {refused}")
        if refused is None:
            try:
                time = products.predict_product(record, product, target, mhz, changes=changes)
            except (ArgumentValueError, KernelError) as error:  # a specimen's limits; go on with the other kernels
                if len(chosen) == 1:
                    raise
                console.note(f"{record.name} has no prediction: {str(error).splitlines()[0]}")
                continue
            found.append(report.Predicted(record.name, product, time))
    if not found:
        raise ArgumentValueError(f"no kernel takes {extents} in {dtype or 'its dtype'}; see `tilewright kernels`")
    if json:
        console.document({"gpu": target.key, "predictions": [report.product_document(one) for one in found]})
    elif len(found) == 1:
        terminal.show(report.blocks(found[0].time), console.output())
    else:
        terminal.show(report.products(found, target), console.output())


def _extents(size: str | None, shape: str | None) -> tuple[int, int, int]:
    """M, n and k."""
    from tilewright.cli import values

    if size is not None and shape is not None:
        raise ArgumentValueError("--size and --shape exclude each other (got both); keep one")
    if shape is not None:
        return values.extents("--shape", shape)
    edge = _SIZE if size is None else values.whole("--size", size, 1, str(_SIZE))
    return edge, edge, edge


def _records(names: Sequence[str] | None) -> Sequence[Record]:
    from tilewright.kernels import catalogue
    from tilewright.ladder import select

    wanted = [name.strip() for name in ",".join(names or ()).split(",") if name.strip()]
    chosen = select(catalogue.records(), wanted) if wanted else catalogue.records()
    found = [record for record in chosen if record.backend == "gpu"]
    if not found:
        raise ArgumentValueError(f"--kernels must name kernels that GPUs run (got {', '.join(wanted)})")
    return found

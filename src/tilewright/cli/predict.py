"""`tilewright predict`: how long kernels of the catalogue take on a GPU that need not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import completion
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.kernels.catalogue import Record

_SIZE = 1024


def predict(
    size: Annotated[
        str | None, typer.Option(metavar="N", help="Square matrices, N by N.", show_default=str(_SIZE))
    ] = None,
    shape: Annotated[str | None, typer.Option(metavar="M,N,K", help="c is M by N, a is M by K, b is K by N.")] = None,
    dtype: Annotated[
        str | None, typer.Option(metavar="DTYPE", help="One dtype for all.", show_default="each source's own")
    ] = None,
    kernels: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Names or source rows, comma-separated, once or more; `*` works: s9*,S6."),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The GPU.", show_default="h100", autocompletion=completion.gpus),
    ] = None,
    clock: Annotated[
        str | None, typer.Option(metavar="MHZ", help="Clock that it sustains.", show_default="its boost clock")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Predict times from machine code, counts and a model of a multiprocessor; nothing is measured.

    What the model leaves out, and how far published times are from it, is on the page of predictions.
    """
    from tilewright import machine
    from tilewright.cli import values
    from tilewright.prediction import products
    from tilewright.report import console, prediction as report, terminal

    extents = _extents(size, shape)
    target = machine.chosen(None if gpu is None else values.gpu_name("--gpu", gpu))
    mhz = None if clock is None else values.whole("--clock", clock, 1, str(target.boost_mhz))
    found = []
    for record in _records(kernels):
        product = products.Product(*extents, dtype or record.dtypes[0])
        refused = record.accepts(*extents, product.dtype)
        if refused and kernels:
            console.note(f"{record.name}: {refused}")
        if refused is None:
            found.append(report.Predicted(record.name, product, products.predict(record, product, target, mhz)))
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

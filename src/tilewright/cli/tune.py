"""`tilewright tune`: time the best-ranked kernels of a product, and use the fastest for later products."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli import completion
from tilewright.cli.matmul import Algebra
from tilewright.cli.options import option
from tilewright.cli.statuses import DEFECT, INTERRUPTED
from tilewright.errors import ArgumentValueError

_SIZE = 1024


def tune(
    size: Annotated[str | None, option("N", "Square matrices, N by N.", str(_SIZE))] = None,
    shape: Annotated[list[str] | None, option("M,N,K", "c is M by N, a is M by K, b is K by N; once or more.")] = None,
    dtype: Annotated[str, option("DTYPE", "Dtype of both operands.")] = "float32",
    order: Annotated[
        str, option("ORDER", "Order of sums: canonical, tf32x3 or fast.", complete=completion.orders)
    ] = "canonical",
    algebra: Algebra = None,
    device: Annotated[
        str, option("NAME", "cpu, opencl, cuda, or a simulated GPU: simulated:h100.", complete=completion.devices)
    ] = "simulated",
    kernels: Annotated[str | None, option("COUNT", "Number of best-ranked kernels.", "5")] = None,
    again: Annotated[bool, typer.Option("--again", help="Time kernels again that already have a time.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Time the best-ranked kernels of a product; tw.matmul uses the fastest from then on.

    For a simulated GPU the times are predicted, which takes about ten seconds per kernel. Each time is stored at once;
    after Ctrl-C the same command resumes. On other devices the kernels are measured in turns: GPUs have several
    kernels, OpenCL devices several tiles, the CPU several block sizes. The exit status is 4 if no kernel has a time or
    the times could not be stored.
    """
    from tilewright.cli import values
    from tilewright.engine.promotion import ORDERS, as_dtype
    from tilewright.rates import tuner
    from tilewright.report import console, terminal, tuning as report

    if size is not None and shape:
        raise ArgumentValueError("--size and --shape exclude each other (got both); keep one")
    edge = _SIZE if size is None else values.whole("--size", size, 1, str(_SIZE))
    extents = [values.extents("--shape", text) for text in shape or ()] or [(edge, edge, edge)]
    few = tuner.FEW if kernels is None else values.whole("--kernels", kernels, 1, str(tuner.FEW), 1000)
    order, name = values.one_of("--order", order, ORDERS), as_dtype(dtype, "--dtype")
    found = []
    try:
        for each in extents:
            found.append(tuner.tune(device, each, name, order, few, algebra=algebra or "plus-times", again=again))
            if not json:
                terminal.show(report.blocks(found[-1]), console.output())
    except KeyboardInterrupt:
        console.note("stopped by Ctrl-C; the times that were found are kept, and the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    if json:
        console.document({"products": [report.document(one) for one in found]})
    if unkept := next((one.unkept for one in found if one.unkept), ""):
        console.error(f"times could not be kept ({unkept}); free room, or ask for access, and tune again")
        raise typer.Exit(DEFECT)
    if any(one.best is None for one in found):
        raise typer.Exit(DEFECT)

"""`tilewright tune`: time the best-ranked kernels of a product, and use the fastest for later products."""

from __future__ import annotations

import itertools
from typing import Annotated

import typer

from tilewright.cli.options import Names, Text, option
from tilewright.cli.statuses import DEFECT, INTERRUPTED

_SIZE = 1024


def tune(
    sizes: Annotated[Names, option("--sizes", str(_SIZE))] = None,
    dtypes: Annotated[Names, option("--dtypes", "float32")] = None,
    order: Annotated[str, option("--order")] = "canonical",
    algebra: Annotated[str, option("--algebra")] = "plus-times",
    device: Annotated[Names, option("--device", "simulated")] = None,
    candidates: Annotated[Text, option("--candidates", "5")] = None,
    again: Annotated[bool, option("--again")] = False,
    accept_noise: Annotated[bool, option("--accept-noise")] = False,
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Time the best-ranked kernels of a product; tw.matmul uses the fastest from then on.

    For a simulated GPU the times are predicted, which takes about ten seconds per kernel. Each time is stored at once;
    after Ctrl-C the same command resumes. On other devices the kernels are measured in turns: GPUs have several
    kernels, OpenCL devices several tiles, the CPU several block sizes. A time is not stored if its quartiles are more
    than 10 % of it apart. The exit status is 4 if no time could be stored.
    """
    from tilewright.cli import values
    from tilewright.multiply.engine.promotion import ORDERS, as_dtype
    from tilewright.show.rates import tuner
    from tilewright.show.report import console, terminal, tuning as report

    where = values.words("--device", device) or ("simulated",)
    few = tuner.FEW if candidates is None else values.whole("--candidates", candidates, 1, str(tuner.FEW), 1000)
    order = values.one_of("--order", order, ORDERS)
    names = [as_dtype(name, "dtype") for name in values.dtypes(dtypes) or ("float32",)]
    wanted = list(itertools.product(where, values.sizes(sizes, (_SIZE,) * 3), names))
    found = []
    try:
        for name, extents, dtype in wanted:
            found.append(
                tuner.tune(name, extents, dtype, order, few, algebra=algebra, again=again, accept_noise=accept_noise)
            )
            if not json:
                terminal.show(report.blocks(found[-1]), console.output())
    except KeyboardInterrupt:
        console.note("stopped by Ctrl-C; the times that were found are kept, and the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    if json:
        console.document("tuning", {"products": [report.document(one) for one in found]})
    if unkept := next((one.unkept for one in found if one.unkept), ""):
        console.error(f"times could not be kept ({unkept}); free room, or ask for access, and tune again")
        raise typer.Exit(DEFECT)
    if any(one.best is None for one in found):
        raise typer.Exit(DEFECT)

"""`tilewright matmul`: multiply two files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.backends.inventory import spellings
from tilewright.cli import completion
from tilewright.errors import ArgumentValueError

Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        help="Of the product: int32 sums int8 exactly, which wraps otherwise.",
        show_default="the operands' common one",
    ),
]


def matmul(
    a: Annotated[Path, typer.Argument(metavar="A.npy", help="Left operand, of shape (m, k).")],
    b: Annotated[Path, typer.Argument(metavar="B.npy", help="Right operand, of shape (k, n).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="C.npy", help="Where the product goes.")],
    kernel: Annotated[
        str | None,
        typer.Option(
            help="Record of the catalogue, for real matrices of one dtype.",
            show_default="matmul",
            autocompletion=completion.kernels,
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(help="GPU to simulate.", show_default="h100", autocompletion=completion.gpus),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="|".join(spellings()), help="Where matmul multiplies.", show_default="cpu"),
    ] = None,
    dtype: Dtype = None,
    force: Annotated[bool, typer.Option("--force", help="Replace C.npy if it exists.")] = False,
) -> None:
    """Multiply two .npy files in the canonical order; the result appears whole or not at all.

    Any shapes and dtypes that tilewright.matmul takes.
    """
    import numpy as np

    from tilewright.cli import files, values
    from tilewright.engine import matmul as engine
    from tilewright.kernels import catalogue
    from tilewright.ladder import choose, multiply
    from tilewright.report import console

    for option, given in (("--device", device), ("--dtype", dtype)):
        if kernel is not None and given is not None:
            raise ArgumentValueError(
                f"{option} must be left out with --kernel, which has one of its own (got {given!r} and {kernel!r})"
            )
    simulated = None if gpu is None else values.gpu_name("--gpu", gpu)
    if device == "simulated" and simulated is not None:
        device = f"{device}:{simulated}"
    files.check_output(output, force=force)
    left, right = files.read(a), files.read(b)
    if kernel is None:
        c = np.asarray(engine.matmul(left, right, dtype=dtype, device=device))
    else:
        c = multiply(choose(catalogue.records(), kernel), left, right, gpu=simulated)
    files.write(output, c, force=force)
    shape = " x ".join(map(str, c.shape)) or "one"
    where = f" on {device}" if device else ""
    console.plain(f"{output}: {shape} {c.dtype}, by {kernel or 'matmul'}{where}")

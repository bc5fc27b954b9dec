"""`tilewright matmul`: multiply two files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def matmul(
    a: Annotated[Path, typer.Argument(metavar="A.npy", help="Left operand, of shape (m, k).")],
    b: Annotated[Path, typer.Argument(metavar="B.npy", help="Right operand, of shape (k, n).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="C.npy", help="Where the product goes.")],
    kernel: Annotated[
        str | None, typer.Option(help="Record of the catalogue; by default the highest CPU one that fits.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="GPU to simulate, for GPU kernels.", show_default="h100")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace C.npy if it exists.")] = False,
) -> None:
    """Multiply two .npy files in the canonical order; the result appears whole or not at all."""
    from tilewright import catalogue
    from tilewright.cli import files
    from tilewright.ladder import choose, multiply
    from tilewright.report import console

    files.check_output(output, force=force)
    left, right = files.read(a), files.read(b)
    with console.progress("multiplying"):
        record = choose(catalogue.records(), left, right, kernel)
        c = multiply(record, left, right, gpu=gpu)
    files.write(output, c, force=force)
    m, n = c.shape
    console.plain(f"{output}: {m} x {n} {c.dtype}, by {record.name}")

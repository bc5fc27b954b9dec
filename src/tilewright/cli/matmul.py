"""`tilewright matmul`: multiply two arrays on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from tilewright.backends.inventory import spellings
from tilewright.cli import completion

Dtype = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        help="Of the product: int32 sums int8 exactly, which wraps otherwise.",
        show_default="the operands' common one",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Most that this process may take, such as 2GB: the product goes by tiles of C, and goes on where it "
        "was interrupted.",
        show_default="what the product takes whole, where half of what is free has room for it; else that half",
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Let the workers of a Dask cluster multiply, whose scheduler has this address, such as "
        "tcp://host:8786: all of them must see A, B and C by the same paths. --memory is then each worker's.",
        show_default=False,
    ),
]


def matmul(
    a: Annotated[Path, typer.Argument(metavar="A", help="Left operand, of shape (m, k): .npy, .zarr or .h5:/name.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Right operand, of shape (k, n).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="C", help="Where the product goes.")],
    memory: Memory = None,
    dask: Dask = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print how the product would be done, and do nothing.")] = False,
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
    force: Annotated[bool, typer.Option("--force", help="Replace C if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: the plan, and what it took.")] = False,
) -> None:
    """Multiply two arrays on disk in the canonical order; the result appears whole or not at all.

    Any shapes and dtypes that tilewright.matmul takes.
    """
    from tilewright.cli import values
    from tilewright.errors import ArgumentValueError

    options = {"--device": device, "--dtype": dtype, "--memory": memory, "--plan": plan or None, "--dask": dask}
    for option, given in options.items():
        if kernel is not None and given is not None:
            raise ArgumentValueError(
                f"{option} must be left out with --kernel, which has one of its own (got {given!r} and {kernel!r})"
            )
    simulated = None if gpu is None else values.gpu_name("--gpu", gpu)
    if device == "simulated" and simulated is not None:
        device = f"{device}:{simulated}"
    if kernel is None and (memory or plan or json or dask or not _fit((a, b, output))):
        _by_blocks(a, b, output, memory, dask, dtype=dtype, device=device, force=force, json=json, only_plan=plan)
    else:
        _at_once(a, b, output, kernel, simulated, device=device, dtype=dtype, force=force)


def _fit(paths: Sequence[Path]) -> bool:
    """Whether all are NumPy's files, of which the operands take less than a quarter of what is free."""
    from tilewright.blocks.stores import Place
    from tilewright.machine import host_memory

    if any(Place.has_other_format(path) for path in paths):
        return False
    room = host_memory.available_bytes()
    return room is None or sum(path.stat().st_size for path in paths[:2] if path.is_file()) < room / 4


def _at_once(
    a: Path, b: Path, output: Path, kernel: str | None, gpu: str | None, *, device: str | None, dtype: str | None,
    force: bool,
) -> None:  # fmt: skip
    """Read both, multiply, write."""
    import numpy as np

    from tilewright.cli import files
    from tilewright.engine import matmul as engine
    from tilewright.kernels import catalogue
    from tilewright.ladder import choose, multiply
    from tilewright.report import console

    files.check_output(output, force=force)
    left, right = files.read(a), files.read(b)
    if kernel is None:
        c = np.asarray(engine.matmul(left, right, dtype=dtype, device=device))
    else:
        c = multiply(choose(catalogue.records(), kernel), left, right, gpu=gpu)
    files.write(output, c, force=force)
    shape = " x ".join(map(str, c.shape)) or "one"
    where = f" on {device}" if device else ""
    console.plain(f"{output}: {shape} {c.dtype}, by {kernel or 'matmul'}{where}")


def _by_blocks(
    a: Path, b: Path, output: Path, memory: str | None, dask: str | None, *, dtype: str | None, device: str | None,
    force: bool, json: bool, only_plan: bool,
) -> None:  # fmt: skip
    """Tile by tile, within the memory allowed."""
    from tilewright.blocks.cluster import connected
    from tilewright.engine import outside
    from tilewright.engine.request import Request
    from tilewright.report import console, on_disk

    asked = Request(dtype=dtype, device=device)
    with (
        nullcontext() if dask is None else connected(dask) as client,
        outside.planned(str(a), str(b), str(output), asked, memory, force=force, client=client) as product,
    ):
        if not json and product.plan is not None:
            console.plain(str(product.plan))
            if product.cluster is not None:
                console.plain(f"workers  {len(product.cluster.workers):,}; the time is that of one alone")
        began, seconds = time.perf_counter(), None
        if not only_plan:
            product.run()
            seconds = time.perf_counter() - began
        if json:
            console.document(on_disk.document(product.plan, seconds))
        elif seconds is not None:
            what = f"{' x '.join(map(str, product.shape)) or 'one'} {product.partial.out}"
            console.plain(on_disk.outcome(str(output), what, product.plan, seconds, product.kept))

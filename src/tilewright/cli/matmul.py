"""`tilewright matmul`: multiply two arrays on disk."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Names, Text, option
from tilewright.cli.statuses import INTERRUPTED
from tilewright.errors import ArgumentValueError
from tilewright.multiply.blocks.stores import has_other_format, place_of

if TYPE_CHECKING:
    from tilewright.multiply.engine.outside import Product
    from tilewright.multiply.engine.request import Request


def matmul(
    a: Annotated[Path, typer.Argument(metavar="A", help="Left operand, of shape (m, k): .npy, .zarr or .h5:/name.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Right operand, of shape (k, n).")],
    output: Annotated[Path, option("--output")],
    kernels: Annotated[Names, option("--kernels", "matmul")] = None,
    gpu: Annotated[Names, option("--gpu", "h100")] = None,
    device: Annotated[Names, option("--device", "cpu")] = None,
    dtype: Annotated[Text, option("--dtype", "the operands' common one")] = None,
    acc_dtype: Annotated[Text, option("--acc-dtype", "the product's, wider for narrow floats")] = None,
    algebra: Annotated[Text, option("--algebra", "plus-times")] = None,
    threads: Annotated[Text, option("--threads", "all that this process may use")] = None,
    memory: Annotated[Text, option("--memory", "half of the free memory; less if the product needs less")] = None,
    dask: Annotated[Text, option("--dask", False)] = None,
    plan: Annotated[bool, option("--plan")] = False,
    force: Annotated[bool, option("--force")] = False,
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Multiply two arrays on disk in the canonical order; the result file is complete or absent.

    Shapes and dtypes may be any that tilewright.matmul takes.
    """
    from tilewright.cli import values
    from tilewright.multiply.engine.request import Request

    kernel, where, simulated = values.one("--kernels", kernels), values.one("--device", device), values.gpu(gpu)
    options = {
        "--device": where,
        "--dtype": dtype,
        "--acc-dtype": acc_dtype,
        "--algebra": algebra,
        "--threads": threads,
        "--memory": memory,
        "--plan": plan or None,
        "--dask": dask,
    }
    if kernel is not None:
        _check_left_out(options, kernel)
    if where == "simulated" and simulated is not None:
        where = f"{where}:{simulated}"
    count = None if threads is None else values.whole("--threads", threads, 1, "2")
    asked = Request(dtype, acc_dtype, algebra="plus-times" if algebra is None else algebra, threads=count, device=where)
    if kernel is None and (memory or plan or json or dask or not _fit((a, b, output))):
        _by_blocks(a, b, output, memory, dask, asked, force=force, json=json, only_plan=plan)
    else:
        _in_memory(a, b, output, kernel, simulated, asked, force=force, json=json)


def _check_left_out(options: Mapping[str, object], kernel: str) -> None:
    """Refuse options that do not apply to a kernel of the catalogue."""
    for name, given in options.items():
        if given is not None:
            raise ArgumentValueError(
                f"{name} must be left out with --kernels, which has its own (got {given!r} and {kernel!r})"
            )


def _fit(paths: Sequence[Path]) -> bool:
    """Whether all are .npy files and the operands take less than a quarter of the free memory."""
    from tilewright.simulate.machine import host_memory

    if any(has_other_format(path) for path in paths):
        return False
    room = host_memory.available_bytes()
    try:
        return room is None or sum(path.stat().st_size for path in paths[:2] if path.is_file()) < room / 4
    except OSError:  # `files.read` says why
        return True


def _in_memory(
    a: Path,
    b: Path,
    output: Path,
    kernel: str | None,
    gpu: str | None,
    asked: Request,
    *,
    force: bool,
    json: bool,
) -> None:
    """Read both, multiply, write."""
    import numpy as np

    from tilewright.cli import files
    from tilewright.multiply.engine import matmul as engine
    from tilewright.multiply.kernels import catalogue
    from tilewright.show.ladder import choose, multiply
    from tilewright.show.report import console, on_disk

    files.check_output(output, force=force)
    if not place_of(output, "output").is_numpy:
        raise ArgumentValueError(f"--output must be an .npy file with --kernels (got {output}); leave --kernels out")
    left, right = files.read(a), files.read(b)
    began = time.perf_counter()
    if kernel is None:
        c = np.asarray(engine.matmul(left, right, **asked.options()))
    else:
        c = multiply(choose(catalogue.records(), kernel), left, right, gpu=gpu)
    seconds = time.perf_counter() - began
    files.write(output, c, force=force)
    if json:
        console.document("matmul", on_disk.document(None, seconds) | {"kernel": kernel, "dtype": str(c.dtype)})
        return
    shape = " x ".join(map(str, c.shape)) or "one"
    where = f" on {asked.device}" if asked.device else ""
    console.plain(f"{output}: {shape} {c.dtype}, by {kernel or 'matmul'}{where}")


def _by_blocks(
    a: Path,
    b: Path,
    output: Path,
    memory: str | None,
    dask: str | None,
    asked: Request,
    *,
    force: bool,
    json: bool,
    only_plan: bool,
) -> None:
    """Multiply by tiles, within the memory limit."""
    from tilewright.ground.native.interrupts import until_ctrl_c
    from tilewright.multiply.blocks.cluster import connected
    from tilewright.multiply.engine import outside
    from tilewright.show.report import console, on_disk

    with (
        nullcontext() if dask is None else connected(dask) as client,
        outside.planned(str(a), str(b), str(output), asked, memory, force=force, client=client) as product,
    ):
        if not json and product.plan is not None:
            console.plain(str(product.plan))
            if product.cluster is not None:
                console.plain(f"workers  {len(product.cluster.workers):,}")
        began, seconds = time.perf_counter(), None
        if not only_plan:
            with until_ctrl_c():
                product.run()
                seconds = time.perf_counter() - began
            if seconds is None:
                raise typer.Exit(_interrupted(product, output))
        if json:
            made = on_disk.document(product.plan, seconds)
            console.document("matmul", made | {"kernel": None, "dtype": str(product.partial.out)})
        elif seconds is not None:
            what = f"{' x '.join(map(str, product.shape)) or 'one'} {product.partial.out}"
            console.plain(on_disk.outcome(str(output), what, product.plan, seconds, product.kept))


def _interrupted(product: Product, output: Path) -> int:
    """Report which tiles are stored; return the exit status."""
    from tilewright.show.report import console

    tiles = 0 if product.plan is None else product.plan.tiles
    kept = f"{len(product.finished):,} of {tiles:,} tiles are kept beside {output}; the same command goes on"
    console.error(f"stopped by Ctrl-C; {kept}", title="interrupted")
    return INTERRUPTED

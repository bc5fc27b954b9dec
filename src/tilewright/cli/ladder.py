"""`tilewright ladder`: climb from three loops to many results a thread."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.catalogue import Record
    from tilewright.ladder.climber import Pairs

#: A whole climb at this size, translations included, takes well under a minute on two cores.
DEFAULT_SIZE = 256


class Dtype(enum.StrEnum):
    """What `--dtype` takes."""

    float32 = "float32"
    float64 = "float64"
    int32 = "int32"


class Device(enum.StrEnum):
    """What `--device` takes."""

    simulated = "simulated"
    cuda = "cuda"


def ladder(
    size: Annotated[int | None, typer.Option(min=1, help="Square matrices, N by N.", show_default="256")] = None,
    shape: Annotated[str | None, typer.Option(metavar="M,N,K", help="c is M by N, a is M by K, b is K by N.")] = None,
    a: Annotated[Path | None, typer.Option("--a", metavar="A.npy", help="Left operand; needs --b.")] = None,
    b: Annotated[Path | None, typer.Option("--b", metavar="B.npy", help="Right operand.")] = None,
    dtype: Annotated[Dtype | None, typer.Option(help="One dtype for all; by default each source's own.")] = None,
    kernels: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Names or source rows, comma-separated; `*` works: s9*,S5.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(help="GPU whose limits give occupancy.", show_default="h100")] = None,
    device: Annotated[Device, typer.Option(help="Where GPU kernels run.")] = Device.simulated,
    seed: Annotated[int | None, typer.Option(help="Operands, and the order of warps and blocks.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run every kernel, compare it bit for bit with the canonical product, and count what it does."""
    from tilewright import catalogue
    from tilewright.ladder import climb_dtypes, select
    from tilewright.report import climb as climb_report
    from tilewright.report import console, document

    records = select(catalogue.records(), _names(kernels)) if kernels else catalogue.records()
    pairs = _pairs(records, size, shape, a, b, dtype, seed)
    with console.progress("climbing") as step:
        result = climb_dtypes(pairs, records=records, device=device.value, gpu=gpu, seed=seed, progress=step)
    if json:
        console.plain(document.climb_json(result))
    else:
        climb_report.show(result, console.output())
    if not result.trusted:
        raise typer.Exit(1)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ArgumentValueError(f"--kernels must name at least one kernel (got {text!r}); see `tilewright kernels`")
    return names


def _pairs(
    records: Sequence[Record],
    size: int | None,
    shape: str | None,
    a: Path | None,
    b: Path | None,
    dtype: Dtype | None,
    seed: int | None,
) -> Pairs:
    """Operands by dtype: the files', or random ones for every dtype the records start with."""
    from tilewright.cli import files
    from tilewright.ladder import check_operands, operands

    given = [name for name, value in (("--size", size), ("--shape", shape), ("--a", a)) if value is not None]
    if len(given) > 1:
        raise ArgumentValueError(f"--size, --shape and --a exclude each other (got {' and '.join(given)}); keep one")
    if (a is None) != (b is None):
        got = "--b" if a is None else "--a"
        raise ArgumentValueError(f"--a and --b must come together (got only {got}); give both files")
    if a is not None and b is not None:
        if dtype is not None:
            raise ArgumentValueError("--dtype must not be given with --a and --b; the files have dtypes of their own")
        left, right = check_operands(files.read(a), files.read(b))
        return {left.dtype.name: (left, right)}
    m, n, k = _extents(shape) if shape is not None else (size or DEFAULT_SIZE,) * 3
    dtypes = [dtype.value] if dtype else list(dict.fromkeys(record.dtypes[0] for record in records))
    return {name: operands(m, n, k, name, seed or 0) for name in dtypes}


def _extents(text: str) -> tuple[int, int, int]:
    parts = text.replace("x", ",").split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise ArgumentValueError(f"--shape must be three extents of at least 1, M,N,K (got {text!r}); try 31,33,32")
    m, n, k = (int(part) for part in parts)
    return m, n, k

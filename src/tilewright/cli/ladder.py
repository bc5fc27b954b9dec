"""`tilewright ladder`: run the kernels from three loops to tensor cores."""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.backends.inventory import BACKENDS, row_of, with_kernels
from tilewright.cli import completion
from tilewright.cli.options import option
from tilewright.cli.statuses import FOUND
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.kernels.catalogue import Record
    from tilewright.ladder.climber import Pairs

#: A whole run at this size, with translation, takes well under a minute on two cores.
DEFAULT_SIZE = 256
DTYPES = ("float32", "float64", "int32")
#: Where kernels run, the default first.
DEVICES = with_kernels()
_OWN = " and ".join(row.title for row in BACKENDS if row.own_kernels)
_ONES = " or ".join(f"{row.name}:NAME" for row in BACKENDS if row.several)

Gpu = Annotated[
    str | None,
    typer.Option(help="GPU to simulate.", show_default="h100", autocompletion=completion.gpus),
]
Device = Annotated[
    str,
    option(
        "|".join(DEVICES), f"Device of the GPU kernels; {_ONES} selects one of several.", complete=completion.devices
    ),
]


def ladder(
    size: Annotated[str | None, option("N", "Square matrices, N by N.", str(DEFAULT_SIZE))] = None,
    shape: Annotated[str | None, option("M,N,K", "c is M by N, a is M by K, b is K by N.")] = None,
    a: Annotated[Path | None, option("A.npy", "Left operand; needs --b.", names=("--a",))] = None,
    b: Annotated[Path | None, option("B.npy", "Right operand.", names=("--b",))] = None,
    dtype: Annotated[
        str | None,
        option("|".join(DTYPES), f"One dtype for all; on {_OWN} any real dtype.", "each source's own"),
    ] = None,
    kernels: Annotated[
        list[str] | None,
        option("NAMES", "Names or source rows, comma-separated; `*` matches; may be repeated: s9*,S5."),
    ] = None,
    gpu: Gpu = None,
    device: Device = DEVICES[0],
    seed: Annotated[str | None, option("N", "Seed of the operands and of the order of warps and blocks.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run every kernel, compare it bit for bit with the canonical product, and count its memory traffic."""
    from tilewright.cli import values
    from tilewright.kernels import catalogue
    from tilewright.ladder import climb_dtypes, select
    from tilewright.report import climb as climb_report, console, document, terminal

    row = row_of(device)
    where = device if row is not None and ":" in device else values.one_of("--device", device, with_kernels())
    own = row is not None and row.own_kernels
    if gpu is not None and (own or ":" in where):
        raise ArgumentValueError(
            f"--gpu must be left out with --device {where}, whose limits are its own (got {gpu!r})"
        )
    limits = None if gpu is None else values.gpu_name("--gpu", gpu)
    order = None if seed is None else values.whole("--seed", seed, 0, "1")
    there = [record for record in catalogue.records() if row is not None and row.runs(record)]
    records = select(catalogue.records(), _names(",".join(kernels))) if kernels else there
    pairs = _pairs(records, size, shape, a, b, _dtype(dtype, records if own else ()), order)
    with _full_collections_rare():
        result = climb_dtypes(pairs, records=records, device=where, gpu=limits, seed=order)
    if json:
        console.document(document.climb(result))
    else:
        terminal.show(climb_report.blocks(result), console.output())
    if not result.trusted:
        raise typer.Exit(FOUND)


@contextlib.contextmanager
def _full_collections_rare() -> Iterator[None]:
    """Examine all objects rarely: most are modules and records that stay, and it took a quarter of a climb's time."""
    usual = gc.get_threshold()
    gc.set_threshold(*usual[:2], 20 * usual[2])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _dtype(text: str | None, records: Sequence[Record]) -> str | None:
    """The requested dtype; a device's own records may take more dtypes than the sources'."""
    from tilewright.cli import values

    if text is None:
        return None
    more = [name for record in records for name in record.dtypes]
    return values.one_of("--dtype", text, tuple(dict.fromkeys((*DTYPES, *more))))


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ArgumentValueError(f"--kernels must name at least one kernel (got {text!r}); see `tilewright kernels`")
    return names


def _pairs(
    records: Sequence[Record],
    size: str | None,
    shape: str | None,
    a: Path | None,
    b: Path | None,
    dtype: str | None,
    seed: int | None,
) -> Pairs:
    """Operands by dtype: those of the files, or random ones of each record's first dtype."""
    from tilewright.cli import files, values
    from tilewright.ladder import check_operands, operands
    from tilewright.problem.dtypes import element

    given = [name for name, value in (("--size", size), ("--shape", shape), ("--a", a)) if value is not None]
    if len(given) > 1:
        raise ArgumentValueError(f"--size, --shape and --a exclude each other (got {' and '.join(given)}); keep one")
    if (a is None) != (b is None):
        got = "--b" if a is None else "--a"
        raise ArgumentValueError(f"--a and --b must come together (got only {got}); give both files")
    if a is not None and b is not None:
        if dtype is not None:
            raise ArgumentValueError(
                f"--dtype must not come with --a and --b, whose files have dtypes of their own (got {dtype!r}); "
                f"leave it out"
            )
        left, right = check_operands(files.read(a), files.read(b))
        return {left.dtype.name: (left, right)}
    if shape is not None:
        m, n, k = values.extents("--shape", shape)
    else:
        m = n = k = DEFAULT_SIZE if size is None else values.whole("--size", size, 1, str(DEFAULT_SIZE))
    firsts = (record.dtypes[0] for record in records)
    dtypes = [dtype] if dtype else list(dict.fromkeys(first for first in firsts if element(first).installed))
    return {name: operands(m, n, k, name, seed or 0) for name in dtypes}

"""`tilewright ladder`: run the kernels from three loops to tensor cores."""

from __future__ import annotations

import contextlib
import gc
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Names, Text, option
from tilewright.cli.statuses import FOUND, INTERRUPTED
from tilewright.errors import ArgumentValueError
from tilewright.multiply.backends.inventory import row_of, with_kernels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tilewright.multiply.kernels.catalogue import Record
    from tilewright.show.ladder import Climb, Story
    from tilewright.show.ladder.climber import Pairs

#: A whole run at this size, with translation, takes well under a minute on two cores.
DEFAULT_SIZE = 256
DTYPES = ("float32", "float64", "int32")


def ladder(
    kernels: Annotated[Names, option("--kernels", "all")] = None,
    sizes: Annotated[Names, option("--sizes", str(DEFAULT_SIZE))] = None,
    dtypes: Annotated[Names, option("--dtypes", "each source's own")] = None,
    a: Annotated[Path | None, option("--a")] = None,
    b: Annotated[Path | None, option("--b")] = None,
    gpu: Annotated[Names, option("--gpu", "h100")] = None,
    device: Annotated[Names, option("--device", "simulated")] = None,
    seed: Annotated[Text, option("--seed")] = None,
    full: Annotated[bool, option("--full")] = False,
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Run every kernel and compare it bit for bit with the canonical product, in one screen.

    The screen predicts the steps from one thread an element to the GPU's tensor cores. With --full, and with any option
    that chooses kernels, operands or a device, print every kernel with its counts instead.
    """
    began = time.perf_counter()
    from tilewright.cli import values
    from tilewright.multiply.kernels import catalogue
    from tilewright.show.ladder import climb_dtypes, select, tell

    where = values.one("--device", device) or with_kernels()[0]
    row = row_of(where)
    if row is None or ":" not in where:
        where = values.one_of("--device", where, with_kernels())
    own = row is not None and row.own_kernels
    if gpu is not None and (own or ":" in where):
        raise ArgumentValueError(
            f"--gpu must be left out with --device {where}, whose limits are its own (got {','.join(gpu)})"
        )
    limits = values.gpu(gpu)
    order = None if seed is None else values.whole("--seed", seed, 0, "1")
    there = [record for record in catalogue.records() if row is not None and row.runs(record)]
    records = select(catalogue.records(), values.words("--kernels", kernels)) if kernels else there
    pairs = _pairs(records, sizes, a, b, _dtypes(dtypes, records if own else ()), order)
    chosen = any(given is not None for given in (sizes, a, dtypes, kernels)) or where != with_kernels()[0]
    with _full_collections_rare():
        if chosen or (full and not json):
            climb = climb_dtypes(pairs, records=records, device=where, gpu=limits, seed=order, keep=True)
            _show(climb, None, began, json=json)
        else:
            story = tell(pairs, records, limits, order, counted=json)
            _show(story.climb, story, began, json=json)


def _show(climb: Climb, story: Story | None, began: float, *, json: bool) -> None:
    """Print the first screen of a story, or every kernel; leaves with the exit status."""
    from tilewright.show.report import climb as report, console, document, screen, terminal

    if json:
        console.document("ladder", document.climb(climb, story))
    elif story is None:
        terminal.show(report.blocks(climb), console.screen())
    else:
        terminal.show(screen.blocks(story, time.perf_counter() - began), console.screen())
    interrupted = climb.interrupted if story is None else story.interrupted
    if interrupted or not climb.trusted:
        raise typer.Exit(INTERRUPTED if interrupted else FOUND)


@contextlib.contextmanager
def _full_collections_rare() -> Iterator[None]:
    """Examine all objects rarely: most are modules and records that stay, and it took a quarter of a climb's time."""
    usual = gc.get_threshold()
    gc.set_threshold(*usual[:2], 20 * usual[2])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _dtypes(given: Names, records: Sequence[Record]) -> tuple[str, ...]:
    """The requested dtypes; a device's own records may take more dtypes than the sources'."""
    from tilewright.cli import values

    more = [name for record in records for name in record.dtypes]
    allowed = tuple(dict.fromkeys((*DTYPES, *more)))
    return tuple(values.one_of("--dtypes", word, allowed) for word in values.dtypes(given))


def _pairs(
    records: Sequence[Record], sizes: Names, a: Path | None, b: Path | None, dtypes: Sequence[str], seed: int | None
) -> Pairs:
    """Operands by dtype: those of the files, or random ones of each record's first dtype."""
    from tilewright.cli import files, values
    from tilewright.multiply.problem.dtypes import element
    from tilewright.show.ladder import check_operands, operands

    if (a is None) != (b is None):
        got = "--b" if a is None else "--a"
        raise ArgumentValueError(f"--a and --b must come together (got only {got}); give both files")
    if a is not None and b is not None:
        for name, given in (("--sizes", sizes), ("--dtypes", dtypes)):
            if given:
                raise ArgumentValueError(
                    f"{name} must be left out with --a and --b, whose files have their own (got {','.join(given)})"
                )
        left, right = check_operands(files.read(a), files.read(b))
        return {left.dtype.name: (left, right)}
    extents = values.only_size(sizes, (DEFAULT_SIZE,) * 3)
    firsts = (record.dtypes[0] for record in records)
    wanted = dtypes or dict.fromkeys(first for first in firsts if element(first).installed)
    return {name: operands(*extents, name, seed or 0) for name in wanted}

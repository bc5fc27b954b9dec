"""Tables of `bench` and `compare` in narrow terminals: no row of any block can be mistaken for another."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from rich.console import Console

from tilewright.show.rates.compare import compare
from tilewright.show.rates.record import Caches, Point, Rate, Sweep
from tilewright.show.report import comparison, rates, tables, terminal
from tilewright.show.report.blocks import Block
from tilewright.show.report.tables import Table

CACHES: tuple[Caches, ...] = ("warm", "cold")


def measured() -> Iterator[Rate]:
    extents = (64, 64, 64), (31, 33, 32)
    for dtype, (m, n, k), caches in itertools.product(("int8", "float32"), extents, CACHES):
        for name in ("matmul", "numpy"):
            point = Point(name, "cpu", dtype, m, n, k, caches=caches)
            yield Rate(point, "measured", 1.02e-6, 1.01e-6, 1.05e-6, (1.01e-6, 1.02e-6, 1.05e-6), "exact", ("noisy",))


def predicted() -> Iterator[Rate]:
    for device, block, size in itertools.product(("a6000", "rtx3090"), (8, 16), (256, 4096)):
        point = Point(f"shared_memory_{block}", device, "int32", size, size, size, block, 1, "cold")
        verified = f"exact at {block} x {block} x 256"
        yield Rate(point, "predicted", 18.3e-6, 13.7e-6, 24.6e-6, (), verified, (), "memory instructions")


SWEEPS = {
    "measured": Sweep({"against": ["numpy"]}, {}, tuple(measured())),
    "predicted": Sweep({}, {}, tuple(predicted())),
    "both": Sweep({"against": ["numpy"]}, {}, (*measured(), *predicted())),
}


def compared(sweep: Sweep) -> Iterator[Block]:
    slower = tuple(replace(rate, seconds=rate.seconds * 1.1) for rate in sweep.rates)
    return comparison.blocks(compare(sweep, replace(sweep, rates=slower)))


@pytest.mark.parametrize(
    ("name", "width"),
    # The columns that tell rows of both apart take 52 cells; we assume a terminal of 80.
    [pair for pair in itertools.product(SWEEPS, (60, 80, 100, 160)) if pair != ("both", 60)],
)
@pytest.mark.parametrize("command", ["bench", "compare"])
def test_no_row_can_be_mistaken_for_another(name: str, command: str, width: int) -> None:
    sweep = SWEEPS[name]
    (table,) = (
        block for block in (rates.blocks(sweep) if command == "bench" else compared(sweep)) if isinstance(block, Table)
    )
    found = tables.layout(table, width)
    for part in found.parts:
        rows = [
            tuple(c.cell(row, brief=found.brief).plain for c in part if c in table.key.columns) for row in table.rows
        ]
        assert len(set(rows)) == len(rows)
    shown = {column.title for part in found.parts for column in part} | {column.title for column in found.common}
    assert shown == {column.title for column in table.columns}

    stream = io.StringIO()
    terminal.show([table], Console(file=stream, width=width))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width


def test_values_that_all_rows_share_are_printed_once() -> None:
    stream = io.StringIO()
    terminal.show(rates.blocks(SWEEPS["predicted"]), Console(file=stream, width=80))
    reported = stream.getvalue()
    assert "in all rows: dtype int32, caches cold, predicted\n" in reported
    assert reported.count("int32") == 1

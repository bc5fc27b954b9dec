"""Products on simulated clusters, as a table or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tilewright.blocks.simulation.records import SimulatedProduct
from tilewright.machine.sizes import duration_text
from tilewright.report import on_disk, styles
from tilewright.report.blocks import Block, Gap, legend, words
from tilewright.report.tables import COUNT, FACTOR, PERCENT, RIGHT, SIZE, Column, Table, group

_KEY = group(
    Column("workers", lambda row: row.world.workers, COUNT, style="bold"),
    Column("layers", lambda row: row.layers, COUNT),
)
_GROUPS = (
    group(
        Column("tiles", lambda row: row.plan.tiles, COUNT),
        Column("time", lambda row: duration_text(row.seconds), RIGHT, style=styles.PREDICTED),
        Column("arith-\nmetic", lambda row: row.efficiency, PERCENT, legend="its part of the time, alone"),
    ),
    group(
        Column("read", lambda row: row.read_bytes, SIZE),
        Column("written", lambda row: row.written_bytes, SIZE),
        Column(
            "of the\nleast", lambda row: (row.read_bytes + row.written_bytes) / row.least_bytes, FACTOR,
            legend="bytes over those that no order goes below",
        ),
    ),
    group(
        Column("limited by", lambda row: row.limit),
        Column("died", lambda row: row.deaths or None, COUNT, legend="workers"),
    ),
)  # fmt: skip


def blocks(found: Sequence[SimulatedProduct]) -> Iterator[Block]:
    """A row for each cluster, and the meaning of the columns."""
    one = found[0]
    yield words(
        (one.plan.facts["product"], "bold"), (f"; {one.plan.sizes.operand_bytes[0]} bytes an element", styles.QUIET)
    )
    yield Gap()
    table = Table(_KEY, _GROUPS, found)
    yield table
    yield from legend([table])


def document(found: SimulatedProduct) -> dict[str, Any]:
    """A simulation as JSON values; `failure_s` is null without failures."""
    names = (
        "layers", "seconds", "efficiency", "busy", "limit", "read_bytes", "written_bytes", "least_bytes", "tiles_made",
        "tiles_remade", "deaths", "events",
    )  # fmt: skip
    world = asdict(found.world)
    each = found.worker_bytes
    return {
        "world": world | {"failure_s": world["failure_s"] if world["failure_s"] < float("inf") else None},
        **{name: getattr(found, name) for name in names},
        "bounds_s": dict(found.bounds_s),
        "worker_bytes": {"least": min(each), "mean": sum(each) / len(each), "most": max(each)},
        **on_disk.planned(found.plan),
    }

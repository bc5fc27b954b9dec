"""Lists of what there is: kernels, GPUs, supported PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tilewright.report import columns, figures
from tilewright.report.columns import Column

if TYPE_CHECKING:
    from tilewright.catalogue import Record
    from tilewright.machine import Gpu


def kernels(records: Sequence[Record], console: Console) -> None:
    """Print the catalogue, a row a record."""
    table = (
        Column("kernel", lambda r: Text(r.name, style="italic" if r.published else "bold"), "left"),
        Column("row", lambda r: Text(r.source, style="cyan"), "left"),
        Column("runs on", lambda r: r.backend, "left"),
        Column("dtypes", lambda r: ", ".join(r.dtypes), "left"),
        Column("order", lambda r: r.order, "left"),
        Column("what it is", lambda r: r.title, "left"),
    )
    columns.show(console, table, records)


def gpus(machines: Sequence[tuple[str, Gpu]], console: Console) -> None:
    """Print the known GPUs by the names that `--gpu` takes."""
    table = (
        Column("--gpu", lambda g: Text(g[0], style="bold"), "left"),
        Column("name", lambda g: g[1].name, "left"),
        Column("compute\ncapability", lambda g: ".".join(map(str, g[1].compute_capability))),
        Column("multi-\nprocessors", lambda g: figures.count(g[1].multiprocessors)),
    )
    columns.show(console, table, machines)

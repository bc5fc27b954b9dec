"""Lists of what there is: kernels, devices, GPUs, the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tilewright.report import columns, figures
from tilewright.report.columns import Column, Group

if TYPE_CHECKING:
    from tilewright.catalogue import Record
    from tilewright.inventory import Device
    from tilewright.machine import Gpu
    from tilewright.native.upkeep import Contents


def kernels(records: Sequence[Record], console: Console) -> None:
    """Print the catalogue, a row a record."""
    key = Group(
        (
            Column("kernel", lambda r: Text(r.name, style="italic" if r.published else "bold"), "left"),
            Column("row", lambda r: Text(r.source, style="cyan"), "left"),
        )
    )
    takes = Group(
        (
            Column("runs on", lambda r: r.backend, "left"),
            Column("dtypes", lambda r: ", ".join(r.dtypes), "left", wrap_at=16),
            Column("order", lambda r: r.order, "left"),
        )
    )
    is_ = Group((Column("what it is", lambda r: r.title, "left", wrap_at=24),))
    columns.show(console, key, [takes, is_], records)


def gpus(machines: Sequence[Gpu], console: Console) -> None:
    """Print the known GPUs by the names that `--gpu` takes: what sets occupancy, their caches and their rates."""
    key = Group((Column("--gpu", lambda g: Text(g.key, style="bold"), "left"),))
    name = Group((Column("name", lambda g: g.name, "left"),))
    limits = Group(
        (
            Column("compute\ncap.", lambda g: ".".join(map(str, g.compute_capability))),
            Column("multi-\nproc.", lambda g: figures.count(g.multiprocessors)),
            Column("threads\neach", lambda g: figures.count(g.threads_per_multiprocessor)),
            Column("shared\neach", lambda g: figures.size(g.shared_per_multiprocessor_bytes)),
        )
    )
    memory = Group(
        (
            Column("L1 and\nshared", lambda g: figures.size(g.unified_bytes)),
            Column("L2", lambda g: figures.size(g.l2_bytes)),
            Column("memory\nGB/s", lambda g: figures.count(g.memory_gb_per_s)),
            Column("float32\nTFLOPS", lambda g: f"{g.peak_gflops() / 1000:.1f}"),
        )
    )
    columns.show(console, key, [name, limits, memory], machines)


def devices(found: Sequence[Device], console: Console) -> None:
    """Print the devices of this machine, a row each, and below them why others are missing."""
    key = Group((Column("device", lambda d: Text(d.device, style="bold"), "left"),))
    name = Group((Column("name", lambda d: Text(d.name), "left", wrap_at=24), Column("kind", lambda d: d.kind, "left")))
    size = Group(
        (
            Column("units", lambda d: figures.count(d.units or None)),
            Column("memory", lambda d: figures.size(d.memory_bytes or None)),
        )
    )
    can = Group(
        (
            Column("runs", lambda d: ", ".join(d.commands), "left", wrap_at=16),
            Column("has", lambda d: Text(", ".join(d.features)), "left", wrap_at=24),
        )
    )
    columns.show(console, key, [name, size, can], [device for device in found if not device.missing])
    for device in found:
        if device.missing:
            console.print()
            console.print(Text.assemble((device.device, "bold"), (": missing: ", "yellow"), device.missing))


def cache(contents: Contents, limit_bytes: int, console: Console) -> None:
    """Print where the cache is and what it holds, a line each."""
    console.print(Text(contents.folder or "no folder", style="bold"), soft_wrap=True)
    if contents.unusable:
        console.print(f"not used: {contents.unusable}", soft_wrap=True)
    entries = f"{figures.count(contents.entries)} entr{'y' if contents.entries == 1 else 'ies'}"
    console.print(f"{entries}, {figures.size(contents.bytes)} of {figures.size(limit_bytes)}")
    if contents.removed_bytes:
        console.print(f"removed: {figures.size(contents.removed_bytes)}")

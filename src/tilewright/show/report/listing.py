"""Lists of kernels, devices, GPUs and the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tilewright.multiply.kernels.catalogue import SOURCES
from tilewright.show.report import figures, styles, terminal
from tilewright.show.report.blocks import Block, Gap, Line, words
from tilewright.show.report.tables import COUNT, RIGHT, SIZE, Column, Table, group

if TYPE_CHECKING:
    from tilewright.ground.native.eviction import Contents
    from tilewright.multiply.backends.protocol import Device
    from tilewright.multiply.kernels.catalogue import Record
    from tilewright.show.ladder.rung import Rung
    from tilewright.simulate.machine import Gpu


def kernels(records: Sequence[Record], console: Console) -> None:
    """Print the catalogue, a row for each record below the heading of its source."""
    key = group(KERNEL)
    takes = group(
        Column("runs on", lambda r: r.backend),
        Column("dtypes", lambda r: _families(r.dtypes), wrap_at=18),
        Column("and", lambda r: ", ".join(r.takes), wrap_at=9),
        Column("sums", lambda r: _SUMS.get(r.order, "own order")),
        Column("what it is", lambda r: r.title.removeprefix("CUDA C++: "), wrap_at=18),
    )
    terminal.show([Table(key, (takes,), records, section=source)], console)


#: The column that kernels and rungs begin with.
KERNEL = Column("kernel", lambda r: r.name, style=lambda r: styles.SPECIMEN if r.published else styles.HEADING)
#: The order of sums, in short: the canonical one, or one whose error a bound states.
_SUMS = MappingProxyType({"fma": "exact", "tensor-core": "in bound"})


def source(one: Record | Rung) -> str:
    """The row of the sources that a kernel is of, with its title."""
    return f"{one.source}  {SOURCES[one.source]}" if one.source in SOURCES else ""


def _families(dtypes: Sequence[str]) -> str:
    """Names of dtypes, those of one kind as a range if it has no gaps.

    >>> _families(("int32", "float32", "float64")), _families(("uint8", "uint16"))
    ('int32, float32-64', 'uint8-16')
    """
    kinds: dict[str, list[int]] = {}
    for name in dtypes:
        kind = name.rstrip("0123456789")
        kinds.setdefault(kind, []).append(int(name.removeprefix(kind) or 0))
    parts = []
    for kind, bits in kinds.items():
        least, most = min(bits), max(bits)
        whole = len(bits) > 1 and len(bits) == (most // least).bit_length()
        parts += [f"{kind}{least}-{most}"] if whole else [f"{kind}{size or ''}" for size in bits]
    return ", ".join(parts)


def gpus(machines: Sequence[Gpu], console: Console) -> None:
    """Print the known GPUs by the names that `--gpu` takes: limits of occupancy, caches and rates."""
    key = group(Column("--gpu", lambda g: g.key, style="bold"))
    name = group(Column("name", lambda g: g.name))
    limits = group(
        Column("compute\ncap.", lambda g: Text(".".join(map(str, g.compute_capability))), RIGHT),
        Column("multi-\nproc.", lambda g: g.multiprocessors, COUNT),
        Column("threads\neach", lambda g: g.threads_per_multiprocessor, COUNT),
        Column("shared\neach", lambda g: g.shared_per_multiprocessor_bytes, SIZE),
    )
    memory = group(
        Column("L1 and\nshared", lambda g: g.unified_bytes, SIZE),
        Column("L2", lambda g: g.l2_bytes, SIZE),
        Column("memory\nGB/s", lambda g: g.memory_gb_per_s, COUNT),
        Column("float32\nTFLOPS", lambda g: f"{g.peak_gflops() / 1000:.1f}", RIGHT),
    )
    terminal.show([Table(key, (name, limits, memory), machines)], console)


def devices(found: Sequence[Device], console: Console) -> None:
    """Print the devices of this machine, a row each, and below them why others are missing."""
    terminal.show(_devices(found), console)


def _devices(found: Sequence[Device]) -> Iterator[Block]:
    key = group(Column("device", lambda d: d.device, style="bold"))
    name = group(Column("name", lambda d: d.name, wrap_at=24), Column("kind", lambda d: d.kind))
    size = group(
        Column("units", lambda d: d.units or None, COUNT), Column("memory", lambda d: d.memory_bytes or None, SIZE)
    )
    can = group(
        Column("runs", lambda d: ", ".join(d.commands), wrap_at=16),
        Column("has", lambda d: ", ".join(d.features), wrap_at=24),
    )
    yield Table(key, (name, size, can), [device for device in found if not device.missing])
    for device in found:
        if device.missing:
            yield Gap()
            yield words((device.device, "bold"), (": missing: ", styles.WARNING), device.missing, hang=2)


def cache(contents: Contents, limit_bytes: int, console: Console) -> None:
    """Print the cache's folder and its contents, a line each."""
    entries = f"{figures.count(contents.entries)} entr{'y' if contents.entries == 1 else 'ies'}"
    removed = [words(f"removed: {figures.size(contents.removed_bytes)}")] if contents.removed_bytes else []
    held = words(f"{entries}, {figures.size(contents.bytes)} of {figures.size(limit_bytes)}")
    unusable = [Line(Text(f"not used: {contents.unusable}"))] if contents.unusable else []
    folder = Line(Text(contents.folder or "no folder", style="bold"))
    empty = [words("to empty it: tilewright cache --clear")] if contents.entries else []
    terminal.show([folder, *unusable, held, *removed, *empty], console)

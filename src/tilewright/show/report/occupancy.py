"""Occupancy: its limiter, and the effect of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from tilewright.show.report import figures, styles
from tilewright.show.report.blocks import Block, Gap, words
from tilewright.show.report.tables import COUNT, PERCENT, SIZE, Column, Group, Table, group
from tilewright.simulate.machine.alternatives import Alternative, Alternatives, Demand
from tilewright.simulate.machine.occupancy import Occupancy
from tilewright.simulate.machine.sizes import size_text

#: Block sizes that have a row; JSON has every whole number of warps.
BLOCKS = (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024)
#: Names of resources, for the number of blocks that each allows.
_NAMES = {name: name for name in ("warps", "registers", "blocks", "barriers", "tensor memory")} | {
    "shared": "shared memory",
    "virtual": "virtual resources",
}
#: The fields of a demand that a step changes, and their nouns.
_CHANGES = (
    ("registers_per_thread", "registers"),
    ("shared_bytes", "bytes of shared memory"),
    ("block_threads", "threads a block"),
)


def blocks(found: Alternatives, kernel: str = "") -> Iterator[Block]:
    """The occupancy and its limiter, the next steps up, and the effect of each change; of a kernel, with its name."""
    if kernel:
        yield words((kernel, styles.HEADING))
    yield words((found.gpu.name, f"bold {styles.PLACE}"), (f": {_asked(found.demand)}", styles.QUIET), hang=2)
    yield from alone(found.occupancy, found.gpu.warps_per_multiprocessor)
    for sentence in steps(found):
        yield words(sentence, hang=2)
    threads = found.demand.block_threads
    shown = [a for a in found.blocks if a.demand.block_threads in (*BLOCKS, threads)]
    others = (
        ("other blocks", "threads\na block", "block_threads", shown),
        ("other registers", "registers\nup to", "registers_per_thread", found.registers),
        ("other shared memory", "bytes\nup to", "shared_bytes", found.shared),
    )
    for title, heading, field, rows in others:
        if rows:
            yield Gap()
            yield words((f"{title}, the rest as it is", styles.HEADING))
            yield Table(_key(found, heading, field, rows), _EFFECT, rows)


def alone(now: Occupancy, warps: int | None = None) -> Iterator[Block]:
    """An occupancy with its limiter; `warps` is the most of a multiprocessor."""
    of = f" of {warps}" if warps else ""
    held = f"{figures.amount(now.active_blocks, 'block')}, {now.active_warps}{of} warps"
    style = styles.GOOD if now.fraction == 1 else styles.WARNING if now.active_blocks else styles.ERROR
    yield words((_percent(now), f"bold {style}"), f" occupancy: {held} a multiprocessor", hang=2)
    limits = (f"{_NAMES[name]} {figures.count(limit)}" for name, limit in now.limits.items() if limit is not None)
    limiter = " and ".join(_NAMES[name] for name in now.limiters)
    yield words(f"limited by {limiter} (blocks that each allows: {', '.join(limits)})", hang=2)
    if not now.active_blocks:
        yield words((f"no block fits: such a launch fails, for its {limiter}", styles.ERROR), hang=2)


def compare(rows: Sequence[tuple[str, Alternatives]]) -> Iterator[Block]:
    """Show a kernel's occupancy on several GPUs, or that of several kernels of a program, a row each."""
    if rows[0][0]:
        yield words((rows[0][1].gpu.name, f"bold {styles.PLACE}"))
        key = group(
            Column("kernel", lambda row: row[0], style="bold"),
            Column("registers", lambda row: row[1].demand.registers_per_thread, COUNT),
            Column("shared", lambda row: row[1].demand.shared_bytes, SIZE),
            Column("threads", lambda row: row[1].demand.block_threads, COUNT),
        )
    else:
        yield words((_asked(rows[0][1].demand), styles.QUIET))
        key = group(Column("--gpu", lambda row: row[1].gpu.key, style="bold"))
    columns = tuple(replace(one, value=_of_second(one.value)) for one in _EFFECT[0].columns)
    yield Table(key, (group(*columns),), rows)


def _of_second(value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda row: value(row[1])


def document(found: Alternatives) -> dict[str, Any]:
    """Return everything as JSON values; an alternative is its demand and its occupancy."""
    return {
        "gpu": {"key": found.gpu.key, "name": found.gpu.name},
        **_entry(Alternative(found.demand, found.occupancy)),
        "steps_up": [_entry(step) for step in found.steps_up],
        "blocks": [_entry(other) for other in found.blocks],
        "registers": [_entry(other) for other in found.registers],
        "shared": [_entry(other) for other in found.shared],
    }


def steps(found: Alternatives) -> list[str]:
    """Return a sentence for each of the steps up, such as `with 40 registers instead of 48: 75 % -> 100 %`."""
    if found.occupancy.fraction == 1:
        return []
    sentences = []
    for step in found.steps_up:
        changed = _changes(found.demand, step.demand)
        sentences.append(f"with {changed}: {_percent(found.occupancy)} -> {_percent(step.occupancy)}")
    return sentences or ["no fewer registers, no less shared memory and no other block alone gives more"]


def _changes(old: Demand, new: Demand) -> str:
    parts = [
        f"{figures.count(getattr(new, field))} {noun} instead of {figures.count(getattr(old, field))}"
        for field, noun in _CHANGES
        if getattr(new, field) != getattr(old, field)
    ]
    return " and ".join(parts)


def _asked(demand: Demand) -> str:
    asked = f"{demand.registers_per_thread} registers, {_shared(demand.shared_bytes)} shared memory, "
    asked += figures.amount(demand.block_threads, "thread") + " a block"
    asked += ", " + figures.amount(demand.barriers, "barrier") if demand.barriers else ""
    return asked + (f", {demand.tensor_columns} columns of tensor memory" if demand.tensor_columns else "")


def _shared(count: int) -> str:
    return f"{size_text(count)} of" if count else "no"


def _key(found: Alternatives, heading: str, field: str, rows: Any) -> Group:
    """The changed number; the kernel's own value is marked in the row of its range."""
    value = getattr(found.demand, field)
    current = min((r for r in rows if getattr(r.demand, field) >= value), key=_value(field), default=None)

    def style(row: Alternative) -> str:
        return f"bold {styles.PLACE}" if row is current else ""

    mark = Column("", lambda r: ">" if r is current else " ")
    return group(mark, Column(heading, lambda r: getattr(r.demand, field), COUNT, style))


def _value(field: str) -> Any:
    return lambda row: getattr(row.demand, field)


def _percent(occupied: Occupancy) -> str:
    return figures.percent(occupied.fraction)


#: What each row comes to.
_EFFECT = (
    group(
        Column("blocks", lambda r: r.occupancy.active_blocks, COUNT),
        Column("warps", lambda r: r.occupancy.active_warps, COUNT),
        Column("occupancy", lambda r: r.occupancy.fraction, PERCENT),
        Column("", lambda r: figures.bar(r.occupancy.fraction, 1), style=styles.BAR),
        Column("limited by", lambda r: ", ".join(_NAMES[name] for name in r.occupancy.limiters)),
    ),
)


def _entry(other: Alternative) -> dict[str, Any]:
    occupied = other.occupancy
    return {
        "demand": asdict(other.demand),
        "occupancy": {
            "active_blocks": occupied.active_blocks,
            "active_warps": occupied.active_warps,
            "fraction": occupied.fraction,
            "limits": dict(occupied.limits),
            "limiters": list(occupied.limiters),
            "limiting_factors": occupied.limiting_factors,
            "allocated_registers": occupied.allocated_registers,
            "allocated_shared_bytes": occupied.allocated_shared_bytes,
        },
    }

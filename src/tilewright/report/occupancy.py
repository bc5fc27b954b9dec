"""Occupancy on the terminal and as JSON: what limits it, and what a change would give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from tilewright.machine.alternatives import Alternative, Alternatives, Demand
from tilewright.machine.occupancy import Occupancy
from tilewright.report import columns, figures
from tilewright.report.columns import Column, Group
from tilewright.report.console import speaks_unicode

#: Block sizes that have a row; JSON has every whole number of warps.
BLOCKS = (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024)
#: What each resource is called, for a number of blocks that it allows.
_NAMES = {
    "warps": "warps", "registers": "registers", "shared": "shared memory", "blocks": "blocks", "barriers": "barriers",
    "virtual": "virtual resources",
}  # fmt: skip
#: The parts of a demand that a step changes, and how a number of each is told.
_CHANGES = (
    ("registers_per_thread", "registers"),
    ("shared_bytes", "bytes of shared memory"),
    ("block_threads", "threads a block"),
)


def show(found: Alternatives, console: Console) -> None:
    """Print the occupancy and its limiter, the next steps up, and what each change would give."""
    _heading(found, console)
    for sentence in steps(found):
        console.print(sentence, soft_wrap=True)
    threads = found.demand.block_threads
    shown = [a for a in found.blocks if a.demand.block_threads in (*BLOCKS, threads)]
    tables = (
        ("other blocks", "threads\na block", "block_threads", shown),
        ("other registers", "registers\nup to", "registers_per_thread", found.registers),
        ("other shared memory", "bytes\nup to", "shared_bytes", found.shared),
    )
    for title, heading, field, rows in tables:
        if rows:
            console.print(Text(f"\n{title}, the rest as it is", style="bold"))
            columns.show(console, _key(found, heading, field, rows), [_effect(console)], rows)


def compare(found: Sequence[Alternatives], console: Console) -> None:
    """Print a kernel's occupancy on several GPUs, a row each."""
    console.print(Text(_asked(found[0].demand), style="dim"), soft_wrap=True)
    key = Group((Column("--gpu", lambda f: Text(f.gpu.key, style="bold"), "left"),))
    columns.show(console, key, [_effect(console)], found)


def as_json(found: Alternatives) -> str:
    """Return everything as text; an alternative is its demand and its occupancy."""
    return json.dumps(document(found), indent=2)


def comparison_json(found: Sequence[Alternatives]) -> str:
    """Return {"gpus": [...]}, everything of each, as text."""
    return json.dumps({"gpus": [document(one) for one in found]}, indent=2)


def document(found: Alternatives) -> dict[str, Any]:
    """Return everything as JSON values."""
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
    asked = f"{demand.registers_per_thread} registers, {figures.count(demand.shared_bytes)} bytes of shared memory, "
    asked += figures.amount(demand.block_threads, "thread") + " a block"
    return asked + (", " + figures.amount(demand.barriers, "barrier") if demand.barriers else "")


def _heading(found: Alternatives, console: Console) -> None:
    now, gpu = found.occupancy, found.gpu
    console.print(Text.assemble((gpu.name, "bold cyan"), (f": {_asked(found.demand)}", "dim")), soft_wrap=True)
    blocks = f"{figures.amount(now.active_blocks, 'block')}, {now.active_warps} of {gpu.warps_per_multiprocessor} warps"
    style = "bold green" if now.fraction == 1 else "bold yellow" if now.active_blocks else "bold red"
    console.print(Text.assemble((_percent(now), style), f" occupancy: {blocks} a multiprocessor"))
    limits = (f"{_NAMES[name]} {figures.count(limit)}" for name, limit in now.limits.items() if limit is not None)
    limiter = " and ".join(_NAMES[name] for name in now.limiters)
    console.print(f"limited by {limiter} (blocks that each allows: {', '.join(limits)})", soft_wrap=True)
    if not now.active_blocks:
        console.print(Text(f"no block fits: such a launch fails, for its {limiter}", style="red"))


def _key(found: Alternatives, heading: str, field: str, rows: Any) -> Group:
    """The changed number; the kernel as it is stands in the row it falls in."""
    value = getattr(found.demand, field)
    current = min((r for r in rows if getattr(r.demand, field) >= value), key=_value(field), default=None)

    def cell(row: Alternative) -> Text:
        return Text(figures.count(getattr(row.demand, field)), style="bold cyan" if row is current else "")

    return Group((Column("", lambda r: ">" if r is current else "", "left"), Column(heading, cell)))


def _value(field: str) -> Any:
    return lambda row: getattr(row.demand, field)


def _effect(console: Console) -> Group:
    bar = [Column("", lambda r: Text(figures.bar(r.occupancy.fraction, 1), style="blue"), "left")]
    return Group(
        (
            Column("blocks", lambda r: figures.count(r.occupancy.active_blocks)),
            Column("warps", lambda r: figures.count(r.occupancy.active_warps)),
            Column("occu-\npancy", lambda r: _percent(r.occupancy)),
            *(bar if speaks_unicode(console) else []),
            Column("limited by", lambda r: ", ".join(_NAMES[name] for name in r.occupancy.limiters), "left"),
        )
    )


def _percent(occupied: Occupancy) -> str:
    return figures.percent(occupied.fraction)


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

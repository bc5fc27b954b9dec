"""What every benchmark here states, and how: the host and versions, medians with their spread, a table or JSON.

Run by itself it prints the host's line.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

#: Columns of a table that goes to a file.
WIDTH = 120
PACKAGES = ("tilewright", "numpy", "llvmlite", "numba-cuda")


@dataclass(frozen=True)
class Spread:
    """The median of repeated measurements, with the least and the most."""

    median: float
    least: float
    most: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def text(self, scale: float = 1.0, form: str = ",.3g") -> str:
        """`median (least - most)`, times a scale."""
        return "{} ({} - {})".format(*self._written(scale, form))

    def stacked(self, scale: float = 1.0, form: str = ",.3g") -> str:
        """The median, and below it `least-most`: for tables of many columns."""
        return "{}\n{}-{}".format(*self._written(scale, form))

    def _written(self, scale: float, form: str) -> list[str]:
        return [format(value * scale, form) for value in (self.median, self.least, self.most)]


def host(packages: Sequence[str] = ()) -> dict[str, Any]:
    """The host, the load and the versions (of further packages too) that a figure depends on."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in (*PACKAGES, *packages)},
    }


def arguments(text: str) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    return parser


def publish(results: dict[str, Any], tables: Iterable[Table], *, as_json: bool, packages: Sequence[str] = ()) -> None:
    """Print the tables under the host's line, with the versions of further packages, or everything as JSON."""
    facts = host(packages)
    if as_json:
        print(json.dumps({"host": facts, **results}, indent=2, default=asdict))
        return
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    console.print(host_line(facts), style="dim")
    for table in tables:
        console.print(table)


def host_line(facts: dict[str, Any]) -> str:
    """The host in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['date']}; {facts['cpu']}, {facts['cores']} cores, load {facts['load_average']}; "
        f"Python {facts['python']}, {versions}"
    )


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> Table:
    """A table whose first column is text and whose others are figures."""
    built = Table(
        title=title,
        caption=caption or None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        built.add_column(column, justify="right" if index else "left")
    for row in rows:
        built.add_row(*(str(cell) for cell in row))
    return built


def _processor() -> str:
    """The processor's name as Linux tells it, with family and model where the name is a bare brand."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in found.items()}
    name = fields.get("model name", platform.machine())
    return f"{name} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    Console().print(host_line(host()))

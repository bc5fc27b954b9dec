"""Output of every benchmark here: the host and versions, medians with their spread, a table or JSON.

Run by itself it prints the host's line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tilewright.show.rates.conditions import conditions

#: Width of a table in a file, in columns.
WIDTH = 120


@dataclass(frozen=True)
class Spread:
    """The median of repeated measurements, with the minimum and the maximum."""

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


def processor_seconds() -> float:
    """Processor time of this process and of those that it waited for: long kernels are compiled in one apart."""
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + others.ru_utime + others.ru_stime


def arguments(text: str, *, optimised: bool = True) -> argparse.ArgumentParser:
    """A parser with every benchmark's options; by default, simulated launches wait for optimised code."""
    if optimised:
        os.environ.setdefault("TILEWRIGHT_QUICK_CODE", "0")
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    return parser


def arguments_of_speed(text: str, *, size: int, rounds: int) -> argparse.ArgumentParser:
    """A parser with the further options of benchmarks of the simulated GPU's speed."""
    parser = arguments(text)
    parser.add_argument("--size", type=int, default=size, help="m = n = k, a multiple of 128")
    parser.add_argument("--threads", type=int, default=2, help="host threads")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--hosts", default="own", help="own, avx2, sse; several with commas")
    return parser


def publish(results: dict[str, Any], tables: Iterable[Table], *, as_json: bool, packages: Sequence[str] = ()) -> None:
    """Print the tables under the host's line, with the versions of further packages, or everything as JSON."""
    facts = conditions(packages)
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
        f"{facts['date']}; {facts['processor']}, {facts['cores']} cores, load {facts['load']}; "
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


if __name__ == "__main__":
    Console().print(host_line(conditions()))

"""`tilewright compare`: report what became slower between two sweeps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import option
from tilewright.cli.statuses import FOUND
from tilewright.errors import ArgumentValueError

_PERCENT = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)\s*%", re.ASCII)


def compare(
    old: Annotated[
        Path, typer.Argument(metavar="OLD", help="A file by `tilewright bench --output`.", show_default=False)
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The file to compare with it.", show_default=False)],
    threshold: Annotated[str, option("--threshold")] = "5%",
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Report what became slower or faster between two sweeps, and how sure that is.

    If both sweeps measured another library in turns, times are compared relative to its times. The exit status is 1 if
    something became slower or wrong, or fails now.
    """
    from tilewright.show.rates import store
    from tilewright.show.rates.compare import compare as compared
    from tilewright.show.report import comparison, console, terminal

    found = compared(store.read(old), store.read(new), _fraction(threshold))
    if json:
        console.document("comparison", comparison.document(found))
    else:
        terminal.show(comparison.blocks(found), console.output())
    if found.regressed:
        raise typer.Exit(FOUND)


def _fraction(text: str) -> float:
    """A percentage as a fraction."""
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise ArgumentValueError(f"--threshold must be a percentage (got {text[:60]!r}); try 5% or 2.5%")
    return float(found[1]) / 100

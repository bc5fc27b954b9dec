"""Records that show themselves: `str()` gives the command line's report, and notebooks its tables.

Records know nothing of reports. This is the one place that looks upwards, and only when a record is to be shown: the
report of a record is found by its class in :mod:`tilewright.report.records`.
"""

from __future__ import annotations

import importlib
from typing import Any


class Shown:
    """What a report is made of, as text and as HTML."""

    __slots__ = ()

    def __str__(self) -> str:
        """The report, 100 cells wide, without colour."""
        return str(_reports().text(self))

    def __init_subclass__(cls, **more: Any) -> None:
        """Let IPython's shell show the report: it looks no further than a class that has a `__repr__`."""
        super().__init_subclass__(**more)
        setattr(cls, "_repr_pretty_", Shown._pretty)  # noqa: B010

    def _pretty(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """The report for a notebook."""
        return str(_reports().html(self))


def _reports() -> Any:
    return importlib.import_module("tilewright.report.records")

"""Records that show themselves: `str()` gives the command line's report, and notebooks its tables.

Records do not import reports. Only this module looks upwards, when a record is shown: it finds the record's report by
its class in :mod:`tilewright.report.records`.
"""

from __future__ import annotations

import importlib
from typing import Any


class Shown:
    """A record with a report, as text and as HTML."""

    __slots__ = ()

    def __str__(self) -> str:
        """The report, 100 cells wide, without colour."""
        return str(_reports().text(self))

    def __init_subclass__(cls, **more: Any) -> None:
        """Make IPython's shell show the report: it would stop at a class with a `__repr__` of its own."""
        super().__init_subclass__(**more)
        setattr(cls, "_repr_pretty_", Shown._pretty)  # noqa: B010

    def _pretty(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """The report for a notebook."""
        return str(_reports().html(self))


def _reports() -> Any:
    return importlib.import_module("tilewright.report.records")

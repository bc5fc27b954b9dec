"""Records that show themselves: `str()` gives the command line's report, and notebooks its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol


class Reports(Protocol):
    """The writer of records' reports."""

    def text(self, record: Any) -> str:
        """The report as text without colour."""

    def html(self, record: Any) -> str:
        """The report as HTML."""


class Shown:
    """A record with a report, as text and as HTML."""

    __slots__ = ()

    #: Imports what writes reports when a record is first shown. The package sets it: records do not import reports.
    reports: ClassVar[Callable[[], Reports]]

    def __str__(self) -> str:
        """The report, 100 cells wide, without colour."""
        return Shown.reports().text(self)

    def __init_subclass__(cls, **more: Any) -> None:
        """Make IPython's shell show the report: it would stop at a class with a `__repr__` of its own."""
        super().__init_subclass__(**more)
        setattr(cls, "_repr_pretty_", Shown._pretty)  # noqa: B010

    def _pretty(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """The report for a notebook."""
        return Shown.reports().html(self)

"""`tilewright kernels`: the catalogue."""

from __future__ import annotations


def kernels() -> None:
    """List every kernel, the source row it comes from, and what it takes."""
    from tilewright.kernels import catalogue
    from tilewright.report import console, listing

    listing.kernels(catalogue.records(), console.output())

"""`tilewright ptx-support`: the PTX that the SIMT machine runs."""

from __future__ import annotations


def ptx_support() -> None:
    """Print the page of supported PTX forms, in Markdown."""
    from tilewright.report import console, ptx_support
    from tilewright.simt import isa

    console.plain(ptx_support.page(isa.table().rows))

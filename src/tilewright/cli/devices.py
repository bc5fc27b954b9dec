"""`tilewright devices`: what this machine multiplies on."""

from __future__ import annotations

from typing import Annotated

import typer


def devices(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List what products and kernels run on here, what each can do, and why something is missing."""
    from tilewright.backends import inventory
    from tilewright.report import console, document, listing

    found = inventory.devices()
    if json:
        console.plain(document.devices_json(found))
    else:
        listing.devices(found, console.output())

"""`tilewright cache`: machine code kept on disk."""

from __future__ import annotations

from typing import Annotated

import typer


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every entry.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show the cache of translated kernels: its folder, its entries, and what they may take."""
    from tilewright.native import upkeep
    from tilewright.report import console, document, listing
    from tilewright.settings import Settings

    settings = Settings.from_environ()
    removed = upkeep.clear(settings.cache_dir) if clear else 0
    found = upkeep.contents(settings.cache_dir, removed)
    if json:
        console.document(document.cache(found, settings.cache_bytes))
    else:
        listing.cache(found, settings.cache_bytes, console.output())

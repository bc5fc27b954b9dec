"""`tilewright devices`, `gpus`, `kernels`, `ptx-support` and `cache`: what there is."""

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
        console.document(document.devices(found))
    else:
        listing.devices(found, console.output())


def gpus(
    name: Annotated[str | None, typer.Argument(metavar="[GPU]", help="One of them, or a file FILE.json.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print all data: of one GPU what --gpu takes as FILE.json, else a list.")
    ] = False,
) -> None:
    """List the GPUs that --gpu takes: what sets occupancy, their caches and their rates."""
    from tilewright import machine
    from tilewright.cli import values
    from tilewright.machine import record_files
    from tilewright.report import console, listing

    keys = machine.names() if name is None else [values.gpu_name("GPU", name)]
    records = [machine.gpu(key) for key in keys]
    if not json:
        listing.gpus(records, console.output())
    elif name is None:
        console.document({"gpus": [{"key": one.key} | record_files.document(one) for one in records]})
    else:
        console.document(record_files.document(records[0]))


def kernels() -> None:
    """List every kernel, the source row it comes from, and what it takes."""
    from tilewright.kernels import catalogue
    from tilewright.report import console, listing

    listing.kernels(catalogue.records(), console.output())


def ptx_support() -> None:
    """Print the page of supported PTX forms, in Markdown."""
    from tilewright.report import console, ptx_support
    from tilewright.simt import isa

    console.plain(ptx_support.page(isa.table().rows))


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

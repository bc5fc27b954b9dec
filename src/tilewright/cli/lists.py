"""The listing commands: `tilewright devices`, `gpus`, `kernels`, `ptx-support` and `cache`."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.options import option


def devices(
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """List the devices of this machine, what each can do, and what is missing and why."""
    from tilewright.backends import inventory
    from tilewright.report import console, document, listing

    found = inventory.devices()
    if json:
        console.document("devices", document.devices(found))
    else:
        listing.devices(found, console.screen())


def gpus(
    name: Annotated[str | None, typer.Argument(metavar="[GPU]", help="A GPU's name, or a file FILE.json.")] = None,
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """List the GPUs that --gpu takes: occupancy limits, caches and rates."""
    from tilewright import machine
    from tilewright.cli import values
    from tilewright.machine import record_files
    from tilewright.report import console, listing

    keys = machine.names() if name is None else [values.gpu_name("GPU", name)]
    records = [machine.gpu(key) for key in keys]
    if not json:
        listing.gpus(records, console.screen())
    else:
        console.document("gpus", {"gpus": [{"key": one.key} | record_files.document(one) for one in records]})


def kernels(json: Annotated[bool, option("--json")] = False) -> None:
    """List every kernel, its source and its dtypes."""
    from tilewright.kernels import catalogue
    from tilewright.report import console, document, listing

    if json:
        console.document("kernels", document.kernels(catalogue.records()))
    else:
        listing.kernels(catalogue.records(), console.screen())


def ptx_support() -> None:
    """Print the page of supported PTX, in Markdown."""
    from tilewright.report import console, ptx_support
    from tilewright.simt import isa

    console.plain(ptx_support.page(isa.table().rows))


def cache(
    clear: Annotated[bool, option("--clear")] = False,
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Show the cache of compiled kernels: folder, entries, size and limit."""
    from tilewright.native import upkeep
    from tilewright.report import console, document, listing
    from tilewright.settings import Settings

    settings = Settings.from_environ()
    removed = upkeep.clear(settings.cache_dir) if clear else 0
    found = upkeep.contents(settings.cache_dir, removed)
    if json:
        console.document("cache", document.cache(found, settings.cache_bytes))
    else:
        listing.cache(found, settings.cache_bytes, console.screen())

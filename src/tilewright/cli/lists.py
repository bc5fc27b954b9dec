"""The listing commands: `tilewright devices`, `gpus`, `kernels`, `ptx-support` and `cache`."""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright.cli.options import option


def devices(
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """List the devices of this machine, what each can do, and what is missing and why."""
    from tilewright.multiply.backends import inventory
    from tilewright.show.report import console, document, listing

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
    from tilewright.cli import values
    from tilewright.show.report import console, listing
    from tilewright.simulate import machine
    from tilewright.simulate.machine import record_files

    keys = machine.names() if name is None else [values.gpu_name("GPU", name)]
    records = [machine.gpu(key) for key in keys]
    if not json:
        listing.gpus(records, console.screen())
    else:
        console.document("gpus", {"gpus": [{"key": one.key} | record_files.document(one) for one in records]})


def kernels(json: Annotated[bool, option("--json")] = False) -> None:
    """List every kernel, its source and its dtypes."""
    from tilewright.multiply.kernels import catalogue
    from tilewright.show.report import console, document, listing

    if json:
        console.document("kernels", document.kernels(catalogue.records()))
    else:
        listing.kernels(catalogue.records(), console.screen())


def ptx_support() -> None:
    """Print the page of supported PTX, in Markdown."""
    from tilewright.show.report import console, ptx_support
    from tilewright.simulate import isa

    console.plain(ptx_support.page(isa.table().rows))


def cache(
    clear: Annotated[bool, option("--clear")] = False,
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Show the cache of compiled kernels: folder, entries, size and limit."""
    from tilewright.ground.native import eviction
    from tilewright.ground.settings import Settings
    from tilewright.show.report import console, document, listing

    settings = Settings.from_environ()
    removed = eviction.clear(settings.cache_dir) if clear else 0
    found = eviction.contents(settings.cache_dir, removed)
    if json:
        console.document("cache", document.cache(found, settings.cache_bytes))
    else:
        listing.cache(found, settings.cache_bytes, console.screen())

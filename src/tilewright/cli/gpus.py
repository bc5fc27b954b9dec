"""`tilewright gpus`: the machines whose limits are known."""

from __future__ import annotations


def gpus() -> None:
    """List the GPUs that --gpu takes: what sets occupancy, their caches and their rates."""
    from tilewright import machine
    from tilewright.report import console, listing

    listing.gpus([machine.gpu(name) for name in machine.names()], console.output())

"""The simulated GPU, as a backend: kernels run on it through `simt`."""

from __future__ import annotations

from tilewright import machine
from tilewright.backends.protocol import Device
from tilewright.errors import TilewrightError
from tilewright.settings import Settings


def describe() -> list[Device]:
    """The GPU that settings choose."""
    from tilewright.programs.optional import has_compilers

    try:
        name = machine.gpu(Settings.from_environ().gpu).name
    except TilewrightError as error:
        return [Device("simulated", "", "simulated", missing=f"TILEWRIGHT_GPU: {error}")]
    also = f"limits of {len(machine.names())} GPUs (tilewright gpus)"
    commands: tuple[str, ...] = ("ladder", "run", "check", "profile")
    lacks: tuple[str, ...] = ()
    if not has_compilers():
        commands = ("tw.simt.launch", "tw.check", "tw.profile")
        lacks = ("PTX alone: kernels of Numba and CUDA C++ need pip install 'tilewright[gpu]'",)
    return [Device("simulated", name, "simulated", commands=commands, features=(also, *lacks))]

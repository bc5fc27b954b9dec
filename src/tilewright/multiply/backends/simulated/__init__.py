"""The simulated GPU, as a backend: kernels run on it through `simt`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tilewright.errors import ArgumentValueError, TilewrightError
from tilewright.ground import installation
from tilewright.ground.settings import Settings
from tilewright.multiply.backends.protocol import Device
from tilewright.simulate import machine

if TYPE_CHECKING:
    from tilewright.multiply.backends.launched import LaunchedProducts


def describe() -> list[Device]:
    """The simulated GPU that the settings choose."""
    from tilewright.simulate.programs.optional import has_compilers

    try:
        name = machine.gpu(Settings.from_environ().gpu).name
    except TilewrightError as error:
        return [Device("simulated", "", "simulated", missing=f"TILEWRIGHT_GPU: {error}")]
    also = f"simulated:NAME for {len(machine.names())} GPUs (tilewright gpus)"
    commands: tuple[str, ...] = ("tw.matmul", "ladder", "run", "check", "profile")
    lacks: tuple[str, ...] = ()
    if not has_compilers():
        commands = ("tw.simt.launch", "tw.check", "tw.profile")
        lacks = (f"PTX alone: kernels of Numba and CUDA C++ need {installation.extra('gpu')}",)
    return [Device("simulated", name, "simulated", commands=commands, features=(also, *lacks))]


def opened(device: str) -> LaunchedProducts:
    """The products of the GPU that `device` names ("simulated:h100"), or else of the settings' GPU.

    Raises ArgumentValueError: no GPU has that name, or no compiler supports it any more.
    """
    from tilewright import simulate
    from tilewright.multiply.backends.launched import LaunchedProducts
    from tilewright.simulate.programs.program import OLDEST_CC

    gpu = machine.chosen(device.partition(":")[2].strip())
    if gpu.compute_capability < OLDEST_CC:
        least, got = (".".join(map(str, cc)) for cc in (OLDEST_CC, gpu.compute_capability))
        raise ArgumentValueError(
            f"the kernels must be compiled for compute capability {least} or more (got {gpu.name}, {got}); choose a "
            "newer one of `tilewright gpus`"
        )
    return LaunchedProducts(
        f"{gpu.name}, simulated",
        gpu.compute_capability,
        functools.partial(simulate.launch, gpu=gpu.key),
        gpu,
        simulated=True,
    )

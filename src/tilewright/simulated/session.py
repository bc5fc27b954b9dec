"""`simulated_gpu`: a program's device for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tilewright.simt.observer import Observer
from tilewright.simt.run.limits import Limits
from tilewright.simulated import seam
from tilewright.simulated.gpu import SimulatedGpu


@contextmanager
def simulated_gpu(
    gpu: str = "h100",
    observers: Sequence[Observer] = (),
    seed: int | None = None,
    limits: Limits | None = None,
    *,
    check: bool = False,
) -> Iterator[SimulatedGpu]:
    """Let programs that use `numba.cuda` run on a simulated GPU meanwhile.

    Parameters
    ----------
    gpu : str
        Which one, as `tilewright gpus` lists it.
    observers : sequence of Observer
        Told of its memory and of every launch.
    seed : int, optional
        Shuffles the order of blocks, and of warps in a block, of every launch.
    limits : Limits, optional
        When to give a launch up.
    check : bool
        Whether to look for what is wrong with the kernels; the GPU's `findings` say it. A launch that fails is an error
        as without, and among them too.

    Yields
    ------
    SimulatedGpu

    Raises
    ------
    MissingExtraError
        numba-cuda is not installed.
    ArgumentValueError
        There is no such GPU.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cuda
    >>> @cuda.jit
    ... def double(x):
    ...     i = cuda.grid(1)
    ...     if i < x.size:
    ...         x[i] *= 2
    >>> x = np.arange(4, dtype=np.float32)
    >>> with simulated_gpu("a100") as device:
    ...     double[1, 32](x)
    ...     device.record.name
    'NVIDIA A100 SXM4 80GB'
    >>> x.tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    if check:
        from tilewright.checking import Checks

        observers = (*observers, Checks(gpu=gpu))
    device = SimulatedGpu(gpu, observers, seed, limits)
    with seam.installed(device):
        try:
            yield device
        finally:
            device.close()


@contextmanager
def in_children(gpu: str) -> Iterator[None]:
    """Let Python processes that are started meanwhile have a simulated GPU too, each its own."""
    startup = str(Path(__file__).parent / "startup")
    wanted = {
        "TILEWRIGHT_SIMULATED_GPU": gpu,
        "PYTHONPATH": os.pathsep.join(filter(None, [startup, os.environ.get("PYTHONPATH")])),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def stay_simulated(gpu: str) -> None:
    """Put a simulated GPU in place until the process ends."""
    import atexit

    stack = ExitStack()
    stack.enter_context(simulated_gpu(gpu))
    atexit.register(stack.close)

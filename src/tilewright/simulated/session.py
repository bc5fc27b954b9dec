"""`simulated_gpu`: a program's device for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tilewright.native import private
from tilewright.native.interrupts import none_lost
from tilewright.simt.observer import Launch, Observer
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
    with none_lost(), seam.installed(device):
        try:
            yield device
        finally:
            device.close()


class ChildLaunches(Observer):
    """Notes that a process launched which is not the one that this was made for: what follows a program is in that one.

    Parameters
    ----------
    note : path
        File that is made then.
    process : int
        Number of the process whose launches are not noted.
    """

    def __init__(self, note: Path, process: int) -> None:
        self._note = note
        self._process = process

    @property
    def any(self) -> bool:
        """Whether there were any."""
        return self._note.exists()

    def launching(self, launch: Launch) -> None:
        """Note it, where it is of another process."""
        if os.getpid() != self._process:
            with suppress(OSError):  # the program that is followed has ended
                self._note.touch()


@contextmanager
def in_children(gpu: str, seed: int | None = None, limits: Limits | None = None) -> Iterator[ChildLaunches]:
    """Let Python processes that are started meanwhile have a simulated GPU too, each its own.

    Parameters
    ----------
    gpu, seed, limits
        As :func:`simulated_gpu` takes them; of the limits the seconds.

    Yields
    ------
    ChildLaunches
        To be among this process's observers, for processes that are forked from it.
    """
    startup = str(Path(__file__).parent / "startup")
    seconds = None if limits is None else limits.seconds
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(private.working_folder())
        except OSError:  # nowhere to note them: the file system is read-only, or full
            folder = Path(os.devnull)
        launches = ChildLaunches(folder / "launched", os.getpid())
        wanted = {
            "TILEWRIGHT_SIMULATED_GPU": gpu,
            "TILEWRIGHT_SIMULATED_SEED": "" if seed is None else str(seed),
            "TILEWRIGHT_SIMULATED_LIMIT": "" if seconds is None else repr(seconds),
            "TILEWRIGHT_SIMULATED_NOTE": str(folder / "launched"),
            "PYTHONPATH": os.pathsep.join(filter(None, [startup, os.environ.get("PYTHONPATH")])),
        }
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield launches
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def stay_simulated() -> None:
    """Put the simulated GPU that a parent process asked for in place until this process ends."""
    import atexit

    gpu, seed, limit, note = (os.environ[f"TILEWRIGHT_SIMULATED_{name}"] for name in ("GPU", "SEED", "LIMIT", "NOTE"))
    stack = ExitStack()
    stack.enter_context(
        simulated_gpu(
            gpu,
            observers=[ChildLaunches(Path(note), process=0)],
            seed=int(seed) if seed else None,
            limits=Limits(seconds=float(limit)) if limit else None,
        )
    )
    atexit.register(stack.close)

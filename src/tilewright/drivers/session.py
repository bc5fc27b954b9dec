"""`simulated_gpu`: a program's device for a while."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import ContextDecorator, ExitStack
from typing import TYPE_CHECKING

from tilewright import machine
from tilewright.drivers import patches
from tilewright.drivers.current import placed_gpu
from tilewright.drivers.gpu import SimulatedGpu
from tilewright.drivers.own_launches import OwnLaunches
from tilewright.errors import DeviceError
from tilewright.native.interrupts import none_lost
from tilewright.simt.following import followed_by
from tilewright.simt.observer import Observer
from tilewright.simt.run.limits import Limits

if TYPE_CHECKING:
    from tilewright.checking import Findings


class simulated_gpu(ContextDecorator):  # noqa: N801  # called as a function, as what contextlib has
    """Let programs that use `numba.cuda` run on a simulated GPU: in a `with` block, or from `start()` to `stop()`.

    Both give the :class:`SimulatedGpu`. The parameters are attributes too.

    Parameters
    ----------
    gpu : str
        Which one, as `tilewright gpus` lists it.
    observers : sequence of Observer
        Hears of its memory and of every launch.
    seed : int, optional
        Shuffles the order of blocks, and of warps in a block, of every launch.
    limits : Limits, optional
        When to give a launch up.
    check : bool
        Whether to look for what is wrong with the kernels; the GPU's `findings` say it. A launch that fails is an error
        as without, and among them too.

    Raises
    ------
    MissingExtraError
        numba-cuda is not installed; from `with` and `start()`.
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

    def __init__(
        self,
        gpu: str = "h100",
        observers: Sequence[Observer] = (),
        seed: int | None = None,
        limits: Limits | None = None,
        *,
        check: bool = False,
    ) -> None:
        machine.gpu(gpu)  # an unknown name is refused here, not by `start`, which may be far away
        self.gpu = gpu
        self.observers = tuple(observers)
        self.seed = seed
        self.limits = limits
        self.check = check
        self._device: SimulatedGpu | None = None
        self._open = ExitStack()

    def __repr__(self) -> str:
        """What it is, and whether it is in place."""
        state = "not in place" if self._device is None else "in place"
        return f"<simulated_gpu({self.gpu!r}), {state}>"

    def __enter__(self) -> SimulatedGpu:
        """Put a fresh GPU in place."""
        if self._device is not None:
            raise DeviceError("a simulated GPU must have ended before it begins again (got one in place); end it first")
        observers = self.observers
        if self.check:
            from tilewright.checking import Checks

            observers = (*observers, Checks(gpu=self.gpu))
        device = SimulatedGpu(self.gpu, observers, self.seed, self.limits)
        with ExitStack() as stack:
            stack.enter_context(none_lost())
            stack.enter_context(patches.installed(device))
            stack.enter_context(followed_by(OwnLaunches(device)))
            stack.callback(device.close)
            self._open = stack.pop_all()
        self._device = device
        return device

    def __exit__(self, *error: object) -> None:
        """End the GPU, and put back what was in its place."""
        self._device = None
        self._open.close()

    def start(self) -> SimulatedGpu:
        """Put the GPU in place until :meth:`stop`, or until the process ends: for notebooks, whose cells go on with it.

        One that was started before, by this or another session, ends first: a cell that is run again starts afresh.

        Returns
        -------
        SimulatedGpu

        Raises
        ------
        DeviceError
            One that was started has since been covered by a `with` block.

        Examples
        --------
        >>> import numpy as np
        >>> from numba import cuda
        >>> session = simulated_gpu("t4")
        >>> device = session.start()
        >>> x = cuda.to_device(np.arange(3))  # in one cell
        >>> x.copy_to_host().tolist()  # in another
        [0, 1, 2]
        >>> session.stop()
        """
        before = placed_gpu()
        started = before.started_by if before is not None else None
        for session in (self, started):
            if isinstance(session, simulated_gpu):
                session.stop()
        device = self.__enter__()
        device.started_by = self
        atexit.register(self.stop)
        return device

    def stop(self) -> None:
        """End a GPU that was started; nothing where none was."""
        device = self._device
        if device is None:
            return
        if placed_gpu() is not device:
            raise DeviceError(
                "the simulated GPU in place must be the one that stops (got another one, started since); end that first"
            )
        atexit.unregister(self.stop)
        self.__exit__()

    @property
    def findings(self) -> Findings:
        """What was found so far, where `check` is set; none after the end."""
        from tilewright.checking import Findings

        return Findings(()) if self._device is None else self._device.findings

"""`simulated_gpu`: installs a simulated GPU as a program's device for a time."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from contextlib import ContextDecorator, ExitStack
from typing import TYPE_CHECKING

from tilewright.errors import DeviceError
from tilewright.frontends.core_names import CoreNames
from tilewright.frontends.imported import replaced_when_imported
from tilewright.frontends.this_process import ThisProcess
from tilewright.ground.lazy_exports import public
from tilewright.ground.native.interrupts import none_lost
from tilewright.multiply.backends.cuda import current
from tilewright.simulate import machine
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.installed_gpu import installed_gpu
from tilewright.simulate.installed_device import registered
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.observer import Observer
from tilewright.simulate.programs.optional import require

if TYPE_CHECKING:
    from tilewright.observe.checking import Findings


class ProgramGpu(SimulatedGpu):
    """The simulated GPU of a program in this process."""

    @property
    def findings(self) -> Findings:
        """The findings of its observers so far; see `tilewright.simulated_gpu(check=True)`."""
        from tilewright.observe.checking import Findings

        found = (finding for observer in self.observers for finding in observer.findings)
        return Findings(found, launches=self.launches, kernels=len(self.kernels))


class simulated_gpu(ContextDecorator):  # noqa: N801  # used like a function, like those of contextlib
    """Let programs that use a GPU run on a simulated one: in a `with` block, or from `start()` to `stop()`.

    Both give the :class:`ProgramGpu`. The parameters are attributes too.

    Parameters
    ----------
    gpu : str
        Its name, as `tilewright gpus` lists it.
    observers : sequence of Observer
        Observers of its memory and of every launch.
    seed : int, optional
        The order of blocks and warps in every launch, as for :func:`tilewright.simt.launch`.
    limits : Limits, optional
        Limits after which a launch is abandoned.
    check : bool
        Whether to check the kernels; the GPU's `findings` has the result. A launch that fails raises its error as
        without checks, and is a finding too.
    strict, schedules
        Of these checks, as for :func:`tilewright.check`.

    Raises
    ------
    MissingExtraError
        The compilers are not installed; raised by `with` and `start()`.
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

    @public
    def __init__(
        self,
        gpu: str = "h100",
        observers: Sequence[Observer] = (),
        seed: int | None = None,
        limits: Limits | None = None,
        *,
        check: bool = False,
        strict: bool = False,
        schedules: int = 3,
    ) -> None:
        machine.gpu(gpu)  # an unknown name is an error here, not in `start()`, which may be far away
        self.gpu = gpu
        self.observers = tuple(observers)
        self.seed = seed
        self.limits = limits
        self.check = check
        self.strict = strict
        self.schedules = schedules
        self._device: ProgramGpu | None = None
        self._open = ExitStack()

    def __repr__(self) -> str:
        """Its name, and whether it is installed."""
        state = "not in place" if self._device is None else "in place"
        return f"<simulated_gpu({self.gpu!r}), {state}>"

    def __enter__(self) -> ProgramGpu:
        """Install a new GPU."""
        if self._device is not None:
            raise DeviceError("a simulated GPU must end before it starts again (got one in use); end it first")
        observers = self.observers
        if self.check:
            from tilewright.observe.checking import Checks

            observers = (*observers, Checks(gpu=self.gpu, strict=self.strict, schedules=self.schedules))
        require("cuda.bindings.driver", "Running programs on the simulated GPU")
        device = ProgramGpu(ThisProcess(), self.gpu, observers, self.seed, self.limits)
        with ExitStack() as failed, ExitStack() as stack:
            failed.callback(device.close)
            stack.enter_context(none_lost())
            stack.enter_context(registered(device))
            stack.enter_context(current.replaced_by(CoreNames(device)))
            stack.enter_context(replaced_when_imported(device))
            stack.callback(device.close)
            self._open = stack.pop_all()
            failed.pop_all()
        self._device = device
        return device

    def __exit__(self, *error: object) -> None:
        """End the GPU, and restore what it replaced."""
        self._device = None
        self._open.close()

    def start(self) -> ProgramGpu:
        """Install the GPU until :meth:`stop`, or until the process ends: for notebooks, whose cells share it.

        A GPU that this or another session started before ends first: a cell that runs again gets a new one.

        Returns
        -------
        ProgramGpu

        Raises
        ------
        DeviceError
            A `with` block has been entered after an earlier `start()`.

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
        before = installed_gpu()
        started = before.started_by if before is not None else None
        for session in (self, started):
            if isinstance(session, simulated_gpu):
                session.stop()
        device = self.__enter__()
        device.started_by = self
        atexit.register(self.stop)
        return device

    def stop(self) -> None:
        """End a GPU that was started; no effect if there is none."""
        device = self._device
        if device is None:
            return
        if installed_gpu() is not device:
            raise DeviceError(
                "`stop()` must be for the installed simulated GPU (got another one, started later); stop that first"
            )
        atexit.unregister(self.stop)
        self.__exit__()

    @property
    def findings(self) -> Findings:
        """The findings so far if `check` is set; none after the end."""
        from tilewright.observe.checking import Findings

        return Findings(()) if self._device is None else self._device.findings

"""The caller of driver functions from the simulated GPU's own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewright.frontends.libcuda.loading import Loaded
from tilewright.ground.native.memo import memo
from tilewright.simulate.device.caller import Host
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.launching import LaunchConfig, Launcher, facts
from tilewright.simulate.device.modules import Kernel
from tilewright.simulate.observer import PassedArguments


class ThisProcess(Host):
    """The simulated GPU's own process.

    >>> import ctypes
    >>> buffer = ctypes.create_string_buffer(16)
    >>> host = ThisProcess()
    >>> host.pack("2Q", ctypes.addressof(buffer), 3, 4)
    >>> host.unpacked("2Q", ctypes.addressof(buffer))
    (3, 4)
    """

    def __init__(self) -> None:
        super().__init__()
        self._passing = threading.local()

    @property
    def passed(self) -> PassedArguments | None:
        """The arguments in the body of `passing`."""
        return getattr(self._passing, "arguments", None)

    @contextmanager
    def passing(self, arguments: PassedArguments) -> Iterator[None]:
        """Launches of this thread in the body pass these arguments."""
        before, self._passing.arguments = self.passed, arguments
        try:
            yield
        finally:
            self._passing.arguments = before

    @property
    def loaded(self) -> Loaded:
        """The code that this process has loaded, on any simulated GPU."""
        return _loaded()

    def launch(
        self,
        gpu: SimulatedGpu,
        stream: int,
        config: LaunchConfig,
        kernel: Kernel,
        values: Sequence[bytes],
        passed: PassedArguments | None = None,
    ) -> None:
        """Run a kernel with the bytes of its parameters."""
        launcher = Launcher(gpu)
        launcher.note(lambda packed: facts(gpu, packed, passed), passed)
        launcher.launch(stream, config, kernel, *values)


@memo
def _loaded() -> Loaded:
    return Loaded()

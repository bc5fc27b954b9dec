"""The caller of driver functions from the simulated GPU's own process."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontends.libcuda.loading import Loaded
from tilewright.ground.native.memo import memo
from tilewright.simulate.device.caller import Host
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.launching import LaunchConfig, Launcher, facts
from tilewright.simulate.device.modules import Kernel


class ThisProcess(Host):
    """The simulated GPU's own process.

    >>> import ctypes
    >>> buffer = ctypes.create_string_buffer(16)
    >>> host = ThisProcess()
    >>> host.pack("2Q", ctypes.addressof(buffer), 3, 4)
    >>> host.unpacked("2Q", ctypes.addressof(buffer))
    (3, 4)
    """

    @property
    def loaded(self) -> Loaded:
        """The code that this process has loaded, on any simulated GPU."""
        return _loaded()

    def launch(
        self, gpu: SimulatedGpu, stream: int, config: LaunchConfig, kernel: Kernel, values: Sequence[bytes]
    ) -> None:
        """Run a kernel with the bytes of its parameters."""
        launcher = Launcher(gpu)
        launcher.note(lambda packed: facts(gpu, packed))
        launcher.launch(stream, config, kernel, *values)


@memo
def _loaded() -> Loaded:
    return Loaded()

"""The names of cuda.core for one simulated GPU: those with which `tw.matmul` multiplies arrays of a GPU."""

from __future__ import annotations

import functools

from tilewright.drivers.driver_binding import Binding
from tilewright.drivers.gpu import SimulatedGpu
from tilewright.drivers.host_side import CoreStream, Device
from tilewright.drivers.launching import LaunchConfig, Launcher
from tilewright.drivers.linking import ObjectCode


class CoreNames:
    """See :class:`tilewright.backends.cuda.current.Names`."""

    LaunchConfig, ObjectCode, Stream = LaunchConfig, ObjectCode, CoreStream

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.launch = Launcher(gpu).launch
        self.Device = functools.partial(Device, gpu)
        self.driver = Binding(gpu)

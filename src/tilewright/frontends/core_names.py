"""Replacements for the names of cuda.core that `tw.matmul` uses to multiply arrays on a GPU."""

from __future__ import annotations

import functools

from tilewright.frontends.driver_binding import Binding
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.host_side import CoreStream, Device
from tilewright.simulate.device.launching import LaunchConfig, Launcher
from tilewright.simulate.device.linking import ObjectCode


class CoreNames:
    """See :class:`tilewright.multiply.backends.cuda.current.Names`."""

    LaunchConfig, ObjectCode, Stream = LaunchConfig, ObjectCode, CoreStream

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.launch = Launcher(gpu).launch
        self.Device = functools.partial(Device, gpu)
        self.driver = Binding(gpu)

"""What it runs on: machines as plain data, and what follows from them.

Examples
--------
>>> from tilewright import machine
>>> machine.gpu("h100").multiprocessors
132
"""

from tilewright.machine import occupancy, roofline
from tilewright.machine.gpu import Gpu, gpu, gpus, names

__all__ = ["Gpu", "gpu", "gpus", "names", "occupancy", "roofline"]

"""Machines as plain data, and formulas on them.

Examples
--------
>>> from tilewright import machine
>>> machine.gpu("h100").multiprocessors
132
"""

from tilewright.simulate.machine import occupancy as occupancy, roofline as roofline
from tilewright.simulate.machine.gpu import (
    WARP_LANES as WARP_LANES,
    Gpu as Gpu,
    LaunchLimits as LaunchLimits,
    gpus as gpus,
    launch_limits as launch_limits,
    names as names,
    nearest as nearest,
)
from tilewright.simulate.machine.record_files import chosen as chosen, gpu as gpu

"""For type checkers: the names of `tilewright.machine`."""

from tilewright.simulate.machine import (
    Gpu as Gpu,
    LaunchLimits as LaunchLimits,
    chosen as chosen,
    gpu as gpu,
    gpus as gpus,
    launch_limits as launch_limits,
    names as names,
    nearest as nearest,
)

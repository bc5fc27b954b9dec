"""For type checkers: the names of `tilewright.simt`."""

from tilewright.simulate import (
    DeviceArray as DeviceArray,
    Limits as Limits,
    Memory as Memory,
    Run as Run,
    Variables as Variables,
    launch as launch,
)

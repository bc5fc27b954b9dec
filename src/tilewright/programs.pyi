"""For type checkers: the names of `tilewright.programs`."""

from tilewright.simulate.programs import (
    Argument as Argument,
    Parameter as Parameter,
    Program as Program,
    Resources as Resources,
    program_for as program_for,
)

"""Paths by which users import, for type checkers: mypy reads this file with the package, and nothing runs it."""

from __future__ import annotations

from typing import assert_type

from tilewright import machine, simt
from tilewright.checking import Findings
from tilewright.instruments import Banks
from tilewright.machine import Gpu, gpu
from tilewright.programs import Program
from tilewright.simt import Memory, Run, launch

assert_type(gpu("h100"), Gpu)
assert_type(machine.gpu("h100"), Gpu)
assert_type(launch(Program.from_ptx(""), 1, 1, (), instruments=(Banks(),)), Run)
assert_type(simt.Memory(), Memory)
assert_type(Findings(()).launches, int)

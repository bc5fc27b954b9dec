"""Check: what is wrong with the kernels of a program, gathered from instruments, the machine and the kernels' text."""

from tilewright.checking.gathering import Checks
from tilewright.checking.single import check
from tilewright.instruments.findings import Finding

__all__ = ["Checks", "Finding", "check"]

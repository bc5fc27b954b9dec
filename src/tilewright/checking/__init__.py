"""Check: what is wrong with the kernels of a program, gathered from instruments, the machine and the kernels' text."""

from tilewright.checking.causes import Cause, causes
from tilewright.checking.found import Findings
from tilewright.checking.gathering import Checks
from tilewright.checking.single import check
from tilewright.instruments.findings import Finding

__all__ = ["Cause", "Checks", "Finding", "Findings", "causes", "check"]

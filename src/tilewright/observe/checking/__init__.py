"""Check: defects in a program's kernels, from instruments, the machine's errors and the kernels' PTX."""

from tilewright.observe.checking.causes import Cause, Findings, causes
from tilewright.observe.checking.checker import Checks
from tilewright.observe.checking.single import check
from tilewright.observe.instruments.findings import Finding

__all__ = ["Cause", "Checks", "Finding", "Findings", "causes", "check"]

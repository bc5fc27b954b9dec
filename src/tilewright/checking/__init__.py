"""Check: defects in a program's kernels, from instruments, the machine's errors and the kernels' PTX."""

from tilewright.checking.causes import Cause, causes
from tilewright.checking.found import Findings
from tilewright.checking.gathering import Checks
from tilewright.checking.single import check
from tilewright.instruments.findings import Finding

__all__ = ["Cause", "Checks", "Finding", "Findings", "causes", "check"]

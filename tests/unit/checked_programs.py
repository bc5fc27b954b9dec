"""Programs of numba-cuda, checked on the simulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.checking import Checks, Finding
from tilewright.drivers.session import simulated_gpu


def checked(program: Callable[[], object], **options: Any) -> tuple[Finding, ...]:
    """What `Checks` finds in a program, with its options."""
    checks = Checks(**options)
    with simulated_gpu(observers=(checks,)):
        program()
    return checks.findings

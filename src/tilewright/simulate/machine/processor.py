"""The host's processor."""

from __future__ import annotations

import platform
from pathlib import Path


def host_name() -> str:
    """The host processor's name, from the system."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

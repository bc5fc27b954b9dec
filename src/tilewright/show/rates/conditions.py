"""Conditions of a measurement besides the code: host, versions, clock, and other processes."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.ground.settings import Settings
from tilewright.simulate.machine.processor import host_name

#: Packages that every sweep depends on, besides peers.
PACKAGES = ("tilewright", "numpy", "llvmlite", "numba-cuda", "nvidia-cuda-nvcc", "pyopencl")
#: Sizes as Linux writes them in the processor's folders.
_SIZE = re.compile(r"(\d+)([KMG]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
#: Assumed last-level cache if the processor does not report it.
_CACHE_BYTES = 64 << 20


def conditions(packages: Iterable[str] = ()) -> dict[str, Any]:
    """Processor, cores, threads, clock, load and versions (of further packages too), now."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "threads": Settings.from_environ().threads,
        "mhz": clock_mhz(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "versions": {name: version for name in (*PACKAGES, *packages) if (version := _version(name))},
    }


def processor() -> str:
    """The processor's name, with family and model if Linux reports them: names alone are often only brands."""
    found = _cpuinfo()
    family, model = (found.get(name, [""])[0] for name in ("cpu family", "model"))
    return f"{host_name()} (family {family}, model {model})" if family else host_name()


def clock_mhz() -> int:
    """The mean current clock of the processor's cores; 0 if unknown."""
    clocks = _cpuinfo().get("cpu MHz", [])
    return round(statistics.mean(map(float, clocks))) if clocks else 0


def last_level_bytes() -> int:
    """The processor's largest cache."""
    sizes = [_CACHE_BYTES]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        if found := _SIZE.fullmatch(path.read_text().strip()):
            sizes.append(int(found[1]) * _UNITS[found[2]])
    return max(sizes)


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor seconds of the whole machine since its start; 0 if unknown."""

    all: float = 0.0  #: Including idle ones.
    others: float = 0.0  #: Used by other processes, and by other guests of the host.
    stolen: float = 0.0  #: Stolen: given by the host to other guests while this one had work.

    def since(self, before: Usage) -> Usage:
        """The difference to an earlier usage."""
        return Usage(self.all - before.all, self.others - before.others, self.stolen - before.stolen)


def usage() -> Usage:
    """The processor seconds until now.

    Source: proc(5), /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
    """
    try:
        ticks = [int(field) for field in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
    except (OSError, ValueError):
        return Usage()
    seconds = [tick / os.sysconf("SC_CLK_TCK") for tick in ticks]
    idle = seconds[3] + seconds[4]
    return Usage(sum(seconds), sum(seconds) - idle - time.process_time(), seconds[7])


def _cpuinfo() -> dict[str, list[str]]:
    """A field of /proc/cpuinfo for each core."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for name, colon, value in (line.partition(":") for line in text.splitlines()):
        if colon:
            found.setdefault(name.strip(), []).append(value.strip())
    return found


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""

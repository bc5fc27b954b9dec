"""A GPU's clocks, power and temperature, from NVIDIA's management library; nothing where it cannot be read."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def _gpu() -> tuple[Any, Any] | None:
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception:  # no package, no library, or no GPU
        return None


def driver() -> str:
    """The driver's version; "" if unknown."""
    found = _gpu()
    return str(found[0].nvmlSystemGetDriverVersion()) if found else ""


def mhz() -> int:
    """The clock of the multiprocessors now, in some 20 microseconds; 0 if unknown."""
    found = _gpu()
    return int(found[0].nvmlDeviceGetClockInfo(found[1], found[0].NVML_CLOCK_SM)) if found else 0


def state() -> dict[str, float]:
    """Clocks, power, temperature, and why clocks are lower than they could be (a mask of the library's reasons)."""
    found = _gpu()
    if found is None:
        return {}
    library, gpu = found
    return {
        "sm_mhz": library.nvmlDeviceGetClockInfo(gpu, library.NVML_CLOCK_SM),
        "memory_mhz": library.nvmlDeviceGetClockInfo(gpu, library.NVML_CLOCK_MEM),
        "watts": library.nvmlDeviceGetPowerUsage(gpu) / 1e3,
        "celsius": library.nvmlDeviceGetTemperature(gpu, library.NVML_TEMPERATURE_GPU),
        "reasons": library.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
    }

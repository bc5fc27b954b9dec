"""A GPU's clocks, power and temperature, from NVIDIA's management library; nothing where it cannot be read."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def _gpu() -> tuple[Any, Any] | None:
    """The library and its handle of the current GPU, which need not be the machine's first."""
    try:
        import pynvml
        from cuda.bindings import driver

        pynvml.nvmlInit()
        failed, number = driver.cuCtxGetDevice()
        if int(failed):  # nothing has used a GPU yet
            return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        _, name = driver.cuDeviceGetPCIBusId(32, number)
        return pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(name.split(b"\0")[0])
    except Exception:  # no package, no library, or no GPU
        return None


def _asked(function: str, *options: str) -> float:
    """A number of the library about the GPU; 0 if it has none, as for parts of a GPU."""
    found = _gpu()
    if found is None:
        return 0
    library, gpu = found
    try:
        return float(getattr(library, function)(gpu, *(getattr(library, name) for name in options)))
    except Exception:  # its errors have no common type in all releases
        return 0


def driver() -> str:
    """The driver's version; "" if unknown."""
    found = _gpu()
    return str(found[0].nvmlSystemGetDriverVersion()) if found else ""


def mhz() -> int:
    """The clock of the multiprocessors now, in some 20 microseconds; 0 if unknown."""
    return int(_asked("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"))


def state() -> dict[str, float]:
    """Clocks, power, temperature, and why clocks are lower than they could be (a mask of the library's reasons)."""
    if _gpu() is None:
        return {}
    return {
        "sm_mhz": _asked("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
        "memory_mhz": _asked("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
        "watts": _asked("nvmlDeviceGetPowerUsage") / 1e3,
        "celsius": _asked("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        "reasons": _asked("nvmlDeviceGetCurrentClocksThrottleReasons"),
    }

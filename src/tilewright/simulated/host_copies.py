"""Copies of device arrays to the host: observers are told of them, element by element."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.simt.observer import ArgumentFact
from tilewright.simulated.current import DRIVER
from tilewright.simulated.gpu import SimulatedGpu
from tilewright.simulated.internal_code import source_line


def telling_copy(gpu: SimulatedGpu) -> Callable[..., None]:
    """Stands for `device_to_host` of numba-cuda's driver."""
    driver = importlib.import_module(DRIVER)
    original: Callable[..., None] = driver.device_to_host

    @functools.wraps(original)
    def device_to_host(dst: Any, src: Any, size: int, stream: Any = 0) -> None:
        address = int(driver.device_pointer(src) or 0)
        if gpu.observers and gpu.memory.extent(address):  # what is of no live memory is refused, and read by nobody
            known: Any = (getattr(src, name, None) for name in ("shape", "strides", "dtype"))
            shape, strides, dtype = known
            if not isinstance(dtype, np.dtype) or not shape:  # one element, or bytes that say nothing of themselves
                shape, strides, dtype = (1,), (size,), np.dtype((np.void, size))
            fact = ArgumentFact("", dtype, tuple(shape), tuple(strides), address)
            place = source_line()
            with gpu.lock:
                for observer in gpu.observers:
                    observer.host_reads(fact, place)
        original(dst, src, size, stream)

    return device_to_host

"""Copies of device arrays to the host, reported to observers element by element."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.internal_code import source_line
from tilewright.simulate.device.views import ArrayView
from tilewright.simulate.observer import ArgumentFact
from tilewright.simulate.programs.numba_names import DRIVER


def observed_copy(gpu: SimulatedGpu) -> Callable[..., None]:
    """Replaces `device_to_host` of numba-cuda's driver."""
    driver = importlib.import_module(DRIVER)
    original: Callable[..., None] = driver.device_to_host

    @functools.wraps(original)
    def device_to_host(dst: Any, src: Any, size: int, stream: Any = 0) -> None:
        address = int(driver.device_pointer(src) or 0)
        if gpu.observers and gpu.memory.extent(address):  # a copy from dead memory is an error, and reads nothing
            known: Any = (getattr(src, name, None) for name in ("shape", "strides", "dtype"))
            shape, strides, dtype = known
            if not isinstance(dtype, np.dtype) or not shape:  # one element, or bytes without a dtype
                shape, strides, dtype = (1,), (size,), np.dtype((np.void, size))
            _report(gpu, ArgumentFact("", dtype, tuple(shape), tuple(strides), address))
        original(dst, src, size, stream)

    return device_to_host


def observed_out(gpu: SimulatedGpu) -> Callable[..., Any]:
    """Replaces `cuda.Out.to_device`: the array is copied to the host after the launch, and not to the device."""
    original: Callable[..., Any] = importlib.import_module("numba.cuda.args").Out.to_device

    @functools.wraps(original)
    def to_device(hint: Any, after: list[Callable[[], Any]], stream: Any = 0) -> Any:
        known = len(after)
        array = original(hint, after, stream)
        if gpu.observers and not hint.copy_input and len(after) > known:
            after.insert(known, functools.partial(_report_view, gpu, array))
        return array

    return to_device


def _report_view(gpu: SimulatedGpu, array: ArrayView) -> None:
    strides = tuple(stride * array.dtype.itemsize for stride in array.strides)
    if gpu.memory.extent(array.ptr) and min(strides, default=0) >= 0:
        _report(gpu, ArgumentFact("", array.dtype, array.shape, strides, array.ptr))


def _report(gpu: SimulatedGpu, fact: ArgumentFact) -> None:
    place = source_line()
    with gpu.lock:
        for observer in gpu.observers:
            observer.host_reads(fact, place)

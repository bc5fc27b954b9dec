"""The installed device, whose observers watch all launches of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from tilewright.ground.native.memo import memo
from tilewright.ground.settings import Nested

if TYPE_CHECKING:
    from tilewright.simulate import machine
    from tilewright.simulate.launch_request import LaunchRequest, Limits
    from tilewright.simulate.observer import Observer


class InstalledDevice(Protocol):
    """The parts of the installed device, a `SimulatedGpu`, that a launch needs."""

    @property
    def record(self) -> machine.Gpu:
        """Its machine."""

    @property
    def observers(self) -> Sequence[Observer]:
        """The observers of its launches."""

    @property
    def seed(self) -> int | None:
        """Shuffles the order of blocks and warps of launches that have no seed."""

    @property
    def limits(self) -> Limits | None:
        """Limits of launches that have none; the seconds hold for all."""

    @property
    def lock(self) -> threading.RLock:
        """Held while observers follow a launch."""

    def numbered(self, kernel: str) -> tuple[int, str]:
        """The number of a new launch of a kernel, and the program's line that makes it, `file:line`."""


@memo
def _installed() -> Nested[InstalledDevice]:
    return Nested()


def registered(device: InstalledDevice) -> AbstractContextManager[None]:
    """Make a device the installed one in the body of `with`."""
    return _installed().within(device)


def installed_device() -> InstalledDevice | None:
    """The installed device; None if there is none."""
    return _installed().innermost


def completed(request: LaunchRequest, device: InstalledDevice | None) -> LaunchRequest:
    """A request with the GPU, the seed and the limits of a device, where it has none of its own."""
    if device is None:
        return request
    return replace(
        request,
        gpu=request.gpu or device.record.key,
        seed=device.seed if request.seed is None else request.seed,
        limits=_tighter(request.limits, device.limits),
    )


def _tighter(own: Limits | None, whole: Limits | None) -> Limits | None:
    """A launch's own limits, with at most the seconds of the whole program's limits.

    >>> from tilewright.simt import Limits
    >>> _tighter(Limits(instructions=9, seconds=5), Limits(seconds=2))
    Limits(instructions=9, seconds=2, call_depth=512, threads=None, stack_bytes=8192)
    """
    if own is None or whole is None or whole.seconds is None:
        return own or whole
    return replace(own, seconds=min(whole.seconds, own.seconds or whole.seconds))

"""The installed device, whose observers watch all launches of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from tilewright.ground.native.memo import memo
from tilewright.ground.native.nested import Nested

if TYPE_CHECKING:
    from tilewright.simulate import machine
    from tilewright.simulate.observer import Observer
    from tilewright.simulate.run.limits import Limits


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

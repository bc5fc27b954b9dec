"""A requested launch, as callers of `tilewright.simt.launch`, `check`, `profile` and `predict` make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.simulate import machine
from tilewright.simulate.installed_device import InstalledDevice
from tilewright.simulate.programs.program import OLDEST_CC, Program, program_for
from tilewright.simulate.run.limits import Limits

if TYPE_CHECKING:
    from tilewright.simulate.run.memory import Memory

Extents = int | Sequence[int]


class SimulatedOptions(TypedDict, total=False):
    """Options of :func:`tilewright.simt.launch` that a launch on a real GPU does not take."""

    limits: Limits | None
    seed: int | None
    memory: Memory | None
    gpu: str | None


class LaunchOptions(SimulatedOptions, total=False):
    """Options of :func:`tilewright.simt.launch`, besides the kernel, the extents and the arguments."""

    shared_bytes: int
    cooperative: bool
    cluster: Extents | None


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A launch as a caller requests it: the arguments of :func:`tilewright.simt.launch`."""

    kernel: Any
    grid: Extents
    block: Extents
    args: Sequence[Any]
    shared_bytes: int = 0
    limits: Limits | None = None
    seed: int | None = None
    memory: Memory | None = None
    gpu: str | None = None
    cooperative: bool = False
    cluster: Extents | None = None

    @classmethod
    def by(
        cls, call: str, kernel: Any, grid: Extents, block: Extents, args: Sequence[Any], options: LaunchOptions
    ) -> LaunchRequest:
        """The request of a call that takes a launch's options.

        Raises TypeError: it was given others.
        """
        if unknown := options.keys() - LaunchOptions.__annotations__:
            raise TypeError(f"{call}() got an unexpected keyword argument {min(unknown)!r}")
        return cls(kernel, grid, block, args, **options)

    @property
    def target(self) -> machine.Gpu:
        """The GPU whose limits apply."""
        return machine.chosen(self.gpu)

    @property
    def cc(self) -> tuple[int, int]:
        """The compute capability that the kernel is compiled for."""
        return max(self.target.compute_capability, OLDEST_CC)

    @property
    def program(self) -> Program:
        """The kernel; a Python kernel is specialised for the arguments."""
        return program_for(self.kernel, self.args, self.cc)

    def on(self, device: InstalledDevice | None) -> LaunchRequest:
        """The request with the GPU, the seed and the limits of a device, where it has none of its own."""
        if device is None:
            return self
        return replace(
            self,
            gpu=self.gpu or device.record.key,
            seed=device.seed if self.seed is None else self.seed,
            limits=tighter(self.limits, device.limits),
        )

    def check_options(self) -> None:
        """Refuse options of the wrong type.

        Raises ArgumentTypeError, ArgumentValueError: an option is wrong; the message names it.
        """
        from tilewright.simulate.run.memory import Memory

        for name, value, kind in (("limits", self.limits, Limits), ("memory", self.memory, Memory)):
            if value is not None and not isinstance(value, kind):
                raise ArgumentTypeError(
                    f"`{name}` must be a tilewright.simt.{kind.__name__} (got {value!r}); leave it out for the default"
                )
        seed = self.seed
        whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if seed is not None and (not whole or seed < 0):
            raise ArgumentValueError(
                f"`seed` must be a whole number from 0 on (got {seed!r}); leave it out for no shuffling"
            )


def tighter(own: Limits | None, whole: Limits | None) -> Limits | None:
    """A launch's own limits, with at most the seconds of the whole program's limits.

    >>> tighter(Limits(instructions=9, seconds=5), Limits(seconds=2))
    Limits(instructions=9, seconds=2, call_depth=512, threads=None, stack_bytes=8192)
    """
    if own is None or whole is None or whole.seconds is None:
        return own or whole
    return replace(own, seconds=min(whole.seconds, own.seconds or whole.seconds))

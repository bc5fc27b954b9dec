"""Followers of a program: they get the launches made by `tilewright.simt.launch`, which pass no device's driver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from tilewright import machine
from tilewright.native.nested import Nested
from tilewright.native.once import once
from tilewright.programs.program import OLDEST_CC, Program, program_for
from tilewright.simt.run.limits import Limits

if TYPE_CHECKING:
    from tilewright.simt.run.memory import Memory

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
class Asked:
    """A launch as requested by a caller of `tilewright.simt.launch`."""

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
    ) -> Asked:
        """What a call asks for that takes a launch's options.

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


class Follower(Protocol):
    """Gets the launches of a program."""

    def bounded(self, asked: Asked) -> Asked:
        """The launch with the program's own limits where it sets none."""

    def before(self, asked: Asked) -> None:
        """Called before a launch. The follower may run it first for itself; its errors become the launch's."""


@once
def _followers() -> Nested[Follower]:
    return Nested()


def followed_by(follower: Follower) -> AbstractContextManager[None]:
    """Make one follower get the launches inside the block, instead of earlier followers."""
    return _followers().within(follower)


def bounded(asked: Asked) -> Asked:
    """The launch with the GPU, the seed and the limits of the program's follower, where it has none of its own."""
    follower = _followers().innermost
    return follower.bounded(asked) if follower else asked


def followed(asked: Asked) -> Asked:
    """Pass a launch to the program's follower; returns the launch to run."""
    asked, follower = bounded(asked), _followers().innermost
    if follower:
        follower.before(asked)
    return asked


def tighter(own: Limits | None, whole: Limits | None) -> Limits | None:
    """A launch's own limits, with at most the seconds of the whole program's limits.

    >>> tighter(Limits(instructions=9, seconds=5), Limits(seconds=2))
    Limits(instructions=9, seconds=2, call_depth=512, threads=None, stack_bytes=8192)
    """
    if own is None or whole is None or whole.seconds is None:
        return own or whole
    return replace(own, seconds=min(whole.seconds, own.seconds or whole.seconds))

"""Who follows a program: a launch that it makes by `tilewright.simt.launch` is on no device whose driver would tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from tilewright import machine
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
    """What a launch takes besides a kernel, extents and arguments, by :func:`tilewright.simt.launch`."""

    shared_bytes: int
    cooperative: bool
    cluster: Extents | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A launch as a caller of `tilewright.simt.launch` asks for it."""

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

    @property
    def target(self) -> machine.Gpu:
        """The GPU whose limits hold."""
        return machine.chosen(self.gpu)

    @property
    def cc(self) -> tuple[int, int]:
        """The compute capability that the kernel is compiled for."""
        return max(self.target.compute_capability, OLDEST_CC)

    @property
    def program(self) -> Program:
        """The kernel, specialised for the arguments where it is one of Python's."""
        return program_for(self.kernel, self.args, self.cc)


class Follower(Protocol):
    """Hears of launches."""

    def bounded(self, asked: Asked) -> Asked:
        """The launch with what holds for all of the program's, where it leaves that open."""

    def before(self, asked: Asked) -> None:
        """A launch is about to begin; it may run for the follower first, whose errors are the launch's."""


@once
def _followers() -> list[Follower]:
    return []


@contextmanager
def followed_by(follower: Follower) -> Iterator[None]:
    """Let one hear of launches meanwhile, instead of any before."""
    _followers().append(follower)
    try:
        yield
    finally:
        _followers().remove(follower)


def told(asked: Asked) -> Asked:
    """The launch that is to run, once who follows the program has heard of it."""
    for follower in _followers()[-1:]:
        asked = follower.bounded(asked)
        follower.before(asked)
    return asked


def tighter(own: Limits | None, whole: Limits | None) -> Limits | None:
    """Limits of a launch, and no more seconds than the whole program's launches have.

    >>> tighter(Limits(instructions=9, seconds=5), Limits(seconds=2))
    Limits(instructions=9, seconds=2, call_depth=512, threads=None, stack_bytes=8192)
    """
    if own is None or whole is None or whole.seconds is None:
        return own or whole
    return replace(own, seconds=min(whole.seconds, own.seconds or whole.seconds))

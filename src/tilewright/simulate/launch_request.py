"""A requested launch and its limits: what callers give to `launch`, `check`, `profile` and `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.ground.settings import THREADS_MAX
from tilewright.simulate import machine
from tilewright.simulate.programs.program import OLDEST_CC, Program, program_for
from tilewright.simulate.translate.analysis.special import STACK_BYTES

if TYPE_CHECKING:
    from tilewright.simulate.run.memory import Memory


#: Seconds after which a launch is stopped where it would hold up a report, if nothing else is set: under `check`, in
#: pytest and in notebooks.
DEFAULT_SECONDS = 600
#: The limit of instructions of a launch without one: more than any host can run.
UNLIMITED = 2**62
#: Depths are counted in 32-bit registers.
CALL_DEPTH_MAX = 2**31 - 1
#: Local memory of a thread. Source: CUDA C++ Programming Guide, technical specifications (512 KB).
STACK_BYTES_MAX = 512 << 10
#: Part of local memory that is kept for other uses than the stack.
_STACK_BYTES_ASKED_MAX = STACK_BYTES_MAX // 2
#: The least that a call takes of a GPU's stack: its return address, aligned.
_FRAME_BYTES = 16
#: Each count: its field, its maximum, whether it may be None, and the remedy for a wrong value.
_COUNTS = (
    ("instructions", UNLIMITED, True, "leave it out for no limit"),
    ("call_depth", CALL_DEPTH_MAX, False, "leave it out for 512"),
    ("threads", THREADS_MAX, True, "leave it out for every core"),
    ("stack_bytes", STACK_BYTES_MAX, False, f"leave it out for {STACK_BYTES:,}"),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use before it is stopped with a `LimitError`.

    Attributes
    ----------
    instructions : int, optional
        Warp instructions of the whole launch, from 1 to 2**62. A launch that runs more is an error, whatever host
        threads ran them; `Budget` states how soon.
    seconds : float, optional
        Host time of the run, more than 0; translation does not count.
    call_depth : int
        Depth of calls of functions that are not inlined; from 1 to 2**31 - 1.
    threads : int, optional
        Host threads, from 1 to 1,024; `TILEWRIGHT_THREADS` or the host's cores by default.
    stack_bytes : int
        Local memory of a thread for what it allocates on its stack (`alloca`), 8,192 bytes by default; where nothing
        is allocated, of called functions that are not inlined, which get at least 65,536.

    Raises
    ------
    ArgumentValueError, ArgumentTypeError
        A limit that is out of bounds, or not a number.

    Examples
    --------
    >>> Limits(instructions=10_000, seconds=0.5).call_depth
    512
    """

    instructions: int | None = None
    seconds: float | None = None
    call_depth: int = 512
    threads: int | None = None
    stack_bytes: int = STACK_BYTES

    @classmethod
    def default(cls) -> Limits:
        """The limits of launches under `check`, in pytest and in notebooks, if nothing else is set.

        >>> Limits.default().seconds
        600
        """
        return cls(seconds=DEFAULT_SECONDS)

    def with_stack(self, asked_bytes: int) -> Limits:
        """The same limits with a stack of at least `asked_bytes`, as far as a GPU has them, and calls as deep.

        >>> Limits().with_stack(1024) == Limits(), Limits().with_stack(65_536)
        (True, Limits(instructions=None, seconds=None, call_depth=4096, threads=None, stack_bytes=65536))
        """
        asked_bytes = min(asked_bytes, _STACK_BYTES_ASKED_MAX)
        if asked_bytes <= self.stack_bytes:
            return self
        depth = max(self.call_depth, asked_bytes // _FRAME_BYTES)
        return replace(self, stack_bytes=asked_bytes, call_depth=depth)

    def __post_init__(self) -> None:
        """Refuse invalid limits."""
        for name, most, optional, remedy in _COUNTS:
            value = getattr(self, name)
            if value is None and optional:
                continue
            _check(name, value, int | np.integer, "a whole number", remedy)
            if not 1 <= value <= most:
                raise ArgumentValueError(f"`limits.{name}` must be between 1 and {most:,} (got {value:,}); {remedy}")
            object.__setattr__(self, name, int(value))
        if self.seconds is not None:
            remedy = "leave it out for no limit"
            _check("seconds", self.seconds, int | float | np.integer | np.floating, "a number", remedy)
            if not self.seconds > 0:  # a NaN too
                raise ArgumentValueError(f"`limits.seconds` must be more than 0 (got {self.seconds}); {remedy}")


def _check(name: str, value: Any, kinds: Any, what: str, remedy: str) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise ArgumentTypeError(f"`limits.{name}` must be {what} (got {value!r}); {remedy}")


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
        if isinstance(self.kernel, Program):
            return self.kernel
        return program_for(self.kernel, self.args, self.cc)

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

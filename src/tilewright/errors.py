"""Every exception Tilewright raises, its warning, and what they say of a wrong name.

All derive from :class:`TilewrightError`. An error that a user's argument caused also derives from `ValueError`
or `TypeError`, so ordinary handlers keep working. A message names its subject, the rule, what came, and what to do.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, field
from pathlib import Path
from typing import Any, Self


class TilewrightError(Exception):
    """The base of every error raised by Tilewright."""


class TilewrightWarning(UserWarning):
    """Something that changes no result, such as a cache that cannot be used."""


def warn(text: str) -> None:
    """Warn at the line that called Tilewright."""
    package, frame, level = str(Path(__file__).parent), sys._getframe(1), 2
    while frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, TilewrightWarning, stacklevel=level + 1)


class ArgumentValueError(TilewrightError, ValueError):
    """An argument has a value that the rule named in the message does not allow."""

    @classmethod
    def of_name(cls, subject: str, got: object, allowed: Iterable[str], remedy: str = "choose one") -> Self:
        """The error for a name that is none of those allowed: it lists them all, and asks for the nearest.

        >>> ArgumentValueError.of_name("`order`", "canonicl", ["canonical", "fast"]).args[0]
        "`order` must be one of canonical, fast (got 'canonicl'); did you mean canonical?"
        """
        every = list(allowed)
        return cls(f"{subject} must be one of {', '.join(every)} (got {got!r}); {near(str(got), every, remedy)}")


def near(got: str, allowed: Iterable[str], otherwise: str = "") -> str:
    """The question whether a similar name is meant; without one, another remedy.

    >>> near("--size", ["--sizes", "--seed"]), near("MinPlus", ["min-plus", "max-plus"])
    ('did you mean --sizes?', 'did you mean min-plus?')
    """
    found = nearest(got, allowed)
    return f"did you mean {' or '.join(found)}?" if found else otherwise


def nearest(got: str, allowed: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names that are most similar, whatever their case and punctuation."""
    import difflib

    plain = {"".join(filter(str.isalnum, name.lower())): name for name in allowed}
    wanted = "".join(filter(str.isalnum, got.lower()))
    return [plain[one] for one in difflib.get_close_matches(wanted, plain, n=most, cutoff=cutoff)]


class MissingFileError(ArgumentValueError, FileNotFoundError):
    """An argument names a file that is not there."""

    @classmethod
    def of(cls, path: str | os.PathLike[str], subject: str = "") -> Self:
        """The error for a path, or for what it is called: it asks for a file beside it with a similar name."""
        where = Path(path)
        got, meant = f"{where}: no such file" if subject else "no such file", f"there is no folder {where.parent}"
        with contextlib.suppress(OSError):
            there = sorted(where.parent.iterdir(), key=lambda one: (one.suffix == where.suffix, one.name))
            stems = {one.stem: one.name for one in there}
            close = nearest(where.stem, stems)
            meant = f"did you mean {where.with_name(stems[close[0]])}?" if close else "check its name"
        return cls(f"{subject or where} must be a file that is there (got {got}); {meant}")


class ArgumentTypeError(TilewrightError, TypeError):
    """An argument has a type or dtype that the rule named in the message does not allow."""


class MissingExtraError(TilewrightError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it.

    Attributes
    ----------
    extra : str
        Its name: `gpu`, `opencl`, `blocks`, `cluster` or `report`.
    """

    def __init__(self, message: str, extra: str = "") -> None:
        super().__init__(message)
        self.extra = extra


class CompileError(TilewrightError, ValueError):
    """A compiler (Numba, NVRTC, the vendor's assembler) refused a kernel; carries the compiler's own text."""


class PtxError(TilewrightError, ValueError):
    """PTX text that cannot be parsed or translated; the message starts with `file:line:`."""


class TranslatorError(TilewrightError):
    """The SIMT machine's translator failed at an instruction that it claims to know: a defect of Tilewright."""


class LaunchError(TilewrightError, ValueError):
    """A launch that no GPU would accept: its grid, block, shared memory or arguments break a rule."""


class TargetError(LaunchError):
    """A launch on a GPU that the suffix of the PTX's `.target` rules out (`sm_90a`, `sm_100f`)."""


@dataclass(eq=False, repr=False)
class KernelError(TilewrightError):
    """A kernel went wrong while it ran."""

    message: InitVar[str]
    _: KW_ONLY
    kernel: str = ""  #: Entry name.
    line: str = ""  #: Source position, `file:line`; the PTX line if there is no line table.
    #: Source position in library code that this line calls, if the error happened there; else "".
    inner: str = ""
    #: `block`, `thread`: the first that met the error, as (x, y, z).
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    address: int | None = None  #: The byte address, for memory errors.
    #: The broken rule as a key that programs can test: `misaligned`; `bounds` and the state space; `deadlock`;
    #: `barrier` (how a barrier is used); `barrier count` (its number of threads); `assertion`; `undefined code` (a
    #: `trap` of the compiler's); `not cooperative` (a grid barrier in an ordinary launch). "" for all else.
    fault: str = ""
    opcode: str = ""  #: The PTX instruction, such as `ld.global.f32`; "" where there is none.
    ptx_line: int = 0  #: Its line in the PTX text, from 1; 0 where there is none.
    #: Line, opcode and PTX line of the other instructions concerned, such as the other barriers of a deadlock.
    others: tuple[tuple[str, str, int], ...] = ()
    #: What went wrong, without the kernel's name and the place; the whole message if it has no such parts.
    summary: str = ""
    #: The results of the launch's instruments up to the error, by name.
    results: Mapping[str, Any] = field(default_factory=dict)
    printed: str = ""  #: What the kernel had printed up to the error.

    def __post_init__(self, message: str) -> None:
        super().__init__(message)
        self.summary = self.summary or message.removeprefix(f"{self.kernel}: ")


class MemoryAccessError(KernelError):
    """An access outside its arena, or misaligned."""


class DeadlockError(KernelError):
    """All threads of a block, or of a warp, wait at barriers that can no longer complete."""


class TrapError(KernelError):
    """The kernel executed `trap`."""


class AssertionFailedError(TrapError):
    """An `assert` of the kernel failed; `line` is its source line."""


class LimitError(KernelError):
    """A run passed its limit of instructions, seconds or call depth."""


class DeviceError(TilewrightError, RuntimeError):
    """A real device is missing or reported an error."""


class OutOfMemoryError(TilewrightError, MemoryError):
    """A result does not fit in this host's memory; the message says what would."""


class StorageError(TilewrightError, OSError):
    """An array's file cannot be read or written; the message says what was kept and what to do.

    Attributes
    ----------
    errno : int, optional
        The system's error number, such as `errno.ENOSPC` for a full disk; None if the file itself is wrong.
    """

    def __init__(self, message: str, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.errno)


class MissingArrayError(StorageError, MissingFileError):
    """An array's file is not there."""

"""Every environment variable and path Tilewright reads, typed, in one place; and settings for the body of a `with`.

`docs/commands.md` lists them. ``NO_COLOR`` and ``COLUMNS`` are honoured too; rich reads them itself.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from tilewright.errors import ArgumentValueError

#: More host threads than any host has cores for; each has a stack of its own.
THREADS_MAX = 1024
#: Room for some ten thousand kernels.
CACHE_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the environment gives.

    Attributes
    ----------
    cache_dir : pathlib.Path, optional
        Folder of compiled kernels; it need not exist yet. None if there is no home folder for it.
    cache_bytes : int
        Most bytes that the cache may hold; the least recently used kernels are removed.
    threads : int
        Host threads of a simulated launch, from 1 to 1,024.
    gpu : str
        Name of the GPU to take limits from, as `tilewright gpus` lists it.
    debug : bool
        Whether the command line shows tracebacks.
    amx : bool
        Whether products may use AMX tile registers where the host has them.
    quick_code : bool
        Whether kernels of a simulated GPU begin in code that is quickly made.

    Examples
    --------
    >>> Settings.from_environ({"TILEWRIGHT_THREADS": "3"}).threads
    3
    """

    cache_dir: Path | None
    threads: int
    gpu: str
    debug: bool
    amx: bool = True
    quick_code: bool = True
    cache_bytes: int = CACHE_BYTES

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings; an unset or empty variable means its default.

        Parameters
        ----------
        environ : mapping of str to str, optional
            Variables to read instead of the process's own.

        Raises
        ------
        ArgumentValueError
            A variable has a value that its meaning does not allow.
        """
        variables = os.environ if environ is None else environ
        return cls(
            cache_dir=_cache_dir(variables.get("TILEWRIGHT_CACHE_DIR", "")),
            threads=_threads(variables.get("TILEWRIGHT_THREADS", "")),
            gpu=gpu_name(variables),
            debug=debugging(variables),
            amx=variables.get("TILEWRIGHT_AMX", "") != "0",
            quick_code=quick_code(variables),
            cache_bytes=_cache_bytes(variables.get("TILEWRIGHT_CACHE_BYTES", "")),
        )


def gpu_name(environ: Mapping[str, str] | None = None) -> str:
    """The name of the GPU to take limits from."""
    return (os.environ if environ is None else environ).get("TILEWRIGHT_GPU", "") or "h100"


def quick_code(environ: Mapping[str, str] | None = None) -> bool:
    """Whether kernels of a simulated GPU begin in code that is quickly made."""
    return (os.environ if environ is None else environ).get("TILEWRIGHT_QUICK_CODE", "") != "0"


def host_threads() -> int:
    """The number of host threads of a simulated launch."""
    return _threads(os.environ.get("TILEWRIGHT_THREADS", ""))


def debugging(environ: Mapping[str, str] | None = None) -> bool:
    """Whether to show tracebacks; never fails, so that error reports can call it."""
    variables = os.environ if environ is None else environ
    return variables.get("TILEWRIGHT_DEBUG", "") not in ("", "0")


def _cache_dir(text: str) -> Path | None:
    """The cache folder: the variable's, with `~` expanded, or the user's."""
    if text:
        try:
            return Path(text).expanduser()
        except RuntimeError:  # nobody knows this user's home
            return None
    return _user_cache_dir(os.environ.get("HOME"), os.environ.get("XDG_CACHE_HOME"), os.geteuid())


@functools.lru_cache(maxsize=8)
def _user_cache_dir(home: str | None, caches: str | None, user: int) -> Path | None:
    """The user's cache folder, memoised by what it depends on: every launch needs it, and looking it up is slow.

    None if there is no home folder: a container's user often has none.

    Source: XDG Base Directory Specification, which says to ignore relative paths.
    """
    if caches and Path(caches).is_absolute():
        return Path(caches) / "tilewright"
    try:
        at = Path(home or "~").expanduser()
        return at / ".cache" / "tilewright" if at.is_dir() else None
    except (RuntimeError, OSError):
        return None


def _cache_bytes(text: str) -> int:
    """Most bytes of the cache."""
    if not text:
        return CACHE_BYTES
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ArgumentValueError(
            f"TILEWRIGHT_CACHE_BYTES must be a whole number of bytes (got {text!r}); unset it for {CACHE_BYTES:,}, or "
            f"set 0 to keep nothing"
        )
    return int(text)


def _threads(text: str) -> int:
    """The number of host threads; the default counts only the cores this process may use."""
    if not text:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= THREADS_MAX:
        raise ArgumentValueError(
            f"TILEWRIGHT_THREADS must be a whole number from 1 to {THREADS_MAX:,} (got {text!r}); unset it to use "
            f"every core"
        )
    return int(text)


_T = TypeVar("_T")


class Nested(Generic[_T]):
    """Values of nested `with` blocks.

    >>> units = Nested[str]()
    >>> with units.within("ms"):
    ...     with units.within("us"):
    ...         units.innermost
    'us'
    >>> units.innermost is None
    True
    """

    def __init__(self) -> None:
        self._held: list[_T] = []

    @contextmanager
    def within(self, value: _T) -> Iterator[None]:
        """Let a value count in the body of `with`."""
        self._held.append(value)
        try:
            yield
        finally:
            # Blocks of two threads may end in another order than they began, and equal values are different ones.
            del self._held[next(at for at, one in enumerate(self._held) if one is value)]

    @property
    def innermost(self) -> _T | None:
        """The value that counts; None outside of all."""
        held = self._held
        return held[-1] if held else None

"""Checks free memory before a large result is allocated, since Linux overcommits."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import OutOfMemoryError
from tilewright.simulate.machine.sizes import size_text

#: Smaller results are allocated without a check, which takes 50 us.
LARGE_BYTES = 1 << 28
#: The memory limit of the process's control group, in versions 2 and 1. Its current usage is not read, since that
#: counts droppable page cache too. Source: Linux kernel documentation, admin-guide/cgroup-v2.rst ("memory.max") and
#: cgroup-v1/memory.rst.
_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

#: Most bytes that are left to other programs; a launch's threads write less between two looks.
_RESERVE_BYTES = 1 << 30


def is_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether free memory is checked before an array is allocated."""
    return math.prod(shape) * dtype.itemsize >= LARGE_BYTES


def available_bytes(meminfo: str = "/proc/meminfo", groups: tuple[str, ...] = _GROUPS) -> int | None:
    """Bytes that this process can still allocate without being killed; None if the system does not tell.

    This is memory and swap that are free or can be freed, at most the limit of the process's control group.
    Source: Linux manual, proc_meminfo(5), "MemAvailable" and "SwapFree".
    """
    try:
        lines = dict(line.split(":", 1) for line in Path(meminfo).read_text("ascii").splitlines() if ":" in line)
        found = sum(int(lines[name].split()[0]) for name in ("MemAvailable", "SwapFree") if name in lines) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return min([found, *_limits(groups)])


def _limits(groups: tuple[str, ...] = _GROUPS) -> list[int]:
    """The limits of the process's control group; none where it has no group, or no limit ("max")."""
    found = []
    for limit in groups:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(limit).read_text("ascii")))
    return found


def resident_bytes(status: str = "/proc/self/status") -> int:
    """Bytes of this process's resident memory; 0 if the system does not tell.

    Source: Linux manual, proc_pid_status(5), "VmRSS".
    """
    try:
        lines = dict(line.split(":", 1) for line in Path(status).read_text("ascii").splitlines() if ":" in line)
        return int(lines["VmRSS"].split()[0]) * 1024
    except (OSError, ValueError, KeyError, IndexError):
        return 0


def left_bytes() -> int | None:
    """As `available_bytes`, but of a control group's limit only what this process does not use yet."""
    found = available_bytes()
    return None if found is None else max(0, min([found, *(limit - resident_bytes() for limit in _limits())]))


def refused(size_bytes: int) -> str:
    """Why so many bytes must not be written at once; empty if they may."""
    left = left_bytes() if size_bytes >= LARGE_BYTES else None
    if left is None or size_bytes <= left - reserve_bytes():
        return ""
    return f"the host must have {size_text(size_bytes)} of free memory, and some to spare (it has {size_text(left)})"


def reserve_bytes() -> int:
    """Bytes that are left to other programs: an eighth of the memory, so that small hosts can use theirs too."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_RESERVE_BYTES, min([whole, *_limits()]) // 8)


class MemoryGuard:
    """Detects that work has used up the host's memory; the work begins now.

    A simulated GPU's memory, and what instruments keep of it, is address space until it is written. So what a launch
    takes is known only while it runs. Earlier launches may have written the GPU's memory, of which `held` bytes are in
    use: many launches together must not take more than one.
    """

    def __init__(self, held: int) -> None:
        self._before, self._held = resident_bytes(), held

    def shortage(self) -> str:
        """The memory that the work took and left, if it must stop now; empty if it may go on.

        Work that has taken little may go on: other processes use the memory then.
        """
        now = resident_bytes()
        taken = min(now, now - self._before + self._held)
        left = left_bytes() if taken >= LARGE_BYTES else None
        if left is None or left >= (reserve := reserve_bytes()):
            return ""
        return f"{size_text(reserve)} of the host's memory (took {size_text(taken)} and left {size_text(left)})"


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], a_ndim: int, b_ndim: int) -> npt.NDArray[Any]:
    """A new array for a product; `a_ndim` and `b_ndim` are the operands' numbers of dimensions.

    Raises OutOfMemoryError: it does not fit in memory; the message says what would.
    """
    needed = math.prod(shape) * dtype.itemsize
    room = available_bytes() if needed >= LARGE_BYTES else None
    if room is None or needed <= room:
        try:
            return np.empty(shape, dtype)
        except (MemoryError, ValueError) as error:  # ValueError: more bytes than addresses
            raise OutOfMemoryError(_message(shape, dtype, needed, room, a_ndim, b_ndim)) from error
    raise OutOfMemoryError(_message(shape, dtype, needed, room, a_ndim, b_ndim))


def _message(
    shape: tuple[int, ...], dtype: np.dtype[Any], needed: int, room: int | None, a_ndim: int, b_ndim: int
) -> str:
    has = "less" if room is None else size_text(room)
    axis, what = len(shape) - 1, "columns of `b`"
    if len(shape) > (a_ndim > 1) + (b_ndim > 1):
        axis, what = 0, "matrices"
    elif a_ndim > 1:
        axis, what = 0, "rows of `a`"
    fitting = 0 if room is None else room * shape[axis] // needed
    few = f" ({fitting:,} at a time fit)" if fitting else ""
    return (
        f"the result must fit in memory: {shape} of {dtype} take {size_text(needed)} (this process can have {has}); "
        f"multiply some {what} at a time{few}, or give `out`, as numpy.memmap makes it in a file"
    )

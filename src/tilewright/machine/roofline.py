"""The rate that a GPU's arithmetic and each level of its memory allow at most.

Source: Williams, Waterman, Patterson, Roofline: An Insightful Visual Performance Model, CACM 52(4), 2009. For the
levels between: Yang, Kurth, Williams, Hierarchical Roofline Analysis for GPUs, Concurrency and Computation 32, 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.errors import ArgumentValueError
from tilewright.machine.gpu import Gpu

#: Levels of memory, from the one nearest to the arithmetic.
LEVELS = ("shared", "l1", "l2", "dram")
ARITHMETIC = "arithmetic"


@dataclass(frozen=True, slots=True)
class Level:
    """What one level of memory allows."""

    name: str  #: One of `LEVELS`.
    bytes: int  #: What it moved.
    gb_per_s: float | None  #: What it can move, 10^9 bytes a second; None where no source states it.
    intensity: float  #: Operations for each byte it moved.
    ridge: float | None  #: Operations a byte at which it allows as much as the arithmetic does.
    gflops: float | None  #: The most operations a second it allows, 10^9.


@dataclass(frozen=True, slots=True)
class Roofline:
    """What bounds a piece of work."""

    gflops: float  #: The most that can be reached, 10^9 operations a second.
    bound: str  #: `arithmetic`, or the level of memory that allows least.
    peak_gflops: float  #: What the arithmetic allows.
    levels: tuple[Level, ...]  #: Those that moved anything, the nearest first.


def seconds(gpu: Gpu, level: str, size: int) -> float | None:
    """How long a level of memory takes at least for so many bytes; None where no source states its rate.

    Examples
    --------
    >>> from tilewright.machine.gpu import gpu
    >>> seconds(gpu("a100"), "dram", 2039 * 10**9)
    1.0
    """
    rate = gpu.gb_per_s(level)
    return None if rate is None else size / rate / 1e9


def roofline(gpu: Gpu, *, operations: float, bytes_moved: Mapping[str, int], dtype: str = "float32") -> Roofline:
    """Bound the rate of work by what each level of memory must move for it.

    Parameters
    ----------
    gpu : Gpu
    operations : float
        Additions and multiplications; a multiply-add is two.
    bytes_moved : mapping of str to int
        Bytes by level, of `LEVELS`; one that is left out bounds nothing.
    dtype : str
        "float32", "float64", "float16" or "int32"; tensor cores are not considered.

    Raises
    ------
    ArgumentValueError
        A number is negative, or a level or dtype is none of those.

    Examples
    --------
    >>> from tilewright.machine.gpu import gpu
    >>> bound = roofline(gpu("a100"), operations=1e9, bytes_moved={"l2": 10**9, "dram": 4 * 10**9})
    >>> round(bound.gflops, 2), bound.bound
    (509.75, 'dram')
    >>> [(level.name, round(level.gflops), round(level.ridge, 2)) for level in bound.levels]
    [('l2', 7219, 2.7), ('dram', 510, 9.56)]
    """
    unknown = set(bytes_moved) - set(LEVELS)
    if unknown:
        raise ArgumentValueError(
            f"`bytes_moved` must be by levels of {', '.join(LEVELS)} (got {', '.join(sorted(unknown))}); name them so"
        )
    for name, number in (("operations", operations), *(("bytes_moved", size) for size in bytes_moved.values())):
        if number < 0:
            raise ArgumentValueError(f"`{name}` must not be negative (got {number}); give 0 or more")
    peak = gpu.peak_gflops(dtype)
    levels = tuple(_level(gpu, name, operations, bytes_moved[name], peak) for name in LEVELS if bytes_moved.get(name))
    roofs = {level.name: level.gflops for level in levels if level.gflops is not None}
    bound = min(roofs, key=roofs.__getitem__, default=ARITHMETIC)
    if bound == ARITHMETIC or roofs[bound] >= peak:
        return Roofline(peak, ARITHMETIC, peak, levels)
    return Roofline(roofs[bound], bound, peak, levels)


def _level(gpu: Gpu, name: str, operations: float, size: int, peak: float) -> Level:
    rate, intensity, taken = gpu.gb_per_s(name), operations / size, seconds(gpu, name, size)
    if rate is None or taken is None:
        return Level(name, size, None, intensity, None, None)
    return Level(name, size, rate, intensity, peak / rate, operations / taken / 1e9)

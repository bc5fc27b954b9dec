"""The roofline: the highest rate that a GPU's arithmetic and each level of its memory allow.

Source: Williams, Waterman, Patterson, Roofline: An Insightful Visual Performance Model, CACM 52(4), 2009. For the
levels between: Yang, Kurth, Williams, Hierarchical Roofline Analysis for GPUs, Concurrency and Computation 32, 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.errors import ArgumentValueError
from tilewright.simulate.machine.gpu import Gpu

#: Levels of memory, from the one nearest to the arithmetic.
LEVELS = ("shared", "l1", "l2", "dram")
ARITHMETIC = "arithmetic"


@dataclass(frozen=True, slots=True)
class Level:
    """The bound of one level of memory."""

    name: str  #: One of `LEVELS`.
    bytes: int  #: Bytes that it moved.
    gb_per_s: float | None  #: Its bandwidth, 10^9 bytes a second; None if no source states it.
    intensity: float  #: Arithmetic intensity: operations for each byte it moved.
    ridge: float | None  #: The intensity at which its bound equals that of arithmetic.
    gflops: float | None  #: Its bound, 10^9 operations a second.


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bound of a piece of work."""

    gflops: float  #: The highest rate, 10^9 operations a second.
    bound: str  #: `arithmetic`, or the level of memory with the lowest bound.
    peak_gflops: float  #: The bound of arithmetic.
    levels: tuple[Level, ...]  #: Levels that moved bytes, the nearest first.


def seconds(gpu: Gpu, level: str, size: int) -> float | None:
    """The least time of a level of memory for a number of bytes; None if no source states its bandwidth.

    >>> from tilewright.simulate.machine import gpu
    >>> seconds(gpu("a100"), "dram", 2039 * 10**9)
    1.0
    """
    rate = gpu.gb_per_s(level)
    return None if rate is None else size / rate / 1e9


def roofline(gpu: Gpu, *, operations: float, bytes_moved: Mapping[str, int], dtype: str = "float32") -> Roofline:
    """Bound the rate of work by the bytes that each level of memory moves for it.

    Parameters
    ----------
    gpu : Gpu
    operations : float
        Additions and multiplications; a multiply-add is two.
    bytes_moved : mapping of str to int
        Bytes by level, of `LEVELS`; an omitted level sets no bound.
    dtype : str
        "float32", "float64", "float16" or "int32"; tensor cores are not considered.

    Raises
    ------
    ArgumentValueError
        A number is negative, or a level or dtype is unknown.

    Examples
    --------
    >>> from tilewright.simulate.machine import gpu
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

"""The rate that a GPU's arithmetic and memory allow at most.

Source: Williams, Waterman, Patterson, Roofline: An Insightful Visual Performance Model, CACM 52(4), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ArgumentValueError
from tilewright.machine.gpu import Gpu


@dataclass(frozen=True, slots=True)
class Roofline:
    """What bounds a piece of work.

    Attributes
    ----------
    gflops : float
        The most that can be reached, 10^9 operations a second.
    bound : str
        `arithmetic` or `memory`.
    ridge : float
        Operations a byte at which the two bounds meet.
    """

    gflops: float
    bound: str
    ridge: float


def roofline(gpu: Gpu, *, intensity: float, dtype: str = "float32") -> Roofline:
    """Bound the rate of work of a given intensity.

    Parameters
    ----------
    gpu : Gpu
    intensity : float
        Operations a byte moved between the GPU and its memory.
    dtype : str
        "float32", "float64" or "int32"; tensor cores are not considered.

    Examples
    --------
    >>> from tilewright.machine.gpu import gpu
    >>> bound = roofline(gpu("a100"), intensity=0.25)
    >>> bound.gflops, bound.bound, round(bound.ridge, 2)
    (509.75, 'memory', 9.56)
    """
    if intensity < 0:
        raise ArgumentValueError(f"`intensity` must not be negative (got {intensity})")
    peak = gpu.peak_gflops(dtype)
    ridge = peak / gpu.memory_gb_per_s
    if intensity < ridge:
        return Roofline(intensity * gpu.memory_gb_per_s, "memory", ridge)
    return Roofline(peak, "arithmetic", ridge)

"""Bounds of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use before it is stopped with a `LimitError`.

    Attributes
    ----------
    instructions : int, optional
        Warp instructions of the whole launch. A launch that runs more is an error, whenever it is noticed: each host
        thread looks every two million or fewer, and their sum is looked at when all are done.
    seconds : float, optional
        Host time of the run; translation is not counted.
    call_depth : int
        Calls inside calls, of functions that are not inlined.
    threads : int, optional
        Host threads; `TILEWRIGHT_THREADS` or the host's cores by default.
    """

    instructions: int | None = None
    seconds: float | None = None
    call_depth: int = 512
    threads: int | None = None

"""Bounds of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use before it is stopped with a `LimitError`.

    Attributes
    ----------
    instructions : int, optional
        Warp instructions of the whole launch; checked every two million or fewer of a warp.
    seconds : float, optional
        Host time.
    call_depth : int
        Calls inside calls, of functions that are not inlined.
    threads : int, optional
        Host threads; `TILEWRIGHT_THREADS` or the host's cores by default.
    """

    instructions: int | None = None
    seconds: float | None = None
    call_depth: int = 512
    threads: int | None = None

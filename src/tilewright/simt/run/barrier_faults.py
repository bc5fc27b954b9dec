"""What went wrong at barriers, in words.

Source of the rules: PTX ISA, 9.7.13.1 (bar, barrier).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tilewright.errors import DeadlockError, KernelError
from tilewright.simt.events import Site
from tilewright.simt.translate import state
from tilewright.simt.translate.code import LANES


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that lanes at a barrier broke: the error's class and its text, of `{got}` and `{other}`."""

    error: type[KernelError]
    text: str


RULES: Final = {
    state.BARRIER_ID: Rule(KernelError, "the barrier must be 0 to 15 (got {got}); a block has 16"),
    state.BARRIER_COUNT: Rule(
        KernelError, "the threads must be a positive multiple of 32 (got {got}); barriers count whole warps"
    ),
    state.BARRIER_COUNTS: Rule(
        KernelError,
        "all that take part in a barrier must name the same number of threads (got {got_threads} where others that "
        "arrived name {other_threads}); give them one number, or different barriers",
    ),
    state.BARRIER_IDS: Rule(
        DeadlockError,
        "the lanes of a warp must wait at the same barrier (got {got} where others of the warp wait at {other}); each "
        "waits for all lanes of its warp that have not exited, so none of them can go on",
    ),
    state.BARRIER_FORMS: Rule(
        KernelError,
        "the lanes of a warp must reach barrier {got} by the same form (got two of sync, arrive and red); only "
        "different warps may use different forms",
    ),
    state.BARRIER_REDUCED: Rule(
        KernelError,
        "all that take part in barrier {got} must use red, or none of them (got red among sync or arrive); use "
        "another barrier for the reduction",
    ),
}


def rule_text(rule: Rule, got: int, other: int, threads: int) -> str:
    """A rule with the values that broke it; `threads` is the block's number of threads."""

    def count(value: int) -> str:
        return str(value) if value else f"all {threads}"

    return rule.text.format(got=got, other=other, got_threads=count(got), other_threads=count(other))


def waits_text(slot: np.ndarray[Any, np.dtype[np.uint64]], warps: int, sites: Sequence[Site]) -> str:
    """Which barriers of a block have begun and cannot complete: who has arrived, and how many threads they take.

    Examples
    --------
    >>> slot = np.zeros(state.SLOT_BYTES // 8, np.uint64)
    >>> first = slot.view(np.uint32)[state.SLOT_BARRIERS // 4 :]
    >>> first[:3] = [64, 96, 0b11]  # arrived, count, joined
    >>> waits_text(slot, 4, [Site(None, 12, "", "bar.sync")])
    'barrier 0 has 64 of 96 threads (warps 0, 1; first at PTX line 12)'
    """
    words = slot.view(np.uint32)[state.SLOT_BARRIERS // 4 : state.SLOT_BYTES // 4].reshape(state.BARRIERS, -1)
    gone = int(slot[state.SLOT["gone"] // 8])
    found = []
    for number, row in enumerate(words):
        arrived, count, joined, site = (
            int(row[state.BARRIER[name] // 4]) for name in ("arrived", "count", "joined", "site")
        )
        if arrived:
            needed = count or LANES * (warps - gone.bit_count())
            first = sites[site].source or f"PTX line {sites[site].ptx_line}"
            names = ", ".join(str(w) for w in range(warps) if joined >> w & 1)
            found.append(
                f"barrier {number} has {arrived} of {needed} threads "
                f"(warp{'s' * (joined.bit_count() != 1)} {names}; first at {first})"
            )
    return "; ".join(found)

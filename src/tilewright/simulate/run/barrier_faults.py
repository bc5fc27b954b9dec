"""The messages of errors in barriers.

Source of the rules: PTX ISA, 9.7.13.1 (bar, barrier).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tilewright.errors import DeadlockError, KernelError
from tilewright.simulate import state
from tilewright.simulate.code import LANES
from tilewright.simulate.events import Site


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that lanes at a barrier broke: the error's class, its text with `{got}` and `{other}`, and its fault."""

    error: type[KernelError]
    text: str
    fault: str = "barrier"


RULES: Final = {
    state.BARRIER_ID: Rule(KernelError, "the barrier must be 0 to 15 (got {got}); a block has 16"),
    state.BARRIER_COUNT: Rule(
        KernelError,
        "the threads must be a positive multiple of 32 (got {got}); barriers count whole warps",
        "barrier count",
    ),
    state.BARRIER_COUNTS: Rule(
        KernelError,
        "all threads of a barrier must give the same thread count (got {got_threads} where threads that "
        "arrived gave {other_threads}); use one count, or different barriers",
        "barrier count",
    ),
    state.BARRIER_IDS: Rule(
        DeadlockError,
        "the lanes of a warp must wait at the same barrier (got {got} where others of the warp wait at {other}); each "
        "waits for all lanes of its warp that have not exited, so none of them can go on",
    ),
    state.BARRIER_FORMS: Rule(
        KernelError,
        "the lanes of a warp must reach barrier {got} with the same form (got two of sync, arrive and red); only "
        "different warps may use different forms",
    ),
    state.CLUSTER_TWICE: Rule(
        KernelError,
        "a thread must wait at the barrier of the cluster before it arrives again (got two arrivals); put "
        "barrier.cluster.wait between them",
    ),
    state.CLUSTER_UNARRIVED: Rule(
        KernelError,
        "a thread must arrive at the barrier of the cluster before it waits there (got no arrival since it last "
        "waited); put barrier.cluster.arrive before it",
    ),
    state.BARRIER_REDUCED: Rule(
        KernelError,
        "all threads at barrier {got} must use red, or none (got red together with sync or arrive); use "
        "another barrier for the reduction",
    ),
}


def rule_text(rule: Rule, got: int, other: int, threads: int) -> str:
    """A rule's text with the values that broke it; `threads` is the block's number of threads."""

    def count(value: int) -> str:
        return str(value) if value else f"all {threads}"

    return rule.text.format(got=got, other=other, got_threads=count(got), other_threads=count(other))


@dataclass(frozen=True, slots=True)
class Wait:
    """A barrier that cannot complete, with warps of a block waiting at it."""

    barrier: int
    #: `arrived`, `needed`: numbers of threads.
    arrived: int
    needed: int
    counted: bool  #: Whether the barrier has a thread count; else all threads that have not exited take part.
    warps: tuple[int, ...]  #: The warps that have arrived.
    site: Site  #: The site where the first of them arrived.


def waits(slot: np.ndarray[Any, np.dtype[np.uint64]], warps: int, sites: Sequence[Site]) -> list[Wait]:
    """The barriers at which warps of a block wait, and which cannot complete."""
    words = slot.view(np.uint32)[state.SLOT_BARRIERS // 4 : state.SLOT_BYTES // 4].reshape(state.BARRIERS, -1)
    gone = int(slot[state.SLOT["gone"] // 8])
    found = []
    for number, row in enumerate(words):
        arrived, count, joined, site = (
            int(row[state.BARRIER[name] // 4]) for name in ("arrived", "count", "joined", "site")
        )
        if arrived:
            needed = count or LANES * (warps - gone.bit_count())
            names = tuple(w for w in range(warps) if joined >> w & 1)
            found.append(Wait(number, arrived, needed, bool(count), names, sites[site]))
    return found


def waits_text(found: Sequence[Wait]) -> str:
    """The waits as text: the warps that arrived, and the thread count of each barrier.

    >>> slot = np.zeros(state.SLOT_BYTES // 8, np.uint64)
    >>> first = slot.view(np.uint32)[state.SLOT_BARRIERS // 4 :]
    >>> first[:3] = [64, 96, 0b11]  # arrived, count, joined
    >>> waits_text(waits(slot, 4, [Site(None, 12, "", "bar.sync")]))
    'barrier 0 has 64 of 96 threads (warps 0, 1; first at PTX line 12)'
    """
    return "; ".join(
        f"barrier {wait.barrier} has {wait.arrived} of {wait.needed} threads "
        f"(warp{'s' * (len(wait.warps) != 1)} {', '.join(map(str, wait.warps))}; "
        f"first at {wait.site.source or f'PTX line {wait.site.ptx_line}'})"
        for wait in found
    )


def cluster_text(records: np.ndarray[Any, np.dtype[np.uint64]], warps: int, site: Site) -> str:
    """The place where warps wait at the cluster's barrier, and the ranks of the blocks that have not arrived."""
    arrived, gone = (records[:, state.SLOT[name] // 8] for name in ("arrived", "gone"))
    missing = np.flatnonzero((arrived | gone) != (1 << warps) - 1).tolist()
    return (
        f"at {site.source or f'PTX line {site.ptx_line}'} others wait at the barrier of the cluster, at which not all "
        f"threads of the block{'s' * (len(missing) != 1)} of rank {', '.join(map(str, missing))} have arrived"
    )

"""Waits at mbarriers that never end: the warp skipped a phase, or bytes or arrivals are missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.observe.instruments.findings import Finding, split
from tilewright.observe.instruments.places import place
from tilewright.observe.instruments.shadow.cells import WATCHED, WATCHED_ONE_BYTES
from tilewright.simulate.events import Facts, Site
from tilewright.simulate.isa.mbarrier_bits import Mbarrier


@dataclass(frozen=True, slots=True)
class Wait:
    """An mbarrier at which a thread waits for ever."""

    row: int  #: Number of the instruction's site.
    thread: int
    phase: int  #: Number of completed phases.
    skipped: int  #: Number of completed phases that the thread's warp did not await.
    bytes_expected: int  #: Bytes that this phase expects.
    found: Mbarrier


def of(watched: npt.NDArray[np.uint8]) -> list[Wait]:
    """Read the mbarriers of a block's memory."""
    waiting = []
    for start in range(0, watched.size, WATCHED_ONE_BYTES):
        words = watched[start : start + WATCHED_ONE_BYTES].view(np.uint32)
        field = {name: int(words[at // 4]) for name, at in WATCHED.items() if at // 4 < words.size}
        if field["place"] and field["waits_row"]:
            bits = field["bits"] | int(words[WATCHED["bits"] // 4 + 1]) << 32
            waiting.append(
                Wait(
                    field["waits_row"] - 1,
                    field["waits_by"],
                    field["phase"],
                    field["waits_ahead"],
                    field["bytes"],
                    Mbarrier.of(bits, field["place"] - 1),
                )
            )
    return waiting


def finding_of(wait: Wait, block: tuple[int, int, int], sites: list[Site], facts: Facts, kernel: str) -> Finding:
    """TW407 if the thread skipped phases; else TW409 if only the bytes are wrong; else TW408."""
    site, found = sites[wait.row], wait.found
    source, line = split(site.source)
    details = {"address": found.address, "place": f"{found.address:#x}", "phase": wait.phase}
    came = found.expected - found.pending
    if wait.skipped:
        code, details = "TW407", details | {"how": "skipped", "behind": wait.skipped}
    elif not found.pending and found.pending_bytes:
        brought = wait.bytes_expected - found.pending_bytes
        code, details = "TW409", details | {"how": "bytes", "came": brought, "expected": wait.bytes_expected}
    else:
        code, details = "TW408", details | {"how": "arrivals", "came": came, "expected": found.expected}
    return Finding(
        code=code,
        kernel=kernel,
        source=source,
        line=line,
        opcode=site.opcode,
        ptx_line=site.ptx_line,
        block=block,
        thread=place(wait.thread, facts.block),
        details=details,
    )

"""What warps wait for at mbarriers for ever: phases that they skipped, or bytes and arrivals that do not come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.instruments.findings import Finding, split
from tilewright.instruments.places import place
from tilewright.instruments.shadow.cells import WATCHED, WATCHED_ONE_BYTES
from tilewright.simt.events import Facts, Site
from tilewright.simt.isa.mbarrier_bits import Mbarrier


@dataclass(frozen=True, slots=True)
class Wait:
    """An mbarrier at which a thread waits in vain."""

    row: int  #: Of the instruction.
    thread: int
    phase: int  #: How many have been complete.
    skipped: int  #: How many of these the thread's warp has not awaited.
    bytes_expected: int  #: By this phase.
    found: Mbarrier


def of(watched: npt.NDArray[np.uint8]) -> list[Wait]:
    """Read the mbarriers that a block's memory has."""
    waiting = []
    for start in range(0, watched.size, WATCHED_ONE_BYTES):
        words = watched[start : start + WATCHED_ONE_BYTES].view(np.uint32)
        field = {name: int(words[at // 4]) for name, at in WATCHED.items() if at // 4 < words.size}
        if field["place"] and field["waits_row"]:
            bits = field["bits"] | int(words[WATCHED["bits"] // 4 + 1]) << 32
            waiting.append(
                Wait(
                    field["waits_row"] - 1, field["waits_by"], field["phase"], field["waits_ahead"], field["bytes"],
                    Mbarrier.of(bits, field["place"] - 1),
                )
            )  # fmt: skip
    return waiting


def finding_of(wait: Wait, block: tuple[int, int, int], sites: list[Site], facts: Facts, kernel: str) -> Finding:
    """TW407 of a thread that skipped phases, else TW409 where only bytes are missing or too many, else TW408."""
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
        code=code, kernel=kernel, source=source, line=line, opcode=site.opcode, ptx_line=site.ptx_line, block=block,
        thread=place(wait.thread, facts.block), details=details,
    )  # fmt: skip

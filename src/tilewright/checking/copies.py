"""TW510: what a kernel wrote through a host array, and the copy of another one that shares its memory overwrites.

numba-cuda copies each host array of a launch to the device, and back after it, one after the other. Two that share
memory are two arrays there; the one that is copied back last wins, also where the kernel wrote through the first alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from tilewright.checking import launches
from tilewright.instruments.findings import Finding
from tilewright.instruments.touched import TouchedResult
from tilewright.simt.events import GLOBAL_BASE
from tilewright.simt.observer import ArgumentFact, Launch


def findings(launch: Launch, touched: TouchedResult) -> Iterator[Finding]:
    """A finding for each two host arrays of a launch of which the second's copy overwrites what the first's holds."""
    copied = [fact for fact in launch.arguments if fact.host_address]
    for first, second in itertools.combinations(copied, 2):  # in the order in which they are copied back
        start = max(first.host_address, second.host_address)
        size = min(first.host_address + _bytes(first), second.host_address + _bytes(second)) - start
        if size <= 0:
            continue
        one, other = (
            touched.written[fact.address - GLOBAL_BASE + start - fact.host_address :][:size] for fact in (first, second)
        )
        lost = int((one[: other.size] > other[: one.size]).sum())
        if lost:
            text = (
                f"host arrays `{first.name}` and `{second.name}` share memory and are copied apart: {lost:,} bytes "
                f"that the kernel wrote through `{first.name}` are overwritten when `{second.name}` is copied back"
            )
            details = {"array": first.name, "other": second.name}
            yield launches.at(launch, "TW510", text, details=details)


def _bytes(fact: ArgumentFact) -> int:
    """Bytes that are copied."""
    return 0 if fact.dtype is None else math.prod(fact.shape) * fact.dtype.itemsize

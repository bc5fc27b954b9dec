"""Defects in copies to the host: results that are lost (TW510), and elements that nobody wrote (TW205).

numba-cuda copies each host array of a launch to the device, and back afterwards, one after the other. Two arrays that
share memory become two on the device. The copy back of the last one overwrites the others, even if the kernel wrote
only through the first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from tilewright.observe.checking import launches
from tilewright.observe.instruments.findings import Finding, split
from tilewright.observe.instruments.shadow.cells import READABLE
from tilewright.observe.instruments.shadow.states import States
from tilewright.observe.instruments.touched import TouchedResult
from tilewright.simulate.events import GLOBAL_BASE
from tilewright.simulate.observer import ArgumentFact, Launch


def findings(launch: Launch, touched: TouchedResult) -> Iterator[Finding]:
    """A finding for each two host arrays of a launch where the copy of the second overwrites results of the first."""
    copied = [fact for fact in launch.arguments if fact.host_address]
    for first, second in itertools.combinations(copied, 2):  # in the order of the copies back
        start = max(first.host_address, second.host_address)
        size = min(first.host_address + _bytes(first), second.host_address + _bytes(second)) - start
        if size <= 0:
            continue
        one, other = (
            touched.written[fact.address - GLOBAL_BASE + start - fact.host_address :][:size] for fact in (first, second)
        )
        lost = int((one[: other.size] > other[: one.size]).sum())
        if lost:
            yield launches.at(launch, "TW510", array=first.name, other_array=second.name, lost=lost)


def _bytes(fact: ArgumentFact) -> int:
    """The bytes that are copied."""
    return 0 if fact.dtype is None else math.prod(fact.shape) * fact.dtype.itemsize


def unwritten(array: ArgumentFact, source_line: str, states: States) -> list[Finding]:
    """A finding for a device array that the host copies although some of its elements were never written.

    An element with any written byte counts as written, because structures are copied with their padding.
    """
    if array.dtype is None or 0 in array.shape or not array.dtype.itemsize:
        return []
    start = array.address - GLOBAL_BASE
    bytes_ = np.ndarray((*array.shape, array.dtype.itemsize), np.uint8, states.bytes_.data, start, (*array.strides, 1))
    unset = ~(bytes_ & READABLE).any(-1)
    if not unset.any():
        return []
    file, line = split(source_line)
    details = {
        "unset": int(unset.sum()),
        "elements": unset.size,
        "first": [int(part[0]) for part in np.nonzero(unset)],
        "shape": list(array.shape),
        "address": array.address,
    }
    return [Finding(code="TW205", kernel="", source=file, line=line, details=details)]

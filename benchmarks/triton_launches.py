"""Memory that launches of a small Triton kernel leave behind, of the process and of the device.

    tilewright run benchmarks/triton_launches.py [LAUNCHES]

The first 1,000 launches are not counted. Runs on Linux, whose `/proc` it reads.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

_BEFORE = 1000


@triton.jit
def doubled(x, out, n, block: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    """Twice each element."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)


def used() -> tuple[int, int, float]:
    """Resident bytes of the process, allocated bytes of the device, and the clock in seconds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), torch.cuda.memory_allocated(), time.perf_counter()


def main(launches: int) -> None:
    """Launch, and say what more is used."""
    x: Any = torch.ones(100, device="cuda")
    for at in range(_BEFORE + launches):
        if at == _BEFORE:
            before = used()
        doubled[(1,)](x, torch.empty_like(x), 100, block=128)
    process, device, seconds = (after - first for after, first in zip(used(), before, strict=True))
    print(f"{launches} launches, {seconds:.1f} s: {process} bytes more of the process, {device} of the device")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

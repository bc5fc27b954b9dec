"""What the engine keeps between calls, made when first asked for and anew after a fork."""

from __future__ import annotations

import functools
import os

from tilewright.cpu.gemm import Buffers, Crew


@functools.cache
def _buffers(process: int) -> Buffers:
    return Buffers()


@functools.cache
def _crew(process: int, threads: int) -> Crew:
    return Crew(threads)


def buffers() -> Buffers:
    """The packing buffers of the process."""
    return _buffers(os.getpid())


def crew(threads: int) -> Crew:
    """The crew of a size, of the process."""
    return _crew(os.getpid(), threads)

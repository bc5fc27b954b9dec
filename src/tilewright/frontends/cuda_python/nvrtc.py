"""A table of the names of `cuda.bindings.nvrtc` that are replaced while a simulated GPU is installed.

Compiled code is PTX, with source lines.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

from tilewright.frontends.kernel_sources import at_its_lines
from tilewright.ground.native.replaced_names import Row
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.device.internal_code import internal_folders
from tilewright.simulate.device.linking import WITH_LINES
from tilewright.simulate.programs.optional import with_vendor_library


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    nvrtc = with_vendor_library("cuda.bindings.nvrtc", "Compiling CUDA C++")  # also for the program's own calls
    create, compile_ = nvrtc.nvrtcCreateProgram, nvrtc.nvrtcCompileProgram

    @functools.wraps(create)
    def at_lines(source: bytes, *given: Any) -> Any:
        if not _ours():
            source = at_its_lines(source.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        return create(source, *given)

    @functools.wraps(compile_)
    def with_lines(program: Any, count: int, options: Any) -> Any:
        flags = list(options or ())[:count]
        if not _ours() and not WITH_LINES & set(flags):
            flags.append(b"-lineinfo")
        return compile_(program, len(flags), flags)

    yield "cuda.bindings.nvrtc", "nvrtcCreateProgram", at_lines
    yield "cuda.bindings.nvrtc", "nvrtcCompileProgram", with_lines
    yield "cuda.bindings.nvrtc", "nvrtcGetCUBINSize", nvrtc.nvrtcGetPTXSize
    yield "cuda.bindings.nvrtc", "nvrtcGetCUBIN", nvrtc.nvrtcGetPTX


def _ours() -> bool:
    """Whether the caller is not the user's program."""
    return sys._getframe(2).f_code.co_filename.startswith(internal_folders())

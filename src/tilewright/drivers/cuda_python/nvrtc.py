"""The names of `cuda.bindings.nvrtc` that are replaced while a simulated GPU is in place: a table.

The code that a program gets for a GPU is PTX, with source lines.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

from cuda.bindings import nvrtc

from tilewright.drivers.gpu import SimulatedGpu
from tilewright.drivers.internal_code import internal_folders
from tilewright.drivers.linking import TELLS_LINES
from tilewright.programs.numba_names import Row


def rows(gpu: SimulatedGpu) -> Iterator[Row]:
    """The table for one simulated GPU."""
    compile_ = nvrtc.nvrtcCompileProgram

    @functools.wraps(compile_)
    def with_lines(program: Any, count: int, options: Any) -> Any:
        flags = list(options or ())[:count]
        mine = sys._getframe(1).f_code.co_filename.startswith(internal_folders())
        if not mine and not TELLS_LINES & set(flags):
            flags.append(b"-lineinfo")
        return compile_(program, len(flags), flags)

    yield "cuda.bindings.nvrtc", "nvrtcCompileProgram", with_lines
    yield "cuda.bindings.nvrtc", "nvrtcGetCUBINSize", nvrtc.nvrtcGetPTXSize
    yield "cuda.bindings.nvrtc", "nvrtcGetCUBIN", nvrtc.nvrtcGetPTX

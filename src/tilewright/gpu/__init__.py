"""Kernels for GPUs, and Programs made from Python, CUDA C++ and PTX.

====================== =========================================================================
:class:`Program`       a compiled kernel: PTX, entry, parameters, lines, resources
:class:`Resources`     registers, spills, stack and shared memory, from the vendor's assembler
:class:`Parameter`     one kernel parameter in PTX
:class:`Argument`      what one Python argument must be
:func:`program_for`    the Program of anything that can be launched
:func:`launch`         runs a kernel on a real GPU; the signature of `tilewright.simt.launch`
====================== =========================================================================

No compiler is imported before it is used; without the `gpu` extra only :meth:`Program.from_ptx` works.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.gpu.arguments import Argument as Argument
    from tilewright.gpu.assembler import Resources as Resources
    from tilewright.gpu.listing import Parameter as Parameter
    from tilewright.gpu.program import Program as Program
    from tilewright.gpu.program import program_for as program_for

_HOMES = {
    "Argument": "arguments",
    "Parameter": "listing",
    "Program": "program",
    "Resources": "assembler",
    "launch": "device",
    "program_for": "program",
}

__all__ = ["Argument", "Parameter", "Program", "Resources", "launch", "program_for"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

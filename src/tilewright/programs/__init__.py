"""From source to Program: kernels compiled from Python, CUDA C++ and PTX, with no GPU present.

====================== =========================================================================
:class:`Program`       a compiled kernel: PTX, entry, parameters, lines, resources
:class:`Resources`     registers, spills, stack and shared memory, from the vendor's assembler
:class:`Parameter`     one kernel parameter in PTX
:class:`Argument`      what one Python argument must be
:func:`program_for`    the Program of anything that can be launched
====================== =========================================================================

No compiler is imported before it is used; without the `gpu` extra only :meth:`Program.from_ptx` works.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.programs.arguments import Argument as Argument
    from tilewright.programs.assembler import Resources as Resources
    from tilewright.programs.listing import Parameter as Parameter
    from tilewright.programs.program import Program as Program
    from tilewright.programs.program import program_for as program_for

_HOMES = {
    "Argument": "arguments",
    "Parameter": "listing",
    "Program": "program",
    "Resources": "assembler",
    "program_for": "program",
}

__all__ = ["Argument", "Parameter", "Program", "Resources", "program_for"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

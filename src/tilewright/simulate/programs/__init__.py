"""From source to Program: kernels compiled from Python, CUDA C++ and PTX, with no GPU present.

====================== =========================================================================
:class:`Program`       a compiled kernel: PTX, entry, parameters, lines, resources
:class:`Resources`     registers, spills, stack and shared memory, from the vendor's assembler
:class:`Parameter`     one kernel parameter in PTX
:class:`Argument`      what one Python argument must be
:func:`program_for`    the Program of anything that can be launched
====================== =========================================================================

Compilers are imported at their first use; without the `gpu` extra only :meth:`Program.from_ptx` works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ground.lazy_exports import publish

if TYPE_CHECKING:
    from tilewright.simulate.programs.arguments import Argument as Argument
    from tilewright.simulate.programs.assembler import Resources as Resources
    from tilewright.simulate.programs.listing import Parameter as Parameter
    from tilewright.simulate.programs.program import Program as Program, program_for as program_for

publish(
    __name__,
    {"arguments": "Argument", "assembler": "Resources", "listing": "Parameter", "program": "Program program_for"},
)

"""What CUDA gives to every kernel: malloc and free, what a failed assertion does, the barrier of a cooperative grid.

A kernel only declares these functions; on a GPU the driver or the device runtime defines them. Here their definitions
are PTX of our own, and a module that declares one gets it when it is read, whoever launches it. Its lines count on
behind those of the module's own text, so that no line means two instructions.
"""

from __future__ import annotations

import re
from importlib import resources

from tilewright.simt.ptx.parser import parse
from tilewright.simt.ptx.tree import Module

#: What a kernel of Numba asks for where it waits for its grid; numba-cuda then launches it cooperatively.
#: Source: numba-cuda, `dispatcher.py` (`_Kernel.cooperative`).
GRID_HANDLE = "cudaCGGetIntrinsicHandle"
_GRID_BARRIER = ("grid_sync.ptx", (GRID_HANDLE, "cudaCGSynchronize"))
#: The functions of each file of `simt/device_runtime`.
_DEFINED = (
    _GRID_BARRIER,
    ("heap.ptx", ("malloc", "free")),
    ("assertion.ptx", ("__assertfail",)),
)
_EXTERN = re.compile(r"\.extern\s+\.func\s*(?:\([^)]*\)\s*)?([\w$]+)")
#: The format that a failed assertion is printed by, and what it is given: file, line, function, block and thread as
#: x, y, z each, message.
ASSERTION_FORMAT = "tilewright_assertion"
ASSERTION_ARGUMENTS = "<QIxxxxQ6IQ"


def instructions(ptx: str) -> str:
    """A text and behind it those of the definitions that it gets, to look for instructions in."""
    declared = set(_EXTERN.findall(ptx))
    return "\n".join([ptx, *(_text(file) for file, names in _DEFINED if declared & set(names))])


def with_grid_barrier(ptx: str) -> str:
    """A text with the definitions of the grid's barrier, which the vendor's assembler does not know by itself."""
    file, names = _GRID_BARRIER
    definitions = re.sub(r"^\.(version|target|address_size).*$", "", _text(file), flags=re.MULTILINE)
    return re.sub(rf"\.extern(\s+\.func\s*\([^)]*\)\s*(?:{'|'.join(names)})\b)", r".visible\1", ptx) + definitions


def _text(file: str) -> str:
    return resources.files("tilewright.simt").joinpath("device_runtime", file).read_text("utf-8")


def link(module: Module, lines: int) -> Module:
    """Give a module the definitions of what it only declares.

    Parameters
    ----------
    module : Module
    lines : int
        Lines of its text.
    """
    for file, names in _DEFINED:
        if any(name in module.functions and module.functions[name].is_declaration for name in names):
            text = _text(file)
            found = parse("\n" * lines + text)
            lines += text.count("\n")
            module.functions |= {
                name: function
                for name, function in found.functions.items()
                if name not in module.functions or not function.is_declaration
            }
            module.variables |= found.variables
    return module

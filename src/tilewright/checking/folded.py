"""Local arrays of CUDA C++ that the compiler keeps in registers.

Without a word it removes an access at a wrong index, and the code that depends on it: the PTX has no trace of them.
"""

from __future__ import annotations

import linecache
import re

from tilewright.checking import statements
from tilewright.checking.launches import definition
from tilewright.programs.program import Program

#: The declaration of a local array: a type, a name, and its extents.
_ARRAY = re.compile(
    r"^\s*(?:(?:const|unsigned|signed|long|short)\s+)*[A-Za-z_][\w:]*\s+[A-Za-z_]\w*\s*(?:\[[^\]]+\])+\s*[;={,]"
)
_OTHER = re.compile(r"__shared__|extern|return|delete|new|typedef|using|__constant__|__device__")


def holds_arrays(program: Program) -> bool:
    """Whether a kernel of a file of CUDA C++ declares local arrays, none of which is in local memory."""
    file, line, _ = definition(program)
    if not file.endswith(statements.CPP) or program.module.functions[program.entry].variables:
        return False
    last = max((one.last for one in statements.function(file, line)), default=0)
    lines = linecache.getlines(file)[line - 1 : last]
    code = [part for text in lines for part in re.split(r"(?<=[;{])", text)]
    return any(_ARRAY.match(part) and not _OTHER.search(part) for part in code)

"""Local arrays that the compiler keeps in registers.

Without a word it removes an access at a wrong index, and the code that depends on it: the PTX has no trace of them.
"""

from __future__ import annotations

from tilewright.checking import statements
from tilewright.checking.launches import definition
from tilewright.programs.program import Program


def holds_arrays(program: Program) -> bool:
    """Whether a kernel declares local arrays, none of which is in local memory."""
    file, line, _ = definition(program)
    if not file or any(one.space == "local" for one in program.module.functions[program.entry].variables):
        return False
    places = [place.rpartition(":") for place in program.source_lines.values()]
    last = max((int(number) for other, _, number in places if other == file), default=line)
    text = statements.text_of(file)
    code = statements.code_of(text) if file.endswith(statements.CPP) else text
    return bool(statements.made("\n".join(code.splitlines()[line - 1 : last]), "local"))

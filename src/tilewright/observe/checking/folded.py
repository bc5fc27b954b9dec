"""Local arrays, of which the compiler keeps some or some elements in registers.

Without a word it removes an access at a wrong constant index, and the code that depends on it: the PTX has no trace of
them. So the first warp of a kernel with local arrays runs once more before its launch, in a build that has all of them
in memory: nothing that it writes or prints remains, and only its accesses of local memory are judged. One warp is
enough, because an index that depends on the thread is in the PTX, and the launch itself is judged there.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.errors import KernelError, TilewrightError
from tilewright.observe.checking import faults, statements
from tilewright.observe.instruments.findings import Finding
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.simulate.observer import BlocksAlone, Launch, Part
from tilewright.simulate.programs.program import Program
from tilewright.simulate.ptx.tokens import with_start
from tilewright.simulate.translate.lowering.calls import called_functions

#: What the run of the first warp may take: warp instructions, and seconds.
_INSTRUCTIONS, _SECONDS = 1 << 22, 20.0
#: Longest build that is checked, in instructions; translating a longer one takes longer than the check.
_LONGEST_BUILD = 1_500
#: Code at the start of a kernel with which all warps of a block but the first exit.
_EXIT = (
    " .reg .pred %of_others; .reg .b32 %its<4>; mov.u32 %its1, %tid.z; mov.u32 %its2, %ntid.y; mov.u32 %its3, %tid.y; "
    "mad.lo.u32 %its1, %its1, %its2, %its3; mov.u32 %its2, %ntid.x; mov.u32 %its3, %tid.x; "
    "mad.lo.u32 %its1, %its1, %its2, %its3; setp.gt.u32 %of_others, %its1, 31; @%of_others exit; "
)


def holds_arrays(program: Program) -> bool:
    """Whether a kernel declares local arrays, and its build is optimised."""
    file, line, _ = program.definition
    if not file or program.module.debug:
        return False
    places = [place.rpartition(":") for place in program.source_lines.values()]
    last = max((int(number) for other, _, number in places if other == file), default=line)
    cpp = statements.language(file, last) == "cuda"
    text = statements.text_of(file)
    lines = (statements.code_of(text) if cpp else text).splitlines()[line - 1 : last]
    return bool(statements.made("\n".join(lines), "local", cpp=cpp))


def findings(launch: Launch, alone: BlocksAlone) -> tuple[list[Finding], bool]:
    """The faults of a kernel's accesses of its local arrays; and whether its first warp ran to its end.

    Copies of structures may have unset parts, so a read of what was never set counts where a local array is indexed.
    """
    build = launch.program.with_arrays
    try:
        program = build() if build and not launch.cooperative else None
        if program is None or [p.bytes for p in program.parameters] != [p.bytes for p in launch.program.parameters]:
            return [], False
        if length(program) > _LONGEST_BUILD:
            return [], False
        program = replace(program, ptx=with_start(program.ptx, program.entry, _EXIT))
        limits = replace(launch.limits, instructions=_INSTRUCTIONS, seconds=_SECONDS)
        run = alone.run(Part(0), [MemoryCheck(program.module, launch.name)], program, limits)
        return [one for one in run.results["memory"].findings if _is_of_array(one)], True
    except KernelError as error:
        found = error.results["memory"].findings if "memory" in error.results else ()
        found = [*found, *faults.findings(error, launch, found)]
        return [one for one in found if _is_of_array(one)], False
    except TilewrightError:
        return [], False


def length(program: Program) -> int:
    """Instructions of a kernel and of the functions that it reaches."""
    module, fresh = program.module, [program.module.functions[program.entry]]
    reached = {program.entry: fresh[0]}
    while fresh := [one for one in called_functions(module, fresh) if one.name not in reached]:
        reached |= {one.name: one for one in fresh}
    return sum(len(function.body) for function in reached.values())


def _is_of_array(finding: Finding) -> bool:
    """Whether a finding is of local memory; an unset read only at a line that indexes a local array."""
    unset = finding.code == "TW203" and statements.indexed(finding.source, finding.line, "local")
    return finding.code == "TW104" or bool(unset)

"""Whether the vendor's assembler accepts instructions, many in one file."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import MissingExtraError
from tilewright.simulate.programs.assembler import find_assembler

#: Widths that registers are declared with; 1 is a predicate.
WIDTHS = (1, 8, 16, 32, 64, 128)
#: ISA version and target. The second has floats of 6 and 4 bits for a warp, the third forms that later ones lost.
NEWEST, NARROW, OLDEST = ("9.1", "sm_100a"), ("9.1", "sm_120a"), ("6.3", "sm_75")
_TOGETHER = 4000  # lines of one text
_REGISTERS = ".reg .pred %p<9>; " + " ".join(f".reg .b{bits} %w{bits}_<9>;" for bits in WIDTHS[1:])


def register(bits: int, number: int) -> str:
    """The name of a declared register of a width."""
    return f"%p{number}" if bits == 1 else f"%w{bits}_{number}"


def present() -> bool:
    """Whether the assembler is installed."""
    try:
        find_assembler()
    except MissingExtraError:
        return False
    return True


def kernel(lines: Sequence[str], edition: tuple[str, str] = NEWEST) -> str:
    """A kernel of these instructions, the first on line 6."""
    version, target = edition
    head = f".version {version}\n.target {target}\n.address_size 64\n.visible .entry k()\n{{ {_REGISTERS}\n"
    if edition == OLDEST:  # which has no registers of 128 bits
        head = head.replace(".reg .b128 %w128_<9>;", "")
    return head + "\n".join(lines) + "\nret;\n}\n"


def taken(lines: Sequence[str], folder: Path, edition: tuple[str, str]) -> list[int]:
    """Indices of the instructions that the assembler takes, whatever the others are: some end its parser, or itself."""
    source, wrong = folder / "lines.ptx", f"add.s64 {register(64, 1)}, {register(32, 1)}, 1;"
    target = max(edition[1], "sm_75")  # the text's, or the oldest that is assembled for
    command = [find_assembler(), f"-arch={target}", source, "-o", folder / "lines.cubin"]
    found, waiting = [], list(range(len(lines)))
    while waiting:
        part = waiting[:_TOGETHER]
        text = kernel([*(lines[i] for i in part), wrong], edition).replace(".reg .b128 %w128_<9>;", "")
        source.write_text(text)
        report = subprocess.run(command, capture_output=True, text=True, check=False)
        places = re.findall(r"line (\d+); (error|fatal)", report.stdout + report.stderr)
        refused = {int(line) - 6 for line, _ in places}
        end = len(part)
        if end not in refused:  # not all were looked at: the one that ended it is refused, and the next round goes on
            fatal = [int(line) - 6 for line, kind in places if kind == "fatal"]
            end = fatal[0] if fatal else max(refused, default=-1) + 1
            refused.add(end)
        found += [part[i] for i in range(min(end + 1, len(part))) if i not in refused]
        waiting = waiting[end + 1 :] if end < len(part) else waiting[len(part) :]
    return found


def refusals(lines: Sequence[str], folder: Path, edition: tuple[str, str] = NEWEST) -> dict[int, str]:
    """Indices of the instructions that the assembler refuses, with its reasons."""
    # The last line is wrong, so that nothing is assembled: seeing its error proves that all were looked at.
    wrong = f"add.s64 {register(64, 1)}, {register(32, 1)}, 1;"
    source = folder / "lines.ptx"
    source.write_text(kernel([*lines, wrong], edition))
    command = [find_assembler(), f"-arch={edition[1]}", source, "-o", folder / "lines.cubin"]
    report = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[int, str] = {}
    for line, reason in re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", report.stdout + report.stderr):
        found[int(line) - 6] = reason
    assert len(lines) in found, report.stderr[:2000]
    del found[len(lines)]
    return found

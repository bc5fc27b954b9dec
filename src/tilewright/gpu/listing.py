"""Reading from PTX text what a launch must know: entries, their parameters, static shared memory, lines.

This is no parser of instructions (`simt/ptx` is); it reads declarations only, so a Program costs nothing to make.

Source: PTX ISA, 5.2 (Types), 7.1 (Function Declarations), 11.1 (Version, Target), 11.5.2 (.loc), 11.5.4 (.file).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.errors import CompileError
from tilewright.simt.ptx.frames import Inlining, file_name, frames

# Digits and dimensions are bounded: Python makes no number of thousands of digits, nor a text of such a product.
_ENTRY = re.compile(
    r"(?:^|[;}])[^\S\n]*(?:\.(?:visible|weak|extern)\s+)*\.entry\s+([\w$%.]+)\s*(?:\(([^)]*)\))?", re.MULTILINE
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d{1,18})\s+)?\.(?P<type>[a-z]+\d{1,3})\s*"
    r"(?P<ptr>\.ptr\b)?(?:\s*\.(?:global|shared|const|local|align\s+\d+)\b)*\s+(?P<name>[\w$%]+)\s*"
    r"(?:\[(?P<count>\d{1,18})\])?"
)
_SHARED = re.compile(
    r"^[^\S\n]*(?:\.(?:visible|weak|common)\s+)*\.shared\s+(?:\.align\s+(?P<align>\d{1,18})\s+)?(?:\.v(?P<vector>[24])\s+)?"
    r"\.(?P<type>[a-z]+\d{1,3})\s+(?P<name>[\w$%]+)\s*(?P<counts>(?:\[\d{1,18}\]){0,16})",
    re.MULTILINE,
)
_TARGET = re.compile(r"^[^\S\n]*\.target\s+sm_(\d{1,4})(\d)([a-z]?)\b", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter, as PTX declares it.

    Attributes
    ----------
    name : str
    bytes : int
        Size in the parameter space.
    align : int
        Alignment in bytes.
    kind : str
        `integer`, `float`, `pointer` (an integer that PTX marks `.ptr`) or `bytes` (an array: a structure by value).
    """

    name: str
    bytes: int
    align: int
    kind: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What PTX text says of one kernel."""

    name: str
    parameters: tuple[Parameter, ...]
    shared_bytes: int


def target(ptx: str) -> tuple[int, int]:
    r"""The compute capability that PTX text names in `.target`.

    Examples
    --------
    >>> target(".version 8.0\n.target sm_90a\n")
    (9, 0)
    """
    found = _TARGET.search(ptx)
    if found is None:
        raise CompileError("PTX text must have a `.target sm_NN` line (got none); is this PTX?")
    return int(found[1]), int(found[2])


def architecture(ptx: str, cc: tuple[int, int]) -> str:
    r"""What the assembler calls a compute capability, with the letter of PTX that was made for it alone.

    Source: PTX ISA, 11.1.2 (`.target`, architecture-specific targets).

    Examples
    --------
    >>> architecture(".target sm_90a\n", (9, 0)), architecture(".target sm_80\n", (9, 0))
    ('sm_90a', 'sm_90')
    """
    found = _TARGET.search(ptx)
    letter = found[3] if found is not None and (int(found[1]), int(found[2])) == cc else ""
    return f"sm_{cc[0]}{cc[1]}{letter}"


def read_entry(ptx: str, name: str | None = None) -> Entry:
    """Find a kernel in PTX text.

    Parameters
    ----------
    ptx : str
        PTX text.
    name : str, optional
        The entry's name in PTX; needed only where there are several.

    Raises
    ------
    CompileError
        There is no such entry, or several and no name.
    """
    text = _without_comments(ptx)
    found = {match[1]: match for match in _ENTRY.finditer(text)}
    if not found:
        raise CompileError("PTX text must define a kernel with `.entry` (found none)")
    if name is None and len(found) > 1:
        raise CompileError(f"`entry` must name one of the kernels {', '.join(found)}; the text has {len(found)}")
    chosen = next(iter(found)) if name is None else name
    if chosen not in found:
        raise CompileError(f"`entry` must be one of {', '.join(found)} (got {chosen!r})")
    parameters = tuple(_parameter(match) for match in _PARAM.finditer(found[chosen][2] or ""))
    return Entry(chosen, parameters, _static_shared(text, found[chosen].end()))


def _without_comments(ptx: str) -> str:
    """Blank out comments, so that `// .globl x` and the like are not read as text."""
    return re.sub(r"/\*.*?(?:\*/|\Z)|//[^\n]*", "", ptx, flags=re.DOTALL)


def _parameter(match: re.Match[str]) -> Parameter:
    bits = int(re.sub(r"\D", "", match["type"]))
    letter = match["type"][0]
    if match["count"] is not None:
        size = bits // 8 * int(match["count"])
        return Parameter(match["name"], size, int(match["align"] or bits // 8), "bytes")
    kind = "pointer" if match["ptr"] else "float" if letter == "f" else "integer"
    return Parameter(match["name"], bits // 8, bits // 8, kind)


def _static_shared(text: str, at: int) -> int:
    """Bytes of sized shared variables that the kernel whose header ends at `at` can reach.

    Variables declared in its body, and those of the module that its body or a device function names.
    """
    start = text.find("{", at)
    end = _closing_brace(text, start)
    body = text[start:end]
    functions = "".join(
        text[m.end() : _closing_brace(text, text.find("{", m.end()))] for m in re.finditer(r"\.func\b", text)
    )
    total = 0
    for match in _SHARED.finditer(text):
        inside = start <= match.start() < end
        named = re.search(rf"(?<![\w$%]){re.escape(match['name'])}(?![\w$%])", body + functions)
        if inside or (named and _depth(text, match.start()) == 0):
            size, align = _shared_size(match)
            total = -(-total // align) * align + size
    return total


def _shared_size(match: re.Match[str]) -> tuple[int, int]:
    size = int(re.sub(r"\D", "", match["type"])) // 8 * int(match["vector"] or 1)
    align = int(match["align"] or size)
    for count in re.findall(r"\d+", match["counts"]):
        size *= int(count)
    return size, align


def _depth(text: str, at: int) -> int:
    return text.count("{", 0, at) - text.count("}", 0, at)


def _closing_brace(text: str, start: int) -> int:
    """Index just past the brace that closes the one at `start` (PTX vectors nest braces too)."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, max(start, 0)):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)


def line_table(ptx: str) -> dict[int, tuple[str, ...]]:
    r"""Where each line of PTX text comes from: PTX line (from 1) to its frames; empty without a line table.

    The frames are `file:line`, the line itself first and then those that it was inlined at. Where a function is called
    from, and not inlined, is not known here.

    Examples
    --------
    >>> line_table('.loc 1 7 3\n.loc 2 9 1, function_name $s, inlined_at 1 7 3\nret;\n.file 1 "k.cu"\n.file 2 "k.h"\n')
    {3: ('k.h:9', 'k.cu:7')}
    """
    lines = ptx.splitlines()
    files = {int(m[1]): file_name(m[2]) for line in lines if (m := _FILE.match(line))}
    table: dict[int, tuple[str, ...]] = {}
    inlining = Inlining()
    where: tuple[str, ...] = ()
    for number, line in enumerate(lines, start=1):
        if match := _LOC.match(line):
            numbers = [int(number) for number in match.groups() if number is not None]
            here, at = (numbers[0], numbers[1], numbers[2]), numbers[3:]
            where = frames(inlining.located(here, (at[0], at[1], at[2]) if at else None), files)
        elif line.startswith("}") or line.lstrip().startswith((".entry", ".visible", ".func", ".weak")):
            inlining, where = Inlining(), ()  # a brace further in ends a block of the function
        elif where and line.strip().endswith(";"):
            table[number] = where
    return table

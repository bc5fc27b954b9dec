"""Joining PTX texts into one, as a linker joins objects.

One `.version`, `.target` and `.address_size`; one definition of each name; declarations of functions first, so that
any function may call any other. A name that is private to its text and taken elsewhere gets another. Line tables are
numbered through; the debug sections of texts that are joined are left out, so that functions that were inlined have no
names.

Source: PTX ISA, 5.1 (module-scope declarations), 11.1 (module directives), 11.5 (debugging directives), 11.6 (linking
directives).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.errors import PtxError

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_HEADER = re.compile(r"^[^\S\n]*\.(version|target|address_size)\s+([^\n]+)$", re.MULTILINE)
_FILE = re.compile(r'^[^\S\n]*\.file\s+(\d+)\s+("(?:[^"\\]|\\.)*"[^\n]*)$', re.MULTILINE)
_LOC = re.compile(
    r"^([^\S\n]*\.loc\s+)(\d+)(\s+\d+\s+\d+)[^\n]*?(?:\binlined_at\s+(\d+)(\s+\d+\s+\d+)\s*)?$", re.MULTILINE
)
#: Stands for the name of a function that was inlined.
_NAMELESS = "$L__inlined"
_SECTION = re.compile(r"^[^\S\n]*\.section\s+[\w.$]+\s*\{[^}]*\}", re.MULTILINE)
_LINKAGE = re.compile(r"\s*\.(extern|visible|weak|common)\b")
_FUNCTION = re.compile(r"\.(entry|func)\b\s*(?:\.noreturn\b\s*)?(?:\([^)]*\)\s*)?([\w$%]+)")
_VARIABLE = re.compile(r"\.(?:global|const|shared)\b[^=;]*?([A-Za-z_$%][\w$]*)\s*(?:\[[^]]*\]\s*)*(?==|;|,|$)")


@dataclass(slots=True)
class Part:
    """One declaration or definition at a text's top level."""

    name: str
    linkage: str  # "extern", "visible", "weak", "common", or "" for private
    kind: str  # "entry", "func" or "variable"
    text: str

    @property
    def is_declaration(self) -> bool:
        """Whether it only says that the name exists."""
        return self.linkage == "extern" or (self.kind != "variable" and not self.text.rstrip().endswith("}"))


def join(texts: Sequence[str]) -> str:
    """One PTX text from several; one alone stays as it is.

    Raises
    ------
    PtxError
        A name is defined twice.
    """
    if len(texts) == 1:
        return texts[0]
    taken: set[str] = set()
    files: list[str] = []
    parts: list[Part] = []
    for text in texts:
        own = list(_parts(_renumbered(_COMMENT.sub("", text), files)))
        clashes = {part.name for part in own if not part.linkage and not part.is_declaration} & taken
        for part in own:
            for name in clashes:
                part.text = re.sub(rf"(?<![\w$%.]){re.escape(name)}(?![\w$])", f"{name}__{len(taken)}", part.text)
            part.name = f"{part.name}__{len(taken)}" if part.name in clashes else part.name
        taken |= {part.name for part in own}
        parts += own
    headers = [dict(_HEADER.findall(_COMMENT.sub("", text))) for text in texts]
    version = max((tuple(map(int, h["version"].split("."))) for h in headers), default=(8, 0))
    lines = [f".version {version[0]}.{version[1]}", f".target {headers[0]['target']}", ".address_size 64", ""]
    names = [f".section .debug_str {{ {_NAMELESS}: .b8 0 }}"] if any(_NAMELESS in part.text for part in parts) else []
    return "\n".join([*lines, *(part.text.strip() for part in _chosen(parts)), *files, *names, ""])


def _renumbered(text: str, files: list[str]) -> str:
    """The text with its files numbered after those of `files`, which get them; sections and headers are gone."""
    base = len(files)
    numbers = {old: str(base + new) for new, (old, _) in enumerate(_FILE.findall(text), start=1)}
    files += [f"\t.file\t{numbers[old]} {path}" for old, path in _FILE.findall(text)]
    for pattern in (_SECTION, _FILE, _HEADER):
        text = pattern.sub("", text)

    def location(found: re.Match[str]) -> str:
        start, file, at, outer, outer_at = found.groups()
        line = f"{start}{numbers.get(file, file)}{at}"
        if outer is not None:  # the name of the function was in a section
            line += f", function_name {_NAMELESS}, inlined_at {numbers.get(outer, outer)}{outer_at}"
        return line

    return _LOC.sub(location, text)


def _parts(text: str) -> Iterator[Part]:
    """What a text declares and defines, in order."""
    depth = start = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[{};]', text):
        if found[0] == "{":
            depth += 1
        elif found[0] == "}":
            depth -= 1
        if depth or found[0][0] == '"' or found[0] == "{":
            continue
        piece = text[start : found.end()]
        if found[0] == "}" and _FUNCTION.search(piece) is None:
            continue  # the end of an initialiser
        start = found.end()
        if piece.strip(" \t\n;"):
            yield _part(piece)


def _part(piece: str) -> Part:
    linkage = _LINKAGE.match(piece)
    function = _FUNCTION.search(piece)
    variable = None if function else _VARIABLE.search(piece)
    if function is None and variable is None:
        raise PtxError(f"PTX to be linked must hold variables and functions (got {piece.strip()[:60]!r})")
    kind, name = (function[1], function[2]) if function else ("variable", variable[1] if variable else "")
    return Part(name, linkage[1] if linkage else "", kind, piece)


def _chosen(parts: Sequence[Part]) -> Iterator[Part]:
    """One definition of each name, and declarations before functions; what nobody defines stays declared."""
    defined: dict[str, Part] = {}
    for part in parts:
        if part.is_declaration:
            continue
        before = defined.get(part.name)
        if before is None or before.linkage in ("weak", "common"):
            defined[part.name] = part
        elif part.linkage not in ("weak", "common"):
            raise PtxError(f"linked PTX must define each name once (got '{part.name}' twice); rename one of them")
    declared = {part.name: part for part in reversed(parts) if part.name not in defined}
    yield from (part for part in declared.values() if part.kind == "variable")
    yield from (part for part in defined.values() if part.kind == "variable")
    yield from (part for part in declared.values() if part.kind != "variable")
    for part in defined.values():
        if part.kind == "func":
            head = re.sub(r"\.pragma\b[^;]*;", "", part.text[: part.text.index("{")]).strip()
            yield Part(part.name, part.linkage, part.kind, f"{head}\n;")
    yield from (part for part in defined.values() if part.kind != "variable")

"""The page of supported PTX forms, written from the instruction table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.simulate.isa.absent import ABSENT

if TYPE_CHECKING:
    from tilewright.simulate.isa import Row

_PREFACE = """# Supported PTX

Every form the SIMT machine runs, written as the PTX ISA manual writes it: `{.x}` is optional, `{.x, .y}` an optional
choice, and a placeholder such as `.type` stands for the values listed beside it. The dotted parts of a name may stand
in any order that the vendor's assembler takes (`max.s32.relu`), each of them once. A form that is not here is an
error that names the line, the form and its known neighbours. What the assembler takes for sm_50 to sm_75 and is
refused here is at the end, with the reason.

This page is generated from the instruction table: `tilewright ptx-support > docs/ptx-support.md`.
"""


def page(rows: Iterable[Row]) -> str:
    """Return the page, in Markdown: one table a section of the manual, in the manual's order."""
    sections: dict[str, list[Row]] = {}
    for row in rows:
        sections.setdefault(row.section, []).append(row)
    parts = [_PREFACE]
    for section in sorted(sections, key=_order):
        parts.append(f"\n## PTX ISA {section}: {', '.join(_opcodes(sections[section]))}\n")
        parts.append("| form | where | note |\n|---|---|---|")
        parts.extend(_line(row) for row in sections[section])
    parts.append("\n## Refused\n\n| forms with these words | PTX ISA | reason |\n|---|---|---|")
    for absent in ABSENT:
        names = ", ".join(f"`{name}`" for name in absent.names.split())
        parts.append(f"| {names} | {absent.section} | {absent.reason} |")
    return "\n".join(parts) + "\n"


def _order(section: str) -> list[int]:
    """9.7.1.2 comes before 9.7.1.10."""
    return [int(number) for number in re.findall(r"\d+", section)]


def _opcodes(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(f"`{row.opcode}`" for row in rows))


def _line(row: Row) -> str:
    """Return one row of a table; a bar inside a cell is escaped, as Markdown wants."""
    used = {name for name in row.where if re.search(rf"\.{re.escape(name)}(?![\w:])", row.syntax)}
    where = "; ".join(f"`.{name}`: {', '.join(values)}" for name, values in row.where.items() if name in used)
    form = row.syntax.replace("|", "\\|")
    return f"| `{form}` | {where} | {row.note.replace('|', chr(92) + '|')} |"

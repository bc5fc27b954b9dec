"""Findings on the terminal: each beside the user's own lines, with what is required and what to do."""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tilewright.checking.suppressions import Sifted
from tilewright.instruments.findings import Code, Finding, codes
from tilewright.report import columns, figures, inner_lines, program
from tilewright.report.columns import Column, Group
from tilewright.report.console import speaks_unicode
from tilewright.simulated.script import Ended

#: Lines of source shown before and after the one concerned.
CONTEXT_LINES = 2
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def show(
    sifted: Sifted,
    console: Console,
    *,
    launches: int,
    kernels: int,
    verbose: bool = False,
    brief: bool = False,
    interrupted: bool = False,
) -> None:
    """Print findings and a summary of one line; with `verbose` what was suppressed, and suppressions without use.

    With `brief` a finding is one line, as compilers and editors have them: `file:line: code severity: what was found`.
    """
    for finding in sifted.findings:
        if brief:
            console.print(_line(finding), soft_wrap=True)
            continue
        _show_one(finding, console)
        console.print()
    if verbose:
        for finding in sifted.suppressed:
            console.print(Text(f"suppressed: {finding.code} at {finding.where}", style="dim"), soft_wrap=True)
        for unused in sifted.unused:
            console.print(Text(f"suppression without use: {unused}", style="dim"), soft_wrap=True)
    found = bool(sifted.findings)
    style = "bold " + ("green" if not found else max(map(_colour, sifted.findings), key=list(_ORDER).index))
    text = summary(sifted, launches=launches, kernels=kernels)
    text += "; interrupted, the program was not checked to its end" if interrupted else ""
    console.print(Text(text, style=style), soft_wrap=True)


_ORDER = ("cyan", "yellow", "red")


def summary(sifted: Sifted, *, launches: int, kernels: int) -> str:
    """What was found, in one line.

    Examples
    --------
    >>> rows = [Finding(code=code, message="m", kernel="k") for code in ("TW101", "TW601", "TW604")]
    >>> summary(Sifted(tuple(rows), (), ()), launches=3, kernels=1)
    '3 findings (1 error, 2 warnings) in 3 launches of 1 kernel'
    >>> summary(Sifted((), tuple(rows[:1]), ()), launches=1, kernels=1)
    'no findings, 1 suppressed, in 1 launch of 1 kernel'
    """
    counts = [
        (level, sum(finding.severity == level for finding in sifted.findings)) for level in ("error", "warning", "note")
    ]
    parts = ", ".join(figures.amount(count, level) for level, count in counts if count)
    text = f"{figures.amount(len(sifted.findings), 'finding')} ({parts})" if sifted.findings else "no findings"
    if sifted.suppressed:
        text += f", {figures.count(len(sifted.suppressed))} suppressed,"
    times = "1 launch" if launches == 1 else f"{figures.count(launches)} launches"
    return f"{text} in {times} of {figures.amount(kernels, 'kernel')}"


def document(sifted: Sifted, ended: Ended, *, launches: int, kernels: Sequence[str]) -> dict[str, Any]:
    """Findings as JSON values, with the meaning of their codes, and how the program ended."""
    used = dict.fromkeys(finding.code for finding in (*sifted.findings, *sifted.suppressed))
    return {
        "findings": [finding.to_json() for finding in sifted.findings],
        "suppressed": [finding.to_json() for finding in sifted.suppressed],
        "unused_suppressions": [str(one) for one in sifted.unused],
        "wrong_suppressions": list(sifted.wrong),
        "launches": launches,
        "kernels": list(kernels),
        "program": program.document(ended),
        "codes": {code: _meaning(codes()[code]) for code in sorted(used)},
    }


def as_json(sifted: Sifted, ended: Ended, *, launches: int, kernels: Sequence[str]) -> str:
    """The document as text, in ASCII: it is valid whatever the terminal's encoding."""
    return json.dumps(document(sifted, ended, launches=launches, kernels=kernels), indent=2)


def table(console: Console) -> None:
    """Print every code with its rule and what to do."""
    key = Group(
        (
            Column("code", lambda c: Text(c.code, style="bold"), "left"),
            Column("severity", lambda c: Text(c.severity, style=_COLOURS[c.severity]), "left"),
        )
    )
    title = Group((Column("finding", lambda c: c.title, "left", wrap_at=28),))
    words = Group(
        (
            Column("rule", lambda c: c.rule, "left", wrap_at=32),
            Column("what to do", lambda c: c.remedy, "left", wrap_at=32),
        )
    )
    columns.show(console, key, [title, words], list(codes().values()))


def codes_json() -> str:
    """Every code as text."""
    return json.dumps({code.code: _meaning(code) for code in codes().values()}, indent=2)


def _meaning(code: Code) -> dict[str, str]:
    return {"title": code.title, "rule": code.rule, "remedy": code.remedy, "severity": code.severity}


def _colour(finding: Finding) -> str:
    return _COLOURS[finding.severity]


def _where(finding: Finding) -> str:
    """A finding's place, files of the folder that one is in by their names in it."""
    path, here = Path(finding.source), Path.cwd()
    if finding.source and path.is_absolute() and path.is_relative_to(here):
        return f"{path.relative_to(here)}:{finding.line}"
    return finding.where


def inner(finding: Finding) -> str:
    """The library's lines that a finding's own calls, where it happened there; else ""."""
    return inner_lines.listed(finding.details.get("inner", ()))


def _line(finding: Finding) -> Text:
    """A finding in one line."""
    times = f" ({figures.count(finding.count)} times)" if finding.count > 1 else ""
    times += f", in {inner(finding)}" if inner(finding) else ""
    return Text.assemble(
        f"{_where(finding)}: ", (f"{finding.code} {finding.severity}", f"bold {_colour(finding)}"),
        f": {finding.message}{times}",
    )  # fmt: skip


def _show_one(finding: Finding, console: Console) -> None:
    code, colour = codes()[finding.code], _colour(finding)
    heading = Text.assemble((f"{finding.code} {finding.severity}", f"bold {colour}"), (f": {code.title}", "bold"))
    console.print(heading, soft_wrap=True)
    arrow = "→" if speaks_unicode(console) else "->"
    console.print(Text.assemble((f"  {arrow} ", "blue"), _where(finding), f"  {_instances(finding)}"), soft_wrap=True)
    for line in _source(finding, colour):
        console.print(line, soft_wrap=True)
    for label, words in (("found", f"{finding.message}."), ("rule", code.rule), ("do", code.remedy)):
        console.print(Text.assemble((f"  {label:<6}", "blue"), words), soft_wrap=True)


def _instances(finding: Finding) -> str:
    """The kernel, where it happened first, and how often."""
    parts = [f"in {inner(finding)}"] if inner(finding) else []
    parts.append(f"kernel {finding.kernel}")
    if finding.launch:
        parts.append(f"launch {finding.launch}")
    if finding.block is not None:
        parts.append(f"first in block {finding.block}" + (f", thread {finding.thread}" if finding.thread else ""))
    if finding.count > 1:
        parts.append(f"{figures.count(finding.count)} times")
    return ", ".join(parts)


def _source(finding: Finding, colour: str) -> Iterator[Text]:
    """The line with its neighbours, as far as the file can be read; the instruction is named below it."""
    lines = linecache.getlines(finding.source) if finding.source else []
    if not 0 < finding.line <= len(lines):
        return
    first, last = max(1, finding.line - CONTEXT_LINES), min(len(lines), finding.line + CONTEXT_LINES)
    texts = {number: lines[number - 1].rstrip().expandtabs(4) for number in range(first, last + 1)}
    indent = min((len(text) - len(text.lstrip()) for text in texts.values() if text), default=0)
    width = len(str(last))
    for number, text in texts.items():
        here = number == finding.line
        gutter = f"  {'>' if here else ' '} {number:>{width}} | "
        yield Text.assemble((gutter, f"bold {colour}" if here else "blue"), (text[indent:], "bold" if here else "dim"))
        if here:
            code = text.strip()
            mark = " " * (len(text) - len(text.lstrip()) - indent) + "^" * max(1, cell_len(code))
            opcode = f" {finding.opcode}" if finding.opcode else ""
            yield Text.assemble((f"    {'':>{width}} | ", "blue"), (mark + opcode, colour))

"""Findings: each beside the user's source lines, with the rule and the remedy."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tilewright.frontends.script import Ended
from tilewright.observe.checking.causes import Cause, causes
from tilewright.observe.checking.suppressions import Sifted
from tilewright.observe.instruments.findings import Code, Finding, codes, split
from tilewright.show.report import console as standard_output, figures, program, styles, terminal
from tilewright.show.report.blocks import Block, Gap, Line, words
from tilewright.show.report.places import listed, path
from tilewright.show.report.tables import Column, Table, group

_NONE: Mapping[str, int] = MappingProxyType({})
#: Lines of source shown before and after a finding's own.
CONTEXT_LINES = 2


def blocks(
    sifted: Sifted,
    *,
    launches: int,
    kernels: int,
    unchecked: Mapping[str, int] = _NONE,
    verbose: bool = False,
    brief: bool = False,
    interrupted: bool = False,
    option: str = "--strict",
) -> Iterator[Block]:
    """Findings and a summary of one line; with `verbose` also suppressed findings and unused suppressions.

    A line before the summary counts what is held back, and names the `option` that shows it. With `brief` a place is
    one line, as compilers print it: `file:line: code severity: what was found`.
    """
    for finding in sifted.findings if brief else ():
        yield Line(_line(finding))
    for cause in () if brief else causes(sifted.findings):
        yield from _of_cause(cause)
        yield Gap()
    if verbose:
        for finding in sifted.suppressed:
            yield Line(Text(f"suppressed: {finding.code} at {finding.where}", style=styles.QUIET))
        for unused in sifted.unused:
            yield Line(Text(f"suppression without use: {unused}", style=styles.QUIET))
    if sifted.held:
        yield words((more(sifted.held, option), styles.QUIET))
    worst = min((finding.severity for finding in sifted.findings), key=list(styles.SEVERITIES).index, default=None)
    text = summary(sifted, launches=launches, kernels=kernels, unchecked=unchecked)
    text += "; interrupted, the program was not checked to its end" if interrupted else ""
    good = styles.WARNING if unchecked else styles.GOOD
    yield words((text, styles.SEVERITIES[worst] if worst else f"bold {good}"))


def summary(sifted: Sifted, *, launches: int, kernels: int, unchecked: Mapping[str, int] = _NONE) -> str:
    """The summary in one line; `unchecked` counts the launches of each kernel that did not run to their end.

    >>> rows = [Finding(code=code, kernel="k") for code in ("TW101", "TW601", "TW604")]
    >>> summary(Sifted(tuple(rows), (), ()), launches=3, kernels=1)
    '3 findings (1 error, 2 warnings) in 3 launches of 1 kernel'
    >>> summary(Sifted((), tuple(rows[:1]), ()), launches=1, kernels=1)
    'no findings, 1 suppressed, in 1 launch of 1 kernel'
    >>> left = [Finding(code="TW402", kernel="k", ptx_line=line) for line in (3, 4)]
    >>> summary(Sifted(tuple(left), (), ()), launches=1, kernels=1)
    '1 finding (1 error) at 2 places in 1 launch of 1 kernel'
    >>> summary(Sifted((), (), ()), launches=0, kernels=0)
    'no findings: no kernel was launched'
    >>> summary(Sifted((), (), ()), launches=3, kernels=2, unchecked={"k": 1})
    'no findings in 3 launches of 2 kernels; 1 of them did not run to its end (k)'
    >>> summary(Sifted((), (), ()), launches=1, kernels=1, unchecked={"k": 1})
    'no findings in 1 launch of 1 kernel, which did not run to its end (k)'
    """
    found = causes(sifted.findings)
    counts = [(level, sum(cause.finding.severity == level for cause in found)) for level in styles.SEVERITIES]
    parts = ", ".join(figures.amount(count, level) for level, count in counts if count)
    text = f"{figures.amount(len(found), 'finding')} ({parts})" if found else "no findings"
    if not (launches or found or sifted.suppressed):
        return f"{text}: no kernel was launched"
    if len(found) < len(sifted.findings):
        text += f" at {figures.amount(len(sifted.findings), 'place')}"
    if sifted.suppressed:
        text += f", {figures.count(len(sifted.suppressed))} suppressed,"
    times = "1 launch" if launches == 1 else f"{figures.count(launches)} launches"
    text += f" in {times} of {figures.amount(kernels, 'kernel')}"
    missing = sum(unchecked.values())
    if not missing:
        return text
    whose = ", which" if launches == 1 else f"; {figures.count(missing)} of them"
    return f"{text}{whose} did not run to {'its' if missing == 1 else 'their'} end ({', '.join(unchecked)})"


def more(held: Sequence[Finding], option: str = "--strict") -> str:
    """The count of the findings that an option would add, with their codes and the races that they resemble.

    >>> more([Finding(code="TW312", kernel="k", line=line, details={"race": "TW301"}) for line in (3, 5)])
    '2 more with --strict: TW312 (like TW301)'
    """
    races: dict[str, set[str]] = {}
    for finding in held:
        races.setdefault(finding.code, set()).add(finding.details["race"])
    codes_found = ", ".join(f"{code} (like {', '.join(sorted(like))})" for code, like in sorted(races.items()))
    return f"{figures.count(len(held))} more with {option}: {codes_found}"


def document(
    sifted: Sifted, ended: Ended, *, launches: int, kernels: Sequence[str], unchecked: Mapping[str, int] = _NONE
) -> dict[str, Any]:
    """Findings as JSON values, with the meaning of their codes, and how the program ended."""
    used = dict.fromkeys(finding.code for finding in (*sifted.findings, *sifted.suppressed, *sifted.held))
    return {
        "findings": [cause.to_json() for cause in causes(sifted.findings)],
        "suppressed": [finding.to_json() for finding in sifted.suppressed],
        "held": [finding.to_json() for finding in sifted.held],
        "unused_suppressions": [str(one) for one in sifted.unused],
        "wrong_suppressions": list(sifted.wrong),
        "launches": launches,
        "kernels": list(kernels),
        "unchecked": dict(unchecked),
        "program": program.document(ended),
        "codes": {code: _meaning(codes()[code]) for code in sorted(used)},
    }


def as_json(
    sifted: Sifted, ended: Ended, *, launches: int, kernels: Sequence[str], unchecked: Mapping[str, int] = _NONE
) -> str:
    """The document as JSON."""
    made = document(sifted, ended, launches=launches, kernels=kernels, unchecked=unchecked)
    return standard_output.as_json("check", made)


def table(console: Console) -> None:
    """Print every code with its rule and its remedy."""
    key = group(
        Column("code", lambda c: c.code, style="bold"),
        Column("severity", lambda c: c.severity, style=lambda c: styles.SEVERITIES[c.severity]),
    )
    title = group(Column("finding", lambda c: c.title, wrap_at=20))
    advice = group(Column("rule", lambda c: c.rule, wrap_at=32), Column("what to do", lambda c: c.remedy, wrap_at=32))
    terminal.show([Table(key, (title, advice), list(codes().values()))], console)


def meanings() -> dict[str, dict[str, str]]:
    """Every code as JSON values."""
    return {code.code: _meaning(code) for code in codes().values()}


def _meaning(code: Code) -> dict[str, str]:
    return {"title": code.title, "rule": code.rule, "remedy": code.remedy, "severity": code.severity}


def inner(finding: Finding) -> str:
    """The lines of a library in which a finding happened, called from the finding's line; else ""."""
    return listed(finding.details.get("inner", ()))


def calls(finding: Finding) -> str:
    """The lines that call the function of a finding's line, with paths relative to the current folder; else ""."""
    return path(listed(finding.details.get("called_at", ())))


def _line(finding: Finding) -> Text:
    """A finding in one line."""
    times = f" ({figures.count(finding.count)} times)" if finding.count > 1 else ""
    times += f", in {inner(finding)}" if inner(finding) else ""
    times += f", called at {calls(finding)}" if calls(finding) else ""
    return Text.assemble(
        f"{path(finding.where) or 'the program'}: ",
        (f"{finding.code} {finding.severity}", styles.SEVERITIES[finding.severity]),
        f": {path(finding.message)}{times}",
    )


def _of_cause(cause: Cause) -> Iterator[Block]:
    """One finding beside its source, with its other places, its rule and its remedy."""
    finding, style = cause.finding, styles.SEVERITIES[cause.finding.severity]
    code = codes()[finding.code]
    yield words((f"{finding.code} {finding.severity}", style), (f": {code.title}", styles.HEADING), hang=2)
    yield words(("→ ", styles.NOTE_COLOUR), _placed(finding), indent=2, hang=2)
    yield from map(Line, _source(finding, style))
    label = styles.NOTE_COLOUR
    yield words(("found ", label), f"{path(finding.message)}.", indent=2, hang=6)
    for other in cause.others:
        yield words(("also  ", label), _line(other), indent=2, hang=6)
    yield words(("rule  ", label), code.rule, indent=2, hang=6)
    yield words(("do    ", label), finding.remedy, indent=2, hang=6)


def _placed(finding: Finding) -> str:
    """The line, as far as it is known, and what `_instances` says."""
    return "  ".join(filter(None, (path(finding.where) or "in the program", _instances(finding))))


def _instances(finding: Finding) -> str:
    """The kernel, the first place, and the count."""
    parts = [f"in {inner(finding)}"] if inner(finding) else []
    parts += [f"called at {calls(finding)}"] if calls(finding) else []
    parts += [f"kernel {finding.kernel}"] if finding.kernel else []
    if finding.launch:
        parts.append(f"launch {finding.launch}")
    if finding.block is not None:
        parts.append(f"first in block {finding.block}" + (f", thread {finding.thread}" if finding.thread else ""))
    if finding.count > 1:
        parts.append(f"{figures.count(finding.count)} times")
    return ", ".join(parts)


def _source(finding: Finding, style: str) -> Iterator[Text]:
    """The lines of a finding and of a race's other accesses, with their neighbours, if the files can be read."""
    marks = {finding.line: finding.opcode}
    elsewhere: dict[str, dict[int, str]] = {}
    for place in finding.details.get("others", ()) if "other_access" in finding.details else ():
        file, line = split(place)
        if file == finding.source:
            marks.setdefault(line, _other_mark(finding))
        elif line:
            elsewhere.setdefault(file, {})[line] = _other_mark(finding)
    yield from _listing(finding.source, marks, style)
    for file, others in elsewhere.items():
        if linecache.getlines(file):
            yield Text.assemble(("  → ", styles.NOTE_COLOUR), path(file))
            yield from _listing(file, others, style)


def _other_mark(finding: Finding) -> str:
    """The other access of a race, and whose it is."""
    thread = finding.details.get("other_thread")
    return f"{finding.details['other_access']}" + (f" by thread {tuple(thread)}" if thread else "")


def _listing(file: str, marks: Mapping[int, str], style: str) -> Iterator[Text]:
    """Lines of a file, marked with text below them, and the neighbours of the first; dots stand for others between."""
    lines = linecache.getlines(file) if file else []
    marks = {line: mark for line, mark in marks.items() if 0 < line <= len(lines)}
    first = next(iter(marks), 0)
    near = {*marks, *(first + step for step in range(-CONTEXT_LINES, CONTEXT_LINES + 1) if marks)}
    texts = {number: lines[number - 1].rstrip().expandtabs(4) for number in sorted(near) if 0 < number <= len(lines)}
    for order in (1, -1):
        for number in [*texts][::order]:
            if texts[number]:
                break
            del texts[number]
    indent = min((len(text) - len(text.lstrip()) for text in texts.values() if text), default=0)
    width, before = len(str(max(texts, default=0))), 0
    for number, text in texts.items():
        here = number in marks
        if before and number > before + 1:
            yield Text(f"    {'':>{width}} ⋮", style=styles.NOTE_COLOUR)
        before = number
        gutter = f"  {'>' if here else ' '} {number:>{width}} | "
        yield Text.assemble((gutter, style if here else styles.NOTE_COLOUR), (text[indent:], "bold" if here else "dim"))
        if here:
            code = text.strip()
            mark = " " * (len(text) - len(text.lstrip()) - indent) + "^" * max(1, cell_len(code))
            yield Text.assemble(
                (f"    {'':>{width}} | ", styles.NOTE_COLOUR), (f"{mark} {marks[number]}".rstrip(), style)
            )

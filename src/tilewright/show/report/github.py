"""Findings as workflow commands of GitHub Actions, which shows each beside its line in the change.

Source: GitHub Docs, "Workflow commands for GitHub Actions"; the escapes are those of its toolkit's `command.ts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tilewright.frontends.script import Ended
from tilewright.observe.checking.suppressions import Sifted
from tilewright.observe.instruments.findings import codes
from tilewright.show.report import places, program
from tilewright.show.report.findings import more

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def text(sifted: Sifted, ended: Ended) -> str:
    """A line for each finding, errors first, since hosts show only a few; then the error that ended the program."""
    return "\n".join(_lines(sifted, ended))


def _lines(sifted: Sifted, ended: Ended) -> Iterator[str]:
    for finding in sorted(sifted.findings, key=lambda found: list(_LEVELS).index(found.severity)):
        code = codes()[finding.code]
        words = f"{finding.message} (kernel {finding.kernel}). {code.rule} {finding.remedy}"
        yield command(
            _LEVELS[finding.severity], f"{code.code} {code.title}", words, _place(finding.source, finding.line)
        )
    if sifted.held:
        yield command("notice", "Tilewright", more(sifted.held), {})
    if ended.error is not None:
        title = f"The program was ended by {program.kind(ended.error)}"
        yield command("error", title, str(ended.error), _place(*ended.place) if ended.place else {})


def command(level: str, title: str, message: str, place: dict[str, str]) -> str:
    r"""One workflow command.

    >>> command("error", "TW101 a, b: c", "100 % wrong\nhere", {"file": "a.py", "line": "3"})
    '::error file=a.py,line=3,title=TW101 a%2C b%3A c::100 %25 wrong%0Ahere'
    """
    properties = ",".join(f"{key}={_property(value)}" for key, value in {**place, "title": title}.items())
    return f"::{level} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _place(source: str, line: int) -> dict[str, str]:
    """File and line; the file is relative to the repository, as the host requires."""
    if not source or source.startswith("<"):  # code of no file
        return {}
    root, path = places.repository(), Path(source).absolute()
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    return {"file": inside.as_posix(), "line": str(max(1, line))}

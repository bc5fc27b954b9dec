"""`--format`: the reports of a check and their files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from tilewright.cli import values
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.frontends.script import Ended
    from tilewright.observe.checking import Checks
    from tilewright.observe.checking.suppressions import Sifted

#: Values of `--format`: for people (in full, or one line per finding), programs, code hosts, GitHub Actions.
FORMATS = ("text", "brief", "json", "sarif", "github")
#: Formats that need standard output for themselves.
_WHOLE = ("json", "sarif")


def chosen(given: Sequence[str], *, json: bool, where: str = "--format") -> dict[str, Path | None]:
    """The formats of the report, each with its file; None is standard output.

    Raises ArgumentValueError: the format does not exist, its file cannot be made, or several formats each need standard
    output for themselves.

    >>> chosen(["text", "sarif=out.sarif"], json=False)
    {'text': None, 'sarif': PosixPath('out.sarif')}
    """
    found: dict[str, Path | None] = {}
    for text in [*given, *(["json"] if json else [])]:
        name, to_file, file = text.partition("=")
        values.one_of(where, name, FORMATS)
        if to_file and (not file or not Path(file).parent.is_dir()):
            raise ArgumentValueError(
                f"{where} {name}=FILE must name a file in a folder that exists (got {text}); make the folder first"
            )
        if to_file:
            _check_file(f"{where} {text}", Path(file), [other for form, other in found.items() if form != name])
        found[name] = Path(file) if to_file else None
    if all(found.values()):
        found["text"] = None
    printed = [name for name, file in found.items() if file is None]
    if len(printed) > 1 and set(printed) & set(_WHOLE):
        raise ArgumentValueError(
            f"{where} {' and '.join(printed)} must not all go to standard output; give one a file: {printed[-1]}=FILE"
        )
    return found


def _check_file(form: str, file: Path, others: Sequence[Path | None]) -> None:
    """Reject a file that cannot be made or that another format uses, before the program runs.

    Raises ArgumentValueError: with the format and its file.
    """
    from tilewright.cli import files

    files.check_output(file, force=True)
    if not os.access(file.parent, os.W_OK):
        raise ArgumentValueError(f"{form}: its folder must be one you may write in (got {file.parent}); name another")
    if file.absolute() in [other.absolute() for other in others if other is not None]:
        raise ArgumentValueError(f"{form} must name a file of its own (got one that another format uses)")


def alone(forms: dict[str, Path | None]) -> bool:
    """Whether standard output is a document, which must not contain the program's own output."""
    return any(file is None and name in _WHOLE for name, file in forms.items())


def write(forms: dict[str, Path | None], checks: Checks, sifted: Sifted, ended: Ended, *, verbose: bool) -> None:
    """Write the reports, files first, so that they are complete even if the reader of standard output leaves early.

    An error of one file is raised after the others are written, so that no finding is lost.
    """
    from tilewright.cli import files
    from tilewright.show.report import console, findings as report, github, places, sarif, terminal

    def prose(name: str, file: Path | None) -> str:
        """The text report depends on the terminal's colour and width, so a file gets its own."""
        kept = io.StringIO()
        parts = report.blocks(
            sifted,
            launches=checks.launches,
            kernels=len(checks.kernels),
            unchecked=checks.unchecked,
            verbose=verbose,
            brief=name == "brief",
            interrupted=ended.interrupted,
        )
        to_file = Console(file=kept, width=console.PIPE_WIDTH, emoji=False)
        terminal.show(parts, console.output() if file is None else to_file)
        return kept.getvalue()

    documents: dict[str, Callable[[], str]] = {
        "json": lambda: report.as_json(
            sifted, ended, launches=checks.launches, kernels=checks.kernels, unchecked=checks.unchecked
        ),
        "sarif": lambda: sarif.text(sifted, places.repository(), ended),
        "github": lambda: github.text(sifted, ended),
    }
    refused: list[Exception] = []
    for name, file in sorted(forms.items(), key=lambda form: form[1] is None):
        text = documents[name]() if name in documents else prose(name, file)
        if file is not None:
            try:
                files.write_text(file, text.rstrip("\n") + "\n")
            except (ArgumentValueError, OSError) as error:
                refused.append(error)
        elif text:
            console.plain(text)
    if refused:
        raise refused[0]

"""Consoles: colour and the terminal's width on a terminal, plain and unwrapped in a pipe."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
import textwrap
from collections.abc import Mapping
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from tilewright.show.report import styles

#: Version of all JSON documents: a higher number if a field of one goes or changes its meaning.
VERSION = 1
#: Exit status after the reader of a pipe closed it: 128 + SIGPIPE, as in a shell.
READER_LEFT = 141
#: Least width that is assumed for a terminal, since tables need one; `COLUMNS` may be 0.
LEAST_WIDTH = 80
#: Width of a pipe without `COLUMNS`: every table fits, so no line is broken.
PIPE_WIDTH = 240
#: Width of tables of sentences in a pipe, which take several lines at any width; and of text for an unknown medium.
PROSE_WIDTH = 80


class _Console(Console):
    """A console that ends the process quietly if its reader has closed the pipe, with a status that no finding has."""

    #: Whether the output is a pipe or a file, of unknown width.
    pipe = False

    def on_broken_pipe(self) -> None:
        _leave_quietly()


def output(pipe_width: int = PIPE_WIDTH) -> Console:
    """The console of results, on standard output."""
    return _console(stderr=False, pipe_width=pipe_width)


def screen() -> Console:
    """The console of a screen on standard output: in a pipe it is as on a terminal of 80 columns."""
    console = _console(stderr=False, pipe_width=LEAST_WIDTH)
    console.pipe = False
    return console


def diagnostics() -> Console:
    """The console of errors and progress, on standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool, pipe_width: int = PIPE_WIDTH) -> _Console:
    if not stderr:
        _speak_as_it_can()
    console = _Console(stderr=stderr, highlight=False, emoji=False, force_jupyter=False)
    given = os.environ.get("COLUMNS", "").strip("0").isdigit()
    console.pipe = not (console.is_terminal or given)
    console.width = pipe_width if console.pipe else max(LEAST_WIDTH, console.width)
    return console


def keeps_lines(console: Console) -> bool:
    """Whether a paragraph is one line: in a pipe, where programs search and count lines."""
    return getattr(console, "pipe", False)


def speaks_unicode(console: Console) -> bool:
    """Whether the console can show a check mark; the C locale cannot."""
    return console.encoding.lower().startswith("utf")


def error(message: str, *, title: str = "error") -> None:
    """Print an error on standard error, in red if there is colour."""
    _say(f"{title}: ", styles.WARNING if title == "warning" else styles.ERROR, message)


def note(message: str) -> None:
    """Print a note on standard error."""
    _say("note: ", styles.NOTE, message)


def _say(title: str, style: str, message: str) -> None:
    """Wrap between words on a terminal, without breaking paths; elsewhere wrap nothing."""
    console, text = diagnostics(), title + message
    if console.is_terminal:
        fill = functools.partial(textwrap.fill, width=console.width, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(map(fill, text.split("\n")))
    console.print(Text.assemble((title, style), text.removeprefix(title)), soft_wrap=True)


def plain(text: str) -> None:
    """Write text unchanged, without wrapping or markup."""
    if sys.stdout is None:  # closed before the start
        return
    _speak_as_it_can()
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_quietly()


def document(name: str, values: Mapping[str, Any]) -> None:
    """Write a document as JSON."""
    plain(as_json(name, values))


def as_json(name: str, values: Mapping[str, Any]) -> str:
    """A document as JSON in ASCII, which is valid in any terminal's encoding; `docs/making/documents.py` describes all.

    >>> as_json("devices", {"devices": []}).split()
    ['{', '"schema":', '"tilewright.devices",', '"version":', '1,', '"devices":', '[]', '}']
    """
    return json.dumps({"schema": f"tilewright.{name}", "version": VERSION, **values}, indent=2)


def _speak_as_it_can() -> None:
    r"""Escape characters that standard output cannot encode, as standard error does: `\xfc`.

    They come from the user's paths and lines, and must not end a report.
    """
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and (
        stream.errors == "strict" or not stream.encoding.lower().startswith("utf")
    ):
        stream.reconfigure(errors="backslashreplace")


def _leave_quietly() -> NoReturn:
    """Exit after the reader closed standard output; drop buffered output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(READER_LEFT)

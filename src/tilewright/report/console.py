"""Where text goes: colour and full width on a terminal, plain and unwrapped in a pipe."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
import textwrap
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from tilewright.report import styles

#: Exit status where the reader of a pipe has left: 128 + SIGPIPE, as the shell says it.
READER_LEFT = 141
#: No terminal is taken to be narrower, for tables have rows; what `COLUMNS` says may be 0.
LEAST_WIDTH = 80
#: Width of a pipe, where `COLUMNS` does not say: every column of every table fits, so a line stays a line.
PIPE_WIDTH = 240
#: Width of tables of sentences there, which take several lines however wide they are; and of text for no known reader.
PROSE_WIDTH = 100


class _Console(Console):
    """A console that leaves quietly when its reader has left, with a status that no finding has."""

    #: Whether nobody's width is known: what is read is a pipe or a file.
    pipe = False

    def on_broken_pipe(self) -> None:
        _leave_quietly()


def output(pipe_width: int = PIPE_WIDTH) -> Console:
    """The console of results, on standard output."""
    return _console(stderr=False, pipe_width=pipe_width)


def diagnostics() -> Console:
    """The console of errors and progress, on standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool, pipe_width: int = PIPE_WIDTH) -> Console:
    if not stderr:
        _speak_as_it_can()
    console = _Console(stderr=stderr, highlight=False, emoji=False, force_jupyter=False)
    given = os.environ.get("COLUMNS", "").strip("0").isdigit()
    console.pipe = not (console.is_terminal or given)
    console.width = pipe_width if console.pipe else max(LEAST_WIDTH, console.width)
    return console


def keeps_lines(console: Console) -> bool:
    """Whether a paragraph stays a line: in a pipe, where lines are searched and counted."""
    return getattr(console, "pipe", False)


def speaks_unicode(console: Console) -> bool:
    """Whether the console can show a check mark; the C locale cannot."""
    return console.encoding.lower().startswith("utf")


def error(message: str, *, title: str = "error") -> None:
    """Say on standard error what went wrong, in red where there is colour."""
    _say(f"{title}: ", styles.WARNING if title == "warning" else styles.ERROR, message)


def note(message: str) -> None:
    """Say on standard error what is no error."""
    _say("note: ", styles.NOTE, message)


def _say(title: str, style: str, message: str) -> None:
    """Lines end between words on a terminal, and paths stay whole; elsewhere nothing is wrapped."""
    console, text = diagnostics(), title + message
    if console.is_terminal:
        fill = functools.partial(textwrap.fill, width=console.width, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(map(fill, text.split("\n")))
    console.print(Text.assemble((title, style), text.removeprefix(title)), soft_wrap=True)


def plain(text: str) -> None:
    """Write text as it is, with no wrapping and no markup."""
    if sys.stdout is None:  # closed before we began
        return
    _speak_as_it_can()
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_quietly()


def document(values: Any) -> None:
    """Write a document of JSON, in ASCII: it is valid whatever the terminal's encoding."""
    plain(json.dumps(values, indent=2))


def _speak_as_it_can() -> None:
    r"""Write letters that standard output lacks by their numbers, as standard error does: `\xfc`.

    They come in paths and lines of the user's; a report must not end at one.
    """
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and (
        stream.errors == "strict" or not stream.encoding.lower().startswith("utf")
    ):
        stream.reconfigure(errors="backslashreplace")


def _leave_quietly() -> NoReturn:
    """Leave after the reader of standard output did; what is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(READER_LEFT)

"""The examples of a page: they run in order, in one folder, and what the page shows of their output is held to them.

=========== ==========================================================================================================
block       what happens
=========== ==========================================================================================================
`python`    runs, in one namespace with the page's others
`output`    what the `python` block before it printed
`py`        a file, named in its first line: `# name.py`
`toml`      what a project's `pyproject.toml` may have, read as Tilewright reads it
`diff`      two files, named in its first lines: one without the lines that `+` marks, one without those of `-`
`console`   each `$ tilewright ...` and `$ python ...` runs, as its own output behind it says
=========== ==========================================================================================================
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: How wide a terminal is. A block of a built page has room for 88 columns on a screen and for 80 on paper.
COLUMNS = 80
#: Languages of blocks that run, and of those that help them to or only show a part of something.
RUNNING = ("python", "console", "toml")
SHOWN = ("output", "py", "diff", "yaml", "c", "sh")


def pages() -> list[Path]:
    """README and the pages of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def exact(page: Path) -> bool:
    """Whether what a page shows differs by no host, so that its numbers are held too."""
    return page.parent.name in ("findings", "lessons")


def languages(page: Path) -> set[str]:
    """Those of a page's blocks."""
    return {language for language, _ in _BLOCK.findall(page.read_text(encoding="utf-8"))}


def outline(text: str) -> list[str]:
    """A screen's words, without what differs by host and compiler: numbers, bars, line ends, the host's name."""
    text = re.sub(r"simulated by \d+ threads of .*", "simulated", text)
    text = re.sub(r"[▏▎▍▌▋▊▉█]+|[─-]+", "", text)
    return re.sub(r"\d[\d,.]*( (us|ms|s|KiB|B)\b| %)?", "#", text).split()


def counts(text: str) -> list[str]:
    """A screen's words with its numbers, without what differs by the compiler: instructions, places in its headers."""
    return re.sub(r"(?<=\^ )\S+|\sin\s+nvidia/\S+,", "", text).split()


class Examples:
    """The examples of one page, which leave their files in the working folder.

    Parameters
    ----------
    exact : bool
        Whether a command must print the numbers that the page shows, or only its outline.
    """

    def __init__(self, *, exact: bool) -> None:
        self._same = counts if exact else outline
        self._namespace: dict[str, Any] = {"__name__": "page"}
        self._printed = ""
        self.ran = 0

    def refreshed(self, text: str) -> str:
        """The page with the output that its examples have now; the page as it is where that agrees."""
        return _BLOCK.sub(lambda block: f"```{block[1]}\n{self._block(block[1], block[2])}```", text)

    def _block(self, language: str, text: str) -> str:
        if language == "python":
            self.ran += 1
            path = Path(f"example{self.ran}.py").absolute()  # a file, for Numba reads a kernel's source
            path.write_text(text, encoding="utf-8")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(path), "exec"), self._namespace)
            self._printed = out.getvalue()
        elif language == "output":
            return self._printed
        elif language == "py":
            Path(text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
        elif language == "toml":
            _read_settings(text)
        elif language == "diff":
            _write_both(text)
        elif language == "console":
            return "".join(self._command(part) for part in re.split(r"(?<=\n)(?=\$ )", text))
        return text

    def _command(self, part: str) -> str:
        """One `$` line, with the output that it has now where any is shown."""
        line, shown = part.removesuffix("\n").partition("\n")[::2]
        program, *arguments = shlex.split(line.removeprefix("$ "), comments=True)
        if program == "make":
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert re.search(rf"^{arguments[0]}:", makefile, re.MULTILINE), f"the Makefile has no target {arguments[0]}"
            return part
        self.ran += 1
        with patch.dict(os.environ, COLUMNS=str(COLUMNS)):
            printed = {"tilewright": command_line, "python": program_output}[program](arguments)
        if not shown or self._same(printed) == self._same(shown):
            return part
        return f"{line}\n{printed}\n"


def _read_settings(text: str) -> None:
    from tilewright.ground import configuration

    folder = Path("project")
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    configuration.of(folder.absolute())


def _write_both(diff: str) -> None:
    before, after, *lines = diff.splitlines(keepends=True)
    for head, mark, other in ((before, "--- ", "+"), (after, "+++ ", "-")):
        text = "".join(line[1:] or "\n" for line in lines if not line.startswith(other))
        Path(head.removeprefix(mark).strip()).write_text(text, encoding="utf-8")


def command_line(arguments: list[str]) -> str:
    """What `tilewright` prints, run in this process.

    Its status must be 0, or 1 of a report that ends with its findings.
    """
    from tilewright.cli.app import program_command

    screen, status = printed(["tilewright", *arguments], program_command())
    found = re.search(r"^\d+ findings? \(.*\Z", screen, re.MULTILINE) is not None
    assert status == int(found), f"tilewright {shlex.join(arguments)} ended with status {status}:\n{screen}"
    return screen


def program_output(arguments: list[str]) -> str:
    """What a Python program prints, run in this process; it may import files of its folder.

    A program that the page does not have is one of the repository, and runs in its root.
    """
    folder = Path.cwd() if Path(arguments[0]).exists() else ROOT
    with patch.object(sys, "path", [str(folder), *sys.path]), contextlib.chdir(folder):
        return printed(arguments, lambda: runpy.run_path(arguments[0], run_name="__main__"))[0]


def printed(argv: list[str], run: Callable[[], object]) -> tuple[str, int]:
    """(what went to standard output, exit status) of a program that is called."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    status = 0
    with patch.object(sys, "argv", argv), contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Numba's, of grids as small as those of examples
        try:
            run()
        except SystemExit as leave:
            status = int(leave.code or 0)
    return out.buffer.getvalue().decode().strip("\n"), status

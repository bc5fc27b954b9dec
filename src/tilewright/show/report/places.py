"""Names of files and lines in reports."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tilewright.simulate.ptx.frames import within

#: File names that notebooks and IPython's shell give to the code of cells.
_CELL = re.compile(r"<ipython-input-[^>]*>|[^\s:]*/ipykernel_\d+/[^\s:/]+\.py")


def repository() -> Path:
    """The folder that code hosts' paths are relative to: the runner's, the repository's, or the current one."""
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    return Path(os.environ.get("GITHUB_WORKSPACE") or root)


def path(text: str) -> str:
    """Words with paths relative to the current folder, for files in it.

    A notebook's cell is called by its number.

    >>> path("/elsewhere/k.py:3"), path(f"at {Path.cwd()}/k.py:3")
    ('/elsewhere/k.py:3', 'at k.py:3')
    """
    here = f"{Path.cwd()}{os.sep}"
    if here in text and len(here) > 1:
        text = re.sub(rf"(?<![^\s(]){re.escape(here)}", "", text)
    return _CELL.sub(lambda found: _cell(found[0]), text)


def _cell(file: str) -> str:
    """`cell [3]`, if the shell that ran it still exists."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(file)
    return file if number is None else f"cell [{number}]"


def listed(places: Iterable[str]) -> str:
    """Lines of libraries, for a note beside the user's line that calls them; lines of one file together.

    >>> listed([*(f"/env/site-packages/lib/a.py:{line}" for line in (7, 9, 12)), "/usr/local/cuda/include/b.h:3"])
    'lib/a.py:7, 9, 12 and include/b.h:3'
    """
    files: dict[str, list[str]] = {}
    for place in places:
        file, _, line = within(place).rpartition(":")
        files.setdefault(file, []).append(line)
    return " and ".join(f"{file}:{', '.join(lines)}" for file, lines in files.items())

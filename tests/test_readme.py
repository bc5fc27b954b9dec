"""README.md and pages of docs do what they say: every example runs, in order, in one folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: Page -> how many examples it has at least.
PAGES = {
    "README.md": 8,
    "docs/kernels.md": 6,
    "docs/ladder.md": 1,
    "docs/matmul.md": 2,
    "docs/opencl.md": 1,
    "docs/profile.md": 1,
}


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, text) of every fenced block, in order."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """(command, output shown) of every `$` line of a console block."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command.split("  #")[0].strip(), shown.strip("\n")


def outline(text: str) -> list[str]:
    """A screen's words, without what differs by host and compiler: numbers, bars, line ends, the host's name."""
    text = re.sub(r"simulated by \d+ threads of .*", "simulated", text)
    text = re.sub(r"[▏▎▍▌▋▊▉█]+|[─-]+", "", text)
    return re.sub(r"\d[\d,.]*( (us|ms|s|KiB|B)\b| %)?", "#", text).split()


@pytest.mark.parametrize("page", PAGES)
def test_every_example_runs_in_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path  # where the examples leave their files
    monkeypatch.chdir(folder)
    namespace: dict[str, object] = {"__name__": "readme"}
    ran = 0
    for language, text in blocks((ROOT / page).read_text(encoding="utf-8")):
        if language == "python":
            script = folder / f"example{ran}.py"  # a file, for Numba reads a kernel's source
            script.write_text(text, encoding="utf-8")
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, str(script), "exec"), namespace)
            ran += 1
        if language == "py":  # a file, named in its first line
            name = text.splitlines()[0].removeprefix("# ")
            (folder / name).write_text(text, encoding="utf-8")
        if language == "console":
            for command, shown in commands(text):
                ran += check(command, shown, folder)
    assert ran >= PAGES[page]


def check(command: str, shown: str, folder: Path) -> bool:
    """Run a `tilewright` command; what the README shows of its output must be its outline. Others are not run."""
    program, *arguments = shlex.split(command)
    if program != "tilewright":
        assert program == "make"
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{arguments[0]}:", makefile, re.MULTILINE), f"the Makefile has no target {arguments[0]}"
        return False
    environment = {**os.environ, "COLUMNS": "118", "PYTHONIOENCODING": "utf-8"}
    line = [sys.executable, "-m", "tilewright", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    found = " findings (" in done.stdout  # those of `check` are told by its status
    assert done.returncode == int(found), done.stderr
    if shown:
        assert outline(done.stdout) == outline(shown)
    return True


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        words = re.sub(r"^```\w*\n.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", words):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_index_lists_every_page() -> None:
    docs = ROOT / "docs"
    listed = {
        (docs / target).resolve() for target in re.findall(r"\]\(([^)#:]+)\)", (docs / "index.md").read_text("utf-8"))
    }
    pages = {page.resolve() for page in docs.rglob("*") if page.suffix in (".md", ".ipynb")}
    assert pages - {docs / "index.md"} <= listed


def test_the_outline_keeps_words_and_drops_numbers() -> None:
    assert outline("tiled  S2  ✓ exact  1.25 ms  12,345  ██▏  75 %") == ["tiled", "S#", "✓", "exact", "#", "#", "#"]
    assert outline("tiled  S2  ✗ 3 differ  1.25 ms") != outline("tiled  S2  ✓ exact  1.25 ms")

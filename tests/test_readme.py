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


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def has_examples(page: Path) -> bool:
    return any(language in ("python", "console") for language, _ in blocks(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "page", [page for page in pages() if has_examples(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_example_runs_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path  # where the examples leave their files
    monkeypatch.chdir(folder)
    namespace: dict[str, object] = {"__name__": "readme"}
    ran = 0
    for language, text in blocks(page.read_text(encoding="utf-8")):
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
    assert ran


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


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What `page.md#...` may name: its headings, as code hosts and Sphinx make anchors of them."""
    heads = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", prose(page)):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


def listed(page: Path) -> set[Path]:
    """The pages that a page's toctrees list."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for tree in trees for line in tree.split("\n") if line and not line.startswith(":")]
    return {(page.parent / f"{line}.md").resolve() for line in lines if not line.endswith("<self>")}


def test_the_tree_has_every_page_once() -> None:
    found = [page for parent in pages() for page in listed(parent)]
    assert len(found) == len(set(found))
    assert {*found, ROOT / "docs" / "index.md", ROOT / "README.md"} == set(pages())


def test_the_python_interface_s_pages_have_every_public_name() -> None:
    import tilewright

    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    named = {name.split(".")[0] for name in re.findall(r"^\.\. auto\w+:: tilewright\.(\S+)", text, re.MULTILINE)}
    assert set(tilewright.__all__) - named == {"__version__", "KernelError", "TilewrightError", "problem"}


def test_the_outline_keeps_words_and_drops_numbers() -> None:
    assert outline("tiled  S2  ✓ exact  1.25 ms  12,345  ██▏  75 %") == ["tiled", "S#", "✓", "exact", "#", "#", "#"]
    assert outline("tiled  S2  ✗ 3 differ  1.25 ms") != outline("tiled  S2  ✓ exact  1.25 ms")

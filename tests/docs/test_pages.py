"""README.md and the pages of docs: examples run, links work, every page is in the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from examples import ROOT, RUNNING, SHOWN, Examples, exact, languages, outline, pages

#: Pages whose examples take half a minute; other pages run the same commands on less.
SLOW = {"docs/ladder.md"}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


WITH_EXAMPLES = [
    pytest.param(page, id=name(page), marks=[pytest.mark.volume] if name(page) in SLOW else [])
    for page in pages()
    if languages(page) & {*RUNNING}
]


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_examples_run_and_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if name(page) == "docs/opencl.md":
        request.getfixturevalue("opencl_device")
    monkeypatch.chdir(tmp_path)
    examples = Examples(exact=exact(page))
    text = page.read_text(encoding="utf-8")
    assert examples.refreshed(text) == text, "run: make examples"
    assert examples.ran


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What `page.md#...` may name: its headings, as code hosts and Sphinx make anchors of them."""
    heads = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_links_have_targets(page: Path) -> None:
    assert "<img" not in prose(page), "write ![words](picture): Sphinx does not copy the picture of a raw <img>"
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", prose(page)):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), f"{target}#{anchor}"


#: Columns of a block on a page; and what stays one line at any width: a command, a finding in brief, a mark below code.
COLUMNS, ONE_LINE = 88, re.compile(r"\$ |\S+:\d+: TW\d+ |.*\^ [\w.:]+$")


@pytest.mark.parametrize("page", pages(), ids=name)
def test_what_a_console_shows_fits_a_page(page: Path) -> None:
    blocks = re.findall(r"^```(?:console|output)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if not ONE_LINE.match(line)]
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_the_readme_is_short() -> None:
    assert 60 < (ROOT / "README.md").read_text(encoding="utf-8").count("\n") < 120


def listed(page: Path) -> set[Path]:
    """The pages that a page's toctrees list."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for tree in trees for line in tree.split("\n") if line and not line.startswith(":")]
    return {found for line in lines for found in page.parent.glob(f"{line}.md")}


def test_the_tree_has_every_page_once() -> None:
    found = [page for parent in pages() for page in listed(parent)]
    assert len(found) == len(set(found))
    assert {*found, ROOT / "docs" / "index.md", ROOT / "README.md"} == set(pages())


def test_the_python_interface_s_pages_have_every_public_name() -> None:
    import tilewright

    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    named = {name.split(".")[0] for name in re.findall(r"^\.\. auto\w+:: tilewright\.(\S+)", text, re.MULTILINE)}
    listed = re.findall(r"^   ~?(tilewright\.\S+)$", (ROOT / "docs/api/index.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(re.findall(r"^\.\. auto\w+:: (\S+)", text, re.MULTILINE)), "the index has each name"
    assert set(tilewright.__all__) - named == {"__version__", "KernelError", "TilewrightError", "problem"}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_block_that_can_run_does(page: Path) -> None:
    fences = re.findall(r"^ *```(.*)$", page.read_text("utf-8"), re.MULTILINE)
    assert {fence for fence in fences[::2] if not fence.startswith("{")} <= {*RUNNING, *SHOWN}
    for line in re.findall(r"^ +(?:```(?:python|py|console)|\$ tilewright).*", page.read_text("utf-8"), re.MULTILINE):
        pytest.fail(f"an example must stand in a block at the line's start, which runs: {line.strip()}")


def test_the_outline_keeps_words_and_drops_numbers() -> None:
    assert outline("tiled  S2  ✓ exact  1.25 ms  12,345  ██▏  75 %") == ["tiled", "S#", "✓", "exact", "#", "#", "#"]
    assert outline("tiled  S2  ✗ 3 differ  1.25 ms") != outline("tiled  S2  ✓ exact  1.25 ms")


def test_a_page_is_refreshed_where_its_output_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        "```python\nprint(6 * 7)\n```\n```output\n{}\n```\n"
        "```diff\n--- a.py\n+++ b.py\n-print('a 1')\n+print('b')\n```\n"
        "```console\n$ python a.py\n{}\n$ python b.py\n```\n"
    )
    shown = text.format(42, "a 1")
    assert Examples(exact=True).refreshed(shown) == shown
    assert Examples(exact=True).refreshed(text.format(41, "a 2")) == shown
    assert Examples(exact=False).refreshed(text.format(41, "a 2")) == text.format(42, "a 2")
    assert Path("b.py").read_text() == "print('b')\n"

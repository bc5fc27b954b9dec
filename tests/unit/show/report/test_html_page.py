"""The HTML page: text of users is escaped, and its scripts draw what the run did."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba.cuda", reason="the gpu extra brings the compilers")

from tilewright import catalogue, machine
from tilewright.observe.profiling.steps import steps
from tilewright.observe.profiling.watching import Watched, watch
from tilewright.show.report.html import lanes, page, partition
from tilewright.show.report.html.figures import Part

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\" onclick=\"alert(2)"


@pytest.fixture(scope="module")
def seen() -> Watched:
    record = catalogue.find("shared_memory_8")
    return watch(record, 16, 24, 16, "int32", machine.gpu("a6000"))


class Elements(HTMLParser):
    """The tags of a page with their attributes, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_text_of_users_is_never_html(seen: Watched) -> None:
    file = f"/tmp/{HOSTILE}.cu"
    hostile = replace(
        seen.kept.profile,
        lines=tuple(replace(line, text=HOSTILE, file=file) for line in seen.kept.profile.lines),
        sites=tuple(
            replace(site, source=f"{file}:{site.source.rpartition(':')[2]}") for site in seen.kept.profile.sites
        ),
    )
    parts = [lanes.part(replace(seen.kept, profile=hostile)), Part("one", HOSTILE, "", {HOSTILE: HOSTILE})]
    text = page.document(HOSTILE, HOSTILE, [(HOSTILE, HOSTILE, HOSTILE)], parts)
    found = Elements(text).found
    assert [tag for tag, _ in found].count("script") == 3  # two of values, one of code
    assert not [tag for tag, attributes in found if tag == "img" or any(name.startswith("on") for name in attributes)]
    assert {attributes["data-at"].rpartition(":")[0] for tag, attributes in found if attributes.get("data-at")} == {
        file
    }
    (values,) = re.findall(r'id="values-one">(.*?)</script>', text)
    assert json.loads(values) == {HOSTILE: HOSTILE}


def test_the_page_loads_nothing(seen: Watched) -> None:
    text = page.document("a", "b", [], [partition.part(seen), lanes.part(seen.kept)])
    assert re.findall(r"""(?:src|href)=["'](?!#)""", text) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s\"']*", text) == []
    assert "default-src 'none'" in text


def test_the_picture_of_blocks_has_the_run_s_steps(seen: Watched) -> None:
    values: Any = json.loads(json.dumps(partition.part(seen).values))
    assert (values["extents"], values["tile"]) == ([16, 24, 16], [8, 8, 8])
    found = steps(seen)
    assert [one["at"] for one in values["blocks"]] == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    for one, block in zip(values["blocks"], found.blocks, strict=True):
        of_a = [step[0]["rectangles"] for step in one["steps"]]
        assert of_a == [[list(one) for one in a.rectangles] for a, _ in block.loaded]


def test_rows_by_x_are_in_their_place() -> None:
    record = catalogue.find("naive_published")
    found = watch(record, 32, 16, 4, "float32", machine.gpu("a6000"))
    values: Any = partition.part(found).values
    for one in values["blocks"]:
        ((row, column, _, _),) = one["stored"]["rectangles"]
        assert one["at"] == [row // 16, column // 16]


def test_blocks_without_room_are_reported_as_left_out(seen: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "_MOST_LETTERS", 700)
    part = partition.part(seen)
    kept = len((part.values or {})["blocks"])
    assert 1 <= kept < 6
    assert f"{6 - kept} block" in part.body


def test_executions_without_room_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = watch(catalogue.find("uncoalesced"), 4, 4, 32, "float32", machine.gpu("a6000"))
    every: Any = lanes.part(found.kept).values
    monkeypatch.setattr(lanes, "_MOST_EXECUTIONS", 8)
    some: Any = lanes.part(found.kept).values
    for more, less in zip(every["sites"], some["sites"], strict=True):
        assert len(more["runs"]) - len(less["runs"]) == less["left"]
        assert {run[0] for run in less["runs"]} == {run[0] for run in more["runs"]}
    assert max(len(site["runs"]) for site in some["sites"]) == 8 and max(site["left"] for site in some["sites"]) > 8


def test_each_execution_has_its_pattern(seen: Watched) -> None:
    values: Any = lanes.part(seen.kept).values
    for site in values["sites"]:
        for _, base, pattern, amount, ideal in site["runs"]:
            offsets, waves = values["patterns"][pattern]
            on = [offset for offset in offsets if offset >= 0]
            assert min(on) == 0 and len(offsets) == 32 and base >= 0
            if site["space"] == "shared":
                assert max(wave for wave in waves if wave is not None) + 1 == amount >= ideal
            else:
                ends = {(base + at + byte) // 32 for at in on for byte in range(site["bytes"])}
                assert len(ends) == amount >= ideal


def test_the_listing_has_a_button_for_each_line_with_accesses(seen: Watched) -> None:
    part = lanes.part(seen.kept)
    buttons = {attributes["data-at"] for _, attributes in Elements(part.body).found if "data-at" in attributes}
    assert buttons == {site["at"] for site in (part.values or {})["sites"]}


def test_files_are_named_from_the_user_s_folder(seen: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = Path(seen.kept.profile.lines[0].file)
    for folder, name in ((file.parents[1], f"{file.parent.name}/{file.name}"), (tmp_path, str(file))):
        monkeypatch.chdir(folder)
        part = lanes.part(seen.kept)
        assert {site["at"].rpartition(":")[0] for site in (part.values or {})["sites"]} == {name}
        text = page.document("a", "b", [], [part])
        assert f'colspan="5">{name}</td>' in text
        assert str(folder) not in text

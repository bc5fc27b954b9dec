"""Records print the command line's report, as text and as HTML for notebooks."""

from __future__ import annotations

import html.parser
import io
import re
from typing import Any

import numpy as np
import pytest
from ptx_kernels import DOUBLE_IT
from rich.cells import cell_len
from rich.console import Console

import tilewright as tw
from tilewright.checking import Finding, Findings
from tilewright.ladder import climb, operands, select
from tilewright.machine.alternatives import Demand, alternatives
from tilewright.machine.occupancy import occupancy
from tilewright.programs import Program
from tilewright.show.report import records, terminal
from tilewright.show.report.console import PROSE_WIDTH

H100 = tw.machine.gpu("h100")
#: For each record with a report: how to make one, and words that its text and its page must have.
SHOWN: dict[str, tuple[Any, tuple[str, ...]]] = {
    "Profile": (
        lambda: tw.profile(Program.from_ptx(DOUBLE_IT), 1, 64, (np.arange(64, dtype=np.int32),)),
        ("double_it", "ld.global.u32", "at least", "sectors"),
    ),
    "Findings": (
        lambda: Findings([Finding(code="TW102", kernel="k", details={"error": "a < b & c"})]),
        ("TW102", "1 error"),
    ),
    "Climb": (
        lambda: climb(*operands(8, 8, 8, "float32"), records=select(tw.catalogue.records(), ["S5"])),
        ("three_loops", "1 of 1 trusted", "GFLOPS", "the host, three loops"),
    ),
    "Alternatives": (lambda: alternatives(H100, Demand(48, 8192, 256)), ("62 % occupancy", "with 40 registers")),
    "Occupancy": (
        lambda: occupancy(H100, registers_per_thread=48, shared_bytes=0, block_threads=256), ("62 % occupancy",)
    ),
    "Prediction": (
        lambda: tw.predict(Program.from_ptx(DOUBLE_IT), 1, 64, (np.arange(64, dtype=np.int32),)),
        ("double_it", "predicted", "No Warps", "the time goes to"),
    ),
    "Plan": (lambda: tw.plan((64, 64), (64, 64), "float32"), ("float32", "524,288 operations")),
}  # fmt: skip


class Page(html.parser.HTMLParser):
    """Asserts that tags are closed in order; collects the words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words.append(data)


@pytest.mark.parametrize("name", SHOWN)
def test_text_and_page_say_what_the_command_line_says(name: str) -> None:
    make, expected = SHOWN[name]
    record = make()
    page = " ".join(" ".join(Page(record._repr_html_()).words).split())
    for words in expected:
        assert words in str(record)
        assert words in page
    assert "\x1b" not in str(record)
    assert name == "Plan" or max(map(len, str(record).splitlines())) <= PROSE_WIDTH  # a plan's facts stay lines


@pytest.mark.parametrize("name", SHOWN)
def test_at_any_width_lines_fit_and_words_are_whole(name: str) -> None:
    parts = list(records.blocks(SHOWN[name][0]()))

    def shown(width: int) -> str:
        stream = io.StringIO()
        terminal.show(parts, Console(file=stream, width=width))
        return stream.getvalue()

    whole = set(re.findall(r"[A-Za-z_]{3,}", shown(1000)))
    for width in (80, 100, 120, 160):
        assert max(map(cell_len, shown(width).splitlines())) <= width
        assert set(re.findall(r"[A-Za-z_]{3,}", shown(width))) <= whole


def test_every_report_is_tested() -> None:
    assert {kind.__name__ for kind in records.REPORTS} == set(SHOWN)


def test_a_page_escapes_names_of_a_program() -> None:
    found = Findings([Finding(code="TW102", kernel="<b>", details={"error": "<script>alert(1)</script>"})])
    assert "<script>" not in found._repr_html_() and "<b>" not in found._repr_html_()

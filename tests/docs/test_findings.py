"""Each code of a finding has a page, which shows its defect found and its fix silent."""

from __future__ import annotations

import re

import pytest
from examples import ROOT

from tilewright.observe.instruments.findings import codes

PAGES = ROOT / "docs" / "findings"
SEVERITIES = {"error": "an error", "warning": "a warning", "note": "a note"}


def test_every_code_has_a_page() -> None:
    assert {page.stem for page in PAGES.glob("TW*.md")} == set(codes())


@pytest.mark.parametrize("code", codes())
def test_a_page_shows_its_finding_and_that_the_fix_has_none(code: str) -> None:
    """`test_pages` checks that the programs print what the page shows."""
    text = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    record = codes()[code]
    assert text.startswith(f"# {code}: {record.title}\n")
    assert f"reports {SEVERITIES[record.severity]} here. Lines" in text
    defect, fixed = re.findall(r"^```console\n\$ \w+ .*?(\w+\.py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert defect[0] == f"{code}.py"
    assert f"{code} {record.severity}: {record.title}" in defect[1]
    assert fixed[0] == "mended.py"
    assert re.search(r"no findings in \d+ launch(es)? of 1 kernel\n$", fixed[1])

"""Programs as a user writes them: checked as they are, with their findings at the lines that their comments mark.

A finding about a launch (TW5xx) stands at the line that launches.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import corpus
import pytest
from examples import printed

import tilewright as tw
from tilewright.checking import Checks
from tilewright.cli.app import program_command


@pytest.mark.parametrize("script", corpus.files("scripts"), ids=lambda path: path.stem)
def test_a_script_gives_the_findings_that_it_marks(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checks = Checks(gpu="h100")
    with tw.simulated_gpu("h100", observers=[checks]):
        runpy.run_path(str(script), run_name="__main__")
    assert {(one.line, one.code) for one in checks.findings} == corpus.commented(script)
    assert {one.source for one in checks.findings} <= {str(script)}
    assert checks.sifted.unused == (), "a comment that suppresses has something to suppress"
    assert capsys.readouterr().out, "a script says how it ended"


@pytest.mark.parametrize(("name", "status"), [("s2_corrected", 0), ("s2_published", 1)])
def test_the_command_says_by_its_status_whether_something_was_found(name: str, status: int) -> None:
    script = corpus.HERE / "scripts" / f"{name}.py"
    screen, ended = printed(["tilewright", "check", str(script)], program_command())
    assert ended == status, screen
    assert all(code in screen for _, code in corpus.commented(script))

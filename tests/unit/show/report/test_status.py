"""The status line, which says what the program waits for."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.ground.progress import Activity, announced, watched
from tilewright.show.report import status
from tilewright.show.report.status import StatusLine, line


def work(what: str, began_s: float, *rest: Any) -> Activity:
    return Activity("running", what, *rest, began_s=began_s)


@pytest.mark.parametrize(
    ("works", "reported"),
    [
        ([], ""),
        ([work("a", 9.5)], ""),
        ([work("a", 7.0)], "running a ... 3 s"),
        ([work("a", 0, 8, "blocks", lambda: 2)], "running a ... 10 s, 2 of 8 blocks, about 30 s left"),
        ([work("a", 0, 8, "", lambda: 2)], "running a ... 10 s, 25 %, about 30 s left"),
        ([work("a", 0, 8, "blocks", lambda: 0)], "running a ... 10 s, 0 of 8 blocks"),
        ([work("a", 0, 8, "blocks", lambda: 9)], "running a ... 10 s, 8 of 8 blocks"),
        ([work("a", -3000, 4, "", lambda: 3)], "running a ... 50 min, 75 %, about 16 min left"),
        ([work("a", -9000)], "running a ... 2 h 30 min"),
        ([work("a", 0), work("b", 7)], "running a ... 10 s (running b ... 3 s)"),
        ([work("a", 0), work("b", 9.9)], "running a ... 10 s (running b)"),
        ([work("a", 9.9), work("b", 0)], "running b ... 10 s"),
        ([Activity("climbing", "", began_s=0)], "climbing ... 10 s"),
        ([work("a", -20)], "running a ... 30 s"),
        ([Activity("running", "a", launch=True, began_s=-19)], "running a ... 29 s"),
        ([Activity("running", "a", launch=True, began_s=-20)], "running a ... 30 s; wait"),
        (
            [work("a", -20), Activity("running", "b", launch=True, began_s=0)],
            "running a ... 30 s (running b ... 10 s); wait",
        ),
    ],
)
def test_a_line(works: list[Activity], reported: str) -> None:
    assert line(works, 10.0, hint="wait") == reported


def shown_by(first: float, every: float, seconds: float) -> list[str]:
    shown: list[str] = []
    seen = threading.Event()

    def show(text: str) -> None:
        shown.append(text)
        seen.set()

    with StatusLine(show, first, every) as reported, watched(reported), announced("translating", "a"):
        if seconds < first:
            time.sleep(seconds)
        else:
            assert seen.wait(30)
    return shown


def test_long_work_is_reported_and_the_line_disappears_at_its_end() -> None:
    shown = shown_by(0.02, 0.01, 1)
    assert shown[0].startswith("translating a ... ")
    assert shown[-1] == ""
    assert shown.count("") == 1


def test_short_work_is_not_reported() -> None:
    assert shown_by(60, 60, 0) == []


def test_progress_gives_lines_to_a_callable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "PATIENCE_SECONDS", 0.02)
    seen = threading.Event()
    with tw.progress(lambda text: seen.set()), announced("running", "a"):
        assert seen.wait(30)


def test_a_stream_that_is_closed_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(status, "rewrites", lambda stream: True)
    monkeypatch.setattr(status, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(sys, "stderr", stream)
    with tw.progress(), announced("running", "a"):
        stream.close()
        time.sleep(0.1)


def test_blanks_overwrite_a_line() -> None:
    stream = io.StringIO()
    rewritten = status._Rewritten(stream)
    for text in ("running a ... 1 s, 1,024 blocks", "running a", "x" * 200, ""):
        rewritten(text)
    lines = stream.getvalue().split("\r")[1:]
    assert lines[1] == "running a".ljust(31)
    assert lines[2:] == ["x" * 79, " " * 79, ""]


SLOW = """
import sys, time
from tilewright.ground.progress import announced
with announced("translating", "slow"):
    print("begun", flush=True)
    time.sleep(float(sys.argv[1]))
print("ended")
"""


def on_a_terminal(script: Path, seconds: str, *, interrupt: bool = False) -> tuple[str, int]:
    """A program's diagnostics on a terminal under `tilewright run`, and its exit status."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tilewright", "run", str(script), seconds]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    reported = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        reported += piece
        if interrupt and b"slow" in reported:
            process.send_signal(signal.SIGINT)
            interrupt = False
    out, _ = process.communicate()
    os.close(ours)
    assert out.startswith(b"begun")
    return reported.decode(), process.returncode


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "slow.py"
    path.write_text(SLOW, encoding="utf-8")
    return path


def test_a_terminal_shows_the_line_and_ends_without_it(script: Path) -> None:
    reported, code = on_a_terminal(script, "1.6")
    assert "\rtranslating slow ... 1 s" in reported
    assert reported.endswith(" \r")
    assert "\x1b" not in reported
    assert code == 0


def test_ctrl_c_leaves_the_terminal_clean(script: Path) -> None:
    reported, code = on_a_terminal(script, "30", interrupt=True)
    *_, blank, last = reported.split("\r", reported.count("\r") - 1)
    assert not blank.strip()
    assert last.startswith("interrupted: ")
    assert code == 130


def test_a_pipe_gets_no_status_line_of_long_work(script: Path) -> None:
    command = [sys.executable, "-m", "tilewright", "run", str(script), "1.3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "begun\nended\n", "")

"""Copies of memory that nothing wrote, by CUDA programs: `check` knows only addresses and sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("copies.cu")
#: A way to write and copy -> the unset and all elements that check counts, their bytes, and the first unset one.
COPIES = {
    "half": (12, 25, 16, [13]),
    "half in a stream": (3, 16, 16, [13]),
    "rows but the last": (5, 50, 8, [9, 0]),
    "all": None,
    "written half": None,
    "structures": None,
    "initial zeros": None,
    "managed": None,
    "pinned": None,
    "rows": None,
    "on the device": None,
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_memory_that_nothing_wrote_are_reported(name: str) -> None:
    command = [sys.executable, "-m", "tilewright", "check", "--json", str(PROGRAM), name]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found = json.loads(ran.stdout)["findings"]
    details = [
        (one["unset"], one["elements"], one["element_bytes"], one["first"]) for one in (f["details"] for f in found)
    ]
    assert [one["code"] for one in found] == ["TW205"] * bool(COPIES[name]), ran.stderr
    assert details == [COPIES[name]] * bool(COPIES[name])

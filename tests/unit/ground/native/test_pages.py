"""Host memory as the system maps it."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOADED = """
import pathlib
import llvmlite.binding as llvm
from tilewright.ground.native.pages import give_back

def mapped_kb():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile"))

before = mapped_kb()
give_back("a library that is not there")
assert mapped_kb() >= before
give_back("libllvmlite")
print(before - mapped_kb())
llvm.initialize_native_target()
module = llvm.parse_assembly("define i32 @f() { ret i32 1 }")
module.verify()
assert "ret i32 1" in str(module)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell of pages")
def test_pages_that_loading_a_library_read_are_released() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10_000

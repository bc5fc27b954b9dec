"""Host memory as the system maps it."""

from __future__ import annotations

import mmap
import subprocess
import sys

import numpy as np
import pytest

from tilewright.ground.native.pages import fill, reserved
from tilewright.simulate.machine.host_memory import resident_bytes

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


@pytest.mark.parametrize("offset", [0, 1, mmap.PAGESIZE, mmap.PAGESIZE - 1])
@pytest.mark.parametrize("size", [10, mmap.PAGESIZE * 3, (64 << 20) + 5, (96 << 20) - 1])
def test_fill_sets_these_bytes_and_no_others(offset: int, size: int) -> None:
    memory = np.frombuffer(reserved(128 << 20), np.uint8)
    memory[: 2 * mmap.PAGESIZE] = 9
    fill(memory.ctypes.data + offset, size, 2)
    assert (memory[offset : offset + size] == 2).all()
    assert (memory[:offset] == 9).all()
    assert not (memory[offset + size :] % 9).any()
    memory[offset + size // 2] = 7
    assert np.count_nonzero(memory[offset : offset + size] != 2) == 1
    fill(memory.ctypes.data + offset, size, 3)
    assert (memory[offset : offset + size] == 3).all()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems map no filled pages")
def test_filled_pages_take_memory_when_they_are_written() -> None:
    memory = np.frombuffer(reserved(4 << 30), np.uint8)
    before = resident_bytes()
    fill(memory.ctypes.data, memory.size, 2)
    memory[:: 64 << 20] += 1
    assert resident_bytes() - before < 64 << 20
    assert memory[:: 64 << 20].tolist() == [3] * 64

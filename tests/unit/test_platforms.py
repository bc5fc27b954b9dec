"""What a host that is not Linux lacks is not needed for products and for the simulated GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Takes away what macOS lacks: calls of Linux, `/proc`, an extra that has no wheels there, and pages that
#: MADV_DONTNEED makes zero.
_MACOS = """
import asyncio, builtins, ctypes, io, mmap, multiprocessing, os, subprocess, sys, sysconfig
import llvmlite.binding
import numpy as np

sysconfig.get_config_vars()
for module, name in ((os, "sched_getaffinity"), (os, "memfd_create"), (os, "MFD_CLOEXEC"), (os, "posix_fallocate"),
                     (os, "copy_file_range"), (mmap, "MADV_REMOVE"), (mmap, "MADV_HUGEPAGE")):
    delattr(module, name) if hasattr(module, name) else None

def without_proc(real):
    def call(path, *rest, **named):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(2, "No such file", str(path))
        return real(path, *rest, **named)
    return call

class Library(ctypes.CDLL):
    def __getattr__(self, name):
        if name in ("pthread_getattr_np", "memfd_create", "dladdr1"):
            raise AttributeError(name)
        return type("Advice", (), {"__call__": lambda *_: 0})() if name == "madvise" else super().__getattr__(name)

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in ("numba", "pyopencl", "cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

io.open = builtins.open = without_proc(io.open)
os.stat = without_proc(os.stat)
ctypes.CDLL = Library
sys.meta_path.insert(0, Hidden())
sys.platform = sys.argv[1]
import tilewright as tw
"""
_WORK = '''
from tilewright.ground.native import pages
from tilewright.programs import Program

a = np.arange(660, dtype=np.float32).reshape(33, 20)
assert (tw.matmul(a, a.T) == a @ a.T).all()
ptx = Program.from_ptx(""".version 8.0
.target sm_90
.address_size 64
.visible .entry numbers(.param .u64 out) {
  .reg .u64 %p, %q;
  .reg .u32 %x;
  ld.param.u64 %p, [out];
  mov.u32 %x, %tid.x;
  mul.wide.u32 %q, %x, 4;
  add.u64 %p, %p, %q;
  st.global.u32 [%p], %x;
  ret;
}""")
out = np.zeros(32, np.int32)
tw.simt.launch(ptx, 1, 32, [out])
assert (out == np.arange(32)).all()
assert not list(tw.check(ptx, 1, 32, [out]))
tw.profile(ptx, 1, 32, [out])
memory = pages.reserved(4 * mmap.PAGESIZE)
memory[:] = b"x" * len(memory)
anchor = ctypes.c_char.from_buffer(memory)
pages.zero(ctypes.addressof(anchor), len(memory))
assert not any(memory[:]), "pages that are to be zero are not"
try:
    Program.from_cuda("", "k")
except tw.errors.MissingExtraError as error:
    print(error)
'''


def child(platform: str, code: str, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, platform], capture_output=True, text=True, check=False, timeout=300,
        env={"HOME": str(cache), "PATH": "", "TILEWRIGHT_CACHE_DIR": str(cache / "kernels")},
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="not run: Windows is refused at import")
def test_products_and_the_simulated_gpu_run_without_what_linux_alone_has(tmp_path: Path) -> None:
    done = child("darwin", _MACOS + _WORK, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "has no wheels for this system" in done.stdout and "docs/install.md" in done.stdout


def test_windows_is_refused_with_what_to_do(tmp_path: Path) -> None:
    done = child("win32", _MACOS, tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: Tilewright must run on Linux or macOS (got Windows)")

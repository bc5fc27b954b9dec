"""A process that forks while another thread imports, or holds a lock of ours: parent and child go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Modules: one that takes a while, one with Python's locks, one that imports another, and one that forks.
MODULES = {
    "slow": "import time\ntime.sleep(0.3)\ndone = True\n",
    "locks": "import time\ntime.sleep(0.2)\nimport logging, concurrent.futures.thread\ntime.sleep(0.2)\ndone = True\n",
    "outer": "import slow\ndone = slow.done\n",
    "forks": "import os, time\ntime.sleep(0.2)\nchild = os.fork()\ndone = True\n",
    "needs": "import forks\ndone = forks.done\n",
    "fails": "import time\ntime.sleep(0.3)\nraise ValueError('mine')\n",
}
START = """
import importlib, os, signal, sys, threading, time, tilewright
def begun(name):
    threading.Thread(target=lambda: importlib.import_module(name), daemon=True).start()
    while name not in sys.modules:
        time.sleep(0.001)
def in_child(work):
    child = os.fork()
    if not child:
        signal.alarm(10)
        os._exit(work())
    return ended(child)
def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])  # of a status, a process's own would keep one byte
"""


def run(folder: Path, text: str) -> None:
    for name, module in MODULES.items():
        (folder / f"{name}.py").write_text(module)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", START + text]  # Python 3.12 warns of forks
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["slow", "locks", "outer"])
def test_a_child_imports_what_another_thread_was_importing(tmp_path: Path, name: str) -> None:
    run(tmp_path, f"begun({name!r})\nsys.exit(in_child(lambda: not __import__({name!r}).done))")


def test_two_threads_import(tmp_path: Path) -> None:
    run(tmp_path, "begun('slow'); begun('locks'); sys.exit(in_child(lambda: __import__('outer').done is not True))")


def test_an_import_that_fails_holds_up_nobody(tmp_path: Path) -> None:
    text = "threading.excepthook = lambda _: None\nbegun('fails')\nsys.exit(in_child(lambda: 'fails' in sys.modules))"
    run(tmp_path, text)


def test_a_fork_within_an_import_that_another_thread_waits_for(tmp_path: Path) -> None:
    """The forking thread must not wait for those who wait for it."""
    text = """
threading.Thread(target=lambda: time.sleep(0.05) or begun('needs'), daemon=True).start()
began = time.monotonic()
import forks
if not forks.child:
    os._exit(0)
sys.exit(ended(forks.child) or time.monotonic() - began > 20)
"""
    run(tmp_path, text)


def test_imports_go_on_after_forks(tmp_path: Path) -> None:
    run(tmp_path, "assert not any(in_child(lambda: 0) for _ in range(5))\nbegun('slow')\nimport slow, locks\n")


def test_a_fork_waits_for_a_lock_and_the_child_has_it_free(tmp_path: Path) -> None:
    text = """
from tilewright.ground.forking import wait_for
lock = threading.Lock()
wait_for(lock)
held = []
def hold():
    with lock:
        held.append(1)
        time.sleep(0.3)
        held.append(2)
threading.Thread(target=hold, daemon=True).start()
while not held:
    time.sleep(0.001)
status = in_child(lambda: not lock.acquire(timeout=5))
sys.exit(status or held != [1, 2] or lock.locked())
"""
    run(tmp_path, text)


@pytest.mark.parametrize("delay", [0.01, 0.2, 0.5])
def test_a_product_in_the_child_of_a_fork_amid_first_uses(tmp_path: Path, delay: float) -> None:
    text = f"""
import numpy as np, tilewright as tw
a = np.ones((9, 9), np.float32)
def use():
    tw.plan((5, 6), (6, 7), "float32", device="h100")
    return int((tw.matmul(a, a) != 9).any())
threading.Thread(target=use, daemon=True).start()
time.sleep({delay})
os._exit(in_child(use))
"""
    run(tmp_path, text)

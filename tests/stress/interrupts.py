"""Ctrl-C at random moments of commands that translate, launch, check, profile and multiply.

    python interrupts.py                      300 moments
    python interrupts.py --count 20 --kind check

Each child gets one SIGINT and must leave with 130 and one line that says so: no traceback, no file but whole entries of
the cache, no temporary folder. A child that was done before the signal came is asked again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

#: Longest time from the signal to the child's end.
PATIENCE_SECONDS = 60
#: Latest moment, in seconds after the command line has begun: the first ones load modules.
LATEST_SECONDS = 4.0
#: A shell's background jobs ignore SIGINT, and so do their children.
_START = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tilewright.cli.main import main
sys.argv[0] = "tilewright"
print("ready", flush=True)
main()
"""

_KERNELS = """
import numpy as np
from numba import cuda
import tilewright as tw

def kernel(n):
    @cuda.jit
    def scaled(x, y):
        tile = cuda.shared.array(64, "float32")
        i = cuda.grid(1)
        if i < x.size:
            tile[cuda.threadIdx.x] = x[i]
            cuda.syncthreads()
            for k in range(8):
                y[i] += tile[63 - cuda.threadIdx.x] * n + k
    return scaled

x = np.arange(4096, dtype=np.float32)
"""
#: Programs that go on until they are stopped.
PROGRAMS = {
    "translate": _KERNELS + "for n in range(10**6): kernel(n)[64, 64](x, x.copy())",
    "launch": _KERNELS + "one = kernel(1)\nwhile True: one[64, 64](x, x.copy())",
    "device": _KERNELS + "one, y = kernel(1), x.copy()\nwhile True: one[64, 64](cuda.to_device(x), cuda.to_device(y))",
    "reduce": _KERNELS + "while True: cuda.reduce(lambda a, b: a + b)(x)",
    "products": _KERNELS + """
for n in range(1, 10**6):
    tw.matmul(np.ones((n % 40 + 1, 64)), np.ones((64, n % 7 + 1)))
    tw.matmul(np.ones((200 + n, 300)), np.ones((300, 400)))
""",
    "threads": _KERNELS + """
import threading
one = kernel(1)
def work():
    while True: one[64, 64](x, x.copy())
for _ in range(3): threading.Thread(target=work, daemon=True).start()
work()
""",
}  # fmt: skip
#: Command lines by kind, in a folder with the programs and two matrices.
COMMANDS = {
    "translate": ("run translate.py", "run reduce.py", "check translate.py", "profile translate.py"),
    "launch": ("run launch.py", "run device.py", "run threads.py"),
    "check": ("check launch.py", "check --json device.py", "check --format sarif=found.sarif reduce.py"),
    "profile": ("profile launch.py", "profile --json device.py"),
    "matmul": ("matmul a.npy b.npy -o c.npy", "run products.py"),
}


def prepare(folder: Path) -> None:
    """Write the programs, and matrices whose product takes seconds."""
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(text)
    for name in "ab":
        np.save(folder / f"{name}.npy", np.ones((2600, 2600), np.int64))


def interrupted(command: str, folder: Path, after_seconds: float) -> str | None:
    """The fault in the end of a command that got Ctrl-C; None if the command ended before the signal."""
    before = set(folder.iterdir())
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        (root / "tmp").mkdir()
        environment = {
            **os.environ, "TMPDIR": str(root / "tmp"), "TILEWRIGHT_CACHE_DIR": str(root / "cache"),
            "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", "NUMBA_CUDA_WARN_ON_IMPLICIT_COPY": "0",
        }  # fmt: skip
        child = subprocess.Popen(
            [sys.executable, "-c", _START, *command.split()],
            cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(after_seconds)
        if child.poll() is not None:
            return None
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        try:
            out, errors = child.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            return f"had not ended {PATIENCE_SECONDS} s after Ctrl-C: {child.communicate()[1][-2000:]}"
        took = time.monotonic() - start
        wrong = [] if child.returncode == 130 else [f"left with {child.returncode}"]
        said = [line for line in errors.splitlines() if line.startswith("interrupted")]
        wrong += [] if len(said) == 1 else [f"said {said}"]
        wrong += ["printed a traceback"] if "Traceback" in errors + out or "ignored" in errors else []
        files = [path for path in root.rglob("*") if path.is_file()]
        wrong += [f"left {path.relative_to(root)}" for path in files if not whole(path)]
        wrong += [f"left {path.name}" for path in (root / "tmp").iterdir()]
        wrong += [f"left {path.name}" for path in set(folder.iterdir()) - before if path.name != "found.sarif"]
        for path in set(folder.iterdir()) - before:
            path.unlink()
        return f"{'; '.join(wrong)} ({took:.1f} s later): {errors[-3000:]}" if wrong else ""


def whole(path: Path) -> bool:
    """Whether a file is an entry of the cache that can be read."""
    from tilewright.ground.native import store

    return path.suffix == ".bin" and store.read(path.parent, path.stem, lambda header: None) is not None


def failures(
    count: int, seed: int = 0, kind: str | None = None, jobs: int = 1, shown: Callable[[str], object] = print
) -> list[str]:
    """Errors at this many moments, with the kinds in turn."""
    choose = random.Random(seed)
    kinds = [kind] if kind else list(COMMANDS)
    moments = [(choose.choice(COMMANDS[kinds[n % len(kinds)]]), choose.random() * LATEST_SECONDS) for n in range(count)]

    def one(number: int) -> str:
        command, after_seconds = moments[number]
        wrong = None
        while wrong is None:
            with tempfile.TemporaryDirectory() as folder:
                prepare(Path(folder))
                wrong = interrupted(command, Path(folder), after_seconds)
            after_seconds /= 2
        shown(f"{number}: {command}, {2 * after_seconds:.3f} s: {wrong or 'well'}")
        return f"{command} after {2 * after_seconds:.3f} s: {wrong}" if wrong else ""

    with ThreadPoolExecutor(jobs) as pool:
        return [wrong for wrong in pool.map(one, range(count)) if wrong]


def main() -> int:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=COMMANDS)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    found = failures(options.count, options.seed, options.kind, options.jobs)
    print(f"{options.count} moments: {len(found)} failed", *found, sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

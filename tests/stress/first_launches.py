"""Processes in which sixteen threads launch, multiply, check and profile for the first time, at the same time.

    python first_launches.py                             100 processes of 16 threads with 200 first launches each
    python first_launches.py --processes 4 --launches 20

Every other process begins with an empty cache, and the next one with the cache that this left. A process fails when a
result is wrong, when something is printed on standard error, or when it does not end normally.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

THREADS = 16
#: Longest time of one process: a hang is a failure too.
PATIENCE_SECONDS = 900

#: Adds N to each element; with FLAW a second warp writes the first one's elements, which is a race.
_ADD = """.version 8.0
.target sm_70
.address_size 64
.visible .entry add_N(.param .u64 x) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  FLAW
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  add.s32 %r2, %r2, N;
  st.global.u32 [%rd3], %r2;
  ret;
}
"""


def add(number: int, flaw: str = "") -> object:
    """A kernel unique to this number."""
    from tilewright.programs import Program

    return Program.from_ptx(_ADD.replace("N", str(number)).replace("FLAW", flaw))


def launched(number: int) -> bool:
    """A simulated launch."""
    import tilewright as tw

    x = np.arange(64, dtype=np.int32)
    tw.simt.launch(add(number), 1, 64, (x,))
    return bool((x == np.arange(64) + number).all())


def multiplied(number: int) -> bool:
    """A product of a shape and dtype that have their own kernel."""
    import tilewright as tw

    dtype = (np.float32, np.float64, np.int32, np.int64, np.int8, np.float16)[number % 6]
    m, n, k = 1 + number % 5, 1 + number % 7, 2 + number % 3
    a, b = np.arange(m * k).reshape(m, k) % 5, np.arange(k * n).reshape(k, n) % 7
    if number % 2:  # large enough to be packed, and for other threads to help
        a, b = np.tile(a, (40, 40)), np.tile(b, (40, 40))
    c = tw.matmul(a.astype(dtype), b.astype(dtype))
    return bool((c == (a @ b).astype(c.dtype)).all())


def checked(number: int) -> bool:
    """A check of a kernel with a race, or of one without."""
    import tilewright as tw

    racy = bool(number % 2)
    found = tw.check(add(number, "and.b32 %r1, %r1, 31;" if racy else ""), 1, 64, (np.zeros(64, np.int32),))
    codes = {finding.code for finding in found if finding.code.startswith(("TW1", "TW2", "TW3"))}
    return bool(codes) == racy


def profiled(number: int) -> bool:
    """A profile, whose counts are known."""
    import tilewright as tw

    totals = tw.profile(add(number), 1, 64, (np.zeros(64, np.int32),)).totals
    return (totals.warp_instructions, totals.global_loads.sectors, totals.global_stores.sectors) == (16, 8, 8)


WORK: tuple[Callable[[int], bool], ...] = (launched, launched, launched, multiplied, checked, profiled)


def child(seed: int, launches: int) -> int:
    """All threads do the same at once at first, and then each in its own order."""
    import faulthandler

    faulthandler.enable()
    begin, wrong = threading.Barrier(THREADS), []

    def work(thread: int) -> None:
        tasks = [(WORK[number % len(WORK)], seed * launches + number) for number in range(launches)]
        if thread % 2:
            random.Random(seed + thread).shuffle(tasks)
        begin.wait()
        for function, number in tasks:
            try:
                if not function(number):
                    wrong.append(f"{function.__name__}({number}) was wrong")
            except BaseException as error:
                wrong.append(f"{function.__name__}({number}): {type(error).__name__}: {error}")

    crew = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    print(*dict.fromkeys(wrong), sep="\n", end="")
    return len(wrong)


def outcome(seed: int, launches: int, folder: Path) -> str:
    """The error of one process; empty if all went well."""
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(folder), "TMPDIR": str(folder.parent)}
    line = [sys.executable, __file__, "--child", str(seed), "--launches", str(launches)]
    try:
        done = subprocess.run(
            line, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"process {seed} had not ended after {PATIENCE_SECONDS} s"
    left = [path.name for path in folder.rglob(".new-*")]
    if done.returncode or done.stdout or done.stderr or left:
        return f"process {seed} ended with {done.returncode}, left {left}: {(done.stdout + done.stderr)[-1500:]}"
    return ""


def failures(processes: int, launches: int, jobs: int = 1, shown: Callable[[str], object] = print) -> list[str]:
    """Errors in this many processes, one cold and one warm in turn."""

    def pair(first: int) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for seed in range(first, min(first + 2, processes)):
                start = time.monotonic()
                found.append(outcome(first, launches, Path(folder) / "cache"))
                shown(f"process {seed}: {found[-1] or 'well'} ({time.monotonic() - start:.1f} s)")
            return found

    with ThreadPoolExecutor(jobs) as pool:
        return [text for texts in pool.map(pair, range(0, processes, 2)) for text in texts if text]


def main() -> int:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=100)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--child", type=int)
    options = parser.parse_args()
    if options.child is not None:
        return min(child(options.child, options.launches), 100)
    found = failures(options.processes, options.launches, options.jobs)
    print(
        f"{options.processes} processes of {THREADS} threads x {options.launches}: {len(found)} failed",
        *found,
        sep="\n",
    )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

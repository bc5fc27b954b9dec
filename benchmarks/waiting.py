"""How long users wait the first time: processor time of whole programs, each a fresh process with an empty cache.

The programs are a first `cuda.reduce` of 10,000 numbers and two Jacobi sweeps of numba.cuda, run, checked and profiled,
and the ladder at 64. Then launches of `tiled` and `results_8` at 256^3, plain and with all of check's instruments, and
plain ones of `hopper`, in quick code and in optimised code: the first launch, which makes the code, and the shortest of
the next ones. Last, three checks of `hopper_multicast` one after the other, as a user runs them, with an empty cache;
none waits for optimised code.

    python benchmarks/waiting.py [--rounds 3] [--json]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import measuring

import tilewright as tw
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.simulate.run import kernels
from tilewright.simulate.run.compiler import host

HEAD = "import numpy as np\nfrom numba import cuda, float64\n"
PROGRAMS = {
    "cuda.reduce": """
total = cuda.reduce(lambda a, b: a + b)
x = np.arange(10000, dtype=np.float64)
assert total(x) == x.sum()
""",
    "Jacobi, 13 lines": """
@cuda.jit
def jacobi(u, v, err):
    i, j = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        cuda.atomic.max(err, 0, abs(v[i, j] - u[i, j]))

u = np.zeros((64, 64)); u[0] = 1
v, err = u.copy(), np.zeros(1)
jacobi[(4, 4), (16, 16)](u, v, err)
assert v[1, 5] == 0.25
""",
    "Jacobi, tiles with edges": """
@cuda.jit
def jacobi(u, v):
    tile = cuda.shared.array((18, 18), float64)
    i, j = cuda.grid(2)
    x, y = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    if i < u.shape[0] and j < u.shape[1]:
        tile[x, y] = u[i, j]
        if x == 1 and i > 0: tile[0, y] = u[i - 1, j]
        if x == 16 and i < u.shape[0] - 1: tile[17, y] = u[i + 1, j]
        if y == 1 and j > 0: tile[x, 0] = u[i, j - 1]
        if y == 16 and j < u.shape[1] - 1: tile[x, 17] = u[i, j + 1]
    cuda.syncthreads()
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        v[i, j] = 0.25 * (tile[x - 1, y] + tile[x + 1, y] + tile[x, y - 1] + tile[x, y + 1])

u = np.zeros((64, 64)); u[0] = 1
v = u.copy()
jacobi[(4, 4), (16, 16)](u, v)
assert v[1, 5] == 0.25
""",
}
SIZE = 256


def main() -> None:
    parser = measuring.arguments(__doc__, optimised=False)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = whole_programs(options.rounds)
    tiered = [both_tiers(name, launch) for launch in ("run", "check") for name in ("tiled", "results_8")]
    tiered.append(both_tiers("hopper", "run"))
    long = checks_in_a_row("hopper_multicast", (300, 640, 520))
    rows = [(row["name"], row["command"], row["seconds"].text()) for row in found]
    columns = ("kernel", "command", "quick: first, s", "next, ms", "optimised: first, s", "next, ms")
    tables = [
        measuring.table("First use: processor time, s", ("program", "command", "median (least - most)"), rows),
        measuring.table("Both kinds of code: processor time", columns, [tuple(row.values()) for row in tiered]),
        measuring.table("Checks of hopper_multicast", ("check", "processor time, s", "wall time, s"), long),
    ]
    measuring.publish({"programs": found, "tiers": tiered, "long": long}, tables, as_json=options.json)


def whole_programs(rounds: int) -> list[dict[str, Any]]:
    """Every program under every command, and the ladder."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        runs = [("ladder", "ladder", ["ladder", "--sizes", "64"])]
        for number, (name, text) in enumerate(PROGRAMS.items()):
            path = Path(folder) / f"program_{number}.py"
            path.write_text(HEAD + text, encoding="utf-8")
            runs += [(name, command, [command, str(path)]) for command in ("run", "check", "profile")]
        for name, command, words in runs:
            seconds = [processor_seconds(words) for _ in range(rounds)]
            found.append({"name": name, "command": command, "seconds": measuring.Spread.of(seconds)})
    return found


def processor_seconds(words: list[str]) -> float:
    """Processor seconds of a fresh process and its children, with empty caches."""
    with tempfile.TemporaryDirectory() as cache:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = os.environ | {"TILEWRIGHT_CACHE_DIR": cache}
        command = [sys.executable, "-W", "ignore", "-m", "tilewright", *words]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def both_tiers(name: str, command: str) -> dict[str, Any]:
    """A kernel's launches, run or checked, in each kind of code."""
    record = catalogue.find(name)
    dtype = record.dtypes[0]
    program = record.program(dtype)
    a, b = operands(SIZE, SIZE, SIZE, dtype)
    c = record.blank(SIZE, SIZE, dtype)
    shape = record.launch_rule(SIZE, SIZE, SIZE)
    row: dict[str, Any] = {"name": name, "command": command}
    launch = {"run": tw.simt.launch, "check": tw.check}[command]
    host()  # warm up what all kernels share
    for kind, quick in (("quick", "1"), ("optimised", "0")):
        seconds = []
        with (
            tempfile.TemporaryDirectory() as cache,
            mock.patch.dict(os.environ, TILEWRIGHT_CACHE_DIR=cache, TILEWRIGHT_QUICK_CODE=quick),
            mock.patch.object(kernels, "WORTH_SECONDS", float("inf")),
        ):
            kernels.kernel_store.cache_clear()
            for _ in range(5):
                start = measuring.processor_seconds()
                launch(program, shape.grid, shape.block, record.arguments(a, b, c), shared_bytes=shape.shared_bytes)
                seconds.append(measuring.processor_seconds() - start)
        row |= {f"{kind}_first": f"{seconds[0]:.2f}", f"{kind}_next": f"{1e3 * min(seconds[1:]):.1f}"}
    return row


def checks_in_a_row(name: str, sizes: tuple[int, int, int]) -> list[tuple[str, ...]]:
    """Each of three checks: its number, processor time of all threads, and wall time."""
    record = catalogue.find(name)
    a, b = operands(*sizes, record.dtypes[0])
    shape, program = record.launch_rule(*sizes), record.program(record.dtypes[0])
    rows = []
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, TILEWRIGHT_CACHE_DIR=cache):
        kernels.kernel_store.cache_clear()
        for number in range(3):
            given = record.arguments(a, b, record.blank(*sizes[:2], record.dtypes[0]))
            start = measuring.processor_seconds(), time.perf_counter()
            tw.check(program, shape.grid, shape.block, given, shared_bytes=shape.shared_bytes)
            taken = measuring.processor_seconds() - start[0], time.perf_counter() - start[1]
            rows.append((str(number + 1), *(f"{seconds:.2f}" for seconds in taken)))
    return rows


if __name__ == "__main__":
    main()

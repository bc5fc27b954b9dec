"""Measurements that need a fresh process: the start, and memory beyond operands and result.

`python benchmarks/cpu_fresh.py NAME` prints the extra bytes of one strided product, as `cpu.py` asks for it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpu_works import strided

import tilewright as tw

SIZE = 2048


@dataclass(frozen=True)
class Start:
    """A statement timed in a fresh process, and its limits."""

    name: str
    before: str  # untimed statements before it
    statement: str
    #: Most seconds with an empty cache of kernels, and with the cache that this run filled.
    empty: float | None = None
    filled: float | None = None


_READY = "import numpy as np, tilewright as tw; tw.matmul; {operands}"
_FIRST = {
    "float32 300": "a = np.ones((300, 300), np.float32)",
    "float32 8": "a = np.ones((8, 8), np.float32)",
    "int8 300": "a = np.ones((300, 300), np.int8)",
    "float16 300": "a = np.ones((300, 300), np.float16)",
    "complex64 300": "a = np.ones((300, 300), np.complex64)",
}
STARTS = (
    Start("import tilewright", "", "import tilewright", 0.15, 0.15),
    Start("import NumPy", "", "import numpy"),
    Start("the engine, after both", "import numpy, tilewright as tw", "tw.matmul"),
    *(
        Start(f"first call, {name}", _READY.format(operands=operands), "tw.matmul(a, a)", 1.0, 0.030)
        for name, operands in _FIRST.items()
    ),
)


@dataclass(frozen=True)
class Started:
    """Median seconds of a start, and whether they are within the limits."""

    name: str
    empty: float
    filled: float
    empty_bar: float | None
    filled_bar: float | None


def started(start: Start, repeats: int = 5) -> Started:
    """Time a start with empty and with filled caches."""
    times: dict[str, list[float]] = {"empty": [], "filled": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for found in times.values():
                found.append(seconds(start, folder))
    return Started(
        start.name, statistics.median(times["empty"]), statistics.median(times["filled"]), start.empty, start.filled
    )


def seconds(start: Start, cache: str) -> float:
    """Seconds that a statement takes in its own process."""
    script = f"import time\n{start.before}\nt = time.perf_counter()\n{start.statement}\nprint(time.perf_counter() - t)"
    return float(output([sys.executable, "-c", script], cache))


@dataclass(frozen=True)
class Extra:
    """Peak memory of a product beyond its operands and result."""

    name: str
    extra_bytes: int
    operand_bytes: int  # of the operand that is strided, as a contiguous copy of it
    bar: int  # 16 MB a thread, and no copy of the operand

    @property
    def met(self) -> bool:
        """Whether the extra memory is within the bar."""
        return self.extra_bytes <= self.bar


def extras(threads: int) -> list[Extra]:
    """The extra memory of every strided product, each in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        found = []
        for work in strided(SIZE):
            # Source: mallopt(3): a set threshold stays fixed; else memory freed by one array would hide the next.
            printed = output([sys.executable, __file__, work.name], cache, MALLOC_MMAP_THRESHOLD_=str(1 << 16))
            extra, operand = map(int, printed.split())
            found.append(Extra(work.name, extra, operand, min(threads * 16 << 20, operand - 1)))
    return found


def output(command: list[str], cache: str, **environ: str) -> str:
    """A command's output, with its own cache and further variables."""
    environment = os.environ | {"TILEWRIGHT_CACHE_DIR": cache} | environ
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure(name: str) -> tuple[int, int]:
    """Peak resident bytes of one product, less those before it and its result's; and the larger operand's bytes."""
    index = [work.name for work in strided(SIZE)].index(name)
    tw.matmul(*strided(320)[index].operands())  # the kernel is loaded, with buffers of a small product
    a, b = strided(SIZE)[index].operands()
    Path("/proc/self/clear_refs").write_text("5")  # Source: proc(5): resets the peak, VmHWM
    before = status("VmRSS")
    result = tw.matmul(a, b)
    return status("VmHWM") - before - result.nbytes, max(a.nbytes, b.nbytes)


def status(field: str) -> int:
    """A field of this process's memory, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def cells(started_rows: list[Started], extra_rows: list[Extra]) -> tuple[list[Any], list[Any]]:
    """Rows of the two tables."""

    def timed(value: float, bar: float | None) -> tuple[str, str]:
        said = "" if bar is None else f"{1e3 * bar:g} " + ("met" if value <= bar else "NOT MET")
        return f"{1e3 * value:,.1f}", said

    starts = [(r.name, *timed(r.empty, r.empty_bar), *timed(r.filled, r.filled_bar)) for r in started_rows]
    memory = [
        (r.name, *(f"{x / 2**20:.1f}" for x in (r.extra_bytes, r.operand_bytes, r.bar)), "met" if r.met else "NOT MET")
        for r in extra_rows
    ]
    return starts, memory


if __name__ == "__main__" and len(sys.argv) > 1:
    print(*measure(sys.argv[1]))

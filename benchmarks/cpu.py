"""The CPU engine beside NumPy, PyTorch and MKL: the table of what it must reach, in pairs of one run.

Each row's work is timed in blocks of calls, ours and a peer's in turn; a ratio is the peer's time over ours of
neighbouring blocks, so above 1 is quicker than the peer. The median stands with its quartiles. Between blocks the
process is left alone until its threads have stopped spinning: OpenBLAS and OpenMP keep a core busy for a while after a
call, which would be charged to whoever comes next. Results are compared with the first peer's before they are timed.

Peers that are not installed are left out: `pip install torch mkl` brings them.

    python benchmarks/cpu.py [--only PATTERN ...] [--rounds 9] [--seconds 4] [--threads 2] [--json]
"""

from __future__ import annotations

import argparse
import fnmatch
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import measuring
import numpy as np
from cpu_works import Peer, Work, torch, works
from rich.progress import Progress
from threadpoolctl import threadpool_limits

import tilewright as tw

#: Seconds that a block of calls should take.
BLOCK_SECONDS = 0.02
#: What starting costs: a fresh process, its caches empty or filled.
STARTS = {
    "import tilewright": "import tilewright",
    "first float32 product": "import numpy as np; a = np.ones((300, 300), np.float32); tw.matmul(a, a)",
    "first int8 product": "import numpy as np; a = np.ones((300, 300), np.int8); tw.matmul(a, a, dtype='int32')",
    "first complex product": "import numpy as np; a = np.ones((300, 300), np.complex64); tw.matmul(a, a)",
}


@dataclass(frozen=True)
class Ratio:
    """A peer's time over ours, and what it should be.

    Attributes
    ----------
    peer : str
    quartiles : (low, median, high)
    rate : float
        The peer's, in the row's unit.
    bar : float, optional
    """

    peer: str
    quartiles: tuple[float, float, float]
    rate: float
    bar: float | None

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the bar; None without one."""
        return None if self.bar is None else self.quartiles[1] >= self.bar


@dataclass(frozen=True)
class Row:
    """One work's figures; `error` where it could not be done."""

    name: str
    unit: str = ""
    rate: float = 0.0
    microseconds: float = 0.0
    ratios: tuple[Ratio, ...] = ()
    error: str = ""


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--only", nargs="*", default=["*"], help="rows by name, with * and ?")
    parser.add_argument("--rounds", type=int, default=9, help="pairs of blocks for each peer, where time allows")
    parser.add_argument("--seconds", type=float, default=4.0, help="at most so long for each peer, but three pairs")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    wanted = [(name, make) for name, make in works() if any(fnmatch.fnmatch(name, p) for p in options.only)]
    if torch is not None:
        torch.set_num_threads(options.threads)
    rows: list[Row] = []
    with threadpool_limits(options.threads), Progress(disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("measuring", total=len(wanted))
        for name, make in wanted:
            progress.update(task, description=name)
            rows.append(measured(name, make, options))
            progress.advance(task)
    starts = [start for start in STARTS if any(fnmatch.fnmatch(start, p) for p in options.only)]
    seconds = {start: start_seconds(STARTS[start]) for start in starts}
    tables = [table_of(rows, options.threads)] + ([starts_table(seconds)] if seconds else [])
    means = square_means(rows)
    measuring.publish({"rows": rows, "geometric_means": means, "starts": seconds}, tables, as_json=options.json)
    if means and not options.json:
        print(
            "Geometric mean to the best peer, squares of 256 to 2048: "
            + ", ".join(f"{k} {v:.2f}" for k, v in means.items())
        )


def measured(name: str, make: Callable[[], Work], options: argparse.Namespace) -> Row:
    """A row, or why there is none."""
    try:
        work = make()
        check(work)
        return timed(work, options.rounds, options.seconds)
    except (tw.TilewrightError, AssertionError, TypeError, AttributeError) as error:
        return Row(name, error=f"{type(error).__name__}: {error}")


def check(work: Work) -> None:
    """Compare the result with the first peer's: equal, or close for floats."""
    mine = np.asarray(work.ours())
    for name, peer in work.peers.items():
        theirs = peer.call()
        if theirs is None:
            continue  # a copy
        if torch is not None and isinstance(theirs, torch.Tensor):
            theirs = theirs.to(torch.float32).numpy() if theirs.dtype == torch.bfloat16 else theirs.numpy()
        if work.exact:
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
        else:
            wide = np.complex128 if mine.dtype.kind == "c" else np.float64
            tolerance = 0.02 if mine.dtype.itemsize == 2 else 1e-3
            np.testing.assert_allclose(mine.astype(wide), theirs.astype(wide), rtol=tolerance, atol=1e-4, err_msg=name)


def timed(work: Work, rounds: int, seconds: float) -> Row:
    """Time a work beside each of its peers."""
    ours: list[float] = []
    ratios = []
    medians: dict[str, list[float]] = {}
    for name, peer in work.peers.items():
        pairs = paired(work.ours, peer, rounds, seconds)
        ours += [mine for mine, _ in pairs]
        quotients = [theirs / mine / peer.share for mine, theirs in pairs]
        medians[name] = quotients
        rate = peer.share * work.amount / statistics.median(theirs for _, theirs in pairs) / 1e9
        ratios.append(Ratio(name, quartiles(quotients), rate, peer.bar))
    if work.best_bar is not None:
        best = min(ratios, key=lambda r: r.quartiles[1])
        ratios = [Ratio(r.peer, r.quartiles, r.rate, work.best_bar if r is best else r.bar) for r in ratios]
    mine = statistics.median(ours)
    return Row(work.name, work.unit, work.amount / mine / 1e9, mine * 1e6, tuple(ratios))


def paired(ours: Callable[[], Any], peer: Peer, rounds: int, seconds: float) -> list[tuple[float, float]]:
    """Seconds a call, ours and the peer's, of neighbouring blocks."""
    counts = [max(1, round(BLOCK_SECONDS / max(block(call, 1), 1e-7))) for call in (ours, peer.call)]
    pairs: list[tuple[float, float]] = []
    start = time.perf_counter()
    while len(pairs) < 3 or (len(pairs) < rounds and time.perf_counter() - start < seconds):
        times = []
        for call, count in zip((ours, peer.call), counts, strict=True):
            settle()
            times.append(block(call, count))
        pairs.append((times[0], times[1]))
    return pairs


def block(call: Callable[[], Any], count: int) -> float:
    """Seconds a call of several, after one that is not counted."""
    call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def settle() -> None:
    """Wait until no thread of this process works any more, at most a second."""
    for _ in range(50):
        before = time.process_time()
        time.sleep(0.02)
        if time.process_time() - before < 0.002:
            return


def quartiles(quotients: list[float]) -> tuple[float, float, float]:
    low, median, high = np.quantile(quotients, [0.25, 0.5, 0.75])
    return float(low), float(median), float(high)


def square_means(rows: list[Row]) -> dict[str, float]:
    """The geometric mean of the ratios to the best peer, of each float dtype."""
    means = {}
    for dtype in ("float32", "float64"):
        squares = [r for r in rows if r.name.startswith(f"{dtype} ") and r.ratios and int(r.name.split()[1]) >= 256]
        if len(squares) == 7:
            means[dtype] = math.exp(statistics.mean(math.log(min(x.quartiles[1] for x in r.ratios)) for r in squares))
    return means


def start_seconds(statement: str) -> dict[str, float]:
    """Seconds of a statement in a fresh process, with an empty cache and with what that left; imports apart."""
    script = "import time\n{before}start = time.perf_counter()\n{statement}\nprint(time.perf_counter() - start)"
    before = "" if statement.startswith("import tilewright") else "import numpy, tilewright as tw; tw.matmul\n"
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for state in ("empty", "filled"):
            done = subprocess.run(
                [sys.executable, "-c", script.format(before=before, statement=statement)],
                env={**os.environ, "TILEWRIGHT_CACHE_DIR": folder}, capture_output=True, text=True, check=True,
            )  # fmt: skip
            found[state] = float(done.stdout)
    return found


def table_of(rows: list[Row], threads: int) -> Any:
    lines = []
    for row in rows:
        if row.error:
            lines.append((row.name, "", "", "", "", row.error.split("\n")[0][:60], ""))
        for i, ratio in enumerate(row.ratios):
            low, median, high = ratio.quartiles
            met = {None: "", True: "met", False: "NOT MET"}[ratio.met]
            head = (row.name, f"{row.rate:,.1f} {row.unit}", f"{row.microseconds:,.1f}") if i == 0 else ("", "", "")
            bar = "" if ratio.bar is None else f"{ratio.bar:g}"
            lines.append(
                (*head, ratio.peer, f"{ratio.rate:,.1f}", f"{median:.2f} [{low:.2f} {high:.2f}]", f"{bar} {met}")
            )
    columns = ("work", "ours", "us", "peer", "its rate", "ratio [quartiles]", "bar")
    return measuring.table(f"CPU engine, {threads} threads", columns, lines)


def starts_table(seconds: dict[str, dict[str, float]]) -> Any:
    lines = [
        (name, *(f"{1e3 * found[state]:,.1f}" for state in ("empty", "filled"))) for name, found in seconds.items()
    ]
    return measuring.table("Starting, ms in a fresh process", ("what", "cache empty", "cache filled"), lines)


if __name__ == "__main__":
    main()

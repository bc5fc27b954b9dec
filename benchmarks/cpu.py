"""The CPU engine against NumPy, PyTorch and MKL: its bars, measured in pairs within one run.

Each row's work is timed in blocks of calls, ours and a peer's in turn. A ratio is the peer's time over ours in
neighbouring blocks: above 1, ours is quicker. The table has the median, which is compared with the bar, and its
quartiles. Between blocks the process waits until its threads have stopped spinning: OpenBLAS and OpenMP keep a core
busy for a while after a call, which would slow the next block. Every peer's result is compared with ours before it is
timed.

Libraries whose threads wait for each other by spinning become ten times slower if another process takes one of the
cores; ours divides its work differently and loses less. So a pair of blocks during which other processes worked is
repeated while there is time; otherwise its row is marked as disturbed.

Rows in GB/s count the bytes of the matrix, each once. `copy` is NumPy's copy of that matrix on two threads: it reads
it and writes another, so its rate counts twice the bytes. A ratio of 0.9 means that the product reads the matrix
at 0.9 of the rate at which a copy moves bytes. `read` is NumPy's maximum of it on two threads.

The rows are in `cpu_works.py`, the peers in `cpu_peers.py`; peers that are not installed are left out
(the extra `bench` brings them). Start and memory are measured in fresh processes.

    python benchmarks/cpu.py [--only 'float32*'] [--rounds 9] [--seconds 4] [--threads 2] [--json]
"""

from __future__ import annotations

import contextlib
import fnmatch
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import cpu_fresh
import cpu_peers
import measuring
import numpy as np
import threadpoolctl
import typer
from cpu_peers import PEERS, Call
from cpu_works import WORKS, Work
from rich.progress import Progress

import tilewright as tw
from tilewright.show.rates.turns import settle

#: Seconds that a block of calls should take.
BLOCK_SECONDS = 0.02
#: Seconds of our calls before timing: small products get their own kernels after 10,000 calls.
WARM_SECONDS = 0.2
#: Share of one core that other processes may use during a pair, and how finely the system counts.
OTHERS_SHARE, TICK_SECONDS = 0.1, 0.01
#: The square extents of a geometric mean, and its bar.
MEAN_FROM, MEAN_BAR = 256, 1.0
UNITS = {"operations": "Gop/s", "bytes": "GB/s"}


@dataclass(frozen=True)
class Ratio:
    """A peer's time over ours, and what it should be.

    Attributes
    ----------
    peer : str
    quartiles : (low, median, high)
    rate : float
        The peer's, in the row's unit.
    pairs : int
        Neighbouring blocks that were compared.
    bar : float, optional
    disturbed : bool
        Whether other processes took some of the cores meanwhile.
    """

    peer: str
    quartiles: tuple[float, float, float]
    rate: float
    pairs: int
    bar: float | None
    disturbed: bool

    @property
    def met(self) -> bool | None:
        """Whether the median reaches the bar; None without one."""
        return None if self.bar is None else self.quartiles[1] >= self.bar


@dataclass(frozen=True)
class Row:
    """One work's figures; `error` if it failed."""

    name: str
    unit: str = ""
    rate: float = 0.0
    microseconds: float = 0.0
    ratios: tuple[Ratio, ...] = ()
    error: str = ""


def main(
    only: Annotated[list[str] | None, typer.Option(help="Rows by name, with * and ?; may be repeated.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Pairs of blocks for each peer, where time allows.")] = 9,
    seconds: Annotated[float, typer.Option(help="At most so long for each peer, but for three pairs.")] = 4.0,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Measure the CPU engine beside its peers."""
    patterns = only or ["*"]

    def wanted(name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    os.environ["TILEWRIGHT_THREADS"] = str(threads)
    missing = [name for name, found in (("PyTorch", cpu_peers.torch()), ("MKL", cpu_peers.mkl())) if found is None]
    if cpu_peers.torch() is not None:
        cpu_peers.torch().set_num_threads(threads)
    works = [work for work in WORKS if wanted(work.name)]
    rows: list[Row] = []
    with threadpoolctl.threadpool_limits(threads), Progress(disable=json or not sys.stdout.isatty()) as progress:
        with contextlib.suppress(KeyboardInterrupt):  # what has been measured is printed
            for work in progress.track(works, description="measuring"):
                rows.append(measured(work, rounds, seconds))
    starts = [cpu_fresh.started(start) for start in cpu_fresh.STARTS if wanted(start.name)]
    extras = cpu_fresh.extras(threads) if wanted("memory") else []
    means = square_means(rows)
    results = {"threads": threads, "missing": missing, "rows": rows, "geometric_means": means}
    results |= {"starts": starts, "memory": extras}
    title = f"CPU engine, {threads} threads"
    tables = [table_of(rows, title, note(missing, means, rows))] if rows else []
    tables += fresh_tables(starts, extras)
    measuring.publish(results, tables, as_json=json, packages=("torch", "mkl", "ml-dtypes"))


def measured(work: Work, rounds: int, seconds: float) -> Row:
    """A row, or the reason why there is none."""
    try:
        operands = work.operands()
        ours = work.ours(*operands)
        result = np.asarray(ours())
    except (TypeError, AttributeError, tw.TilewrightError) as error:
        built = isinstance(error, tw.TilewrightError)
        return Row(work.name, error=str(error) if built else f"not built: {error}")
    warm(ours)
    unit, amount = UNITS[work.counts], work.amount(*operands[:2])
    mine: list[float] = []
    ratios = []
    for name, bar in work.peers.items():
        peer = PEERS[name]
        call = peer.prepare(*operands)
        if call is None:
            continue
        try:
            check(result, call(), work)
        except AssertionError as error:
            return Row(work.name, error=f"WRONG beside {name}: {' '.join(str(error).split())}")
        pairs, disturbed = paired(ours, call, rounds, seconds)
        mine += [first for first, _ in pairs]
        low, median, high = np.quantile([second / first / peer.share for first, second in pairs], [0.25, 0.5, 0.75])
        rate = peer.share * amount / statistics.median(second for _, second in pairs) / 1e9
        ratios.append(Ratio(name, (float(low), float(median), float(high)), rate, len(pairs), bar, disturbed))
    if work.best is not None and ratios:
        best = min(ratios, key=lambda ratio: ratio.quartiles[1])
        ratios = [replace(ratio, bar=work.best) if ratio is best else ratio for ratio in ratios]
    took = statistics.median(mine or [block(ours, 1)])
    return Row(work.name, unit, amount / took / 1e9, took * 1e6, tuple(ratios))


def check(mine: np.ndarray, theirs: Any, work: Work) -> None:
    """Compare our result with a peer's: equal for integers and min-plus, else within the error of any order of sums."""
    if theirs is None:
        return  # bandwidth
    if not isinstance(theirs, np.ndarray | np.generic):
        theirs = theirs.float().numpy() if mine.dtype.name == "bfloat16" else theirs.numpy()
    if np.shape(theirs) != mine.shape:
        return  # bandwidth
    if mine.dtype.kind in "iu" or "algebra" in work.options:
        np.testing.assert_array_equal(mine, theirs)
        return
    # Source: Higham, "Accuracy and stability of numerical algorithms", 2nd ed., section 3.1; operands are at most 1
    # (complex ones 2 in product), and both results and the result's own rounding count.
    k, wide = work.shapes[0][-1], np.complex128 if mine.dtype.kind == "c" else np.float64
    digits = {2: 2.0**-24, 4: 2.0**-24, 8: 2.0**-53}[mine.real.dtype.itemsize]
    rounding = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(mine.dtype.name, 4 * digits)
    largest = float(np.abs(theirs.astype(wide)).max())
    np.testing.assert_allclose(mine.astype(wide), theirs.astype(wide), rtol=rounding, atol=4 * k * digits * largest)


def warm(call: Call) -> None:
    """Call until kernels are made and threads run."""
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_SECONDS:
        call()


def paired(ours: Call, peer: Call, rounds: int, seconds: float) -> tuple[list[tuple[float, float]], bool]:
    """Seconds a call in neighbouring blocks, ours and the peer's, and whether other processes disturbed them."""
    calls = (ours, peer)
    counts = [max(1, round(BLOCK_SECONDS / max(block(call, 1), 1e-7))) for call in calls]
    quiet: list[tuple[float, float]] = []
    disturbed: list[tuple[float, float]] = []
    least = min(3, rounds)
    start = time.perf_counter()
    while len(quiet) < rounds:
        spent = time.perf_counter() - start
        if spent > seconds and (len(quiet) >= least or spent > 2 * seconds) and len(quiet) + len(disturbed) >= least:
            break
        began, others = time.perf_counter(), others_seconds()
        times = []
        for call, count in zip(calls, counts, strict=True):
            settle()
            times.append(block(call, count))
        share = (others_seconds() - others - TICK_SECONDS) / (time.perf_counter() - began)
        (quiet if share < OTHERS_SHARE else disturbed).append((times[0], times[1]))
    return (quiet, False) if len(quiet) >= least else (quiet + disturbed, True)


def others_seconds() -> float:
    """Processor seconds that other processes, and other guests of the host, have used; 0 if the system does not say.

    Source: proc(5), /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
    """
    try:
        fields = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    except OSError:
        return 0.0
    idle = {3, 4}
    busy = sum(int(x) for i, x in enumerate(fields) if i not in idle) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()


def block(call: Callable[[], Any], count: int) -> float:
    """Seconds a call of several.

    The same number of calls come before and are not counted: a library's sleeping threads may all wake on one core for
    some milliseconds, until the system moves them. A long call is made once.
    """
    for _ in range(count):
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
        if once > 5 * BLOCK_SECONDS:
            return once
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def square_means(rows: list[Row]) -> dict[str, float]:
    """The geometric mean of the ratios to the best peer, of each float dtype whose squares were all measured."""
    means = {}
    for dtype in ("float32", "float64"):
        sizes = [w.name for w in WORKS if w.name.startswith(f"{dtype} ") and w.best and w.shapes[0][0] >= MEAN_FROM]
        found = [min(r.quartiles[1] for r in row.ratios) for row in rows if row.name in sizes and row.ratios]
        if len(found) == len(sizes):
            means[dtype] = math.exp(statistics.mean(math.log(ratio) for ratio in found))
    return means


def note(missing: Sequence[str], means: dict[str, float], rows: Sequence[Row]) -> str:
    """The text under the table: means, errors, missing peers."""
    said = [
        f"Geometric mean to the best peer, {dtype} squares of 256 to 2048: {mean:.2f}, bar {MEAN_BAR:g} "
        + ("met" if mean >= MEAN_BAR else "NOT MET")
        for dtype, mean in means.items()
    ]
    if any(ratio.disturbed for row in rows for ratio in row.ratios):
        said.append("* other processes took some of the cores meanwhile, which slows peers that spin more than others.")
    said += [f"{row.name}: {row.error}" for row in rows if row.error]
    return "\n".join([*said, *([f"Not installed: {', '.join(missing)}."] if missing else [])])


def table_of(rows: list[Row], title: str, caption: str) -> Any:
    """The table of the works, a line for each peer."""
    lines = []
    for row in rows:
        head = (row.name, f"{row.rate:,.1f} {row.unit}", f"{row.microseconds:,.1f}")
        if not row.ratios:
            lines.append((row.name, "", "", "", "", row.error.split(":")[0] or "no peer", ""))
        for i, ratio in enumerate(row.ratios):
            low, median, high = (f"{x:.2f}" if x < 100 else f"{x:,.0f}" for x in ratio.quartiles)
            met = {None: "", True: f"{ratio.bar} met", False: f"{ratio.bar} NOT MET"}[ratio.met]
            spread = f"{median} [{low} {high}]" + "*" * ratio.disturbed
            first = head if i == 0 else ("", "", "")
            lines.append((*first, ratio.peer, f"{ratio.rate:,.1f}", spread, met))
    columns = ("work", "ours", "us", "peer", "its rate", "ratio [quartiles]", "bar")
    return measuring.table(title, columns, lines, caption)


def fresh_tables(starts: list[cpu_fresh.Started], extras: list[cpu_fresh.Extra]) -> list[Any]:
    """The tables of measurements in fresh processes."""
    started, memory = cpu_fresh.cells(starts, extras)
    tables = []
    if started:
        columns = ("what", "cache empty", "bar", "cache filled", "bar")
        tables.append(measuring.table("Starting, ms in a fresh process, median of 5", columns, started))
    if memory:
        columns = ("product", "extra", "a copied operand", "bar", "")
        tables.append(measuring.table("Peak memory beyond operands and result, MB", columns, memory))
    return tables


if __name__ == "__main__":
    typer.run(main)

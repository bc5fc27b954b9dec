"""Broken kernels cannot damage the process: thousands of mutated PTX programs, launched one after another.

Each program is one of the kernels in `mutation_kernels`, changed by `ptx_changes` at random, by seed, and launched with
a block, a grid and instruments by seed. For each: it ran or gave a TilewrightError, it ended within its limit, and no
byte changed around its arguments in the host's memory, nor around its arenas. They run in one child process; if it
dies, that counts as a failure, and another continues.

    python benchmarks/mutation.py [--count 10000] [--first 0] [--show SEED] [--only SEED ...] [--kernels NAME ...]
"""

from __future__ import annotations

import argparse
import faulthandler
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from guarded_memory import HostArrays, watched
from ptx_changes import Stock, mutated

import tilewright as tw
from tilewright.errors import LimitError, TilewrightError, TranslatorError
from tilewright.instruments import Banks, Coalescing
from tilewright.observe.instruments.convergence import Convergence
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.observe.instruments.tensor_memory import TensorMemory
from tilewright.simulate.events import Instrument

LIMIT_SECONDS = 0.5
SLACK_SECONDS = 5.0  # of the process's own time, because a limit does not count translation
HANG_SECONDS = 60  # then the process is ended from inside, with every thread's position
DIED, HUNG = "the process died", "hung"
#: Grids and blocks of a mutated program, and numbers passed to it; the kernels are made for the first.
SHAPES = ((2, 64), (2, 64), (2, 64), (4, 33), (1, 128), ((2, 1), (8, 8)), ((1, 2), (4, 4, 4)), (3, 1))
NUMBERS = (64, 64, 64, 0, 33, 1 << 20, 0xFFFFFFFF)


@dataclass(frozen=True)
class Outcome:
    """The outcome of one program; `problem` is empty unless a promise was broken."""

    seed: int
    kernel: str
    name: str
    seconds: float
    problem: str = ""


# -- in the child -------------------------------------------------------------------------------------------------


def run(stock: Stock, arrays: HostArrays, seed: int) -> Outcome:
    """Mutate, launch, and judge one program."""
    kernel, text = mutated(stock, seed)
    problem, name = "", "ran"
    start, worked = time.perf_counter(), time.process_time()
    with watched() as watch:
        try:
            launch(text, arrays, seed)
        except TranslatorError as error:
            name, problem = type(error).__name__, f"{error}"
        except TilewrightError as error:
            name = type(error).__name__
            problem = "" if str(error) else "an error without a message"
        except Exception as error:  # the promise is that no other error occurs
            name = problem = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - start
        if time.process_time() - worked > LIMIT_SECONDS + SLACK_SECONDS:  # a busy host is not the program's fault
            problem = problem or f"took {seconds:.1f} s"
        if changed := watch.changed():
            problem = f"{changed} bytes outside the arenas changed"
    if changed := arrays.changed():
        problem = f"{changed} host bytes outside the arguments changed"
    return Outcome(seed, kernel, name, seconds, problem)


def launch(text: str, arrays: HostArrays, seed: int) -> None:
    """Launch a program, with options chosen by its seed."""
    draw = random.Random(-seed - 1)
    grid, block = draw.choice(SHAPES)
    limits = tw.simt.Limits(seconds=LIMIT_SECONDS, instructions=20_000_000)
    program = tw.programs.Program.from_ptx(text)
    if ".reqnctapercluster" in text:  # most of these want blocks in pairs
        grid = 2 * grid if isinstance(grid, int) else (2 * grid[0], grid[1])
    chance = draw.random()
    instruments: tuple[Instrument, ...] = ()
    if chance < 0.125:
        instruments = (Coalescing(), Banks())
    elif chance < 0.375:
        instruments = (MemoryCheck(program.module), Convergence(), TensorMemory())
    arguments = [*arrays.arguments(), draw.choice(NUMBERS)][: len(program.parameters)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a full print buffer
        tw.simt.launch(
            program, grid, block, arguments, shared_bytes=64, instruments=instruments, limits=limits, seed=seed
        )


def run_all(seeds: list[int], log: Path, kernels: list[str]) -> None:
    """Run programs in this process; each is named in the log before it starts, and its outcome written after."""
    stack = log.with_suffix(".stack").open("w")
    faulthandler.enable(stack)
    stock, arrays = Stock(kernels), HostArrays()
    with log.open("a", buffering=1) as lines:
        for seed in seeds:
            lines.write(f"{seed}\n")
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True, file=stack)
            outcome = run(stock, arrays, seed)
            faulthandler.cancel_dump_traceback_later()
            lines.write(json.dumps(asdict(outcome)) + "\n")


# -- in the parent ------------------------------------------------------------------------------------------------


def run_children(seeds: list[int], folder: Path, kernels: list[str]) -> list[Outcome]:
    """Run all programs in a child process, or in several where one dies."""
    outcomes: list[Outcome] = []
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(folder / "cache")}  # programs that are not run again
    start = time.perf_counter()
    left = seeds
    while left:
        log = folder / f"{left[0]}.log"
        log.touch()
        command = [sys.executable, __file__, "--log", str(log), "--only", *map(str, left), "--kernels", *kernels]
        child = subprocess.Popen(command, env=environment)
        done, rest = 0, ""
        with log.open() as lines:
            while child.poll() is None:
                time.sleep(0.2)
                *whole, rest = (rest + lines.read()).split("\n")
                done += told(whole, len(outcomes) + done, len(seeds), start)
        finished, begun = read(log)
        if begun is not None:  # it died in there
            stack = log.with_suffix(".stack").read_text()
            name = HUNG if "Timeout" in stack else DIED
            print(f"seed {begun}: {name} (status {child.returncode})\n{stack}", flush=True)
            finished.append(Outcome(begun, mutated(Stock(kernels), begun)[0], name, 0.0, name))
        outcomes += finished
        left = seeds[len(outcomes) :]
        if child.returncode and begun is None:
            sys.exit(f"the child ended with status {child.returncode} between two programs")
    return outcomes


def told(lines: list[str], before: int, count: int, start: float) -> int:
    """Print broken promises and progress; returns how many outcomes the lines of the log have."""
    found = 0
    for line in map(json.loads, lines):
        if not isinstance(line, dict):
            continue
        outcome = Outcome(**line)
        found += 1
        if outcome.problem:
            print(f"seed {outcome.seed} ({outcome.kernel}): {outcome.problem}", flush=True)
        if (before + found) % 500 == 0:
            rate = (before + found) / (time.perf_counter() - start)
            print(f"{before + found} of {count}, {rate:.1f} a second", flush=True)
    return found


def read(log: Path) -> tuple[list[Outcome], int | None]:
    """The outcomes in a log, and the seed that started but did not finish."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    outcomes = [Outcome(**line) for line in lines if isinstance(line, dict)]
    return outcomes, lines[-1] if lines and isinstance(lines[-1], int) else None


def report(outcomes: list[Outcome]) -> str:
    """The closing table: outcomes by kernel, the slowest program and the memory."""
    text = io.StringIO()
    totals = Counter(outcome.name for outcome in outcomes)
    counts = Counter((outcome.kernel, outcome.name) for outcome in outcomes)
    names = [name for name, _ in totals.most_common()]
    print(f"\n{'kernel':<14}" + "".join(f"{name[:18]:>19}" for name in names) + f"{'all':>8}", file=text)
    for kernel in sorted({outcome.kernel for outcome in outcomes}):
        row = [counts[kernel, name] for name in names]
        print(f"{kernel:<14}" + "".join(f"{n:>19}" for n in row) + f"{sum(row):>8}", file=text)
    print(f"{'all':<14}" + "".join(f"{totals[n]:>19}" for n in names) + f"{len(outcomes):>8}", file=text)
    limited = max((o.seconds for o in outcomes if o.name == LimitError.__name__), default=0.0)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{len(outcomes)} programs, {sum(bool(o.problem) for o in outcomes)} broken promises;"
        f" slowest {max((o.seconds for o in outcomes), default=0.0):.2f} s, slowest stopped by its limit"
        f" {limited:.2f} s; peak memory {peak:.0f} MB",
        file=text,
    )
    return text.getvalue()


def main() -> int:
    """Run in its own process, so that even its death is reported with the seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", metavar="SEED", help="run these programs and no others")
    parser.add_argument("--show", type=int, metavar="SEED", help="print one mutated program and stop")
    parser.add_argument("--kernels", nargs="*", default=[], metavar="NAME", help="change these and no others")
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.show is not None:
        print(mutated(Stock(options.kernels), options.show)[1])
        return 0
    seeds = options.only or list(range(options.first, options.first + options.count))
    if options.log is not None:
        run_all(seeds, options.log, options.kernels)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_children(seeds, Path(folder), options.kernels)
    print(report(outcomes))
    return int(any(outcome.problem for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())

"""The time to translate a kernel to machine code, phase by phase, and to load it from the disk cache.

Two kernels: `tiled` (S2 corrected) and `thread_tile_2d`, with 64 accumulators a thread, both float32, from their PTX
on; `--kernels` names others of the catalogue. First translations are timed in a process that
has translated before, with empty caches each time. Kept translations are timed in fresh processes, from the end of the
imports: it is what their first launch waits for. Both products are compared with the canonical one.

    python benchmarks/translation.py [--rounds 5] [--kernels tiled,thread_tile_2d] [--json]
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import llvmlite.binding as llvm
import measuring
import numpy as np

from tilewright import simt
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.reference import canonical
from tilewright.programs import Program
from tilewright.simulate.programs import listing
from tilewright.simulate.run import cache, compiler, kernels
from tilewright.simulate.translate import translation
from tilewright.simulate.translate.analysis import graph

SIZE = 64
#: Phase -> the module attribute of its function. The rest of the time is "other".
PHASES: dict[str, tuple[Any, str]] = {
    "parse": (listing, "parse"),
    "graph": (graph, "build"),
    "shapes": (translation, "Shapes"),
    "emit": (translation, "emit_function"),
    "LLVM parse": (llvm, "parse_assembly"),
    "LLVM passes": (llvm.newpassmanagers.ModulePassManager, "run"),
    "machine code": (llvm.TargetMachine, "emit_object"),
    "write": (cache, "store"),
    "link": (compiler.Host, "link"),
}


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kernels", default="tiled,thread_tile_2d")
    parser.add_argument("--reopen", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reopen:
        print(json.dumps(reopen(options.reopen)))
        return
    found = [measure(name, options.rounds) for name in options.kernels.split(",")]
    measuring.publish({"kernels": found}, tables(found), as_json=options.json)


@functools.cache
def prepared(name: str) -> tuple[Program, Callable[[], tuple[simt.Run, bool]]]:
    """A kernel's program, and a function that launches it and returns whether its product is right."""
    a, b = operands(SIZE, SIZE, SIZE, "float32")
    c = np.zeros((SIZE, SIZE), np.float32)
    record = catalogue.find(name)
    program, shape = record.program("float32"), record.launch_rule(SIZE, SIZE, SIZE)
    arguments = record.arguments(a, b, c)

    def launch() -> tuple[simt.Run, bool]:
        c[:] = -1
        run = simt.launch(program, shape.grid, shape.block, arguments)
        return run, bool((c == canonical(a, b)).all())

    return program, launch


def measure(name: str, rounds: int) -> dict[str, Any]:
    """First translations with their phases, then kept ones in processes of their own."""
    program, launch = prepared(name)
    first: list[float] = []
    phases: dict[str, list[float]] = {}
    right = True
    for round_ in range(rounds + 1):  # the first warms the process up
        with fresh_caches(), stopwatch() as seconds:
            run, correct = launch()
        right &= correct and not run.cached
        if round_:
            first.append(run.translate_seconds)
            for phase, spent in (seconds | {"other": run.translate_seconds - sum(seconds.values())}).items():
                phases.setdefault(phase, []).append(spent)
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(rounds + 1):
            answer = in_a_process(name, folder)
            right &= answer["right"] and answer["cached"] == bool(round_)
            kept += [answer] if round_ else []
            if not round_:
                fresh_process_seconds = answer["ready_seconds"]
    return {
        "name": name,
        "right": right,
        "ptx_lines": len(program.ptx.splitlines()),
        "first_seconds": measuring.Spread.of(first),
        "phase_seconds": {phase: measuring.Spread.of(values) for phase, values in phases.items()},
        "first_in_a_fresh_process_seconds": fresh_process_seconds,
        "kept_seconds": measuring.Spread.of([answer["ready_seconds"] for answer in kept]),
        "kept_launch_seconds": measuring.Spread.of([answer["launch_seconds"] for answer in kept]),
    }


@contextmanager
def fresh_caches() -> Iterator[None]:
    """Empty caches of translations, on disk and in this process."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, TILEWRIGHT_CACHE_DIR=folder):
        kernels.kernel_store.cache_clear()
        kernels.parsed.cache_clear()
        yield


@contextmanager
def stopwatch() -> Iterator[dict[str, float]]:
    """Seconds spent in each phase's function while the context lasts."""
    seconds: dict[str, float] = defaultdict(float)

    def timed(phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                seconds[phase] += time.perf_counter() - start

        return call

    patches = [
        mock.patch.object(owner, name, timed(phase, getattr(owner, name))) for phase, (owner, name) in PHASES.items()
    ]
    for patch in patches:
        patch.start()
    try:
        yield seconds
    finally:
        for patch in patches:
            patch.stop()


def in_a_process(name: str, folder: str) -> dict[str, Any]:
    """Launch a kernel once in a fresh process that keeps translations in a folder."""
    command = [sys.executable, __file__, "--reopen", name]
    environment = os.environ | {"TILEWRIGHT_CACHE_DIR": folder}
    answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def reopen(name: str) -> dict[str, Any]:
    """In the other process: the first launch."""
    _, launch = prepared(name)
    start = time.perf_counter()
    run, right = launch()
    return {
        "right": right,
        "cached": run.cached,
        "ready_seconds": run.translate_seconds,
        "launch_seconds": time.perf_counter() - start,
    }


def tables(found: list[dict[str, Any]]) -> list[Any]:
    """One table of totals, one of phases."""
    totals = [
        (
            row["name"],
            "yes" if row["right"] else "NO",
            f"{row['ptx_lines']:,}",
            row["first_seconds"].text(),
            f"{row['first_in_a_fresh_process_seconds']:.3g}",
            row["kept_seconds"].text(1e3),
        )
        for row in found
    ]
    columns = ("kernel", "verified", "PTX lines", "first, s", "first of a process, s", "from the disk cache, ms")
    names = [row["name"] for row in found]
    phases = [(phase, *(row["phase_seconds"][phase].text(1e3) for row in found)) for phase in found[0]["phase_seconds"]]
    return [
        measuring.table("From PTX to machine code: median (least - most)", columns, totals),
        measuring.table("Phases of a first translation, ms", ("phase", *names), phases),
    ]


if __name__ == "__main__":
    main()

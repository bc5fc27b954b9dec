"""Counts of a real GPU's profiler for the ladder's SIMT kernels: the program that it runs, and its output.

`measure.py` calls it; `test_recordings.py` compares the counts with the simulated ones.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import measure
import profiler

#: Begins a line of the program's output for each launch.
_LAUNCHED = "launched "


def cases(m: int, n: int, k: int, only: Sequence[str] = ()) -> list[tuple[Any, str]]:
    """Every kernel and dtype that may run on a shape, in the order they are launched.

    `tiled_published` is left out: it reads out of bounds off its own shapes.
    """
    from tilewright.multiply.kernels import catalogue

    return [
        (record, dtype)
        for record in catalogue.records()
        if record.backend == "gpu" and record.order in ("fma", "rounded-product") and not record.algebras
        if record.name != "tiled_published" and (not only or record.name in only)
        for dtype in record.dtypes
        if record.accepts(m, n, k, dtype) is None
    ]


def launch_all(m: int, n: int, k: int, only: Sequence[str] = ()) -> None:
    """Launch every case once, checking each product, and print what was launched; one that fails is left out."""
    import oracle

    from tilewright.ladder import operands
    from tilewright.multiply.backends.cuda import device

    cc = device.compute_capability()
    for record, dtype in cases(m, n, k, only):
        try:
            program, shape = record.program(dtype, cc), record.launch_rule(m, n, k)
        except Exception as error:  # of a compiler that this machine lacks
            print(f"no {record.name} {dtype}: {measure.line(error)}", file=sys.stderr)
            continue
        a, b = operands(m, n, k, dtype)
        c = record.blank(m, n, dtype)
        device.launch(program, shape.grid, shape.block, record.arguments(a, b, c), shape.shared_bytes)
        if oracle.wrong_elements(record, c, dtype, (m, n, k)):
            raise SystemExit(f"{record.name} {dtype}: wrong product; nothing is recorded")
        print(f"{_LAUNCHED}{record.name} {dtype}", flush=True)


def profiled(
    m: int, n: int, k: int, more: Sequence[str] = (), only: Sequence[str] = (), seconds: float | None = None
) -> dict[str, Any]:
    """The counts of each case of a shape, or why there are none.

    `more` are arguments of the program that launches them; `seconds` is the most time that it may take.
    """
    ncu = profiler.find()
    if ncu is None:
        return {"refused": "Nsight Compute (ncu) is not installed"}
    arguments = [*more, *(word for name in only for word in ("--only", name)), "--shape", f"{m},{n},{k}"]
    command = profiler.command(ncu, sys.executable, __file__, *arguments)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"refused": f"the profiler took longer than {seconds:.0f} s"}
    if done.returncode or "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        return {"refused": f"the profiler failed: {done.stdout[-600:]} {done.stderr[-600:]}"}
    counts = profiler.read(done.stdout)
    launched = [said.removeprefix(_LAUNCHED).split() for said in done.stdout.splitlines() if said.startswith(_LAUNCHED)]
    if len(counts) != len(launched):
        return {"refused": f"the profiler saw {len(counts)} launches, not {len(launched)}"}
    named = zip(launched, counts, strict=True)
    return {"shape": [m, n, k], "kernels": [{"name": one, "dtype": of, **found} for (one, of), found in named]}


def main() -> None:
    """Launch every case of a shape; this program runs under the profiler."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", required=True, help="M,N,K")
    parser.add_argument("--simulated", default="")
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    m, n, k = (int(part) for part in options.shape.split(","))
    with measure.on_device(options.simulated):
        launch_all(m, n, k, options.only)


if __name__ == "__main__":
    main()

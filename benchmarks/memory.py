"""The memory of a launch: the process's peak against the size of its arrays.

Each row is its own process, with an empty cache of translations. The peak is the system's figure for the whole process
(VmHWM, else ru_maxrss), with Python, NumPy and LLVM in it; the baseline is the same figure after a small launch, just
before the arrays are made. `add` touches every byte of three arrays once. `results_8` is the ladder's, compiled
beforehand by another process; Numba compiles `tiled` in the same process, which shows what that compiler keeps. Each
kernel runs on NumPy arrays, of which the simulator holds a copy while it runs, and on arrays that live in simulated
memory only (`simt.Memory`).

The yardstick is 1.5 times the arrays plus 200 MB; an array that the caller keeps and the simulator copies is one array.

    python benchmarks/memory.py [--sizes 1024,2048,4096] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import measuring
import numpy as np

from tilewright import simt
from tilewright.multiply.kernels import catalogue
from tilewright.programs import Program

KERNELS = Path(__file__).parent / "speed_kernels"
MB = 1 << 20
PRODUCT_SIZE = 1024


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--sizes", default="1024,2048,4096", help="extents of square float32 arrays")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        kernel, ptx, size, where = options.measure
        print(json.dumps(measure(kernel, ptx, int(size), where)))
        return
    cases = [("add", int(size)) for size in options.sizes.split(",")]
    cases += [("results_8", PRODUCT_SIZE), ("tiled", PRODUCT_SIZE)]
    with tempfile.TemporaryDirectory() as folder:
        texts = {"add": KERNELS / "add.ptx", "results_8": Path(folder) / "results_8.ptx", "tiled": Path()}
        texts["results_8"].write_text(catalogue.find("results_8").program("float32").ptx)
        rows = [in_a_process(k, texts[k], size, where) for k, size in cases for where in ("numpy", "simulated")]
    columns = ("kernel", "arrays in", "right", "arrays", "baseline", "peak", "peak - baseline", "yardstick")
    cells = [
        (
            f"{row['kernel']} {row['size']}x{row['size']}",
            row["where"],
            "yes" if row["right"] else "NO",
            *(f"{row[key]:.0f}" for key in ("arrays_mb", "baseline_mb", "peak_mb")),
            f"{row['peak_mb'] - row['baseline_mb']:.0f}",
            f"{row['yardstick_mb']:.0f}",
        )
        for row in rows
    ]
    table = measuring.table("Peak resident memory of a process that launches one kernel, MB", columns, cells)
    measuring.publish({"rows": rows}, [table], as_json=options.json)


def in_a_process(kernel: str, ptx: Path, size: int, where: str) -> dict[str, Any]:
    """Measure one launch in a fresh process."""
    command = [sys.executable, __file__, "--measure", kernel, str(ptx), str(size), where]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TILEWRIGHT_CACHE_DIR": cache}
        answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, Any] = json.loads(answer.stdout)
    return row


def measure(kernel: str, ptx: str, size: int, where: str) -> dict[str, Any]:
    """Launch one kernel, and print the process's peak before and after."""
    program = catalogue.find("tiled").program("float32") if kernel == "tiled" else Program.from_ptx(Path(ptx))
    launch(program, kernel, 32, fill(32, "numpy"))
    baseline = peak_bytes()
    arrays = fill(size, where)
    launch(program, kernel, size, arrays)
    peak = peak_bytes()
    result = arrays[2].view() if isinstance(arrays[2], simt.DeviceArray) else arrays[2]
    total = sum(array.nbytes for array in arrays)
    return {
        "kernel": kernel,
        "size": size,
        "where": where,
        "right": bool((result == (3 if kernel == "add" else 2 * size)).all()),
        "arrays_mb": total / MB,
        "baseline_mb": baseline / MB,
        "peak_mb": peak / MB,
        "yardstick_mb": 1.5 * total / MB + 200,
    }


def fill(size: int, where: str) -> list[Any]:
    """Arrays of ones, twos and zeros."""
    memory = simt.Memory() if where == "simulated" else None
    arrays = []
    for value in (1, 2, 0):
        if memory is None:
            arrays.append(np.full((size, size), value, np.float32) if value else np.zeros((size, size), np.float32))
        else:
            arrays.append(memory.empty((size, size), np.float32))
            arrays[-1].view()[...] = value
    return arrays


def launch(program: Program, kernel: str, size: int, arrays: list[Any]) -> None:
    """Launch `add` over the elements, or a product."""
    if kernel == "add":
        simt.launch(program, size * size // 256, 256, [*arrays, size * size])
        return
    shape = catalogue.find(kernel).launch_rule(size, size, size)
    simt.launch(program, shape.grid, shape.block, arrays if kernel == "tiled" else [*arrays, size, size, size])


def peak_bytes() -> int:
    """The peak of the process's memory since its exec."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would begin with the parent's memory, which the child shared before its exec
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()

"""Record what a real GPU counts for the ladder's kernels, for comparison with the simulated one.

Run on a machine with an NVIDIA GPU, driver and Nsight Compute, from the root of the repository::

    python tests/hardware/record.py --shape 100,37,61 --shape 256,256,256

It writes `tests/hardware/recordings/<gpu>-<m>x<n>x<k>.json`: device, driver, date, and for every kernel and dtype the
profiler's counts. `test_recordings.py` compares each file with the simulated counts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import profiler

RECORDINGS = Path(__file__).parent / "recordings"
#: Published specimens that read out of bounds off their own shapes are recorded only on theirs.
TILE = 16


def cases(m: int, n: int, k: int) -> list[tuple[Any, str]]:
    """Every GPU record and dtype that may run on a shape, in the order they are launched."""
    from tilewright.kernels import catalogue

    whole = m % TILE == n % TILE == k % TILE == 0 and m == k
    return [
        (record, dtype)
        for record in catalogue.records()
        if record.backend == "gpu" and (whole or record.name != "tiled_published")
        for dtype in record.dtypes
        if record.accepts(m, n, k, dtype) is None
    ]


def launch_all(m: int, n: int, k: int) -> None:
    """Launch every case once, checking each product: what runs under the profiler."""
    import numpy as np

    from tilewright.backends.cuda import device
    from tilewright.ladder import operands

    cc = device.compute_capability()
    for record, dtype in cases(m, n, k):
        a, b = operands(m, n, k, dtype)
        c = np.zeros((m, n), a.dtype)
        shape = record.launch_rule(m, n, k)
        device.launch(record.program(dtype, cc), shape.grid, shape.block, record.arguments(a, b, c), shape.shared_bytes)
        if record.wrong_elements(c, a, b):
            raise SystemExit(f"{record.name} {dtype}: wrong product; nothing is recorded")


def record_shape(ncu: str, m: int, n: int, k: int) -> Path:
    """Profile one shape and write its recording."""
    from tilewright.backends.cuda import device

    gpu = device.current()
    arguments = profiler.command(ncu, sys.executable, __file__, "--launch", "--shape", f"{m},{n},{k}")
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the profiler failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    counts = profiler.read(done.stdout)
    wanted = cases(m, n, k)
    if len(counts) != len(wanted):
        raise SystemExit(f"the profiler saw {len(counts)} launches, not {len(wanted)}")
    recording = {
        "device": gpu.name,
        "compute_capability": list(gpu.compute_capability),
        "driver": _driver(),
        "profiler": _first_number(
            subprocess.run([ncu, "--version"], capture_output=True, text=True, check=True).stdout
        ),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "shape": [m, n, k],
        "kernels": [
            {"name": record.name, "dtype": dtype, **found}
            for (record, dtype), found in zip(wanted, counts, strict=True)
        ],
    }
    RECORDINGS.mkdir(exist_ok=True)
    stem = re.sub(r"[^a-z0-9]+", "-", gpu.name.lower()).strip("-")
    file = RECORDINGS / f"{stem}-{m}x{n}x{k}.json"
    file.write_text(json.dumps(recording, indent=1) + "\n")
    return file


def _driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()


def _first_number(text: str) -> str:
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else ""


def main() -> None:
    """Read the command line and record, or launch under the profiler."""
    from tilewright.backends.cuda import device

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", action="append", required=True, help="M,N,K; may be repeated")
    parser.add_argument("--launch", action="store_true", help="only launch (what the profiler runs)")
    options = parser.parse_args()
    reason = device.unavailable()
    if reason:
        raise SystemExit(f"nothing recorded: {reason}")
    shapes = [tuple(int(part) for part in text.split(",")) for text in options.shape]
    if options.launch:
        for shape in shapes:
            launch_all(*shape)
        return
    ncu = profiler.find()
    if ncu is None:
        raise SystemExit("nothing recorded: Nsight Compute (ncu) is not installed")
    for shape in shapes:
        print(record_shape(ncu, *shape))


if __name__ == "__main__":
    main()

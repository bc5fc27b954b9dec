"""Scripts that use Triton, each under `tilewright run`: whether it came to a good end, and in how many seconds.

    python benchmarks/triton_tutorials.py FOLDER [--limit SECONDS] [--check] [--plants] [--only 05 ...]

FOLDER holds Triton's tutorials, or any other scripts; each runs in a folder of its own, which is deleted with what the
script writes there. One that prints the sign by which Triton's tutorials say that results differ has failed.
With `--plants` a race is planted in a copy of each tutorial, without its sweep of sizes, and `tilewright check` must
find it at its line, and nothing there in the copy without it.
What a script needs beside Triton and torch (matplotlib, pandas, tabulate) must be installed. Without a folder there is
nothing to run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: What the tutorials print where their results differ from torch's.
_DIFFERS = "\N{CROSS MARK}"
#: Calls that begin a sweep of sizes.
_SWEEP = re.compile(r"^\w+\.run\(.*\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Plant:
    """A race that is planted in a tutorial."""

    tutorial: str  #: The beginning of its name.
    text: str  #: What stands in it, once or more,
    instead: str  #: what stands there instead,
    line: str  #: and what the line has in it where the race must be found.
    gpu: str = "h100"
    smaller: tuple[tuple[str, str], ...] = ()  #: Other text that is replaced, so that fewer blocks run.


_ROWS, _FEWER = "* offs_cm[:, None]", "* (offs_cm[:, None] % BLOCK_SIZE_M)"
PLANTS = (
    Plant("01", "output_ptr + offsets,", "output_ptr + offsets % 1000,", "tl.store(output_ptr"),
    Plant("02", "row_idx * output_row_stride", "row_idx // 2 * output_row_stride", "tl.store(output_ptrs"),
    Plant("03", _ROWS, _FEWER, "tl.store(c_ptrs"),
    Plant("04", "output_ptr + offsets,", "output_ptr + offsets // 2,", "tl.store(output_ptr"),
    Plant("05", "    tl.debug_barrier()\n", "", "tl.atomic_xchg(Lock, 0)"),
    Plant("08", _ROWS, _FEWER, "tl.store(c_ptrs", smaller=(("[1024, 512, 256, 128]", "[256, 128]"),)),
    Plant("09", _ROWS, _FEWER, "tl.store(c_ptrs", smaller=(("8192, 8192", "512, 512"),)),
    Plant(
        "10", "c_desc.store([offs_am,", "c_desc.store([0,", "c_desc.store(", gpu="rtx5090",
        smaller=(
            ("in [10, 11]", "in [10, 11, 12]"), ("(8192, 8192, 8192", "(256, 256, 512"),
            ("BLOCK_N = 256", "BLOCK_N = 128"),
            ('"num_stages": 4', '"num_stages": 1'),
        ),
    ),
)  # fmt: skip


def checked(source: str, plant: Plant, limit: float) -> tuple[set[tuple[str, int]], str]:
    """The races that `tilewright check` finds in a script, by code and line, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        script, report = Path(folder) / "tutorial.py", Path(folder) / "found.json"
        script.write_text(source)
        told = subprocess.run(
            [sys.executable, "-m", "tilewright", "check", "--gpu", plant.gpu, f"--format=json={report}", str(script)],
            cwd=folder, env={**os.environ, "MPLBACKEND": "agg"}, timeout=limit, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        ).stdout  # fmt: skip
        if not report.exists():
            raise RuntimeError(f"`tilewright check` must write a report (got none of {plant.tutorial}):\n{told}")
        found = json.loads(report.read_text())["findings"]
        return {(one["code"], one["line"]) for one in found if one["code"].startswith("TW3")}, told


def planted(script: Path, plant: Plant, limit: float) -> bool:
    """Whether a planted race is found at its line, and not without it; says which codes stand there."""
    begun = time.perf_counter()
    clean = _SWEEP.sub("", script.read_text())
    for before, after in plant.smaller:
        clean = clean.replace(before, after)
    source = clean.replace(plant.text, plant.instead)
    status, told = "not planted", ""
    try:
        if source != clean:
            (twin, _), (found, told) = checked(clean, plant, limit), checked(source, plant, limit)
            at = {number for number, line in enumerate(source.splitlines(), 1) if plant.line in line}
            codes = sorted({f"{code} at {line}" for code, line in found if line in at})
            status = f"found {', '.join(codes)}" if codes else f"not found: {sorted(found)}"
            status = "found in the twin" if twin else status
    except subprocess.TimeoutExpired:
        status = f"over {limit:g} s"
    print(f"{script.stem:40} {time.perf_counter() - begun:9.1f} s  {status}", flush=True)
    good = status.startswith("found TW")
    if not good:
        _print_end(told)
    return good


def _print_end(told: str) -> None:
    print(*(f"    {line}" for line in told.splitlines()[-12:]), sep="\n", flush=True)


def run(script: Path, command: str, limit: float) -> tuple[str, float, str]:
    """How a script ended, its seconds, and the end of what it printed."""
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "tilewright", command, str(script.resolve())],
                cwd=folder, env={**os.environ, "MPLBACKEND": "agg"}, timeout=limit, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired as over:
            told = over.stdout.decode(errors="replace") if isinstance(over.stdout, bytes) else over.stdout or ""
            return f"over {limit:g} s", time.perf_counter() - begun, told
    status = "differs" if _DIFFERS in ran.stdout else "ok" if ran.returncode == 0 else f"status {ran.returncode}"
    return status, time.perf_counter() - begun, ran.stdout


def _pairs(scripts: Sequence[Path]) -> list[tuple[Path, Plant]]:
    return [(script, plant) for script in scripts for plant in PLANTS if script.name.startswith(plant.tutorial)]


def main() -> int:
    """The number of scripts that failed, as the exit status: 1 where there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a script may take")
    parser.add_argument("--check", action="store_true", help="under `tilewright check`")
    parser.add_argument("--plants", action="store_true", help="plant a race in each, and find it")
    parser.add_argument("--only", nargs="+", default=[""], help="how the names begin of the scripts that are wanted")
    given = parser.parse_args()
    if given.folder is None:
        print("no folder of scripts is given; nothing runs")
        return 0
    scripts = [one for one in sorted(given.folder.glob("*.py")) if one.name.startswith(tuple(given.only))]
    if not scripts:
        parser.error(f"`folder` must hold scripts (got {given.folder}, which has none); name the tutorials' folder")
    if given.plants:
        return int(not all(planted(*pair, given.limit) for pair in _pairs(scripts)))
    failed = 0
    print(f"{'script':40} {'status':>12} {'seconds':>9}")
    for script in scripts:
        status, seconds, told = run(script, "check" if given.check else "run", given.limit)
        print(f"{script.stem:40} {status:>12} {seconds:9.1f}", flush=True)
        if status != "ok":
            failed += 1
            _print_end(told)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())

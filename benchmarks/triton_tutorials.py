"""Scripts that use Triton, each under `tilewright run`: whether it succeeds, and in how many seconds.

    python benchmarks/triton_tutorials.py FOLDER [--limit SECONDS] [--check] [--asserts] [--plants] [--only 05 ...]

Each line has the seconds on the clock, those of the processor, and the load of the host when the script began.

FOLDER holds Triton's tutorials, or any other scripts; each runs in its own folder, which is deleted afterwards. A
script fails if it prints the sign by which Triton's tutorials report different results. With `--asserts` a copy runs
without its sweep of sizes; of 06, whose asserts are tests, some of these are called. With `--plants` a copy of each
tutorial, without its sweep of sizes, gets a race; `tilewright check` must find it at its line, and must find nothing
there without the race. What a script needs beside Triton and torch (matplotlib, pandas, tabulate) must be installed.
Without a folder there is nothing to run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: What the tutorials print if their results differ from torch's.
_DIFFERS = "\N{CROSS MARK}"
#: Calls that begin a sweep of sizes.
_SWEEP = re.compile(r"^( *)\w+\.run\(.*\)$", re.MULTILINE)
#: The end of a copy of a tutorial whose asserts are in tests: (Z, H, N_CTX, HEAD_DIM, causal, ...).
_CALLS = {
    "06": (
        (1, 2, 128, 64, True, False, "bwd", "triton-fp16"), (1, 2, 128, 64, False, False, "fwd", "triton-fp8"),
        (1, 2, 1024, 64, True, False, "bwd", "triton-fp16"), (1, 2, 1024, 128, False, False, "bwd", "triton-fp16"),
    ),
}  # fmt: skip
#: The GPU of a tutorial that needs another than the default.
_GPUS = {"10": "b200"}
#: Text of 06, and its replacement, which leaves its tests one configuration.
_ONE_CONFIGURATION = ('if "PYTEST_VERSION" in os.environ:', "if True:")


@dataclass(frozen=True, slots=True)
class Plant:
    """A race that is planted in a tutorial."""

    tutorial: str  #: The beginning of its name.
    text: str  #: Text that it contains, once or more,
    instead: str  #: its replacement,
    line: str  #: and a part of the line at which the race must be found.
    gpu: str = "h100"
    smaller: tuple[tuple[str, str], ...] = ()  #: Other text that is replaced, so that fewer blocks run.


_ROWS, _FEWER = "* offs_cm[:, None]", "* (offs_cm[:, None] % BLOCK_SIZE_M)"
PLANTS = (
    Plant("01", "output_ptr + offsets,", "output_ptr + offsets % 1000,", "tl.store(output_ptr"),
    Plant("02", "row_idx * output_row_stride", "row_idx // 2 * output_row_stride", "tl.store(output_ptrs"),
    Plant(
        "03", _ROWS, _FEWER, "tl.store(c_ptrs",
        smaller=(("configs=get_autotune_config(),", "configs=get_autotune_config()[4:5],"),),
    ),
    Plant("04", "output_ptr + offsets,", "output_ptr + offsets // 2,", "tl.store(output_ptr"),
    Plant(
        "05", "    while tl.atomic_cas(Lock, 0, 1) == 1:\n        pass\n", "", "tl.store(DW, partial_dw",
        smaller=(("test_layer_norm(1151, 8192,", "test_layer_norm(600, 1024,"),),
    ),
    Plant(
        "06", "m_ptrs = M + off_hz * N_CTX + offs_m", "m_ptrs = M + offs_m", "tl.store(m_ptrs",
        smaller=(_ONE_CONFIGURATION,),
    ),
    Plant(
        "08", _ROWS, _FEWER, "tl.store(c_ptrs",
        smaller=(
            ("[1024, 512, 256, 128]", "[256, 128]"),
            ("    ],\n    key=['group_size']", "    ][2:3],\n    key=['group_size']"),
            ("    tma_configs,\n", "    tma_configs[:1],\n"),
        ),
    ),
    Plant(
        "09", _ROWS, _FEWER, "tl.store(c_ptrs",
        smaller=(
            ("validate(32, 32, 32,", "validate(256, 256, 64,"), ("    validate(8192, 8192", "    0 and (8192, 8192"),
            ("for BN in [128, 256]", "for BN in [128]"), ("for BK in [64, 128]", "for BK in [64]"),
            ("([2, 3, 4])", "([2])"), ("for w in [4, 8]", "for w in [4]"), ("reps=10000", "reps=0"),
        ),
    ),
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


def without_sweep(script: Path, calls: int | None = None) -> str:
    """A tutorial's text without its sweep of sizes, with so many calls of its tests at its end, or all."""
    ended = next((made for name, made in _CALLS.items() if script.name.startswith(name)), ())
    return "\n".join([_SWEEP.sub(r"\1pass", script.read_text()), *(f"test_op{given}" for given in ended[:calls]), ""])


def planted(script: Path, plant: Plant, limit: float) -> bool:
    """Whether a planted race is found at its line, and not without it; prints the codes found there."""
    begun = beginning()
    clean = without_sweep(script, 1)
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
    print(f"{script.stem:40} {took(begun)}  {status}", flush=True)
    good = status.startswith("found TW")
    if not good:
        _print_end(told)
    return good


def _print_end(told: str) -> None:
    print(*(f"    {line}" for line in told.splitlines()[-12:]), sep="\n", flush=True)


def beginning() -> tuple[float, float, float]:
    """At a script's start: the clock, the processor seconds of all earlier children, the host's load."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime, os.getloadavg()[0]


def took(begun: tuple[float, float, float]) -> str:
    """Seconds since then on the clock and of the processor, and the load then."""
    now = beginning()
    return f"{now[0] - begun[0]:9.1f} {now[1] - begun[1]:9.1f} {begun[2]:6.1f}"


def run(script: Path, command: str, limit: float) -> tuple[str, str]:
    """How a script ended, and the end of what it printed."""
    gpu = [f"--gpu={gpu}" for name, gpu in _GPUS.items() if script.name.startswith(name)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "tilewright", command, *gpu, str(script.resolve())],
                cwd=folder, env={**os.environ, "MPLBACKEND": "agg"}, timeout=limit, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired as over:
            told = over.stdout.decode(errors="replace") if isinstance(over.stdout, bytes) else over.stdout or ""
            return f"over {limit:g} s", told
    status = "differs" if _DIFFERS in ran.stdout else "ok" if ran.returncode == 0 else f"status {ran.returncode}"
    return status, ran.stdout


def _pairs(scripts: Sequence[Path]) -> list[tuple[Path, Plant]]:
    return [(script, plant) for script in scripts for plant in PLANTS if script.name.startswith(plant.tutorial)]


def main() -> int:
    """The number of scripts that failed, as the exit status: 1 where there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a script may take")
    parser.add_argument("--check", action="store_true", help="under `tilewright check`")
    parser.add_argument("--asserts", action="store_true", help="without sweeps of sizes")
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
        found = [planted(*pair, given.limit) for pair in _pairs(scripts)]
        return int(not all(found))
    failed = 0
    print(f"{'script':40} {'clock, s':>9} {'cpu, s':>9} {'load':>6}  status")
    for script in scripts:
        begun = beginning()
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / script.name
            if given.asserts:
                copy.write_text(without_sweep(script).replace(*_ONE_CONFIGURATION))
            status, told = run(copy if given.asserts else script, "check" if given.check else "run", given.limit)
        print(f"{script.stem:40} {took(begun)}  {status}", flush=True)
        if status != "ok":
            failed += 1
            _print_end(told)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())

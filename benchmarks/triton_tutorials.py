"""Scripts that use Triton, each under `tilewright run`: whether it came to a good end, and in how many seconds.

    python benchmarks/triton_tutorials.py FOLDER [--limit SECONDS] [--check]

FOLDER holds Triton's tutorials, or any other scripts; each runs in a folder of its own, which is deleted with what the
script writes there. One that prints the sign by which Triton's tutorials say that results differ has failed.
What a script needs beside Triton and torch (matplotlib, pandas, tabulate) must be installed. Without a folder there is
nothing to run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: What the tutorials print where their results differ from torch's.
_DIFFERS = "\N{CROSS MARK}"


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


def main() -> int:
    """The number of scripts that failed, as the exit status: 1 where there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds that a script may take")
    parser.add_argument("--check", action="store_true", help="under `tilewright check`")
    given = parser.parse_args()
    if given.folder is None:
        print("no folder of scripts is given; nothing runs")
        return 0
    scripts = sorted(given.folder.glob("*.py"))
    if not scripts:
        parser.error(f"`folder` must hold scripts (got {given.folder}, which has none); name the tutorials' folder")
    failed = 0
    print(f"{'script':40} {'status':>12} {'seconds':>9}")
    for script in scripts:
        status, seconds, told = run(script, "check" if given.check else "run", given.limit)
        print(f"{script.stem:40} {status:>12} {seconds:9.1f}", flush=True)
        if status != "ok":
            failed += 1
            print(*(f"    {line}" for line in told.splitlines()[-12:]), sep="\n", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())

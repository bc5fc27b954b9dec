"""Runs numba-cuda's own tests on the simulated GPU and compares with what is kept.

    python suite.py                 all modules; exit status 1 when a test does otherwise than `results.toml` says
    python suite.py --keep          and keep what came
    python suite.py test_matmul     only modules whose names hold a word

Every module is run by child processes with a time limit; after a test that takes too long or ends the process, another
one goes on with the tests that are left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Outcome = dict[str, Any]
HERE = Path(__file__).parent
PACKAGES = ("cudapy", "doc_examples")
#: Most seconds without a test that ends.
PATIENCE_SECONDS = 120


def modules() -> list[str]:
    """Every test module, as `cudapy.test_matmul`."""
    spec = find_spec("numba_cuda")
    assert spec is not None and spec.origin is not None, "numba-cuda is not installed"
    tests = Path(spec.origin).parent / "numba" / "cuda" / "tests"
    return [f"{package}.{file.stem}" for package in PACKAGES for file in sorted((tests / package).glob("test_*.py"))]


def run_module(module: str, *, simulator: bool = False, patience: float = PATIENCE_SECONDS) -> dict[str, Outcome]:
    """What each test of a module did; after a test that ended its process, another process runs those left."""
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        only: Path | None = None
        while True:
            journal = Path(folder) / "journal"
            journal.write_text("")
            command = [sys.executable, str(HERE / "child.py"), module, str(journal)]
            child = subprocess.Popen(
                command + (["--only", str(only)] if only else []),
                env=os.environ | ({"NUMBA_ENABLE_CUDASIM": "1"} if simulator else {}),
                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            said = _wait(child, journal, patience)
            begun = ""
            for line in map(json.loads, journal.read_text().splitlines()):
                begun = line["test"] if line["outcome"] == "begun" else ""
                if not begun and found.get(line["test"], {}).get("outcome") != "failed":
                    found[line["test"]] = {key: line[key] for key in ("outcome", "reason", "seconds")}
            if not begun:
                return found or {module: {"outcome": "failed", "reason": said or "no test was found", "seconds": 0}}
            found[begun] = {"outcome": "failed", "reason": said or "the process ended", "seconds": 0}
            left = [test for test in run_module(module, simulator=True) if test not in found]
            if not left:
                return found
            only = Path(folder) / "only"
            only.write_text("\n".join(left))


def _wait(child: subprocess.Popen[str], journal: Path, patience: float) -> str:
    """Wait while tests end; returns why it was ended, or what it said of its own end."""
    size = -1
    while True:
        try:
            _, said = child.communicate(timeout=patience)
            return said.strip()[:600] if child.returncode else ""
        except subprocess.TimeoutExpired:
            now = journal.stat().st_size
            if now == size:
                child.kill()
                child.communicate()
                return f"no end after {patience:.0f} seconds"
            size = now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--simulator", action="store_true")
    arguments = parser.parse_args()
    chosen = [m for m in modules() if not arguments.words or any(word in m for word in arguments.words)]
    everything: dict[str, Outcome] = {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for module, found in zip(
            chosen, pool.map(lambda m: run_module(m, simulator=arguments.simulator), chosen), strict=True
        ):
            everything |= found
            counts = {o: sum(w["outcome"] == o for w in found.values()) for o in ("passed", "failed", "skipped", "run")}
            print(module, *(f"{n} {o}" for o, n in counts.items() if n), flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps(everything, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

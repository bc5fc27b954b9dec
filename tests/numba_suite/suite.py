"""Runs numba-cuda's own tests on the simulated GPU and compares the results with the kept lists.

    python suite.py                 all modules; exit status 1 if a result differs from the lists
    python suite.py --keep          all modules, and keep the results
    python suite.py test_matmul     only modules whose names contain a word

Child processes with a time limit run every module; after a test that takes too long or ends its process, another
process runs the tests that are left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Outcome = dict[str, Any]
HERE = Path(__file__).parent
PASSES, FAILURES = HERE / "passes.txt", HERE / "failures.toml"
PACKAGES = ("cudapy", "doc_examples")
#: Longest time, in seconds, in which no test ends.
PATIENCE_SECONDS = 300


def modules() -> list[str]:
    """Every test module, as `cudapy.test_matmul`."""
    spec = find_spec("numba_cuda")
    assert spec is not None and spec.origin is not None, "numba-cuda is not installed"
    tests = Path(spec.origin).parent / "numba" / "cuda" / "tests"
    return [f"{package}.{file.stem}" for package in PACKAGES for file in sorted((tests / package).glob("test_*.py"))]


def run_module(module: str, *, simulator: bool = False, patience: float = PATIENCE_SECONDS) -> dict[str, Outcome]:
    """The outcome of each test of a module; after a test that ended its process, another process runs those left.

    Modules separated by commas run in one process.
    """
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
    """Wait for a process while its tests end; returns why it was ended, or its own last message."""
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


def kept() -> tuple[set[str], dict[str, str]]:
    """The tests that pass, and why others fail, from the files beside this one."""
    passes = {line for line in PASSES.read_text().splitlines() if line and not line.startswith("#")}
    return passes, tomllib.loads(FAILURES.read_text())


def compared(found: dict[str, Outcome], chosen: list[str]) -> list[str]:
    """Differences between results of some modules' tests and the kept lists, a line each."""
    passes, failures = kept()
    lines = []
    for test, outcome in found.items():
        if outcome["outcome"] == "failed" and test not in failures:
            what = "passed before" if test in passes else "is new"
            lines.append(f"{test} failed, and {what}: {outcome['reason']}")
        elif outcome["outcome"] == "passed" and test not in passes:
            lines.append(f"{test} passed, and {'failed before' if test in failures else 'is new'}; keep it with --keep")
        elif outcome["outcome"] == "skipped" and test in passes | set(failures):
            lines.append(f"{test} was skipped, and ran before: {outcome['reason']}")
    mine = {test for test in passes | set(failures) if test.partition("::")[0] in chosen}
    return lines + [f"{test} was not run; it is gone, or its module is not found" for test in sorted(mine - set(found))]


def keep(found: dict[str, Outcome], chosen: list[str]) -> None:
    """Write the results of some modules' tests into the files; existing reasons stay."""
    passes, failures = kept()
    passes = {test for test in passes if test.partition("::")[0] not in chosen}
    passes |= {test for test, outcome in found.items() if outcome["outcome"] == "passed"}
    reasons = {test: reason for test, reason in failures.items() if test.partition("::")[0] not in chosen}
    for test, outcome in found.items():
        if outcome["outcome"] == "failed":
            reasons[test] = failures.get(test, " ".join(outcome["reason"].split())[:200])
    head = "# Tests of numba-cuda that pass on the simulated GPU; written by suite.py --keep.\n"
    PASSES.write_text(head + "\n".join(sorted(passes)) + "\n")
    head = "# Tests of numba-cuda that fail on the simulated GPU, and why; suite.py --keep adds and removes them.\n"
    FAILURES.write_text(head + "".join(f"{json.dumps(t)} = {json.dumps(r)}\n" for t, r in sorted(reasons.items())))


def run_modules(chosen: list[str], *, jobs: int, simulator: bool) -> dict[str, Outcome]:
    """The outcome of every test of some modules; prints a line for each module."""
    everything: dict[str, Outcome] = {}
    with ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda module: run_module(module, simulator=simulator), chosen)
        for module, found in zip(chosen, results, strict=True):
            everything |= found
            counts = {o: sum(w["outcome"] == o for w in found.values()) for o in ("passed", "failed", "skipped", "run")}
            print(module, *(f"{n} {o}" for o, n in counts.items() if n), flush=True)
    return everything


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--keep", action="store_true", help="write what came into the lists")
    parser.add_argument("--out", type=Path, help="write what came as JSON, too")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--simulator", action="store_true", help="only tell what Numba's own simulator would run")
    arguments = parser.parse_args()
    chosen = [m for m in modules() if not arguments.words or any(word in m for word in arguments.words)]
    found = run_modules(chosen, jobs=arguments.jobs, simulator=arguments.simulator)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1))
    if arguments.simulator:
        return 0
    if arguments.keep:
        keep(found, chosen)
    passed, failed = (sum(w["outcome"] == o for w in found.values()) for o in ("passed", "failed"))
    print(f"{passed} of {passed + failed} tests pass, {100 * passed / max(passed + failed, 1):.1f} %")
    different = compared(found, chosen)
    print(*different, sep="\n")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())

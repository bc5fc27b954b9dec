"""Run the linter and the tests of what changed, for less than a minute; `make test` runs all.

    quick.py            what changed since the main branch, committed or not; the smoke list if nothing did
    quick.py --smoke    the smoke list

No library chooses these: pytest-testmon needs a recorded run of the whole suite, pytest-picked runs changed test files
alone. Tests mirror the source, so a changed module's tests are those of its name, else those that name it.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: Seconds, counted from the first, in which tests of a change start. The smoke list always runs as a whole.
SECONDS = 40.0
_LIMIT = "TILEWRIGHT_QUICK_SECONDS"
_OVER = "the time of `make quick` is over"
_FIRST = pytest.StashKey[float]()
#: The fast rules of the house, run whenever something changed.
RULES = ("tests/meta/test_habits.py", "tests/meta/test_sizes.py", "tests/meta/test_imports.py")
#: Run where nothing changed: the command line, products, kernels of each front end, findings, predictions.
SMOKE = (
    "tests/unit/test_version.py",
    "tests/unit/test_settings.py",
    "tests/unit/cli/test_command_line.py",
    "tests/unit/multiply/engine/test_engine.py",
    "tests/unit/simulate/programs/test_program.py",
    "tests/unit/simulate/programs/test_nvrtc.py",
    "tests/unit/frontends/test_programs.py",
    "tests/unit/simulate/machine/test_occupancy.py",
    "tests/unit/simulate/test_printing.py",
    "tests/meta/test_habits.py",
    "tests/meta/test_environments.py",
)


def changed() -> list[str]:
    """Files that differ from the main branch, or that git does not know yet; none outside a checkout."""
    bases = (_git("merge-base", "HEAD", branch) for branch in ("origin/main", "main"))
    base = next((found[0] for found in bases if found), "HEAD")
    return [*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def chosen(files: Iterable[str]) -> list[str]:
    """The files of tests for changed files, the nearest first, then the house's rules; none if nothing has tests."""
    suite = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    found: dict[str, None] = {}
    for file in files:
        found |= dict.fromkeys(_of_one(Path(file), suite))
    return [*found, *(rule for rule in RULES if rule not in found)] if found else []


def _of_one(file: Path, suite: dict[str, Path]) -> list[str]:
    if file.as_posix() in suite:
        return [file.as_posix()]
    if file.parts[0] == "docs" or file.name == "README.md":
        return [name for name in suite if name.startswith("tests/docs/")]
    if file.parts[0] not in {"src", "tests"} or file.suffix not in {".py", ".c", ".h", ".bc"}:
        return []
    name = re.escape(file.parent.name if file.stem == "__init__" else file.stem)
    same = [test for test in suite if re.fullmatch(rf"test_{name}\.py", Path(test).name) and _mirrors(file, Path(test))]
    akin = [test for test in suite if re.match(rf"test_{name}_", Path(test).name) and _mirrors(file, Path(test))]
    module = ".".join(file.with_suffix("").parts[1:]) if file.parts[0] == "src" else file.stem
    parent, _, last = module.rpartition(".")
    naming = rf"\b{re.escape(module)}\b" if parent else rf"^\s*(import|from) {name}\b"
    if parent:
        naming += rf"|from {re.escape(parent)} import [^)]*?\b{re.escape(last)}\b"
    users = _where(suite, lambda text: re.search(naming, text, re.MULTILINE) is not None)
    near = [test for test in suite if file.parts[0] == "src" and len(file.parts) > 3 and _mirrors(file, Path(test))]
    return list(dict.fromkeys([*same, *akin, *users])) or near


def _mirrors(file: Path, test: Path) -> bool:
    """Whether a test is in the folder of tests of the file's room: src/tilewright/simulate has tests/unit/simulate."""
    return file.parts[2:3] == test.parts[2:3] or len(file.parts) <= 3


def _where(suite: dict[str, Path], holds: Callable[[str], bool]) -> list[str]:
    return [name for name, path in suite.items() if holds(path.read_text(encoding="utf-8"))]


def pytest_runtest_setup(item: Any) -> None:
    """As a plugin: no test starts when the time is over."""
    first = item.session.stash.setdefault(_FIRST, time.monotonic())
    if time.monotonic() - first > float(os.environ[_LIMIT]):
        pytest.skip(_OVER)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """As a plugin: say how many tests did not run for want of time."""
    late = [report for report in terminalreporter.stats.get("skipped", ()) if _OVER in str(report.longrepr)]
    if late:
        terminalreporter.write_line(f"{len(late)} tests did not start within {SECONDS:.0f} s; `make test` runs them")


def main() -> int:
    """Run linter and tests; returns the exit status."""
    tests = [] if "--smoke" in sys.argv[1:] else chosen(changed())
    print(f"quick: {' '.join(tests) or 'nothing with tests has changed, so the smoke list'}", flush=True)
    os.environ |= {_LIMIT: str(SECONDS if tests else math.inf), "PYTHONPATH": str(Path(__file__).parent)}
    linter = ("-m", "ruff", "check", "--quiet"), ("-m", "ruff", "format", "--check", "--quiet")
    suite = ("-m", "pytest", "-p", "quick", "-p", "no:cacheprovider", *(tests or SMOKE))
    done = [subprocess.run([sys.executable, *given], cwd=ROOT, check=False) for given in (*linter, suite)]
    return max(row.returncode for row in done)


if __name__ == "__main__":
    sys.exit(main())

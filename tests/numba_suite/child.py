"""Runs modules of numba-cuda's tests on the simulated GPU, in one process.

    python child.py MODULE[,MODULE...] JOURNAL [--only FILE]

The journal gets a line of JSON when a test begins and when it ends, so it also shows where a process died. With
NUMBA_ENABLE_CUDASIM=1 no test is run: the journal lists those that Numba's own simulator skips.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from _pytest.skipping import evaluate_skip_marks

SIMULATOR = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
#: Characters of a failure that are kept; all of its traceback with NUMBA_SUITE_LONG=1.
REASON_CHARACTERS = 600


class NumbaModule(pytest.Module):
    """A test module of numba-cuda under the name it has there: `numba.cuda.tests...`, not that of its folder."""

    def _getobj(self) -> Any:
        return importlib.import_module("numba.cuda.tests." + ".".join(self.path.with_suffix("").parts[-2:]))


class Journal:
    """The pytest plugin: imports by name, runs the requested tests, and writes each event when it happens."""

    def __init__(self, path: Path, only: frozenset[str]) -> None:
        self._file = path.open("a")
        self._only = only

    def write(self, test: str, outcome: str, reason: str = "", seconds: float = 0) -> None:
        line = {"test": test, "outcome": outcome, "reason": reason, "seconds": round(seconds, 2)}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def name(self, nodeid: str) -> str:
        """`cudapy.test_matmul::test_cuda_matmul` of a node's id."""
        file, _, test = nodeid.partition("::")
        return f"{file.removesuffix('.py').replace('/', '.')}::{test}"

    @pytest.fixture(scope="class")
    def initialize_from_pytest_config(self, request: pytest.FixtureRequest) -> None:
        """numba-cuda's own conftest, which is not in the wheel, sets this from an option."""
        if request.cls is not None:
            request.cls._dump_failed_filechecks = False

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Module:
        return NumbaModule.from_parent(parent, path=module_path)

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector:
        return pytest.Dir.from_parent(parent, path=path)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._only:
            items[:] = [item for item in items if self.name(item.nodeid) in self._only]
        if SIMULATOR:
            for item in items:
                holders = (getattr(item, "obj", None), getattr(item, "cls", None))
                skipped = any(getattr(holder, "__unittest_skip__", False) for holder in holders)
                skipped |= evaluate_skip_marks(item) is not None
                self.write(self.name(item.nodeid), "skipped" if skipped else "run")
            items.clear()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed or report.skipped:
            self.write(self.name(report.nodeid), report.outcome, _brief(report))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if not SIMULATOR:
            from tilewright.simulate.device.installed_gpu import current_gpu

            current_gpu().broken = ""  # a test whose launch failed does not fail the tests after it
        self.write(self.name(nodeid), "begun")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            expected = hasattr(report, "wasxfail") and report.skipped
            self.write(
                self.name(report.nodeid), "passed" if expected else report.outcome,
                "" if report.passed else _brief(report), report.duration,
            )  # fmt: skip


def _brief(report: Any) -> str:
    """The end of a report's text."""
    if os.environ.get("NUMBA_SUITE_LONG"):
        return str(report.longreprtext)
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longreprtext)[-REASON_CHARACTERS:])[:REASON_CHARACTERS]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", help="as cudapy.test_matmul, with commas between")
    parser.add_argument("journal", type=Path)
    parser.add_argument("--only", type=Path)
    arguments = parser.parse_args()
    faulthandler.enable()
    spec = find_spec("numba_cuda")
    assert spec is not None and spec.origin is not None, "numba-cuda is not installed"
    folder = Path(spec.origin).parent / "numba" / "cuda" / "tests"
    files = [str(folder / (module.replace(".", "/") + ".py")) for module in arguments.modules.split(",")]
    only = frozenset(arguments.only.read_text().splitlines()) if arguments.only else frozenset()
    plugin = Journal(arguments.journal, only)
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore", "-c", os.devnull]
    with contextlib.ExitStack() as stack:
        if not SIMULATOR:
            from tilewright.frontends.children import in_children
            from tilewright.frontends.session import simulated_gpu

            stack.enter_context(in_children("h100"))
            stack.enter_context(simulated_gpu("h100"))
        pytest.main([*options, f"--rootdir={folder}", *files], plugins=[plugin])
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""pytest's options: `--simulated-gpu[=NAME]` runs tests of numba.cuda on a simulated GPU, `--check` checks them there.

With `--check` a test in which something is wrong with a kernel fails, and the finding is its report.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import pytest

    from tilewright.simulate.device.gpu import SimulatedGpu

#: The value of the option without a name.
_ANY = "any"
_HEADER = "tilewright-simulated-gpu"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the same settings for configuration files."""
    group = parser.getgroup("tilewright")
    group.addoption(
        "--simulated-gpu",
        nargs="?",
        const=_ANY,
        default=None,
        metavar="NAME",
        help="run tests that use numba.cuda on a simulated GPU, as --simulated-gpu or --simulated-gpu=a100",
    )
    parser.addini("simulated_gpu", "as --simulated-gpu: the GPU's name", default="")
    text = "fail tests in which something is wrong with a kernel; on a simulated GPU, the H100 unless one is named"
    group.addoption("--check", action="store_true", dest="tilewright_check", help=text)
    parser.addini("tilewright_check", "as --check", type="bool", default=False)


@pluggy.HookimplMarker("pytest")
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install the simulated GPU before any test file is imported, with `conftest.py`."""
    known = early_config.known_args_namespace
    _start(early_config, known.simulated_gpu, known.tilewright_check)


@pluggy.HookimplMarker("pytest")(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Do so where a `conftest.py` named this plugin; then the first conftest is already imported."""
    config.addinivalue_line(
        "markers", 'tilewright_ignore("TW601", ...): codes of findings that do not fail the test under --check'
    )
    _start(config, config.getoption("simulated_gpu"), config.getoption("tilewright_check"))


def _start(config: pytest.Config, option: str | None, check: bool) -> None:
    """Install the simulated GPU once, if it is requested."""
    checked = check or config.getini("tilewright_check")
    name = option or config.getini("simulated_gpu") or (_ANY if checked else None)
    if name is None or config.pluginmanager.has_plugin(_HEADER):
        return
    import pytest

    from tilewright.cli.pytest_plugin.checked import CheckedTests
    from tilewright.errors import TilewrightError
    from tilewright.frontends.children import in_children
    from tilewright.frontends.session import simulated_gpu
    from tilewright.ground import configuration
    from tilewright.ground.settings import Settings
    from tilewright.simulate.launch_request import Limits

    stack = ExitStack()
    try:
        project = configuration.of(config.rootpath)
        if name == _ANY:
            named = None if os.environ.get("TILEWRIGHT_GPU") else project.gpu
            name = named or Settings.from_environ().gpu
        tests = CheckedTests(config, name) if checked else None
        limits = Limits.default() if project.limit is None else Limits(seconds=project.limit)
        if not _has_workers(config):
            stack.enter_context(in_children(name, project.seed, limits))
        device = stack.enter_context(simulated_gpu(name, [tests.checks] if tests else [], project.seed, limits))
    except TilewrightError as error:
        took_a_file = Path(name.partition("::")[0]).exists()
        hint = "; write --simulated-gpu=NAME, or put the option after the files" if took_a_file else ""
        raise pytest.UsageError(f"--simulated-gpu: {error}{hint}") from error
    config.add_cleanup(stack.close)
    if tests is not None:
        config.pluginmanager.register(tests, "tilewright-checked-tests")
    config.pluginmanager.register(Gpu(device), _HEADER)


def _has_workers(config: pytest.Config) -> bool:
    """Whether pytest-xdist runs the tests in worker processes, which have their own simulated GPUs."""
    named = getattr(config.known_args_namespace, "numprocesses", None) or getattr(config.option, "numprocesses", None)
    return bool(named) and not os.environ.get("PYTEST_XDIST_WORKER")


class Gpu:
    """Shows which GPU is simulated, and gives each test a device that works."""

    def __init__(self, device: SimulatedGpu) -> None:
        self._device = device

    def pytest_runtest_setup(self) -> None:
        """Forget that a kernel of an earlier test failed."""
        self._device.broken = ""

    def pytest_report_header(self) -> str:
        """A line of pytest's report header."""
        return f"simulated GPU: {self._device.record.name}"

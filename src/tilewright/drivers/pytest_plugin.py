"""pytest's option `--simulated-gpu[=NAME]`: tests that use numba.cuda run on a simulated GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import pytest

#: The value of the option without a name.
_ANY = "any"
_OBSERVING, _HEADER = "tilewright-observing", "tilewright-simulated-gpu"
_Maker = Callable[[Any, str], Any]


def observe(config: pytest.Config, make: _Maker) -> None:
    """Give the simulated GPU an observer, made from the configuration and the GPU's name, even without the option.

    Call this before this module makes the GPU.
    """
    config.pluginmanager.register(Observing(make), _OBSERVING)


class Observing:
    """How to make the GPU's observer."""

    def __init__(self, make: _Maker) -> None:
        self.make = make


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option, and the same setting for configuration files."""
    group = parser.getgroup("tilewright")
    group.addoption(
        "--simulated-gpu", nargs="?", const=_ANY, default=None, metavar="NAME",
        help="run tests that use numba.cuda on a simulated GPU, as --simulated-gpu or --simulated-gpu=a100",
    )  # fmt: skip
    parser.addini("simulated_gpu", "as --simulated-gpu: the GPU's name", default="")


@pluggy.HookimplMarker("pytest")
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install the simulated GPU before any test file is imported, with `conftest.py`."""
    _start(early_config, early_config.known_args_namespace.simulated_gpu)


@pluggy.HookimplMarker("pytest")(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """The same if a `conftest.py` named this plugin; then the first conftest is already imported."""
    _start(config, config.getoption("simulated_gpu"))


def _start(config: pytest.Config, option: str | None) -> None:
    """Install the simulated GPU once, if it is requested."""
    observing: Observing | None = config.pluginmanager.get_plugin(_OBSERVING)
    name = option or config.getini("simulated_gpu") or (_ANY if observing else None)
    if name is None or config.pluginmanager.has_plugin(_HEADER):
        return
    import pytest

    from tilewright import configuration
    from tilewright.drivers.children import in_children
    from tilewright.drivers.session import simulated_gpu
    from tilewright.errors import TilewrightError
    from tilewright.settings import Settings
    from tilewright.simt.run.limits import Limits

    stack = ExitStack()
    try:
        project = configuration.of(config.rootpath)
        if name == _ANY:
            named = None if os.environ.get("TILEWRIGHT_GPU") else project.gpu
            name = named or Settings.from_environ().gpu
        observers = [] if observing is None else [observing.make(config, name)]
        limits = None if project.limit is None else Limits(seconds=project.limit)
        if not _has_workers(config):
            stack.enter_context(in_children(name, project.seed, limits))
        device = stack.enter_context(simulated_gpu(name, observers, project.seed, limits))
    except TilewrightError as error:
        took_a_file = Path(name.partition("::")[0]).exists()
        hint = "; write --simulated-gpu=NAME, or put the option after the files" if took_a_file else ""
        raise pytest.UsageError(f"--simulated-gpu: {error}{hint}") from error
    config.add_cleanup(stack.close)
    config.pluginmanager.register(Header(f"simulated GPU: {device.record.name}"), _HEADER)


def _has_workers(config: pytest.Config) -> bool:
    """Whether pytest-xdist runs the tests in worker processes, which have their own simulated GPUs."""
    named = getattr(config.known_args_namespace, "numprocesses", None) or getattr(config.option, "numprocesses", None)
    return bool(named) and not os.environ.get("PYTEST_XDIST_WORKER")


class Header:
    """Shows which GPU is simulated."""

    def __init__(self, line: str) -> None:
        self._line = line

    def pytest_report_header(self) -> str:
        """A line of pytest's report header."""
        return self._line

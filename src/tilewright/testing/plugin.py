"""pytest's option `--check`: a finding in a kernel fails the test that launched it, and is its report.

`drivers.pytest_plugin` makes the simulated GPU; this plugin adds an observer to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

from tilewright.drivers import pytest_plugin as gpu

if TYPE_CHECKING:
    import pytest

_TESTS = "tilewright-checked-tests"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and its form for configuration files."""
    group = parser.getgroup("tilewright")
    text = "fail tests in which something is wrong with a kernel; on a simulated GPU, the H100 unless one is named"
    group.addoption("--check", action="store_true", dest="tilewright_check", help=text)
    parser.addini("tilewright_check", "as --check", type="bool", default=False)


@pluggy.HookimplMarker("pytest")(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Add the observer before the GPU is made."""
    _start(early_config, early_config.known_args_namespace.tilewright_check)


@pluggy.HookimplMarker("pytest")(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the mark; add the observer where a `conftest.py` named this plugin."""
    config.addinivalue_line(
        "markers", 'tilewright_ignore("TW601", ...): codes of findings that do not fail the test under --check'
    )
    _start(config, config.getoption("tilewright_check"))


def _start(config: pytest.Config, option: bool) -> None:
    manager = config.pluginmanager
    if not (option or config.getini("tilewright_check")) or manager.has_plugin(_TESTS):
        return
    if not manager.is_registered(gpu):
        import pytest

        raise pytest.UsageError("--check needs the plugin of --simulated-gpu, which is not loaded; leave out -p no:...")
    gpu.observe(config, _checked)


def _checked(config: pytest.Config, gpu_name: str) -> object:
    """Register the plugin that follows the tests; return it and its observer."""
    from tilewright.testing.checked import CheckedTests

    tests = CheckedTests(config, gpu_name)
    config.pluginmanager.register(tests, _TESTS)
    return tests.checks

"""pytest's option `--check`: a test in which something is wrong with a kernel fails, and the finding is its report.

The simulated GPU itself is `simulated.pytest_plugin`'s; this adds an observer to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.simulated import pytest_plugin as gpu

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option, and its twin for configuration files."""
    group = parser.getgroup("tilewright")
    text = "fail tests in which something is wrong with a kernel; on a simulated GPU, the H100 unless one is named"
    group.addoption("--check", action="store_true", dest="tilewright_check", help=text)
    parser.addini("tilewright_check", "as --check", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Add the observer before the GPU is made; other plugins' turn comes after that of one loaded later."""
    config.addinivalue_line(
        "markers", 'tilewright_ignore("TW601", ...): codes of findings that do not fail the test under --check'
    )
    if config.getoption("tilewright_check") or config.getini("tilewright_check"):
        gpu.observe(config, _checked)


def _checked(config: pytest.Config, gpu_name: str) -> object:
    """What follows the tests, registered, and its observer."""
    from tilewright.testing.checked import CheckedTests

    tests = CheckedTests(config, gpu_name)
    config.pluginmanager.register(tests, "tilewright-checked-tests")
    return tests.checks

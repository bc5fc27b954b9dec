"""pytest's option `--simulated-gpu[=NAME]`: tests that use numba.cuda run on a simulated GPU."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

#: The value of the option without a name.
_ANY = "any"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    group = parser.getgroup("tilewright")
    group.addoption(
        "--simulated-gpu", nargs="?", const=_ANY, default=None, metavar="NAME",
        help="run tests that use numba.cuda on a simulated GPU, as --simulated-gpu or --simulated-gpu=a100",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Put the simulated GPU in place before any test module is imported."""
    name = config.getoption("simulated_gpu")
    if name is None:
        return
    import pytest

    from tilewright.errors import TilewrightError
    from tilewright.settings import Settings
    from tilewright.simulated.session import simulated_gpu

    stack = ExitStack()
    try:
        device = stack.enter_context(simulated_gpu(Settings.from_environ().gpu if name == _ANY else name))
    except TilewrightError as error:
        took_a_file = Path(name.partition("::")[0]).exists()
        hint = "; write --simulated-gpu=NAME, or put the option behind the files" if took_a_file else ""
        raise pytest.UsageError(f"--simulated-gpu: {error}{hint}") from error
    config.add_cleanup(stack.close)
    config.pluginmanager.register(Header(f"simulated GPU: {device.record.name}"))


class Header:
    """Says which GPU is simulated."""

    def __init__(self, line: str) -> None:
        self._line = line

    def pytest_report_header(self) -> str:
        """A line of the report's head."""
        return self._line

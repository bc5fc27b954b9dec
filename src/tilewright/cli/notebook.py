"""Notebooks: `%load_ext tilewright` adds `%%check` and `%%profile`, with the options of the commands.

A cell runs on the simulated GPU that is in place (`tw.simulated_gpu("h100").start()`), so the next cell can use its
arrays. Without one, each cell gets a GPU of its own, which ends with the cell.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tilewright.errors import ArgumentValueError, TilewrightError

if TYPE_CHECKING:
    from tilewright.show.report.blocks import Block
    from tilewright.simulate.observer import Observer

#: Options of the commands that a cell does not have: the cell is the program, and its report appears below it.
_NOT_OF_CELLS = {"script": "SCRIPT", "module": "-m", "code": "-c"} | {
    option: f"--{option.replace('_', '-')}" for option in ("json", "fail_on", "html", "force")
}


def load_ipython_extension(shell: Any) -> None:
    """Register `%%check` and `%%profile`; IPython calls this for `%load_ext tilewright`.

    Parameters
    ----------
    shell : IPython.core.interactiveshell.InteractiveShell
    """
    for name, magic in (("check", _check), ("profile", _profile)):
        shell.register_magic_function(functools.partial(_as_asked, shell, name, magic), "line_cell", name)


def _as_asked(shell: Any, name: str, magic: Any, line: str, cell: str | None = None) -> None:
    """Run a cell; report a wrong option in one line, as IPython does for its own magics.

    `%check` alone, without a cell, shows help: IPython does not run the magic of an empty cell.
    """
    from IPython.core.error import UsageError

    try:
        options = _options(name, line)
        if options is not None and cell is None:
            raise ArgumentValueError(f"must be the first line of a cell, %%{name}, with code below it (got %{name})")
        raised = magic(shell, f"%%{name} {line}".rstrip(), cell, options) if options is not None else None
    except TilewrightError as error:
        raise UsageError(f"%%{name}: {error}") from error
    if raised is not None:  # shown below the report, which may explain it; IPython then skips the cells that follow
        raise raised


def _options(name: str, line: str) -> dict[str, Any] | None:
    """The values of a command's options; None if the line asked for help only.

    Raises ArgumentValueError: there is no such option, or cells do not have it.
    """
    import typer

    from tilewright.cli.app import program_command
    from tilewright.cli.usage import said

    try:
        with said():
            found: dict[str, Any] = program_command().commands[name].make_context(f"%%{name}", shlex.split(line)).params
    except typer.Exit:
        return None
    except ValueError as error:  # of a quotation without an end, too
        raise ArgumentValueError(str(error)) from error
    for key, option in _NOT_OF_CELLS.items():
        if found.pop(key, None):
            raise ArgumentValueError(f"{option} must be left out: the cell is the program (got {line.strip()!r})")
    return {key: None if value in ([], ()) else value for key, value in found.items()}  # lists that are left out


def _check(shell: Any, head: str, cell: str, options: dict[str, Any]) -> BaseException | None:
    """Run a cell and show the findings of the kernels that it launches; return what the cell raised."""
    from tilewright.cli import formats, values
    from tilewright.observe.checking import Checks, suppressions
    from tilewright.show.report import findings as report

    form = next(iter(formats.chosen(options["format"] or ["text"], json=False)))
    form = values.one_of("--format", form, ("text", "brief"))
    unwanted = suppressions.checked(values.words("--ignore", options["ignore"]))
    orders = None if options["schedules"] is None else values.whole("--schedules", options["schedules"], 0, "3")
    checks = Checks(gpu=_gpu(options), ignore=unwanted, strict=options["strict"], schedules=orders)
    with _following(checks, options):
        raised = _run(shell, head, cell)
    parts = report.blocks(
        checks.sifted,
        launches=checks.launches,
        kernels=len(checks.kernels),
        unchecked=checks.unchecked,
        verbose=options["verbose"],
        brief=form == "brief",
        interrupted=isinstance(raised, KeyboardInterrupt),
    )
    _show(parts)
    return raised


def _profile(shell: Any, head: str, cell: str, options: dict[str, Any]) -> BaseException | None:
    """Run a cell and show profiles of the kernels that it launches; return what the cell raised."""
    from tilewright.cli import values
    from tilewright.observe.prediction.programs import Predictions
    from tilewright.show.report import profile as report
    from tilewright.show.report.blocks import words
    from tilewright.show.report.places import path

    number = None if options["launch"] is None else values.whole("--launch", options["launch"], 0, "0")
    names = values.words("--kernels", options["kernels"])
    seen = Predictions(gpu=_gpu(options), kernel=names or None, launch=number)
    with _following(seen, options):
        raised = _run(shell, head, cell)
    _show([words(f"{kernel}: its launch has no profile: {path(str(error))}") for kernel, error in seen.failed])
    if seen.profiles:
        _show(report.of_program(seen.profiles, seen.judged, details=options["details"]))
    elif not seen.failed:
        _show([words("nothing to profile: the cell launched no such kernel of numba.cuda")])
    return raised


def _gpu(options: dict[str, Any]) -> str:
    """The GPU for a cell: the one in place, else that of the option or the settings.

    Raises ArgumentValueError: there is no such GPU, or another one is in place.
    """
    from tilewright.cli import values
    from tilewright.ground.settings import Settings
    from tilewright.simulate.device.installed_gpu import installed_gpu

    placed, name = installed_gpu(), values.gpu(options["gpu"])
    if placed is not None:
        there = placed.record.key
        if name not in (None, there):
            raise ArgumentValueError(f"--gpu must name the GPU in place, {there} (got {name}); stop it first")
        return placed.record.key
    return name or Settings.from_environ().gpu


@contextmanager
def _following(observer: Observer, options: dict[str, Any]) -> Iterator[None]:
    """Attach an observer to the GPU in place, or to a new one, with the limit and the seed of the options."""
    from tilewright.cli import values
    from tilewright.frontends.imported import observing
    from tilewright.frontends.session import simulated_gpu
    from tilewright.simulate.device.installed_gpu import installed_gpu
    from tilewright.simulate.launch_request import Limits

    seed = options.get("seed")
    number = None if seed is None else values.whole("--seed", seed, 0, "1")
    limits, placed = values.limits(options["limit"]), installed_gpu()
    if placed is None:
        with simulated_gpu(_gpu(options), (observer,), number, limits or Limits.default()):
            yield
        return
    before = placed.seed, placed.limits
    placed.seed = before[0] if number is None else number
    placed.limits = limits or before[1] or Limits.default()
    try:
        with observing(placed, observer):
            yield
    finally:
        placed.seed, placed.limits = before


def _run(shell: Any, head: str, cell: str) -> BaseException | None:
    """Run a cell; its line numbers count from the magic's line, as the user sees them.

    Returns what the cell raised. The magic raises it again, so that IPython shows it and the cell fails.
    """
    first = "" if cell.startswith("%%") else f"# {head}\n"  # IPython drops an empty line
    count = shell.execution_count
    shell.execution_count = len(shell.history_manager.input_hist_raw) - 1  # of this cell
    shown: list[list[str]] = []
    hidden = {"_showtraceback": lambda kind, value, lines: shown.append(lines), "show_usage_error": lambda error: None}
    for name, instead in hidden.items():
        setattr(shell, name, instead)
    try:
        done = shell.run_cell(f"{first}{cell}", store_history=False)
    finally:
        for name in hidden:
            delattr(shell, name)
        shell.execution_count = count
    raised: BaseException | None = done.error_before_exec or done.error_in_exec
    if isinstance(raised, SyntaxError):  # else IPython would add the magic's own frames
        raised = type("SyntaxError", (Exception,), {})(str(raised))
    if raised is not None and shown:
        with suppress(AttributeError):  # some exceptions take no attributes
            raised._render_traceback_ = lambda: shown[-1]  # type: ignore[attr-defined]
    return raised


def _show(parts: Iterable[Block]) -> None:
    """Show blocks below the cell."""
    from IPython.display import display

    from tilewright.show.report import page, records

    parts = list(parts)
    if parts:
        display({"text/html": page.html_of(parts), "text/plain": records.text_of(parts)}, raw=True)

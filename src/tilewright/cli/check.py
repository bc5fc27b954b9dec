"""`tilewright check`: run a program and report the defects of its kernels."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tilewright.cli import formats, program
from tilewright.cli.options import Names, Text, option
from tilewright.cli.statuses import DONE, FOUND, PROGRAM_FAILED

if TYPE_CHECKING:
    from tilewright.frontends.script import Ended
    from tilewright.ground.configuration import FailOn
    from tilewright.observe.checking import Checks
    from tilewright.observe.checking.suppressions import Sifted


@program.takes_a_program()
def check(
    ctx: typer.Context,
    given: program.Given,
    ignore: Annotated[Names, option("--ignore")] = None,
    strict: Annotated[bool, option("--strict")] = False,
    schedules: Annotated[Text, option("--schedules", "3")] = None,
    fail_on: Annotated[Text, option("--fail-on", "warning")] = None,
    format: Annotated[Names, option("--format", "text")] = None,
    json: Annotated[bool, option("--json")] = False,
    debug: Annotated[bool, option("--debug")] = False,
    verbose: Annotated[bool, option("--verbose")] = False,
    codes: Annotated[bool, option("--codes")] = False,
) -> None:
    """Run a program with a simulated GPU as its device, and report the defects of its kernels.

    The exit status is 1 if there are findings, 3 if there are none but the program itself failed or a launch did not
    run to its end, 2 for a usage error, and 130 after Ctrl-C, which shows the findings so far. With --fail-on never it
    is the program's own. A comment `tilewright: ignore[TW601]` at the end of a line suppresses that code there.

    A launch that a GPU would refuse or abort raises its error, as under `tilewright run`, and is a finding too. After
    other defects, such as races, the program continues.

    If json or sarif go to standard output, the program's own output goes to standard error.
    """
    if codes:
        _list_codes(json=json)
    what = given.chosen()

    from tilewright.cli import values
    from tilewright.frontends.following import follow
    from tilewright.ground.configuration import FAIL_ON
    from tilewright.observe.checking import Checks, suppressions
    from tilewright.simulate.launch_request import Limits

    project = what.project
    if format or json or not project.format:
        forms = formats.chosen(format or [], json=json)
    else:
        forms = formats.chosen(project.format, json=False, where=f"{project.file}: format")
    failing = (project.fail_on or "warning") if fail_on is None else values.one_of("--fail-on", fail_on, FAIL_ON)
    if ignore is None:
        unwanted = suppressions.checked(project.ignore, f"{project.file}: ignore")
    else:
        unwanted = suppressions.checked(values.words("--ignore", ignore), "--ignore")
    orders = project.schedules if schedules is None else values.whole("--schedules", schedules, 0, "3")
    checks = Checks(gpu=what.gpu, ignore=unwanted, strict=strict or project.strict, schedules=orders)
    quiet = formats.alone(forms)
    limits = what.limits or Limits.default()
    with _with_debug_code() if debug else contextlib.nullcontext():
        ended = follow(what.program, what.argv, checks, what.gpu, seed=what.seed, limits=limits, quiet=quiet)
    _show(checks, ended, forms, failing, verbose=verbose, pointed=lambda: program.point_out_options(ctx, what, ended))


@contextlib.contextmanager
def _with_debug_code() -> Iterator[None]:
    """Let nvcc compile for debugging."""
    name, before = "NVCC_APPEND_FLAGS", os.environ.get("NVCC_APPEND_FLAGS")
    os.environ[name] = f"{before or ''} -G".strip()
    try:
        yield
    finally:
        del os.environ[name]
        os.environ |= {} if before is None else {name: before}


def _list_codes(*, json: bool) -> NoReturn:
    from tilewright.show.report import console, findings as report

    if json:
        console.document("codes", {"codes": report.meanings()})
    else:
        report.table(console.output(console.PROSE_WIDTH))
    raise typer.Exit


def _show(
    checks: Checks,
    ended: Ended,
    forms: dict[str, Path | None],
    failing: FailOn,
    *,
    verbose: bool,
    pointed: Callable[[], None],
) -> NoReturn:
    """Show the findings and how the program ended; exit with the status."""
    from tilewright.show.report import console

    sifted = checks.sifted
    for wrong in sifted.wrong:
        console.error(wrong, title="warning")
    formats.write(forms, checks, sifted, ended, verbose=verbose)
    if checks.folded and not formats.alone(forms):
        console.note(
            f"local arrays of {', '.join(checks.folded)} are in registers, and were not checked to a warp's end: "
            "an index outside them (TW104) or an element never set (TW203) may be missed; `--debug` checks all of a .cu"
        )
    ended.report()  # after the findings, which may explain it
    status = _status(sifted, ended, failing, unchecked=bool(checks.unchecked))
    if ended.status and ended.error is None and failing != "never":
        console.note(f"the program itself ended with status {ended.status}")
    pointed()
    raise typer.Exit(status)


def _status(sifted: Sifted, ended: Ended, failing: FailOn, *, unchecked: bool = False) -> int:
    """The exit status: Ctrl-C takes precedence over findings, and those over a failed program."""
    from tilewright.ground.configuration import FAILURES

    if ended.interrupted or failing == "never":
        return ended.status
    if any(finding.severity in FAILURES[failing] for finding in sifted.findings):
        return FOUND
    return PROGRAM_FAILED if ended.status or unchecked else DONE

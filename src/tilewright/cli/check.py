"""`tilewright check`: run a program and report the defects of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tilewright.cli import completion, formats, program
from tilewright.cli.options import option
from tilewright.cli.statuses import DONE, FOUND, PROGRAM_FAILED

if TYPE_CHECKING:
    from tilewright.checking import Checks
    from tilewright.checking.suppressions import Sifted
    from tilewright.configuration import FailOn
    from tilewright.drivers.script import Ended

FailOnOption = Annotated[
    str | None,
    option("error|warning|never", "Least severity that is a failure.", "warning", complete=completion.fail_on),
]
FormatOption = Annotated[
    list[str] | None,
    option(
        "FORM[=FILE]",
        "Report: text, brief, json, sarif or github; may be repeated.",
        "text",
        complete=completion.formats,
    ),
]


@program.takes_a_program()
def check(
    ctx: typer.Context,
    given: program.Given,
    ignore: Annotated[str | None, option("CODES", "Codes to suppress: TW601,TW604.")] = None,
    fail_on: FailOnOption = None,
    format: FormatOption = None,
    json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show suppressed findings, and suppressions without effect.")
    ] = False,
    codes: Annotated[bool, typer.Option("--codes", help="List the codes of findings and exit.")] = False,
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

    from tilewright.checking import Checks, suppressions
    from tilewright.cli import values
    from tilewright.configuration import FAIL_ON
    from tilewright.drivers.following import follow

    project = what.project
    if format or json or not project.format:
        forms = formats.chosen(format or [], json=json)
    else:
        forms = formats.chosen(project.format, json=False, where=f"{project.file}: format")
    failing = (project.fail_on or "warning") if fail_on is None else values.one_of("--fail-on", fail_on, FAIL_ON)
    if ignore is None:
        unwanted = suppressions.checked(project.ignore, f"{project.file}: ignore")
    else:
        unwanted = suppressions.checked(ignore.split(","), "--ignore")
    checks = Checks(gpu=what.gpu, ignore=unwanted)
    quiet = formats.alone(forms)
    ended = follow(what.program, what.argv, checks, what.gpu, seed=what.seed, limits=what.limits, quiet=quiet)
    _show(checks, ended, forms, failing, verbose=verbose, pointed=lambda: program.point_out_options(ctx, what, ended))


def _list_codes(*, json: bool) -> NoReturn:
    from tilewright.report import console, findings as report

    if json:
        console.document(report.meanings())
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
    from tilewright.report import console

    sifted = checks.sifted
    for wrong in sifted.wrong:
        console.error(wrong, title="warning")
    formats.write(forms, checks, sifted, ended, verbose=verbose)
    ended.report()  # after the findings, which may explain it
    status = _status(sifted, ended, failing, unchecked=bool(checks.unchecked))
    if ended.status and ended.error is None and failing != "never":
        console.note(f"the program itself ended with status {ended.status}")
    pointed()
    raise typer.Exit(status)


def _status(sifted: Sifted, ended: Ended, failing: FailOn, *, unchecked: bool = False) -> int:
    """The exit status: Ctrl-C takes precedence over findings, and those over a failed program."""
    from tilewright.configuration import FAILURES

    if ended.interrupted or failing == "never":
        return ended.status
    if any(finding.severity in FAILURES[failing] for finding in sifted.findings):
        return FOUND
    return PROGRAM_FAILED if ended.status or unchecked else DONE

"""`tilewright check`: a program that uses numba.cuda, and what is wrong with its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from tilewright.cli import run
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.checking import Checks
    from tilewright.checking.suppressions import Sifted
    from tilewright.simulated.script import Ended

#: Exit status where something was found; the program's own where nothing was.
FOUND = 1


def check(
    script: Annotated[Path | None, typer.Argument(metavar="SCRIPT", help="Python program, run as it is.")] = None,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Its arguments.")] = None,
    gpu: Annotated[str | None, typer.Option(metavar="NAME", help="GPU whose limits hold.", show_default="h100")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Shuffle the order of blocks and warps by this number.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Give a launch up that runs longer.", show_default="never")
    ] = None,
    ignore: Annotated[str | None, typer.Option(metavar="CODES", help="Codes that are not wanted: TW601,TW604.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON; what the program prints goes to standard error.")
    ] = False,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write SARIF 2.1.0 too, for code hosts; - prints it.")
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="A line for each finding, without source and advice.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Tell what is suppressed, and suppressions without use.")
    ] = False,
    codes: Annotated[bool, typer.Option("--codes", help="List the codes of findings, and leave.")] = False,
) -> None:
    """Run a Python program with a simulated GPU as its device, and say what is wrong with its kernels.

    The exit status is 1 when something was found, else the program's own; 130 where Ctrl-C ended it, and what was found
    until then is told. A comment `tilewright: ignore[TW601]` at the end of a line keeps that code quiet there.

    A launch that a GPU would refuse or end raises here too, as under `tilewright run`, and is among the findings; other
    defects, such as races, are found while the program goes on.
    """
    from tilewright.checking import Checks, suppressions
    from tilewright.cli import values
    from tilewright.report import console
    from tilewright.report import findings as report
    from tilewright.settings import Settings
    from tilewright.simulated.following import follow

    if codes:
        if json:
            console.plain(report.codes_json())
        else:
            report.table(console.output(console.PROSE_WIDTH))
        raise typer.Exit
    if script is None:
        raise ArgumentValueError("SCRIPT must name a Python program (got none); or list the codes with --codes")
    if sarif is not None and not sarif.parent.is_dir():
        raise ArgumentValueError(
            f"--sarif must name a file in a folder that exists (got {sarif}); make {sarif.parent} first"
        )
    number = None if seed is None else values.whole("--seed", seed, 0, "1")
    name = Settings.from_environ().gpu if gpu is None else values.gpu_name("--gpu", gpu)
    unwanted = () if ignore is None else suppressions.checked(ignore.split(","), "--ignore")
    checks = Checks(gpu=name, ignore=unwanted)
    quiet = json or str(sarif) == "-"
    ended = follow(script, arguments or [], checks, name, seed=number, limits=values.limits(limit), quiet=quiet)
    _tell(checks, ended, sarif, json=json, verbose=verbose, brief=brief)


def _tell(checks: Checks, ended: Ended, sarif: Path | None, *, json: bool, verbose: bool, brief: bool) -> NoReturn:
    """Tell what was found, and how the program ended; leave with the exit status."""
    from tilewright.report import console

    sifted = checks.sifted
    if ended.children_launched:
        console.error(f"{run.UNSEEN} not checked", title="warning")
    for wrong in sifted.wrong:
        console.error(wrong, title="warning")
    _write(sifted, checks, ended, sarif, json=json, verbose=verbose, brief=brief)
    ended.tell()  # after the findings, which may explain it
    raise typer.Exit(FOUND if sifted.findings and not ended.interrupted else ended.status)


def _write(
    sifted: Sifted, checks: Checks, ended: Ended, sarif: Path | None, *, json: bool, verbose: bool, brief: bool
) -> None:
    from tilewright.cli import files
    from tilewright.report import console
    from tilewright.report import findings as report
    from tilewright.report import sarif as sarif_report

    if sarif is not None:
        text = sarif_report.text(sifted, Path.cwd(), ended)
        if str(sarif) == "-":
            console.plain(text)
            return
        files.write_text(sarif, text + "\n")
    if json:
        console.plain(report.as_json(sifted, ended, launches=checks.launches, kernels=checks.kernels))
    else:
        report.show(
            sifted,
            console.output(),
            launches=checks.launches,
            kernels=len(checks.kernels),
            verbose=verbose,
            brief=brief,
            interrupted=ended.interrupted,
        )

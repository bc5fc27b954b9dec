"""`tilewright profile`: run a program and show the counts of its kernels beside their source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import program
from tilewright.cli.options import Names, Text, option
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilewright.frontends.script import Ended
    from tilewright.observe.prediction.programs import Predictions
    from tilewright.observe.profiling import Profiles


@program.takes_a_program("seed", on_each_gpu=True)
def profile(
    ctx: typer.Context,
    given: program.Given,
    kernels: Annotated[Names, option("--kernels", "all")] = None,
    launch: Annotated[Text, option("--launch", "all")] = None,
    details: Annotated[bool, option("--details")] = False,
    json: Annotated[bool, option("--json")] = False,
    html: Annotated[Path | None, option("--html")] = None,
    force: Annotated[bool, option("--force")] = False,
) -> None:
    """Run a program with a simulated GPU as its device, and show counts beside its kernels' source.

    The exit status is the program's own, or 130 after Ctrl-C, which shows the counts so far.
    """
    what = given.chosen()

    from tilewright.cli import files, values
    from tilewright.cli.report import write_page
    from tilewright.observe.prediction.programs import Predictions
    from tilewright.show.report import console
    from tilewright.show.report.html import report as html_report
    from tilewright.simulate import machine

    names = values.words("--kernels", kernels)
    number = None if launch is None else values.whole("--launch", launch, 0, "0")
    page = None if html is None else html.absolute()  # the program may change the folder
    if page is not None:
        files.check_output(page, force=force)
    seen = Predictions(gpu=what.gpu, kernel=names or None, launch=number, keep=page is not None)
    ended = program.followed(ctx, what, seen, quiet=json)
    try:
        if page is not None and seen.kept:
            judged = [(kept, *seen.judged(kept.profile)) for kept in seen.kept]
            launches = [(replace(kept, profile=profile), time) for kept, profile, time in judged]
            text, shown = html_report.of_program(what.program.name, launches, machine.gpu(what.gpu))
            write_page(text, page, force=force)
            if shown < len(seen.profiles):
                console.note(f"the page shows the {shown} longest of {len(seen.profiles)} launches; --kernels chooses")
        if page is not None and ended.children_launched:
            lacking = "" if seen.kept else "no page is written; "
            console.note(f"{lacking}launches of the processes that it started are only among the printed counts")
    finally:
        _show(seen, ended, names, number, json=json, details=details)
    raise typer.Exit(ended.status)


def _show(
    seen: Predictions, ended: Ended, kernels: Sequence[str], launch: int | None, *, json: bool, details: bool
) -> None:
    """Print the profiles, and list launches without one."""
    from tilewright.show.report import console, document, profile as report, terminal

    for failed, error in seen.failed:
        console.error(f"{failed}: its launch has no profile: {error}")
    if not seen.profiles and not seen.failed:
        _say_why_nothing(seen, ended, kernels, launch)
    if json:
        console.document("profile", document.profiles(seen.profiles, seen.failed, ended, seen.judged))
    elif seen.profiles:
        terminal.show(report.of_program(seen.profiles, seen.judged, details=details), console.output())


def _say_why_nothing(seen: Profiles, ended: Ended, kernels: Sequence[str], number: int | None) -> None:
    """Say why there is no profile.

    Raises ArgumentValueError: an option names something that a successful program never launched.
    """
    from tilewright.show.report import console

    of = f" of {', '.join(kernels)}" if kernels else ""
    if ended.error is not None:
        wanted = f"launch {number}{of}" if number is not None else ", ".join(kernels) or "a kernel"
        console.note(f"nothing to profile: the program ended before it launched {wanted}")
    elif not seen.launches and not kernels and number is None:
        own = " itself" if ended.children_launched else ""
        console.note(f"nothing to profile: the program{own} launched no kernel")
    else:
        program.check_kernels(kernels, seen.kernels)
        raise ArgumentValueError(
            f"--launch must be the number of a launch of SCRIPT{of} (got {number}); there are {seen.launches}, from 0"
        )

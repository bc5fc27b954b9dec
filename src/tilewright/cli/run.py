"""`tilewright run`: run a program with a simulated GPU as its device."""

from __future__ import annotations

import typer

from tilewright.cli import program


@program.takes_a_program()
def run(ctx: typer.Context, given: program.Given) -> None:
    """Run an unmodified program with a simulated GPU as its device.

    The exit status, output and tracebacks are the program's own.
    """
    what = given.chosen()
    raise typer.Exit(program.followed(ctx, what, None, seed=what.seed).status)

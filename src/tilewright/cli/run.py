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

    from tilewright.drivers.following import follow

    ended = follow(what.program, what.argv, None, what.gpu, seed=what.seed, limits=what.limits)
    ended.report()
    program.point_out_options(ctx, what, ended)
    raise typer.Exit(ended.status)

"""`tilewright run`: a program that uses numba.cuda, with the simulated GPU as its device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

#: Whatever stands after SCRIPT is the script's own.
PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="Python program, run as it is.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="Its arguments.")] = None,
    gpu: Annotated[str | None, typer.Option(help="GPU to simulate.", show_default="h100")] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Shuffle the order of blocks and warps by this number.")
    ] = None,
    limit: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Give a launch up that runs longer.", show_default="never")
    ] = None,
) -> None:
    """Run a Python program that uses numba.cuda, unmodified, with a simulated GPU as its device.

    The exit status, output and tracebacks are the program's own.
    """
    from tilewright.cli import values
    from tilewright.settings import Settings
    from tilewright.simulated.script import run_script
    from tilewright.simulated.session import in_children, simulated_gpu

    name = Settings.from_environ().gpu if gpu is None else values.gpu_name("--gpu", gpu)
    number = None if seed is None else values.whole("--seed", seed, 0, "1")
    bound = values.limits(limit)
    with in_children(name), simulated_gpu(name, seed=number, limits=bound):
        ended = run_script(script, arguments or [])
        ended.tell()
    raise typer.Exit(ended.status)

"""`tilewright run`: a program that uses numba.cuda, with the simulated GPU as its device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

#: Whatever stands after SCRIPT is the script's own; what stands before it is not, and an unknown option is none.
PASS_ON = {"allow_interspersed_args": False}

#: What `check` and `profile` say where more was launched than they can follow.
UNSEEN = "kernels were launched by child processes of the program, which run on simulated GPUs of their own and are"


class ProgramCommand(TyperCommand):
    """A command that takes a program: an option that it does not have is told with those that it has."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as any command does."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # typer's NoSuchOption, with those that are spelled alike
                error.possibilities = error.possibilities or [
                    name for p in self.params for name in p.opts if name[0] == "-"
                ]
            raise


def run(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="Python program, run as it is.")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Its arguments.")] = None,
    gpu: Annotated[str | None, typer.Option(metavar="NAME", help="GPU to simulate.", show_default="h100")] = None,
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
    with in_children(name, number, bound), simulated_gpu(name, seed=number, limits=bound):
        ended = run_script(script, arguments or [])
        ended.tell()
    raise typer.Exit(ended.status)

"""What `run`, `check` and `profile` share: which program is meant, their options, and the project's own settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tilewright.cli import completion
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.configuration import Project
    from tilewright.drivers.script import Ended
    from tilewright.drivers.target import Target
    from tilewright.simt import Limits

#: Whatever stands after the program is its own; what stands before it is not, and an unknown option is none.
PASS_ON = {"allow_interspersed_args": False}
#: What `profile` and `predict` say where more was launched than they can follow.
UNSEEN = "kernels were launched by child processes of the program, which run on simulated GPUs of their own and are"
_MODULE, _CODE = "-m", "-c"

Script = Annotated[
    str | None,
    typer.Argument(
        metavar="SCRIPT",
        help="Python program: a file, a folder or archive with __main__.py, - (stdin); or CUDA: a .cu file, a binary.",
    ),
]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="Its arguments, whatever they are.")]
Module = Annotated[str | None, typer.Option(_MODULE, metavar="MODULE", help="A module instead, as python -m has it.")]
Code = Annotated[str | None, typer.Option(_CODE, metavar="CODE", help="Code instead, as python -c has it.")]
Gpu = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="GPU to simulate.", show_default="h100", autocompletion=completion.gpus),
]
Seed = Annotated[
    str | None, typer.Option(metavar="NUMBER", help="Shuffle the order of blocks and warps by this number.")
]
Limit = Annotated[
    str | None, typer.Option(metavar="SECONDS", help="Give a launch up that runs longer.", show_default="never")
]


class ProgramCommand(TyperCommand):
    """A command that takes a program: its options stand before that; an unknown one is refused with the known ones.

    `-m` and `-c` end the options, as they do for `python`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as any command does, with what follows the program left alone."""
        at = self._program(args)
        if at is not None:
            given = args[at]
            value = [given[2:]] if given[2:] else args[at + 1 : at + 2]
            args = [*args[:at], given[:2], *value, *(["--", *args[at + 2 - bool(given[2:]) :]] if value else [])]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # typer's NoSuchOption, with those that are spelled alike
                error.possibilities = error.possibilities or [
                    name for p in self.params for name in p.opts if name[:2] == "--"
                ]
            raise

    def _program(self, args: Sequence[str]) -> int | None:
        """Where `-m` or `-c` stands, where it comes before any program."""
        valued = {name for p in self.params for name in p.opts if not getattr(p, "is_flag", False)}
        position = 0
        while position < len(args):
            arg = args[position]
            if arg[:2] in (_MODULE, _CODE):
                return position
            if arg in ("-", "--") or not arg.startswith("-"):
                return None
            position += 2 if arg in valued else 1
        return None


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is to be run, and how."""

    program: Target
    argv: tuple[str, ...]  #: Its arguments.
    gpu: str
    seed: int | None
    limits: Limits | None
    project: Project  #: What its `pyproject.toml` says.


def chosen(
    script: str | None,
    arguments: Sequence[str] | None,
    module: str | None,
    code: str | None,
    *,
    gpu: str | None,
    limit: str | None,
    seed: str | None = None,
) -> Chosen:
    """The program that options name, with what they leave open as the environment or its project has it.

    Raises ArgumentValueError: no program is named, or a value is wrong.
    """
    from tilewright import configuration
    from tilewright.cli import values
    from tilewright.drivers.target import Target
    from tilewright.settings import Settings
    from tilewright.simt import Limits

    argv = (*(() if script is None else (script,)), *(arguments or ()))
    if module is not None:
        program = Target(module, "module")
    elif code is not None:
        program = Target(code, "code")
    elif script is not None:
        program, argv = Target(script), argv[1:]
    else:
        raise ArgumentValueError(
            "SCRIPT must name a Python program (got none); name a file, or -m MODULE, or -c CODE; --help shows examples"
        )
    at_file = program.kind == "script" and script != "-"
    project = configuration.of(*([Path(program.text).absolute().parent] if at_file else []), Path.cwd())
    if gpu is None and project.gpu is not None and not os.environ.get("TILEWRIGHT_GPU"):
        name = values.gpu_name(f"{project.file}: gpu", project.gpu)
    else:
        where, text = ("TILEWRIGHT_GPU", Settings.from_environ().gpu) if gpu is None else ("--gpu", gpu)
        name = values.gpu_name(where, text)
    bound = values.limits(limit)
    if bound is None and project.limit is not None:
        bound = Limits(seconds=project.limit)
    number = project.seed if seed is None else values.whole("--seed", seed, 0, "1")
    return Chosen(program, argv, name, number, bound, project)


def point_out_options(ctx: typer.Context, what: Chosen, ended: Ended) -> None:
    """Say which options of ours stand after the program, which got them, where it does not seem to know them.

    A program knows an option that its text has; of one that is spread over files, only a failure shows it.
    """
    from tilewright.report import console

    text = what.program.source
    for option in dict.fromkeys(_options(ctx, what.argv)):
        if (not ended.status) if text is None else (option in text):
            continue
        value = " ..." if _takes_a_value(ctx, option) else ""
        console.note(
            f"{option} stands after the program, which got it; options of Tilewright stand before it: "
            f"{ctx.command_path} {option}{value} {_shown(what.program)}"
        )


def _options(ctx: typer.Context, argv: Sequence[str]) -> Iterator[str]:
    ours = {name for p in ctx.command.params for name in p.opts if name.startswith("--")}
    for arg in argv:
        if arg == "--":
            return
        if arg.partition("=")[0] in ours:
            yield arg.partition("=")[0]


def _takes_a_value(ctx: typer.Context, option: str) -> bool:
    return any(option in p.opts and not getattr(p, "is_flag", False) for p in ctx.command.params)


def _shown(program: Target) -> str:
    return {"script": program.text, "module": f"-m {program.text}", "code": "-c ..."}[program.kind]

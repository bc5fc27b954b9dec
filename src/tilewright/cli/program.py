"""Shared parts of the commands that run a program: the program to run, their options, and the project's settings."""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tilewright.cli.options import Names, Text, option
from tilewright.cli.statuses import INTERRUPTED
from tilewright.cli.usage import Command
from tilewright.errors import ArgumentValueError, MissingFileError, near

if TYPE_CHECKING:
    from tilewright.frontends.script import Ended
    from tilewright.frontends.target import Target
    from tilewright.ground.configuration import Project
    from tilewright.simulate import Limits
    from tilewright.simulate.observer import Observer

#: Arguments after the program belong to it; an unknown option before it is an error.
PASS_ON = {"allow_interspersed_args": False}
_MODULE, _CODE, _GPU = "-m", "-c", "--gpu"

Script = Annotated[
    str | None,
    typer.Argument(
        metavar="SCRIPT",
        help="Python program: a file, a folder or archive with __main__.py, or - (stdin); CUDA: .cu file or binary.",
    ),
]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="ARGS", help="The program's arguments.")]


class ProgramCommand(Command):
    """A command that takes a program, with its options before the program.

    `-m` and `-c` end the options, as they do for `python`.
    """

    collects = False  # `follow` does it

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as any command does, but leave the arguments after the program alone."""
        at = max((option.stop for option in self._options(args)), default=0)
        others = [args[one] for one in self._options(args) if args[one][0].partition("=")[0] != _GPU]
        ctx.meta[_GPU] = [*itertools.chain(*others), *args[at:]]
        given = args[at] if at < len(args) else ""
        if given[:2] in (_MODULE, _CODE):
            value = [given[2:]] if given[2:] else args[at + 1 : at + 2]
            args = [*args[:at], given[:2], *value, *(["--", *args[at + 2 - bool(given[2:]) :]] if value else [])]
        return super().parse_args(ctx, args)

    def hint(self, values: Mapping[str, Any]) -> str:
        """A program's launches have a limit and are stopped where they are; others as any command's."""
        if not any(values[name] is not None for name in ("script", "module", "code")):
            return super().hint(values)
        return "Ctrl-C shows where it is" + ", --limit 60 stops it" * (values["limit"] is None)

    def _options(self, args: Sequence[str]) -> Iterator[slice]:
        """The places of the options before the program, each with its value."""
        valued = {name for p in self.params for name in p.opts if not getattr(p, "is_flag", False)}
        at = 0
        while at < len(args) and args[at][:1] == "-" and args[at] not in ("-", "--"):
            if args[at][:2] in (_MODULE, _CODE):
                return
            here, at = at, min(at + 1 + (args[at] in valued), len(args))
            yield slice(here, at)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The program to run, and how."""

    program: Target
    argv: tuple[str, ...]  #: Its arguments.
    gpu: str
    seed: int | None
    limits: Limits | None
    project: Project  #: The settings in its `pyproject.toml`.


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a command that takes a program: each field is one of the command's parameters."""

    script: Script = None
    arguments: Arguments = None
    module: Annotated[Text, option(_MODULE)] = None
    code: Annotated[Text, option(_CODE)] = None
    gpu: Annotated[Names, option(_GPU, "h100")] = None
    seed: Annotated[Text, option("--seed")] = None
    limit: Annotated[Text, option("--limit", "never")] = None

    @property
    def named(self) -> bool:
        """Whether a program is given."""
        return (self.script, self.module, self.code) != (None, None, None)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs of `--gpu`."""
        from tilewright.cli import values

        return values.gpus(self.gpu)

    def chosen(self) -> Chosen:
        """The program; options that are left out come from the environment or the project.

        Raises ArgumentValueError: no program is given, or a value is wrong.
        """
        from tilewright.cli import values
        from tilewright.ground import configuration
        from tilewright.simulate import Limits

        program, argv = self._program()
        at_file = program.kind == "script" and program.text != "-"
        project = configuration.of(*([Path(program.text).absolute().parent] if at_file else []), Path.cwd())
        bound = values.limits(self.limit)
        if bound is None and project.limit is not None:
            bound = Limits(seconds=project.limit)
        number = project.seed if self.seed is None else values.whole("--seed", self.seed, 0, "1")
        return Chosen(program, argv, self._gpu(project), number, bound, project)

    def _program(self) -> tuple[Target, tuple[str, ...]]:
        """The program and its arguments."""
        from tilewright.frontends.target import Target

        argv = (*(() if self.script is None else (self.script,)), *(self.arguments or ()))
        if self.module is not None:
            return Target(self.module, "module"), argv
        if self.code is not None:
            return Target(self.code, "code"), argv
        if self.script is not None:
            _check_there(self.script)
            return Target(self.script), argv[1:]
        raise ArgumentValueError(
            "SCRIPT must name a Python program (got none); name a file, or -m MODULE, or -c CODE; --help shows examples"
        )

    def _gpu(self, project: Project) -> str:
        from tilewright.cli import values
        from tilewright.ground.settings import Settings

        if (name := values.gpu(self.gpu)) is not None:
            return name
        if project.gpu is not None and not os.environ.get("TILEWRIGHT_GPU"):
            return values.gpu_name(f"{project.file}: gpu", project.gpu)
        return values.gpu_name("TILEWRIGHT_GPU", Settings.from_environ().gpu)


def _check_there(path: str) -> None:
    """Refuse a program that is not there or cannot be read, before a compiler or Python does.

    Raises ArgumentValueError: with the system's reason.
    """
    if path == "-":
        return
    try:
        Path(path).stat()
        reason = "" if os.access(path, os.R_OK) else "Permission denied"
    except FileNotFoundError:
        raise MissingFileError.of(path, "SCRIPT") from None
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:  # a zero byte
        reason = str(error)
    if reason or not path:
        shown = path if path.isprintable() and len(path) < 200 else repr(path[:60])
        raise ArgumentValueError(
            f"SCRIPT must be a Python program that can be read (got {shown}: {reason or 'no name'}); "
            "name a file that is there"
        )


def takes_a_program(*left_out: str, on_each_gpu: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of :class:`Given` as parameters, except `left_out`; its second argument has them.

    With `on_each_gpu`, the program runs on every GPU of a list, one after the other.
    """

    def with_parameters(command: Callable[..., None]) -> Callable[..., None]:
        context, _, *own = inspect.signature(command, eval_str=True).parameters.values()
        hints = get_type_hints(Given, include_extras=True)
        shared = [
            one.replace(annotation=hints[name])
            for name, one in inspect.signature(Given).parameters.items()
            if name not in left_out
        ]

        @functools.wraps(command)
        def called(ctx: typer.Context, **values: Any) -> None:
            given = Given(**{one.name: values.pop(one.name) for one in shared})
            if on_each_gpu and given.named and len(gpus := given.gpus) > 1:
                raise typer.Exit(_on_each(ctx, gpus, given.script, values))
            command(ctx, given, **values)

        parameters = [context, *shared, *own]
        vars(called)["__signature__"] = inspect.Signature(parameters)
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return with_parameters


def _on_each(ctx: typer.Context, gpus: Sequence[str], script: str | None, values: Mapping[str, Any]) -> int:
    """Run the command for each GPU in a process of its own, whose modules and kernels know one GPU; return the status.

    Documents become one, with the rows of all.
    """
    from tilewright.show.report import console

    for name, given in (("SCRIPT -", script == "-"), ("--html", values.get("html"))):
        if given:
            raise ArgumentValueError(f"{name} must come with one GPU (got {', '.join(gpus)}); run it for each")
    made: dict[str, Any] = {}
    status = 0
    for number, key in enumerate(gpus):
        if number and not values["json"]:
            console.plain("")
        words = [sys.executable, "-m", "tilewright", str(ctx.info_name), _GPU, key, *ctx.meta[_GPU]]
        sys.stdout.flush()
        with subprocess.Popen(words, stdout=subprocess.PIPE if values["json"] else None, text=True) as child:
            try:
                text = child.communicate()[0]
            except KeyboardInterrupt:  # the child got it too, and shows what it has
                text = child.communicate()[0]
        status = status or child.returncode
        for name, value in (json.loads(text) if text else {}).items():
            made[name] = made[name] + value if name in made and isinstance(value, list) else made.get(name, value)
        if child.returncode == INTERRUPTED:
            break
    if made:
        console.plain(json.dumps(made, indent=2))
    return status


def followed(
    ctx: typer.Context, what: Chosen, observer: Observer | None, *, seed: int | None = None, quiet: bool = False
) -> Ended:
    """Run a program with an observer, and report how it ended."""
    from tilewright.frontends.following import follow

    ended = follow(what.program, what.argv, observer, what.gpu, seed=seed, limits=what.limits, quiet=quiet)
    ended.report()
    point_out_options(ctx, what, ended)
    return ended


def check_kernels(wanted: Sequence[str], launched: Sequence[str]) -> None:
    """Refuse a name of `--kernels` that a program has launched no kernel of.

    Raises ArgumentValueError: with the names of those that it launched.
    """
    from tilewright.observe.profiling import named

    for pattern in wanted:
        if not any(named(kernel, (pattern,)) for kernel in launched):
            hint = near(pattern, launched)
            raise ArgumentValueError(
                f"--kernels must name kernels that SCRIPT launches (got {pattern!r}); {hint}{' ' * bool(hint)}"
                f"it launches {', '.join(launched) or 'none'}"
            )


def point_out_options(ctx: typer.Context, what: Chosen, ended: Ended) -> None:
    """Point out Tilewright's options after the program, which receives them but does not seem to know them.

    A program knows an option that its text contains. If the program has several files, only its failure shows.
    """
    from tilewright.show.report import console

    text = what.program.source
    for name in dict.fromkeys(_options(ctx, what.argv)):
        if (not ended.status) if text is None else (name in text):
            continue
        value = " ..." if _takes_a_value(ctx, name) else ""
        console.note(
            f"{name} is after the program, which received it; Tilewright's options go before the program: "
            f"{ctx.command_path} {name}{value} {_shown(what.program)}"
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

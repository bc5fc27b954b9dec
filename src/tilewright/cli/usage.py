"""Errors of use that Typer finds, said as all others are: subject, rule, what came, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand, TyperGroup

from tilewright.cli.options import OPTIONS, renamed
from tilewright.errors import ArgumentValueError, TilewrightError, near

_HELP = "--help says what each does"


class _AsGiven:
    """Reads an option as it came: as text, texts or a switch. Typer would import pydantic for this."""

    @staticmethod
    def coerce(value: Any, param: Any, ctx: Any) -> Any:
        """The value of an option."""
        return list(value or ()) if param.multiple or param.nargs == -1 else value


class _WithOptions:
    """A command whose options are texts and switches."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options, with Typer's own."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(getattr(one, "type_descriptor", None), "annotation", None) in (str, bool, list[str]):
                vars(one)["_runtime_param"] = _AsGiven()
        return found


class Command(_WithOptions, TyperCommand):
    """A command, which shows its progress."""

    collects = True

    def invoke(self, ctx: Any) -> Any:
        """Run the command. One that runs a program has yet to import what runs it."""
        from tilewright.ground import garbage
        from tilewright.show.report.status import progress

        if self.collects:
            garbage.collect()
        with progress(hint=self.hint(ctx.params)):
            return super().invoke(ctx)

    def hint(self, values: Mapping[str, Any]) -> str:
        """The options that stop a launch that does not end, with these values."""
        return "Ctrl-C stops it"


class Program(_WithOptions, TyperGroup):
    """The program: its commands' errors of use are ours."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Parse the options before the command."""
        with said():
            return super().make_context(*arguments, **more)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; a wrong name lists all."""
        if args[0] not in self.commands:
            known = list(self.commands)
            raise ArgumentValueError(
                f"a command must be one of {', '.join(known)} (got {args[0]}); {near(args[0], known, _HELP)}"
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command's options, and run it."""
        with said(ctx):
            return super().invoke(ctx)


@contextmanager
def said(ctx: Any = None) -> Iterator[None]:
    """Say Typer's errors of use in our words.

    Raises ArgumentValueError: in place of an error of use.
    """
    try:
        yield
    except TilewrightError as error:
        if error.args and isinstance(error.args[0], str) and ctx is not None:
            error.args = (in_flags(error.args[0], _options(ctx)), *error.args[1:])
        raise
    except Exception as error:
        if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
            raise
        raise ArgumentValueError(_words(error, getattr(error, "ctx", None) or ctx)) from None


def _words(error: Any, ctx: Any) -> str:
    """The message; what Typer calls an error by its class name decides it, as its classes move between releases."""
    within = getattr(ctx, "invoked_subcommand", None)  # while its own options are parsed
    path = f"{ctx.command_path} {within}" if within else ctx.command_path if ctx else "tilewright"
    kind, option = type(error).__name__, getattr(error, "option_name", "")
    if kind == "NoSuchOption":
        options = _options(ctx)
        now = renamed(option)
        hint = f"it is {now}" if now in options else near(option, options, _HELP)
        return f"an option must be one of `{path}`: {', '.join(options)} (got {option}); {hint}"
    if kind == "MissingParameter" and error.param is not None:
        subject = error.param.opts[0] if error.param.param_type_name == "option" else error.param.metavar
        return f"{subject} must be given (got nothing); see `{path} --help`"
    if kind == "BadOptionUsage":
        rule, got = ("without", "one") if _is_switch(option) else ("with", "none")
        return f"{option} must come {rule} a value (got {got}); see `{path} --help`"
    text = error.format_message().rstrip(".")
    return f"the command line must be one that `{path} --help` shows (got: {text}); see there"


def _is_switch(name: str) -> bool:
    """Whether an option takes no value, as --help and --version do, which are Typer's own."""
    return not any(name in row.flags and row.value for row in OPTIONS)


def _options(ctx: Any) -> list[str]:
    """The options of the command that runs, or is parsed."""
    command = getattr(ctx.command, "commands", {}).get(ctx.invoked_subcommand, ctx.command)
    return [name for one in command.params for name in one.opts if name.startswith("--")]


def in_flags(message: str, options: Sequence[str]) -> str:
    """A message of the library, which names arguments of Python, with a command's options in their place.

    >>> in_flags("`order` must be one; `overwrite=True` replaces it; `a.shape` is not", ["--order", "--force"])
    '--order must be one; --force replaces it; `a.shape` is not'
    """
    for row in OPTIONS:
        flag = row.flags[0]
        if flag in options:
            message = message.replace(f"`{flag[2:].replace('-', '_')}`", flag)
            message = message.replace(row.argument, flag) if row.argument else message
    return message

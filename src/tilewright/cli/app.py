"""The program's subcommands and the options before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from tilewright.cli import cache, check, devices, gpus, kernels, ladder, matmul, occupancy, profile, ptx_support, run
from tilewright.report import console


class _App(typer.Typer):
    """A program whose help fills the terminal's lines: a paragraph is one line, whatever the source's width."""

    def command(self, name: str | None = None, **more: Any) -> Callable[[Any], Any]:
        def add(function: Any) -> Any:
            paragraphs = (function.__doc__ or "").split("\n\n")
            text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
            return super(_App, self).command(name, help=text, **more)(function)

        return add


app = _App(
    name="tilewright",
    help="Matrix multiplication from three loops to tensor cores, on a simulated GPU or a real one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("ladder")(ladder.ladder)
app.command("matmul")(matmul.matmul)
app.command("kernels")(kernels.kernels)
app.command("run", cls=run.ProgramCommand, context_settings=run.PASS_ON)(run.run)
app.command("check", cls=run.ProgramCommand, context_settings=run.PASS_ON)(check.check)
app.command("profile", cls=run.ProgramCommand, context_settings=run.PASS_ON)(profile.profile)
app.command("devices")(devices.devices)
app.command("gpus")(gpus.gpus)
app.command("occupancy")(occupancy.occupancy)
app.command("cache")(cache.cache)
app.command("ptx-support")(ptx_support.ptx_support)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        console.plain(f"tilewright {version('tilewright')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Hold the options that stand before a subcommand; the callback of each does the work."""

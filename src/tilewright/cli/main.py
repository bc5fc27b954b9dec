"""The program `tilewright`: its subcommands, and what an error looks like."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tilewright.cli import gpus, kernels, ladder, matmul, ptx_support
from tilewright.errors import KernelError, TilewrightError
from tilewright.report import console
from tilewright.settings import debugging

#: Exit statuses. Typer's own usage errors are 2 as well; 128 + SIGINT is the shell's way to say interrupted.
WRONG_USE, DEFECT, INTERRUPTED = 2, 1, 130

app = typer.Typer(
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
app.command("gpus")(gpus.gpus)
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


def main() -> None:
    """Run the command line and leave the process with its exit status.

    A user's error is one message on standard error; a traceback appears only with `TILEWRIGHT_DEBUG=1`.
    """
    try:
        app()
    except SystemExit as leave:  # typer turns Ctrl-C into a silent 130
        if leave.code == INTERRUPTED:
            console.error("stopped by Ctrl-C; nothing was written", title="interrupted")
        raise
    except KeyboardInterrupt:
        console.error("stopped by Ctrl-C; nothing was written", title="interrupted")
        sys.exit(INTERRUPTED)
    except KernelError as error:
        _complain(error, str(error), title="kernel error", status=WRONG_USE)
    except TilewrightError as error:
        _complain(error, str(error), title="error", status=WRONG_USE)
    except MemoryError as error:
        _complain(error, f"{error or 'out of memory'}; try a smaller --size", title="out of memory", status=DEFECT)
    except Exception as error:
        message = f"{type(error).__name__}: {error} (TILEWRIGHT_DEBUG=1 shows where; please report it)"
        _complain(error, message, title="a defect of Tilewright", status=DEFECT)


def _complain(error: Exception, message: str, *, title: str, status: int) -> None:
    """Say what went wrong and leave; with debugging on, show where instead."""
    if debugging():
        raise error
    console.error(message, title=title)
    sys.exit(status)

"""The table of subcommands, and the options that precede them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.main import get_command

from tilewright.cli import program, usage
from tilewright.cli.statuses import listed
from tilewright.ground.native.memo import bounded

#: Width of help pages: longer lines are hard to read.
_HELP_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand."""

    name: str
    module: str  #: The file that has its function.
    short: str  #: Its text in the list of commands; it must fit a line of 80 columns.
    examples: tuple[tuple[str, str], ...]  #: Command lines, without the program's name, and what each does.

    @property
    def function(self) -> Callable[..., None]:
        """Its parameters are the options, its docstring the help."""
        found: Callable[..., None] = getattr(importlib.import_module(self.module), self.name.replace("-", "_"))
        return found

    @property
    def takes_a_program(self) -> bool:
        """Whether it runs a user's program."""
        return "script" in inspect.signature(self.function).parameters

    @property
    def epilog(self) -> str:
        """The examples, with their line breaks."""
        return _examples([(f"{self.name} {line}".rstrip(), does) for line, does in self.examples])


def _examples(rows: list[tuple[str, str]]) -> str:
    """Examples for the end of a help page; a backspace keeps their line breaks."""
    lines = [f"  $ tilewright {line}\n      {does}" for line, does in rows]
    return "\b\nExamples:\n" + "\n".join(lines)


COMMANDS = (
    Command(
        "ladder",
        "tilewright.cli.ladder",
        "Run every kernel, verify it bit for bit, and show the steps.",
        (
            ("", "one screen: every kernel verified, the steps predicted"),
            ("--full", "every kernel with its counts"),
            ("--kernels 's9*,S5' --sizes 64", "some of them, by name or source row"),
            ("--sizes 31x33x32 --dtypes int32 --json", "odd extents, one dtype, JSON output"),
        ),
    ),
    Command(
        "matmul",
        "tilewright.cli.matmul",
        "Multiply two arrays on disk: .npy, zarr, HDF5.",
        (
            ("a.npy b.npy -o c.npy", "the canonical product, on the processor"),
            ("a.npy b.npy -o c.npy --device opencl --force", "on an OpenCL device, over an old c.npy"),
            ("a.npy b.npy -o c.npy --kernels tiled", "by a kernel of the catalogue, simulated"),
            ("A.npy B.zarr -o C.zarr --memory 2GB", "larger than memory; resumes after an interruption"),
            ("A.zarr B.zarr -o C.zarr --dask tcp://host:8786", "by the workers of a Dask cluster"),
        ),
    ),
    Command("kernels", "tilewright.cli.lists", "List the catalogue of kernels.", (("", "names, sources, dtypes"),)),
    Command(
        "run",
        "tilewright.cli.run",
        "Run a program, its GPU kernels on a simulated GPU.",
        (
            ("program.py data.npy --fast", "arguments after the program belong to it"),
            ("--gpu a100 --limit 60 program.py", "another GPU; abandon launches after 60 s"),
            ("-m pytest tests", "a module, as python -m has it"),
        ),
    ),
    Command(
        "check",
        "tilewright.cli.check",
        "The same, and report the defects of its kernels.",
        (
            ("program.py", "findings with their lines; exit status 1 if there are any"),
            ("--fail-on error --ignore TW601 program.py", "show warnings, but fail only for errors"),
            ("--format github --format sarif=found.sarif program.py", "in CI: findings beside the changed lines"),
            ("--format brief -c 'import demo; demo.main()'", "one line per finding"),
            ("--codes", "every code with its rule and remedy"),
        ),
    ),
    Command(
        "profile",
        "tilewright.cli.profile",
        "The same, and count the kernels' memory traffic, line by line.",
        (
            ("program.py", "source with counts beside it"),
            ("--kernels transpose --launch 0 program.py", "the first launch of one kernel"),
            ("--json program.py > profile.json", "all counts as JSON"),
            ("--html page.html program.py", "also write a page that shows the lanes of each access"),
        ),
    ),
    Command(
        "predict",
        "tilewright.cli.predict",
        "Predict how long kernels take on a GPU that you need not have.",
        (
            ("--sizes 4096 --gpu a6000,h100", "every kernel of the catalogue, 4096 x 4096 matrices, on two GPUs"),
            ("--kernels results_8 --gpu v100", "one kernel, with a breakdown of its time"),
            ("--gpu a6000 program.py data.npy", "each launch of a program that uses numba.cuda"),
        ),
    ),
    Command(
        "bench",
        "tilewright.cli.bench",
        "Measure or predict rates, beside other libraries and the sources' tables.",
        (
            ("--table S8", "a source's table, beside the source's figures"),
            ("--sizes 256,1024 --against numpy,torch", "tw.matmul on the processor, in turns with other libraries"),
            ("--kernels S9 --blocks 8,16 --gpu a6000,v100", "predicted for two GPUs"),
            ("--dtypes int8 --output monday.jsonl", "rates kept in a file; after Ctrl-C the same command resumes"),
        ),
    ),
    Command(
        "compare",
        "tilewright.cli.compare",
        "Report what became slower between two sweeps of bench.",
        (
            ("monday.jsonl tuesday.jsonl", "exit status 1 if something became slower"),
            ("old.jsonl new.jsonl --threshold 2% --json", "report smaller changes, as JSON"),
        ),
    ),
    Command(
        "report",
        "tilewright.cli.report",
        "Write one HTML page: blocks, lanes, ladder, rates, occupancy.",
        (
            ("-o page.html", "an execution of S3's kernel, to step through"),
            ("monday.jsonl -o page.html --kernels warp_tiled", "another kernel, and a sweep's charts"),
            ("monday.jsonl", "the sweep's charts in the terminal"),
            ("monday.jsonl -o page.html --charts charts", "also each chart as SVG and PNG"),
        ),
    ),
    Command(
        "tune",
        "tilewright.cli.tune",
        "Time the best-ranked kernels; tw.matmul then uses the fastest.",
        (
            ("--sizes 4096 --device simulated:h100", "five kernels, predicted; plans and products use the fastest"),
            ("--sizes 64x4096x512 --order fast --dtypes float16", "tensor cores allowed"),
            ("--candidates 8 --again --json", "more kernels, timed again, as JSON"),
        ),
    ),
    Command(
        "devices",
        "tilewright.cli.lists",
        "List this machine's devices.",
        (("", "what each can do, and what is missing"),),
    ),
    Command(
        "gpus",
        "tilewright.cli.lists",
        "List the GPUs that --gpu takes.",
        (("", "names and limits"), ("h100 --json", "one record, as --gpu FILE.json takes it")),
    ),
    Command(
        "occupancy",
        "tilewright.cli.occupancy",
        "Compute occupancy, its limiter, and the effect of changes.",
        (
            ("--registers 48 --shared 8KiB --block 256", "on the H100"),
            ("--registers 48 --block 256 --gpu all", "on every GPU"),
        ),
    ),
    Command(
        "cache",
        "tilewright.cli.lists",
        "Show or empty the cache of compiled kernels.",
        (("", "where it is, and what it holds"), ("--clear", "remove every entry")),
    ),
    Command(
        "ptx-support",
        "tilewright.cli.lists",
        "Print the page of supported PTX.",
        (("> ptx-support.md", "the page of the documentation"),),
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        from tilewright.show.report import console
        from tilewright.version import __version__

        console.plain(f"tilewright {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Declare the options before a subcommand; their callbacks do the work."""


def program_command(*names: str) -> Any:
    """The commands as a callable; if the first name is a command's, that command alone, which takes less time."""
    return _command_of(*(row for row in COMMANDS if [row.name] == list(names[:1])))


@bounded(None)
def _command_of(*rows: Command) -> Any:
    app = typer.Typer(
        name="tilewright",
        cls=usage.Program,
        help=(
            "Matrix multiplication from three loops to tensor cores: on CPUs, on GPUs, on a simulated GPU.\n\n"
            f"Exit status: {listed()}. `run`, `profile`, `predict` and `check --fail-on never` exit with the program's "
            "own status."
        ),
        epilog=_examples(
            [
                ("ladder", "from three loops to tensor cores, in one screen"),
                ("check program.py", "find the defects of a program's kernels"),
                ("COMMAND --help", "options and examples of a command"),
                ("--install-completion", "install completion for the shell"),
            ]
        ),
        no_args_is_help=True,
        rich_markup_mode=None,  # plain text, like man pages: easy to search, copy and pipe
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _HELP_WIDTH},
    )
    app.callback()(_options)
    for row in rows or COMMANDS:
        more: dict[str, Any] = {"cls": usage.Command}
        if row.takes_a_program:
            more = {"cls": program.ProgramCommand, "context_settings": program.PASS_ON}
        app.command(row.name, short_help=row.short, epilog=row.epilog, **more)(row.function)
    return get_command(app)

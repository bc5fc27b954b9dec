"""The vocabulary of the command line: every option of every command, each once.

A command takes its options from here, so an option has the same name, placeholder and meaning everywhere. Those that
take a list take it separated by commas, and may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer

from tilewright.cli import completion

#: The type of an option that takes a list; `values` reads it.
Names = list[str] | None
#: The type of an option that takes one value.
Text = str | None


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the command line."""

    flags: tuple[str, ...]  #: Its names; errors and tests call it by the first.
    value: str  #: The placeholder of its value; "" for a switch.
    text: str  #: Its help.
    complete: Callable[..., Any] | None = None  #: Gives a shell the possible values.
    was: tuple[str, ...] = ()  #: Names of former releases, which an error explains.
    argument: str = ""  #: The argument of Python that errors of the library name, where it has another name.


def _row(flags: str, value: str, text: str, complete: Callable[..., Any] | None = None, **more: Any) -> Option:
    return Option(tuple(flags.split()), value, text, complete, **more)


OPTIONS = (
    # -- the product
    _row(
        "--kernels", "NAMES", "Kernels of the program, or of the catalogue by name or source row; `*` matches: s9*,S5.",
        completion.kernels, was=("--kernel",), argument="`kernel`",
    ),
    _row("--sizes", "SIZES", "Extents, N or MxNxK: C is M by N, A is M by K, B is K by N.",
         was=("--size", "--shape", "--extents")),
    _row("--dtypes", "NAMES", "Dtypes of the operands: float32,int8.", completion.dtypes, was=("--dtype",),
         argument="`dtype`"),
    _row("--dtype", "NAME", "Dtype of the product: int32 sums int8 exactly; int8 wraps.", completion.dtypes),
    _row("--acc-dtype", "NAME", "Dtype of the accumulator: float64 sums float32 more exactly.", completion.dtypes),
    _row("--order", "NAME", "Order of sums: canonical, tf32x3 or fast.", completion.orders),
    _row("--algebra", "NAME", "Addition and multiplication, such as min-plus for shortest paths.", completion.algebras),
    _row("--a", "FILE", "Left operand, an .npy file; needs --b."),
    _row("--b", "FILE", "Right operand, an .npy file."),
    _row("--seed", "NUMBER", "Seed of operands, of the order of blocks and warps, of failures."),
    # -- where
    _row("--gpu", "NAMES", "GPU to simulate, of `tilewright gpus`, or FILE.json; where times are predicted or "
         "occupancy is computed, several.", completion.gpus),
    _row("--device", "NAMES", "Device of `tilewright devices`, or one of several, such as simulated:a100.",
         completion.devices),
    _row("--threads", "NUMBER", "Most host threads to use."),
    _row("--memory", "SIZE", "Memory limit of this process, or of each worker, such as 2GB: multiplies by tiles of C, "
         "and resumes after an interruption."),
    _row("--dask", "ADDRESS", "Multiply on the workers of the Dask cluster whose scheduler has this address, such as "
         "tcp://host:8786. All workers must see A, B and C at the same paths."),
    _row("--clock", "MHZ", "Sustained clock of the GPU.", argument="`clock_mhz`"),
    # -- the program
    _row("-m", "MODULE", "Run a module instead, as python -m does."),
    _row("-c", "CODE", "Run code instead, as python -c does."),
    _row("--limit", "SECONDS", "Abandon launches that run longer.", argument="`limits.seconds`"),
    _row("--launch", "NUMBER", "Only the launch of this number, from 0."),
    _row("--all-blocks", "", "Count all blocks of large launches, not a sample."),
    # -- the report
    _row("--json", "", "Print JSON, as docs/json.md describes it."),
    _row("--output -o", "FILE", "The file to write."),
    _row("--html", "FILE", "Also write a page, such as page.html."),
    _row("--charts", "FOLDER", "A new folder for the charts, each as SVG and PNG."),
    _row("--force", "", "Replace files that exist.", argument="`overwrite=True`"),
    _row("--details", "", "Show caches, occupancy's what-if, roofline and all limits, too."),
    _row("--full", "", "Show all kernels with all counts."),
    _row("--ignore", "CODES", "Codes to suppress: TW601,TW604."),
    _row("--strict", "", "Report also races that today's GPUs get right: by lockstep, of one value, of volatile data."),
    _row("--schedules", "NUMBER", "More orders in which a launch runs, if its findings can depend on the order."),
    _row("--fail-on", "LEVEL", "Least severity that is a failure: error, warning or never.", completion.fail_on),
    _row("--format", "FORM[=FILE]", "Report: text, brief, json, sarif or github; may be repeated.", completion.formats),
    _row("--debug", "", "Compile a .cu program with -G: local arrays stay in memory, where they are checked."),
    _row("--verbose", "", "Show suppressed findings, and suppressions without effect."),
    _row("--codes", "", "List the codes of findings and exit."),
    _row("--ladder", "NAMES", "Kernels of the ladder, by name or source row, or none.", completion.kernels),
    _row("--plan", "", "Print the plan without multiplying."),
    _row("--clear", "", "Remove every entry."),
    # -- rates
    _row("--against", "NAMES", "Other libraries to compare with: numpy, torch, jax, cupy; none."),
    _row("--table", "NAME", "A source's table, beside its figures: S8, S10, S12 or S13."),
    _row("--blocks", "NUMBERS", "Edges of blocks, for kernels that have them."),
    _row("--results", "NUMBERS", "Results per thread, for kernels that have them."),
    _row("--caches", "NAMES", "State of the caches when a product starts: warm, cold."),
    _row("--samples", "NUMBER", "Samples of each time."),
    _row("--threshold", "PERCENT", "Least measured slowdown to report."),
    _row("--candidates", "NUMBER", "Number of best-ranked kernels to time."),
    _row("--again", "", "Time kernels again that already have a time."),
    _row("--accept-noise", "", "Keep also times whose quartiles differ by more than 10 %."),
    # -- occupancy
    _row("--registers", "NUMBER", "Registers per thread, as the assembler reports them.",
         argument="`registers_per_thread`"),
    _row("--block", "NUMBER", "Threads per block.", argument="`block_threads`"),
    _row("--shared", "SIZE", "Shared memory per block, static and dynamic: 8192 or 8KiB.", argument="`shared_bytes`"),
    _row("--barriers", "NUMBER", "Named barriers per block; 0 ignores them."),
    _row("--carveout", "PERCENT", "Preferred carveout of shared memory, or l1, equal, shared."),
    _row("--columns", "NUMBER", "Columns of tensor memory per block; 0 ignores them.", argument="`tensor_columns`"),
)  # fmt: skip


def option(name: str, default: str | bool = True) -> Any:
    """The option of that name, for `Annotated`; `default` says in words what happens without it.

    >>> option("--sizes", "256").metavar
    'SIZES'
    """
    row = named(name)
    return typer.Option(
        *row.flags, metavar=row.value or None, help=row.text, show_default=default, autocompletion=row.complete
    )


def named(name: str) -> Option:
    """The option of that name."""
    return next(row for row in OPTIONS if name in row.flags)


def renamed(name: str) -> str:
    """The present name of an option of former releases; "" if it has not changed its name.

    >>> renamed("--shape"), renamed("--seed")
    ('--sizes', '')
    """
    return next((row.flags[0] for row in OPTIONS if name in row.was), "")

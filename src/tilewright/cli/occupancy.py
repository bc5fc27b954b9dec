"""`tilewright occupancy`: how many warps of a kernel a multiprocessor holds, and how to change that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli import program
from tilewright.cli.options import Names, Text, option
from tilewright.cli.statuses import FOUND
from tilewright.errors import ArgumentValueError

if TYPE_CHECKING:
    from tilewright.simulate.machine.alternatives import Alternatives

#: The value of `--gpu` for all known GPUs.
ALL = "all"


@program.takes_a_program("seed", on_each_gpu=True)
def occupancy(
    ctx: typer.Context,
    given: program.Given,
    kernels: Annotated[Names, option("--kernels", "all")] = None,
    registers: Annotated[Text, option("--registers")] = None,
    block: Annotated[Text, option("--block")] = None,
    shared: Annotated[str, option("--shared")] = "0",
    barriers: Annotated[str, option("--barriers")] = "0",
    carveout: Annotated[Text, option("--carveout", "no preference")] = None,
    columns: Annotated[str, option("--columns")] = "0",
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Compute occupancy, its limiter, and the effect of another block size, fewer registers or less shared memory.

    With a program, of each kernel that it launches; without one, of --registers and --block, on each of --gpu, or on
    all with --gpu all. The exit status is 1 if no block fits anywhere.
    """
    if given.named:
        if registers is not None or block is not None:
            raise ArgumentValueError(
                "--registers and --block must come without a program (got one, whose kernels have theirs)"
            )
        rows, status = _of_program(ctx, given.chosen(), kernels, json=json)
    else:
        if registers is None or block is None:
            missing = "--registers" if registers is None else "--block"
            raise ArgumentValueError(f"{missing} must be given (got nothing); or name a program that launches kernels")
        wanted = {"registers": registers, "block": block, "shared": shared, "barriers": barriers, "columns": columns}
        rows, status = [("", found) for found in _of_demand(given.gpu, carveout, **wanted)], 0
    _print(rows, json=json)
    if status or (rows and not any(found.occupancy.active_blocks for _, found in rows)):
        raise typer.Exit(status or FOUND)


def _of_program(
    ctx: typer.Context, what: program.Chosen, kernels: Names, *, json: bool
) -> tuple[list[tuple[str, Alternatives]], int]:
    """The kernels of a program, each with its occupancy, and the program's status."""
    from tilewright.cli import values
    from tilewright.observe.profiling import Footprints
    from tilewright.show.report import console

    names = values.words("--kernels", kernels)
    seen = Footprints(gpu=what.gpu, kernel=names or None)
    ended = program.followed(ctx, what, seen, quiet=json)
    for kernel, error in dict(seen.failed).items():
        console.error(f"{kernel}: its occupancy is unknown: {error}")
    if not seen.found and not seen.failed and ended.error is None:
        program.check_kernels(names, seen.kernels)
        console.note("no occupancy to compute: the program launched no kernel")
    return seen.found, ended.status


def _of_demand(gpu: Names, carveout: Text, **text: str) -> list[Alternatives]:
    """The occupancy on each GPU."""
    from tilewright.cli import values
    from tilewright.simulate import machine
    from tilewright.simulate.machine.alternatives import Demand, alternatives
    from tilewright.simulate.machine.occupancy import PREFERENCES, TENSOR_COLUMNS

    every = values.words("--gpu", gpu) == (ALL,)
    on = [machine.chosen(key) for key in (machine.names() if every else values.gpus(gpu) or (None,))]
    percent = PREFERENCES.get(carveout or "")
    if carveout is not None and percent is None:
        percent = values.whole("--carveout", carveout, 0, "l1, equal or shared", 100)
    most = max(one.registers_per_thread for one in on)
    demand = Demand(
        registers_per_thread=values.whole("--registers", text["registers"], 0, "64", most),
        shared_bytes=values.size("--shared", text["shared"], max(one.shared_per_block_optin_bytes for one in on)),
        block_threads=values.whole("--block", text["block"], 1, "256", max(o.launch.threads_per_block for o in on)),
        barriers=values.whole("--barriers", text["barriers"], 0, "1", 16),
        carveout=percent,
        tensor_columns=values.whole("--columns", text["columns"], 0, "256", TENSOR_COLUMNS),
    )
    return [alternatives(one, demand) for one in on]


def _print(rows: Sequence[tuple[str, Alternatives]], *, json: bool) -> None:
    from tilewright.show.report import console, occupancy as report, terminal

    if json:
        console.document(
            "occupancy", {"rows": [{"kernel": name or None, **report.document(one)} for name, one in rows]}
        )
    elif len(rows) == 1:
        terminal.show(report.blocks(rows[0][1], rows[0][0]), console.output())
    elif rows:
        terminal.show(report.compare(rows), console.output())

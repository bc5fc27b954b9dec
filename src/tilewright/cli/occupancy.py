"""`tilewright occupancy`: how many warps of a kernel a multiprocessor holds, and how to change that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import Names, Text, option
from tilewright.cli.statuses import FOUND

if TYPE_CHECKING:
    from tilewright.machine.alternatives import Alternatives

#: The value of `--gpu` for all known GPUs.
ALL = "all"


def occupancy(
    registers: Annotated[str, option("--registers")],
    block: Annotated[str, option("--block")],
    shared: Annotated[str, option("--shared")] = "0",
    gpu: Annotated[Names, option("--gpu", "h100; all for all")] = None,
    barriers: Annotated[str, option("--barriers")] = "0",
    carveout: Annotated[Text, option("--carveout", "no preference")] = None,
    columns: Annotated[str, option("--columns")] = "0",
    json: Annotated[bool, option("--json")] = False,
) -> None:
    """Compute occupancy, its limiter, and the effect of another block size, fewer registers or less shared memory.

    The exit status is 1 if no block fits; with --gpu all, if none fits on any GPU.
    """
    from tilewright import machine
    from tilewright.cli import values
    from tilewright.machine.alternatives import Demand, alternatives
    from tilewright.machine.occupancy import PREFERENCES, TENSOR_COLUMNS
    from tilewright.settings import Settings

    every = values.words("--gpu", gpu) == (ALL,)
    on = [machine.gpu(key) for key in (machine.names() if every else values.gpus(gpu) or [Settings.from_environ().gpu])]
    percent = PREFERENCES.get(carveout or "")
    if carveout is not None and percent is None:
        percent = values.whole("--carveout", carveout, 0, "l1, equal or shared", 100)
    demand = Demand(
        registers_per_thread=values.whole("--registers", registers, 0, "64", max(g.registers_per_thread for g in on)),
        shared_bytes=values.size("--shared", shared, max(g.shared_per_block_optin_bytes for g in on)),
        block_threads=values.whole("--block", block, 1, "256", max(g.launch.threads_per_block for g in on)),
        barriers=values.whole("--barriers", barriers, 0, "1", 16),
        carveout=percent,
        tensor_columns=values.whole("--columns", columns, 0, "256", TENSOR_COLUMNS),
    )
    found = [alternatives(one, demand) for one in on]
    _print(found, json=json, compared=len(on) > 1)
    if not any(one.occupancy.active_blocks for one in found):
        raise typer.Exit(FOUND)


def _print(found: Sequence[Alternatives], *, json: bool, compared: bool) -> None:
    from tilewright.report import console, occupancy as report, terminal

    if json:
        documents = [report.document(one) for one in found]
        console.document({"gpus": documents} if compared else documents[0])
    elif compared:
        report.compare(found, console.output())
    else:
        terminal.show(report.blocks(found[0]), console.output())

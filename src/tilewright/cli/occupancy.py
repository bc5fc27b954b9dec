"""`tilewright occupancy`: how many warps of a kernel a multiprocessor holds, and how to change that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import option
from tilewright.cli.statuses import FOUND

if TYPE_CHECKING:
    from tilewright.machine.alternatives import Alternatives

#: The value of `--gpu` for all known GPUs.
ALL = "all"


def occupancy(
    registers: Annotated[str, option("R", "Registers per thread, as the assembler reports them.")],
    block: Annotated[str, option("N", "Threads per block.")],
    shared: Annotated[str, option("S", "Bytes of shared memory per block, static and dynamic.")] = "0",
    gpu: Annotated[
        str | None,
        option("NAME", "A GPU of `tilewright gpus`; all compares them.", "h100"),
    ] = None,
    barriers: Annotated[str, option("B", "Named barriers per block; 0 ignores them.")] = "0",
    carveout: Annotated[
        str | None,
        option("PERCENT|l1|equal|shared", "Preferred carveout of shared memory.", "no preference"),
    ] = None,
    columns: Annotated[str, option("C", "Columns of tensor memory per block; 0 ignores them.")] = "0",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compute occupancy, its limiter, and the effect of another block size, fewer registers or less shared memory.

    The exit status is 1 if no block fits; with --gpu all, if none fits on any GPU.
    """
    from tilewright import machine
    from tilewright.cli import values
    from tilewright.machine.alternatives import Demand, alternatives
    from tilewright.machine.occupancy import PREFERENCES, TENSOR_COLUMNS
    from tilewright.settings import Settings

    name = Settings.from_environ().gpu if gpu is None else gpu
    on = list(machine.gpus().values()) if name == ALL else [machine.gpu(values.gpu_name("--gpu", name))]
    percent = PREFERENCES.get(carveout or "")
    if carveout is not None and percent is None:
        percent = values.whole("--carveout", carveout, 0, "l1, equal or shared", 100)
    demand = Demand(
        registers_per_thread=values.whole("--registers", registers, 0, "64", max(g.registers_per_thread for g in on)),
        shared_bytes=values.whole("--shared", shared, 0, "8192", max(g.shared_per_block_optin_bytes for g in on)),
        block_threads=values.whole("--block", block, 1, "256", max(g.launch.threads_per_block for g in on)),
        barriers=values.whole("--barriers", barriers, 0, "1", 16),
        carveout=percent,
        tensor_columns=values.whole("--columns", columns, 0, "256", TENSOR_COLUMNS),
    )
    found = [alternatives(one, demand) for one in on]
    _print(found, json=json, compared=name == ALL)
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

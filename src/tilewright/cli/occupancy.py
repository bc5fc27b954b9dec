"""`tilewright occupancy`: how many warps of a kernel a multiprocessor holds, and what would change that."""

from __future__ import annotations

from typing import Annotated

import typer


def occupancy(
    registers: Annotated[str, typer.Option(metavar="R", help="Registers of a thread, as the assembler reports them.")],
    block: Annotated[str, typer.Option(metavar="N", help="Threads of a block.")],
    shared: Annotated[
        str, typer.Option(metavar="S", help="Bytes of shared memory of a block, static and dynamic.")
    ] = "0",
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="GPU, by a name of `tilewright gpus`.", show_default="h100")
    ] = None,
    barriers: Annotated[str, typer.Option(metavar="B", help="Named barriers of a block; 0 leaves them out.")] = "0",
    carveout: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT|l1|equal|shared", help="Preferred part of shared memory.", show_default="no preference"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Compute occupancy, its limiter, and what another block, fewer registers or less shared memory would give.

    Exit status 1 where no block fits.
    """
    from tilewright import machine
    from tilewright.cli import values
    from tilewright.machine.alternatives import Demand, alternatives
    from tilewright.machine.occupancy import PREFERENCES
    from tilewright.report import console
    from tilewright.report import occupancy as report
    from tilewright.settings import Settings

    on = machine.gpu(Settings.from_environ().gpu if gpu is None else values.gpu_name("--gpu", gpu))
    percent = PREFERENCES.get(carveout or "")
    if carveout is not None and percent is None:
        percent = values.whole("--carveout", carveout, 0, "l1, equal or shared", 100)
    demand = Demand(
        registers_per_thread=values.whole("--registers", registers, 0, "64", on.registers_per_thread),
        shared_bytes=values.whole("--shared", shared, 0, "8192", on.shared_per_block_optin_bytes),
        block_threads=values.whole("--block", block, 1, "256", on.launch.threads_per_block),
        barriers=values.whole("--barriers", barriers, 0, "1", 16),
        carveout=percent,
    )
    found = alternatives(on, demand)
    if json:
        console.plain(report.as_json(found))
    else:
        report.show(found, console.output())
    if not found.occupancy.active_blocks:
        raise typer.Exit(1)

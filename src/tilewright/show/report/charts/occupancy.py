"""Charts of occupancy against a block's resources, one at a time, the others unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.show.report.charts.records import Axis, Lines, Series
from tilewright.simulate.machine.alternatives import Demand
from tilewright.simulate.machine.gpu import WARP_LANES, Gpu

#: The step of each curve: resources are allocated in multiples of at least these, so no change is missed.
_SHARED_STEP = 256
_BYTES = 1024


def charts(gpu: Gpu, demand: Demand, kernel: str = "") -> tuple[Lines, ...]:
    """Warps against registers a thread, shared memory a block, and threads a block.

    >>> from tilewright.simulate.machine import gpu
    >>> found = charts(gpu("h100"), Demand(40, 2048, 256))
    >>> [chart.x.title for chart in found]
    ['registers a thread', 'shared memory a block, KiB', 'threads a block']
    >>> [chart.series[1].points for chart in found]
    [((40, 48),), ((2.0, 48),), ((256, 48),)]
    """
    most_shared = gpu.shared_per_block_optin_bytes
    curves = (
        ("registers a thread", "registers_per_thread", range(16, gpu.registers_per_thread + 1), 1),
        ("shared memory a block, KiB", "shared_bytes", range(0, most_shared + 1, _SHARED_STEP), _BYTES),
        ("threads a block", "block_threads", range(WARP_LANES, gpu.launch.threads_per_block + 1, WARP_LANES), 1),
    )
    return tuple(_chart(gpu, demand, kernel, *curve) for curve in curves)


def _chart(gpu: Gpu, demand: Demand, kernel: str, title: str, field: str, values: range, unit: int) -> Lines:
    warps = [(value / unit if unit > 1 else value, _warps(gpu, demand, field, value)) for value in values]
    here = getattr(demand, field)
    at = (here / unit if unit > 1 else here, _warps(gpu, demand, field, here))
    name = kernel or "the kernel as it is"
    blocks = demand.on(gpu)
    return Lines(
        title=f"Warps that a multiprocessor of the {gpu.name} holds, by {title.partition(',')[0]}",
        x=Axis(title, least=0),
        y=Axis("warps", least=0),
        series=(
            Series(f"the rest as it is ({_rest(demand, field)})", tuple(_corners(warps)), "counted", marked=False),
            Series(name, (at,), "counted"),
            Series(
                "most",
                ((warps[0][0], gpu.warps_per_multiprocessor), (warps[-1][0], gpu.warps_per_multiprocessor)),
                "limit",
                marked=False,
            ),
        ),
        note=f"{name}: {at[1]} of {gpu.warps_per_multiprocessor} warps, limited by {blocks.limiter}.",
    )


def _rest(demand: Demand, field: str) -> str:
    texts = {
        "registers_per_thread": f"{demand.registers_per_thread} registers",
        "shared_bytes": f"{demand.shared_bytes / _BYTES:g} KiB",
        "block_threads": f"{demand.block_threads} threads",
    }
    return ", ".join(words for name, words in texts.items() if name != field)


def _warps(gpu: Gpu, demand: Demand, field: str, value: int) -> int:
    return replace(demand, **{field: value}).on(gpu).active_warps


def _corners(values: list[tuple[float, int]]) -> Iterator[tuple[float, float]]:
    """The points at which a staircase turns."""
    before: tuple[float, int] | None = None
    for place in values:
        if before is None or place[1] != before[1]:
            if before is not None:
                yield place[0], before[1]
            yield place
        before = place
    if before is not None:
        yield before

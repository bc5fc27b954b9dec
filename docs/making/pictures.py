"""The pictures of docs/: what kernels did on the simulated GPU, drawn from the addresses and counts of their launches.

`make docs` writes them. Their colours follow what the reader's system prefers, light or dark.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import drawn
import screens
import speeds
import wings

import tilewright as tw
from tilewright.observe.profiling.watching import Watched, watch
from tilewright.show.report.charts import ladder, occupancy, svg
from tilewright.show.report.charts.records import Bars
from tilewright.simulate.machine.alternatives import Demand

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
_GPU = tw.machine.gpu("h100")


@functools.cache
def _watched(kernel: str, m: int, n: int, k: int) -> Watched:
    """A launch of a kernel of the catalogue, of which every access is kept."""
    return watch(tw.catalogue.find(kernel), m, n, k, "float32", _GPU)


@functools.cache
def _climbed(*kernels: str) -> tuple[Bars, ...]:
    chosen = [tw.catalogue.find(kernel) for kernel in kernels]
    a, b = tw.ladder.operands(128, 128, 128, "float32")
    return ladder.charts(tw.ladder.climb(a, b, records=chosen, gpu=_GPU.key))


def _bars(title: str, *kernels: str) -> str:
    """One of the charts of some rungs at 128^3 in float32."""
    return svg.text(next(chart for chart in _climbed(*kernels) if chart.title.startswith(title)))


def _registers(kernel: str) -> str:
    """How many warps fit a multiprocessor, by registers a thread."""
    record = tw.catalogue.find(kernel)
    resources = record.program("float32", _GPU.compute_capability).resources()
    x, y, z = record.launch_rule(256, 256, 256).block
    demand = Demand(resources.registers_per_thread, resources.shared_bytes, x * y * z)
    return svg.text(occupancy.charts(_GPU, demand, kernel)[0])


_TO_TILES = ("naive_published", "naive", "tiled", "results_8")
_RESULTS = ("results_1", "results_2", "results_4", "results_8", "results_16", "results_32")
_FLOAT32 = ("thread_tile_1d", "thread_tile_2d", "vectorised", "padded", "warp_tiled")
#: File -> what draws it.
PICTURES: MappingProxyType[str, Callable[[], str]] = MappingProxyType(
    {
        "partition": lambda: drawn.partition(_watched("block_partitioned_16", 48, 48, 64), (1, 1, 0), 1),
        "sectors-published": lambda: drawn.over_sectors(_watched("naive_published", 64, 64, 32), "load", "A"),
        "sectors-naive": lambda: drawn.over_sectors(_watched("naive", 64, 64, 32), "load", "B"),
        "sectors-uncoalesced": lambda: drawn.over_sectors(_watched("uncoalesced", 64, 64, 32), "load", "A"),
        "sectors-coalesced": lambda: drawn.over_sectors(_watched("coalesced", 64, 64, 32), "load", "B"),
        "banks-published": lambda: drawn.over_banks(_watched("tiled_published", 32, 32, 32), "load"),
        "banks-tiled": lambda: drawn.over_banks(_watched("tiled", 32, 32, 32), "load"),
        "banks-vectorised": lambda: drawn.over_banks(_watched("vectorised", 128, 128, 32), "load"),
        "banks-padded": lambda: drawn.over_banks(_watched("padded", 128, 128, 32), "load", -1),
        "ladder-sectors": lambda: _bars("Sectors", *_TO_TILES),
        "results-wavefronts": lambda: _bars("Wavefronts of shared", *_RESULTS),
        "results-occupancy": lambda: _registers("results_8"),
        "first-screen": screens.first_screen,
        "speeds": speeds.chart,
        "wings": wings.chart,
        "float32-wavefronts": lambda: _bars("Wavefronts of shared", *_FLOAT32),
    }
)


def write() -> None:
    """Write the pictures whose drawing has changed."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        path, text = FOLDER / f"{name}.svg", draw() + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()

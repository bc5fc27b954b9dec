"""Counts of large launches from some of their blocks, against those of all blocks; predicted for an RTX A6000.

    python benchmarks/sampling.py [--json] [--k K] [--kernels NAMES]

Each kernel of the ladder multiplies matrices of about 25 x 23 tiles, of which those at two edges are partial. Errors
are of sums over the launch: instructions, wavefronts of shared memory, sectors requested from the first level, the
second, and memory; and of the predicted time. Seconds are of one processor, for some blocks and for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import measuring
import numpy as np

from tilewright import catalogue, machine
from tilewright.ladder import select
from tilewright.multiply.kernels.catalogue import Record
from tilewright.observe.prediction import sampling, workload
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.model import Model
from tilewright.observe.prediction.workload import Requests, Workload
from tilewright.profiling import profile
from tilewright.simulate.launch_request import LaunchRequest
from tilewright.simulate.run.staged_launch import looked_at

GPU = machine.gpu("a6000")
QUANTITIES: dict[str, Callable[[Requests], float]] = {
    "instructions": lambda site: site.executed,
    "wavefronts": lambda site: site.asked * site.wavefronts * (site.sectors == 0),
    "sectors": lambda site: site.asked * site.sectors,
    "L2": lambda site: site.asked * site.l2_sectors,
    "DRAM": lambda site: site.asked * site.dram_sectors,
}


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--k", type=int, default=130, help="extent of the sums")
    parser.add_argument("--kernels", default="", metavar="NAMES", help="all that are not specimens by default")
    options = parser.parse_args()
    chosen = select(catalogue.records(), options.kernels.split(",")) if options.kernels else catalogue.records()
    records = [record for record in chosen if record.backend == "gpu" and not record.published]
    rows = [compared(record, options.k) for record in records]
    columns = list(rows[0])
    errors = np.abs([[row[name] for name in (*QUANTITIES, "time")] for row in rows])
    shown = measuring.table(
        "Some blocks instead of all", columns, [[written(name, row[name]) for name in columns] for row in rows]
    )
    worst = ", ".join(
        f"{name} {100 * middle:.2f} and {100 * most:.1f} %"
        for name, middle, most in zip((*QUANTITIES, "time"), np.median(errors, 0), errors.max(0), strict=True)
    )
    measuring.publish({"sampling": rows}, [shown, f"median and largest error: {worst}"], as_json=options.json)


def compared(record: Record, k: int) -> dict[str, Any]:
    """A row of the table."""
    m, n, dtype = 25 * record.tile[0] - 5, 23 * record.tile[1] + 3, record.dtypes[0]
    a, b, c = (np.ones(extents, dtype) for extents in ((m, k), (k, n), (m, n)))
    shape, program = record.launch_rule(m, n, k), record.program(dtype, GPU.compute_capability)
    arguments = record.arguments(a, b, c)
    request = LaunchRequest(program, shape.grid, shape.block, arguments, gpu=GPU.key)
    some, some_seconds = looked_at(request, lambda blocks: timed(lambda: sampling.sampled(blocks, GPU)))
    assert some is not None, f"{record.name}: all blocks ran"
    seen, all_seconds = timed(lambda: profile(program, shape.grid, shape.block, arguments, gpu=GPU.key))
    assert seen.occupancy is not None
    work = workload.of_profile(seen, seen.occupancy.occupancy.active_blocks)

    def clocks(one: Workload) -> float:
        return Model.of(program, one, GPU, Deadline()).time(one, GPU.boost_mhz).seconds

    return {
        "kernel": record.name, "m x n x k": f"{m}x{n}x{k}", "blocks": f"{some.blocks} of {work.blocks}",
        **{name: error(total(some.work, of), total(work, of)) for name, of in QUANTITIES.items()},
        "time": error(clocks(some.work), clocks(work)), "some": some_seconds, "all": all_seconds,
    }  # fmt: skip


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and its processor time."""
    start = time.process_time()
    return run(), time.process_time() - start


def total(work: Workload, of: Callable[[Requests], float]) -> float:
    return sum(map(of, work.sites.values()))


def error(found: float, true: float) -> float:
    return found / true - 1 if true else float(found != true)


def written(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.1f} s" if name in ("some", "all") else f"{100 * value:+.2f} %"


if __name__ == "__main__":
    main()

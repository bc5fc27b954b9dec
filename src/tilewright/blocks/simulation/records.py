"""The model of a cluster, and the result of simulating a product on it."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from tilewright.blocks.planning import BlockPlan
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.machine.sizes import duration_text, size_text
from tilewright.shown import Shown

#: The largest `spread`: rates then differ by a factor of twenty, and no number overflows.
_WIDEST = 3
#: Fields of a cluster that may be 0.
_MAY_BE_NOTHING = ("task_s", "step_s", "byte_s", "flush_s", "return_s", "spread")


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """Workers, shared storage, network and failures.

    The defaults are estimates for servers with AVX-512 on 10 Gbit/s Ethernet: give your own. `benchmarks/simulation.py`
    measured `task_s` on two cores.

    Raises ArgumentValueError and ArgumentTypeError: a field is not a number, or out of its range.

    Examples
    --------
    >>> SimulatedCluster(4, flops_per_s=1e12).workers
    4
    """

    workers: int
    memory_bytes: int = 16_000_000_000  #: Memory of a worker for tiles and panels.
    flops_per_s: float = 3e11  #: Multiplications and additions of a worker.
    storage_bytes_per_s: float = 2e10  #: Reads and writes of all workers together, shared evenly.
    link_bytes_per_s: float = 1.25e9  #: Most that a worker reads, and most that it writes; both may go on at once.
    write_cost: float = 1.0  #: Bytes that can be read in the time that one is written.
    task_s: float = 5e-3  #: Time of client and scheduler for each task, one at a time: 4 to 5 ms were measured.
    step_s: float = 2e-4  #: Time of a step besides its arithmetic.
    byte_s: float = 0.0  #: Time that a byte read or written adds to steps, if no core is free for transfers.
    flush_s: float = 1.5e-2  #: From a tile's last byte until it is on disk and the caller knows.
    failure_s: float = math.inf  #: Mean time from a worker's start to its failure, exponentially distributed.
    return_s: float = 60.0  #: From a failure until a replacement starts.
    spread: float = 0.0  #: Standard deviation of the logarithm of workers' rates; 0.05 is about 5 %.
    seed: int = 0  #: Seed of rates and failures.

    def __post_init__(self) -> None:
        least = {"workers": 1, "memory_bytes": 1, "seed": 0, **dict.fromkeys(_MAY_BE_NOTHING, 0)}
        for one in fields(self):
            value, whole = getattr(self, one.name), one.name in ("workers", "memory_bytes", "seed")
            if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
                raise ArgumentTypeError(
                    f"`{one.name}` must be {'a whole number' if whole else 'a number'} (got {value!r})"
                )
            if not value >= least.get(one.name, 1e-300) or (value == math.inf and one.name != "failure_s"):
                rule = f"at least {least[one.name]}" if one.name in least else "more than 0"
                raise ArgumentValueError(f"`{one.name}` must be finite and {rule} (got {value!r})")
        if self.spread > _WIDEST:
            raise ArgumentValueError(f"`spread` must be at most {_WIDEST} (got {self.spread!r}); 0.05 is about 5 %")

    @property
    def rates(self) -> tuple[float, ...]:
        """Multiplications and additions of each worker in a second."""
        pick = random.Random(self.seed)
        return tuple(self.flops_per_s * pick.lognormvariate(0.0, self.spread) for _ in range(self.workers))


@dataclass(frozen=True, slots=True)
class SimulatedProduct(Shown):
    """The simulated product on a cluster.

    Attributes
    ----------
    plan : BlockPlan
        Tiles and panels; of a layer, if there are several.
    world : SimulatedCluster
    layers : int
        Parts of k whose sums are added at the end.
    seconds : float
        From the first task to the last tile on disk.
    read_bytes, written_bytes : int
        Traffic between workers and storage, including whole transfers that failures wasted.
    worker_bytes : tuple of int
        The same by worker, read and written together.
    busy : float
        Share of the workers' time with a tile in progress.
    all_flops_per_s : float
        Arithmetic rate of all workers.
    tiles_made : int
    tiles_remade : int
        Tiles, or layers of tiles, that were lost with a worker and made again.
    deaths : int
        Of workers.
    events : int
        Of the simulation.
    """

    plan: BlockPlan
    world: SimulatedCluster
    layers: int
    seconds: float
    read_bytes: int
    written_bytes: int
    worker_bytes: tuple[int, ...] = field(repr=False)
    busy: float
    all_flops_per_s: float
    tiles_made: int
    tiles_remade: int
    deaths: int
    events: int

    @property
    def efficiency(self) -> float:
        """The time of evenly shared arithmetic alone, divided by the simulated time."""
        return self.plan.sizes.flops / self.all_flops_per_s / self.seconds

    @property
    def least_bytes(self) -> int:
        """Lower bound of reads and writes, if all workers do an equal share of the arithmetic.

        Of ``F = m n k / P`` multiplications a worker with memory for S elements reads and writes at least ``2 F /
        sqrt(S) - 2 S`` elements, and at least ``3 F**(2/3)``, since its memory is empty at start and end. Source:
        Irony, Toledo, Tiskin, Communication lower bounds for distributed-memory matrix multiplication (2004); Ballard
        et al., Strong scaling of matrix multiplication algorithms and memory-independent communication lower bounds
        (2012).
        """
        (m, n, k), (a, b), out = self.plan.sizes.extents, self.plan.sizes.operand_bytes, self.plan.sizes.out_bytes
        size = min(a, b, out)
        memory = max(self.world.memory_bytes // size, 1)
        each = m * n * k * self.plan.sizes.batch / self.world.workers
        least = max(2 * each / math.sqrt(memory) - 2 * memory, 3 * each ** (2 / 3))
        once = (m * k * a + k * n * b + m * n * out) * self.plan.sizes.batch
        return max(once, int(size * self.world.workers * least))

    @property
    def bounds_s(self) -> Mapping[str, float]:
        """Seconds that arithmetic, storage, links and scheduler would each need alone, evenly shared."""
        world, written = self.world, self.written_bytes * self.world.write_cost
        steps_s = self.plan.tiles * self.plan.grid[2] * world.step_s / world.workers
        return {
            "arithmetic": self.plan.sizes.flops / self.all_flops_per_s + steps_s,
            "storage": (self.read_bytes + written) / world.storage_bytes_per_s,
            "links": max(self.read_bytes, written) / world.link_bytes_per_s / world.workers,
            "scheduler": self.plan.tiles * self.layers * world.task_s,
        }

    @property
    def limit(self) -> str:
        """The longest of the bounds."""
        return max(self.bounds_s, key=lambda name: self.bounds_s[name])

    @property
    def facts(self) -> Mapping[str, str]:
        """Labels and texts of the result."""
        plan, world, moved = self.plan, self.world, self.read_bytes + self.written_bytes
        down, across, _ = plan.grid
        layers = f", k in {self.layers:,} layers" if self.layers > 1 else ""
        parts = ", ".join(f"{name} {_time(seconds)}" for name, seconds in self.bounds_s.items())
        lost = f"{self.deaths:,}, after which {self.tiles_remade:,} tiles were made again"
        return {
            "product": plan.facts["product"],
            "workers": f"{world.workers:,} of {world.flops_per_s / 1e9:,.4g} GFLOPS",
            "tiles": f"{down:,} x {across:,} of {plan.rows:,} x {plan.columns:,}{layers}",
            "memory": f"{size_text(plan.held_bytes)} of {size_text(world.memory_bytes)} a worker",
            "time": f"{_time(self.seconds)}, of which {self.efficiency:.1%} are arithmetic",
            "busy": f"{self.busy:.1%} of the workers' time",
            "reads": f"{size_text(self.read_bytes)}, and {size_text(self.written_bytes)} written",
            "a worker": f"{size_text(min(self.worker_bytes))} to {size_text(max(self.worker_bytes))}",
            "bound": f"{moved / self.least_bytes:.2f} times the {size_text(self.least_bytes)} of any order",
            "limit": f"{self.limit} ({parts})",
            **({"deaths": lost} if self.deaths else {}),
        }


def _time(seconds: float) -> str:
    return duration_text(seconds) if seconds >= 10 else f"{seconds:.2f} s"

"""A ladder of bfloat16 products on an H100, built as closely to published steps as they are described, with times.

The first block of each runs at full size, checked small against NumPy, and stands for all.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import machine
from tilewright.gpu.tensor_maps import TensorMap
from tilewright.observe.prediction import workload
from tilewright.observe.prediction.crew import watched
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.model import Model
from tilewright.profiling import instruments, of_run
from tilewright.programs import Program
from tilewright.simt import launch
from tilewright.simulate.launch_request import LaunchRequest
from tilewright.simulate.observer import Part
from tilewright.simulate.run.staged_launch import looked_at

SOURCE = Path(__file__).with_suffix(".cu")
GPU = "h100"


@dataclass(frozen=True)
class Rung:
    """One step."""

    rows: int  #: Tile of C for a block.
    columns: int
    stages: int = 1
    consumers: int = 0  #: Warpgroups that multiply beside one that copies; 0: one does both.
    persistent: bool = False

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: its stages, with two mbarriers each."""
        return self.stages * ((self.rows + self.columns) * 128 + 16)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * (self.consumers + 1)


@functools.cache
def program(rung: Rung) -> Program:
    """Compiled; the product's text and its registers depend on the columns."""
    count = rung.columns // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    text = (
        f'"wgmma.mma_async.sync.aligned.m64n{rung.columns}k16.f32.bf16.bf16 '
        f'{{{sums}}}, %{count}, %{count + 1}, 1, 1, 1, 0, 0;"'
    )
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    head = f"#define PRODUCT {text}\n#define SUMS {outputs}\n"
    values = {
        "BM": rung.rows, "BN": rung.columns, "STAGES": rung.stages, "CONSUMERS": rung.consumers,
        "EVERYONE": int(rung.consumers > 0),
    }  # fmt: skip
    options = ["--gpu-architecture=compute_90a", *(f"-D{name}={value}" for name, value in values.items())]
    return Program.from_cuda(head + SOURCE.read_text(encoding="utf-8"), "rung", (9, 0), options)


def arguments(rung: Rung, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    """Arguments for C = A times B transposed; A, B and C are bits of bfloat16."""
    maps = (TensorMap(x, box=(rows, 64), swizzle=128) for x, rows in ((a, rung.rows), (b, rung.columns)))
    return *maps, c, *(np.int32(x) for x in (*c.shape, a.shape[1]))


def grid(rung: Rung, size: int, gpu: machine.Gpu) -> int:
    tiles = size // rung.rows * (size // rung.columns)
    return min(tiles, gpu.multiprocessors) if rung.persistent else tiles


def is_right(rung: Rung, size: int = 512) -> bool:
    """Whether a small product of small integers is exact."""
    values = np.random.default_rng(1).integers(-2, 3, (2, size, size)).astype(np.float32)
    a, b = (values.view(np.uint32) >> 16).astype(np.uint16)
    c = np.zeros((size, size), np.uint16)
    gpu = machine.gpu(GPU)
    launch(program(rung), grid(rung, size, gpu), rung.threads, arguments(rung, a, b, c), shared_bytes=rung.shared_bytes,
           gpu=GPU)  # fmt: skip
    found = (c.astype(np.uint32) << 16).view(np.float32)
    return bool(np.allclose(found, values[0] @ values[1].T, rtol=2.0**-8))


def seconds(rung: Rung, size: int, clock_mhz: int | None = None) -> float:
    """The predicted time."""
    gpu = machine.gpu(GPU)
    zeros = [np.zeros((size, size), np.uint16) for _ in range(3)]
    blocks = grid(rung, size, gpu)
    request = LaunchRequest(program(rung), blocks, rung.threads, arguments(rung, *zeros), rung.shared_bytes, gpu=GPU)
    roles, run = looked_at(request, lambda first: (watched(first), first.run(Part(0), instruments())))
    seen = of_run(run, gpu, shared_bytes=rung.shared_bytes)
    assert roles is not None and seen.occupancy is not None
    work = workload.of_profile(seen, seen.occupancy.occupancy.active_blocks)
    work = replace(work.served(1.0, 1.0), blocks=blocks)  # A, B and C outgrow the cache
    work = replace(work, bulk_far=roles.far(work))
    return Model.of(program(rung), work, gpu, Deadline(), roles).time(work, clock_mhz or gpu.boost_mhz).seconds

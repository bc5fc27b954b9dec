"""Memory of the running blocks. The memory of a cluster's blocks is contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.simulate import state
from tilewright.simulate.code import LANES
from tilewright.simulate.run.arena import Arena
from tilewright.simulate.run.job import Job
from tilewright.simulate.run.observed import Observed


class Resident:
    """Memory of the resident blocks of one cluster: their slots' records, shared and local arenas, warps' records."""

    def __init__(self, job: Job, observed: Observed, blocks: int, warps: int) -> None:
        translation = job.ready.translation
        #: A row for each block, in the order of their ranks.
        self.records = np.zeros((blocks, state.SLOT_BYTES // 8), np.uint64)
        self._shared = Arena(((blocks - 1) << state.RANK_SHIFT) + max(job.shared_bytes, 16))
        self._warp_bytes = translation.warp_bytes * warps
        self._local_bytes = -(-translation.layout.local_bytes // 16) * 16 * LANES * warps
        self._tensor = translation.layout.has_tensor_memory
        self._kept = [self._place(observed, rank) for rank in range(blocks)]

    def _place(self, observed: Observed, rank: int) -> tuple[Any, ...]:
        """Fill a block's record; returns what it points to."""
        local, area = Arena(max(self._local_bytes, 16)), observed.area()
        table, warps = observed.table(area), np.zeros(self._warp_bytes + 64, np.uint8)
        tensor = Arena(state.TENSOR_BYTES) if self._tensor else None
        start, address = rank << state.RANK_SHIFT, self.address
        values = {
            "shared": self._shared.address + start,
            "shared_start": start,
            "target": address + rank * state.SLOT_BYTES,
            "arena": self._shared.address,
            "cluster": address,
            "local": local.address,
            "warp_records": warps.ctypes.data + -warps.ctypes.data % 64,
            "observed": table.ctypes.data,
            "observed_area": area.ctypes.data,
            "tensor": tensor.address if tensor is not None else 0,
        }
        for name, value in values.items():
            self.records[rank, state.SLOT[name] // 8] = value
        return local, area, table, warps, tensor

    def area_of(self, block: int) -> Any:
        """The instruments' memory of a block of the cluster."""
        numbers = self.records[:, state.SLOT["block"] // 8].tolist()
        return self._kept[numbers.index(block)][1]

    @property
    def address(self) -> int:
        """Host address of the first record."""
        return self.records.ctypes.data

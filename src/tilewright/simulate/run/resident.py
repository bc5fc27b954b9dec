"""Memory of the running blocks and of the instruments that observe them, and the Python functions that they call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.simulate import state
from tilewright.simulate.code import LANES
from tilewright.simulate.events import Facts, Instrument, Storage
from tilewright.simulate.run.allocations import Arena
from tilewright.simulate.run.job import Job
from tilewright.simulate.run.plan import WORDS

_ALIGNMENT_BYTES = 64
#: Memory of a cluster up to this size is used again by later launches.
_SMALL_BYTES = 64 << 10
_NO_WORDS, _NO_BYTES, _NO_STARTS = np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(1, np.int64)


class Observed:
    """The memory of a launch's instruments."""

    def __init__(self, instruments: Sequence[Instrument] = (), facts: Callable[[], Facts] | None = None) -> None:
        self._storages: list[Storage] = []  # addresses point into them
        self._behind = 0
        self.launch, self.initial, self._starts = _NO_WORDS, _NO_BYTES, _NO_STARTS
        if facts is None:
            return
        known = facts()
        self._storages = [instrument.begin(known) for instrument in instruments]
        #: Host address of each instrument's memory of the launch, 0 for none.
        self.launch = np.array([0 if s.launch is None else s.launch.ctypes.data for s in self._storages], np.uint64)
        sizes = [0 if s.block is None else s.block.nbytes for s in self._storages]
        behind = [storage.behind for storage in self._storages]
        order = np.argsort(behind, kind="stable")  # one with bytes behind it is last
        aligned = -(-np.array(sizes) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        self._starts, self._behind = np.full(len(sizes) + 1, aligned.sum()), sum(behind)
        self._starts[order] = np.cumsum(aligned[order]) - aligned[order]
        #: The initial memory of a block for all instruments, each part at a multiple of 64 bytes.
        self.initial = np.zeros(int(self._starts[-1]), np.uint8)
        for storage, start in zip(self._storages, self._starts[:-1], strict=True):
            if storage.block is not None:
                self.initial[start : start + storage.block.nbytes] = storage.block.view(np.uint8).reshape(-1)

    def area(self) -> npt.NDArray[np.uint8]:
        """Memory for one block at a time, aligned."""
        size = self.initial.nbytes + self._behind
        whole = np.zeros(size + _ALIGNMENT_BYTES, np.uint8)
        lead = -whole.ctypes.data % _ALIGNMENT_BYTES
        return whole[lead : lead + size]

    def parts(self, area: npt.NDArray[np.uint8]) -> list[npt.NDArray[np.uint8]]:
        """Each instrument's part of an area."""
        sizes = [0 if s.block is None else s.block.nbytes for s in self._storages]
        return [area[at : at + size] for at, size in zip(self._starts[:-1].tolist(), sizes, strict=True)]

    def table(self, area: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
        """The address of each instrument's part of an area."""
        return (self._starts[:-1] + area.ctypes.data).astype(np.uint64)


#: Without instruments.
UNOBSERVED = Observed()


class Callbacks:
    """Python functions that a launch's machine code calls.

    ctypes drops an error in such a function: it prints it and returns an arbitrary value. So the error goes to
    `failed`, which stops the launch, and the launch raises it. An interrupt could come before the first line that would
    keep it, so a launch with callbacks does not run on the main thread.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._kept: list[Any] = []

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self._kept)

    def address(self, function: Callable[..., int], arguments: int, otherwise: int) -> int:
        """Host address of a C function that calls a Python function; see `Facts.callback`."""

        def call(*values: int) -> int:
            try:
                return function(*values)
            except BaseException as error:
                self._failed(error)
                return otherwise

        made = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_int64,) * arguments)(call)
        self._kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0


class Resident:
    """Memory of the resident blocks of one cluster, contiguous: records of slots and warps, shared and local arenas."""

    def __init__(self, job: Job, observed: Observed, blocks: int, warps: int) -> None:
        translation = job.ready.translation
        #: A row for each block, in the order of their ranks.
        self.records = np.zeros((blocks, state.SLOT_BYTES // 8), np.uint64)
        self._shared = Arena(((blocks - 1) << state.RANK_SHIFT) + max(job.shared_bytes, 16))
        self._warp_bytes = translation.warp_bytes * warps
        self._local_bytes = -(-translation.layout.local_bytes // 16) * 16 * LANES * warps
        self._block_bytes = self._warp_bytes + self._local_bytes
        self._tensor = translation.layout.has_tensor_memory
        self._kept = [self._place(observed, rank) for rank in range(blocks)]
        self._fresh = self.records.copy()
        self.address = self.records.ctypes.data  #: Host address of the first record.
        #: Whether it is cheaper to make it new again than to make another.
        self.is_small = not self._tensor and self._shared.size_bytes + blocks * self._block_bytes <= _SMALL_BYTES

    def renew(self) -> None:
        """Make it as it was when new: no kernel reads what another one left."""
        self.records[:] = self._fresh
        for local, _, _, warps, _ in self._kept:
            ctypes.memset(local.address, 0, local.size_bytes)
            warps[:] = 0

    def _place(self, observed: Observed, rank: int) -> tuple[Any, ...]:
        """Fill a block's record; returns what it points to."""
        local, area = Arena(max(self._local_bytes, 16)), observed.area()
        table, warps = observed.table(area), np.zeros(self._warp_bytes + 64, np.uint8)
        tensor = Arena(state.TENSOR_BYTES) if self._tensor else None
        start, address = rank << state.RANK_SHIFT, self.records.ctypes.data
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


class Seat:
    """What a host thread of a launch begins with: its context record, and the memory of its first cluster.

    The first one of a launch also has what all its threads share. `record` is the context record, and then counters and
    parameters.
    """

    def __init__(self, memory: Resident, counters: int, param_bytes: int) -> None:
        self.record = np.zeros(WORDS + counters + -(-param_bytes // 8), np.uint64)
        self.words = self.record.data  #: The same, as integers of Python.
        self.memory = memory
        self.address = self.record.ctypes.data
        self.params_address = self.address + 8 * (WORDS + counters)
        #: Shared by all threads: whether to stop, and the number of the next cluster.
        self.stop, self.next = ctypes.c_int32(), ctypes.c_uint64()
        self.known: Any = None  #: What the kept record depends on.
        self._bytes = self.record.view(np.uint8).data
        self._kept = b""
        self._is_new = True

    def begin(self, params: bytes, first: int) -> None:
        """Make everything as it was when new, with these parameters; `first` is the number of the first cluster."""
        if not self._is_new:
            self._bytes[: len(self._kept)] = self._kept
            self.memory.renew()
        self._is_new = False
        at = self.params_address - self.address
        self._bytes[at : at + len(params)] = params
        self.stop.value, self.next.value = 0, first

    def keep(self, known: Any) -> None:
        """Keep the context record, filled and not yet used, for later launches."""
        self.known, self._kept = known, self._bytes[: 8 * WORDS].tobytes()

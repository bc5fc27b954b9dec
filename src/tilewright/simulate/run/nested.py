"""Launches by kernels (dynamic parallelism): they run as separate launches after the kernel's grid has ended.

A grid writes records into a queue, with the PTX of `simulate/programs/device_ptx/launches.ptx`. The host runs them one
after another in the order in which they were written. A launch's own launches run before the next launch. All streams
and events allow this order. Launches, copies and fills in the tail stream run after all others of their grid. A kernel
can write anything into its queue, so the host checks everything that it reads there.

Source: CUDA C++ Programming Guide, "CUDA Dynamic Parallelism" (version 2: order, tail launches, 24 levels, 2,048
pending launches); the fields are those that `launches.ptx` reads and writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import KernelError, LaunchError, LimitError
from tilewright.ground.native.memo import bounded
from tilewright.simulate.observer import Launch, Observer, Rows, Run
from tilewright.simulate.programs.device_runtime import LAUNCHES
from tilewright.simulate.programs.launch_rules import broken
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.programs.program import Program
from tilewright.simulate.ptx import tree
from tilewright.simulate.run.job import Placed
from tilewright.simulate.run.memory import Memory
from tilewright.simulate.run.observed_launch import observed
from tilewright.simulate.translate.analysis.layout import align_up, lay_out

#: Pending launches of a grid, unless the program sets more; and levels of nested launches.
PENDING, LEVELS = 2048, 24
#: The most pending launches that a program may set; and the most bytes of a queue, and of all pending work.
PENDING_MAX, QUEUE_BYTES_MAX = 1 << 20, 128 << 20
_TAIL_STREAM = 3
_ERRORS, _ERROR_BYTES = 1024, 16
_HEADER = np.dtype([
    ("base", "<u8"), ("record_bytes", "<u4"), ("records", "<u4"), ("taken", "<u4"), ("queued", "<u4"), ("level", "<u4"),
    ("levels", "<u4"), ("errors", "<u4"), ("handles", "<u4"), ("errors_at", "<u8"), ("shared_most", "<u4"),
    ("unused", "<u4", 3),
])  # fmt: skip
_RECORD = np.dtype([
    ("kernel", "<u8"), ("grid", "<u4", 3), ("block", "<u4", 3), ("shared", "<u4"), ("order", "<u4"), ("stream", "<u8"),
    ("unused", "<u8", 2),
])  # fmt: skip
#: A record's kernel number if it is a copy or a fill of memory.
_COPY, _FILL = 2**64 - 1, 2**64 - 2


def room_bytes(program: Program, pending: int = PENDING) -> int:
    """Bytes of the queue of one grid; 0 if no kernel of the program's module launches.

    Raises LaunchError: it is larger than a queue may be.
    """
    if not program.launches_kernels:
        return 0
    record_bytes, _ = _queue(program.ptx)
    size = pending * record_bytes + _ERRORS * _ERROR_BYTES
    if size > QUEUE_BYTES_MAX:
        raise LaunchError(
            f"{program.module.path}: the queue of the launches that a kernel makes must take at most "
            f"{QUEUE_BYTES_MAX:,} bytes (got {size:,}, for {pending:,} launches of {record_bytes:,} bytes); set a "
            "smaller `cudaLimitDevRuntimePendingLaunchCount`, or give the kernels fewer bytes of parameters"
        )
    return size


@bounded(16)
def _queue(ptx: str) -> tuple[int, int]:
    """Bytes of a record with its parameters, for the kernel with the most; and the header's offset in the module."""
    module = parsed(ptx)
    most = max((lay_out(module, entry).param_bytes for entry in module.entries), default=0)
    header_at = lay_out(module, tree.Function("", is_entry=True)).places[LAUNCHES][1]
    return _RECORD.itemsize + align_up(max(most, 24), 16), header_at


@dataclass(frozen=True)
class Device:
    """The device of a launch and of its nested launches, which have no workspace and parameter blocks of their own."""

    placed: Placed  #: Of the first launch.
    observers: Sequence[Observer]
    program: Callable[[str], Program]  #: The program of a kernel, by its PTX name.
    #: `allocate`, `free`: memory for queues, with the observers' knowledge.
    allocate: Callable[[int], int]
    free: Callable[[int], None]
    next_index: Callable[[str], int] = lambda kernel: 0  #: The number of a nested launch, by the kernel's name.
    pending: int = PENDING
    partly: bool = False  #: Whether an observer may leave out blocks; see `Observer.launching`.

    @property
    def memory(self) -> Memory:
        """Its memory."""
        return self.placed.memory

    def wrote(self, address: int, size_bytes: int) -> None:
        """Report to observers that the host wrote memory."""
        for observer in self.observers:
            observer.host_wrote(address, size_bytes)

    def copied(self, source: Rows, target: Rows) -> None:
        """Report to observers that rows were copied."""
        for observer in self.observers:
            observer.copied(source, target)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A pending launch, copy or fill that a kernel queued."""

    parent: Launch
    level: int  #: Level of the grid that it makes.
    record: Any
    parameters: bytes


@dataclass(slots=True)
class _Family:
    """A launch by the host, and all nested launches."""

    first: Launch
    device: Device
    runs: list[Run] = field(default_factory=list)
    spent: int = 0  #: Warp instructions of the runs.
    began_s: float = field(default_factory=time.monotonic)

    def complete(self, values: Sequence[bytes]) -> None:
        """Run the first launch and then the queued work, depth first."""
        waiting = self._one(self.first, values, 0)
        most = QUEUE_BYTES_MAX // _queue(self.first.program.ptx)[0]
        while waiting:
            if len(waiting) > most:
                raise self._wrong(
                    self.first,
                    f"what its kernels queue must take at most {QUEUE_BYTES_MAX:,} bytes while it waits (got "
                    f"{len(waiting):,} launches and copies); launch fewer at once",
                )
            one = waiting.pop()
            self._left()
            if int(one.record["kernel"]) in (_COPY, _FILL):
                self._move(one)
            else:
                waiting += self._one(*self._launch(one), one.level)

    def _one(self, about: Launch, values: Sequence[bytes], level: int) -> list[_Waiting]:
        """Run one grid; returns its queued work in reverse order."""
        device, size = self.device, room_bytes(about.program, self.device.pending)
        placed = device.placed if about is self.first else replace(device.placed, params_address=0, workspace=0)
        record_bytes, header_at = _queue(about.program.ptx)
        at = placed.module_base + header_at
        header = device.memory.view(at, _HEADER.itemsize).view(_HEADER)
        queue = device.allocate(size)
        try:
            device.memory.clear(queue, size)  # clearing uses no host memory, so only used bytes do
            header[0] = (
                queue, record_bytes, device.pending, 0, 0, level, LEVELS, 0, 0, queue + device.pending * record_bytes,
                about.gpu.shared_per_block_optin_bytes, 0,
            )  # fmt: skip
            device.wrote(queue, size)
            device.wrote(at, _HEADER.itemsize)
            try:
                run = observed(about, values, placed, device.observers, partly=device.partly)
            except KernelError as error:
                if isinstance(error, LimitError) and self.runs:
                    raise self._passed() from error
                error.printed = "".join(run.printed for run in self.runs) + error.printed
                raise
            self.runs.append(run)
            self.spent += run.warp_instructions
            if run.part is not None:  # only some blocks ran, and their effects were undone
                return []
            taken = min(int(header["taken"][0]), device.pending)
            rows = device.memory.view(queue, taken * record_bytes).reshape(taken, record_bytes).copy()
        finally:
            header[0] = 0
            device.free(queue)
        return self._queued(about, level, rows)

    def _queued(self, about: Launch, level: int, rows: npt.NDArray[np.uint8]) -> list[_Waiting]:
        """The work in the records of a grid's queue, in reverse order.

        Raises KernelError: a grid of that level cannot have queued them.
        """
        records = rows[:, : _RECORD.itemsize].copy().view(_RECORD)[:, 0]
        order = [int(i) for i in np.argsort(records["order"], kind="stable")[::-1] if records["order"][i]]
        if order and level >= LEVELS:
            raise self._wrong(
                about,
                f"launches by kernels must be nested at most {LEVELS} levels deep (got one of level {level + 1}); its "
                "record was overwritten",
            )
        is_tail = records["stream"] == _TAIL_STREAM
        return [
            _Waiting(about, level + (not tail), records[i], rows[i, _RECORD.itemsize :].tobytes())
            for tail in (True, False)
            for i in order
            if is_tail[i] == tail
        ]

    def _launch(self, one: _Waiting) -> tuple[Launch, list[bytes]]:
        """The launch in a record, and the bytes of its parameters.

        Raises KernelError: the record is not a valid launch.
        """
        parent, record = one.parent, one.record
        module = parent.program.module
        names, number = list(module.functions), int(record["kernel"]) - 1
        grid, block = _extents(record["grid"]), _extents(record["block"])
        fits = not any(broken(parent.gpu, grid, block, 0, int(record["shared"])))
        fits &= 0 <= number < len(names) and names[number] in {entry.name for entry in module.entries}
        if not fits:
            raise self._wrong(
                parent,
                "a launch by the kernel must name a kernel of its module, and extents and shared memory that the GPU "
                f"has (got function {number + 1}, grid {grid}, block {block}, {int(record['shared']):,} shared bytes); "
                "its record was overwritten",
            )
        program, values, end = self.device.program(names[number]), [], 0
        for parameter in program.parameters:
            start = align_up(end, parameter.align)
            end = start + parameter.bytes
            values.append(one.parameters[start:end].ljust(parameter.bytes, b"\0"))
        made = replace(
            parent, name=program.name, program=program, grid=grid, block=block, shared_bytes=int(record["shared"]),
            arguments=(), index=self.device.next_index(program.name), cooperative=False, cluster=None,
            limits=self._left(), allowed_shared_bytes=None, written=None,
        )  # fmt: skip
        return made, values

    def _left(self) -> Any:
        """The rest of the first launch's limits, which also apply to its nested launches."""
        limits = self.first.limits
        spent_s, spent = time.monotonic() - self.began_s, self.spent
        if self._is_late(spent_s) or spent >= (limits.instructions or spent + 1):
            raise self._passed()
        seconds = None if limits.seconds is None else limits.seconds - spent_s
        return replace(
            limits, seconds=seconds, instructions=None if limits.instructions is None else limits.instructions - spent
        )

    def _is_late(self, spent_s: float) -> bool:
        seconds = self.first.limits.seconds
        return seconds is not None and spent_s >= seconds

    def _passed(self) -> LimitError:
        """The error of a launch that passed a limit with what its kernels launched."""
        limits, printed = self.first.limits, "".join(run.printed for run in self.runs)
        late = self._is_late(time.monotonic() - self.began_s)
        limit = f"{limits.seconds:g} seconds" if late else f"{limits.instructions:,} warp instructions"
        return LimitError(
            f"{self.first.name}: passed its limit of {limit} with what its kernels launched, "
            f"{len(self.runs):,} grids so far; they may launch each other for ever, or need a higher limit",
            kernel=self.first.name, printed=printed,
        )  # fmt: skip

    def _wrong(self, about: Launch, summary: str) -> KernelError:
        """The error of a grid whose queue is invalid."""
        printed = "".join(run.printed for run in self.runs)
        return KernelError(f"{about.name}: {summary}", kernel=about.name, printed=printed)

    def _move(self, one: _Waiting) -> None:
        """Copy or fill memory within one allocation.

        Raises KernelError: the bytes are not within one allocation.
        """
        kind = int(one.record["kernel"])
        target, what, size = (int.from_bytes(one.parameters[at : at + 8], "little") for at in (0, 8, 16))
        memory = self.device.memory
        for address in (target, what) if kind == _COPY else (target,):
            extent = memory.extent(address)
            if size and (extent is None or address + size > sum(extent)):
                raise self._wrong(
                    one.parent, "a copy or fill by a kernel must be inside one allocation of device memory "
                    f"(got {size:,} bytes at address {address:#x})",
                )  # fmt: skip
        if not size:
            return
        if kind == _COPY:
            memory.view(target, size)[:] = memory.view(what, size)  # NumPy handles overlap
            self.device.copied(Rows(what, 1, size, size), Rows(target, 1, size, size))
        else:
            memory.view(target, size)[:] = what & 0xFF
            self.device.wrote(target, size)


def _extents(of: Any) -> tuple[int, int, int]:
    x, y, z = (int(extent) for extent in of)
    return x, y, z


def run_with_launches(about: Launch, values: Sequence[bytes], device: Device) -> Run:
    """Run a launch once with all its observers, and then its nested launches.

    Returns the run of the first, with the output of all.

    Raises LaunchError, PtxError, KernelError: as the launches do; observers have got it before.
    """
    if not about.program.launches_kernels:
        return observed(about, values, device.placed, device.observers, partly=device.partly)
    family = _Family(about, device)
    family.complete(values)
    return replace(family.runs[0], printed="".join(run.printed for run in family.runs))

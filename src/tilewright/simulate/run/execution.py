"""Running a ready kernel's blocks on host threads."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import KernelError, OutOfMemoryError
from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.ground.native.pages import stack_bytes
from tilewright.ground.settings import host_threads
from tilewright.simulate import state
from tilewright.simulate.code import LANES
from tilewright.simulate.events import Facts
from tilewright.simulate.launch_request import UNLIMITED
from tilewright.simulate.machine.host_memory import MemoryGuard
from tilewright.simulate.machine.occupancy import most_resident
from tilewright.simulate.run.compiler import host
from tilewright.simulate.run.crew import PRINT_BYTES, Budget, Shift, order_of
from tilewright.simulate.run.diagnosis import Diagnosis, number_of
from tilewright.simulate.run.grid_barrier import GridBarrier
from tilewright.simulate.run.job import Job, Placed
from tilewright.simulate.run.kernels import ReadyKernel
from tilewright.simulate.run.printing import Printout
from tilewright.simulate.run.resident import Callbacks, Observed, Resident
from tilewright.simulate.run.turns import start_worker, warp_turns
from tilewright.simulate.translate.analysis.layout import RESERVED
from tilewright.simulate.translate.translation import QUANTUM, SPIN_QUANTUM

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
#: Blocks of a host thread that may wait at the same time, each with its own memory, if blocks wait for blocks; more if
#: a GPU would hold more of them.
RESIDENT_MAX = 1024
#: The same where blocks do not wait for blocks, and only give way to them before strong accesses.
_GIVING_WAY = 32
#: Host threads of a kernel whose called functions may wait for other blocks: so many of its blocks run at once.
_WAITING_THREADS = 256
_POLL_SECONDS = 0.02
#: Warp instructions that the calling thread runs before it starts others: well under a millisecond. A launch that ends
#: by then waits for no thread; a busy host takes milliseconds to wake one.
_QUICK_INSTRUCTIONS = 300_000
#: Warp instructions of other launches before more threads join: so the first of several early failures is reported.
_ALONE_INSTRUCTIONS = 10_000
#: A warp's turn if instruments call Python: then 32 lanes of one instruction take a millisecond, and limits must hold.
_CALLING_QUANTUM = 1_000
#: The same of a launch that can take more memory than `_LARGE_BYTES`. An instruction can make 32 pages, so a turn takes
#: half a gigabyte at most. Instruments keep so many bytes for each byte of memory.
_LARGE_QUANTUM = 4_000
_LARGE_BYTES = 1 << 30
_OBSERVED_BYTES = 8
#: Longest PTX that the calling thread runs, about 2,000 instructions with a frame of a few hundred KB; and the stack
#: that it needs for this.
_QUICK_PTX_CHARACTERS = 1 << 16
_QUICK_STACK_BYTES = 4 << 20
#: The bytes of fresh shared memory: a NaN as float32, -1 as int32.
SHARED_FILL = 0xFF
#: Words of a context record, and the number of each.
_WORDS = state.CONTEXT_BYTES // 8
_AT = {name: offset // 8 for name, offset in state.CONTEXT.items()}
#: Shapes of launches that a kernel knows at once, and how many host threads' memory of one waits to be used again.
_PLANS, _LEFT = 4, 2


@functools.lru_cache(maxsize=4)
def _function(address: int) -> Any:
    """The scheduler as a function."""
    return _RUN(address)


class _Plan:
    """What all launches of one kernel and shape have in common, and memory that they left to later ones."""

    def __init__(self, execution: Execution) -> None:
        job, launch, translation = execution.job, execution.launch, execution.job.ready.translation
        self.order = order_of(execution.clusters, execution.warps, launch.seed, launch.part)
        self._rules = state.tensor_rules(launch.gpu.compute_capability)
        ways = self.order.ways if job.gives_way else 0
        values = {
            "tensor_rules": self._rules.ctypes.data,
            "clusters": execution.clusters,
            "order_factor": self.order.factor,
            "order_shift": self.order.shift,
            **dict(zip(("grid_x", "grid_y", "grid_z"), launch.grid, strict=True)),
            **dict(zip(("cluster_x", "cluster_y", "cluster_z"), launch.cluster or (1, 1, 1), strict=True)),
            "cluster_blocks": execution.cluster_blocks,
            "warps": execution.warps,
            "threads": execution.threads,
            "warp_bytes": translation.warp_bytes,
            "warp_order": self.order.warps.ctypes.data,
            "points": translation.points,
            "shared_bytes": job.shared_bytes,
            "shared_fill": SHARED_FILL,
            "reserved_offset": translation.layout.places.get(RESERVED, ("shared", 0))[1],
            "reserved_bytes": translation.layout.sizes.get(RESERVED, 0),
            "may_stall": int((translation.spins or bool(ways)) and execution.clusters > 1),
            "ways": ways,
            "ways_drawn": self.order.drawn,
            "call_depth": launch.limits.call_depth,
            "dynamic_shared_bytes": launch.shared_bytes,
        }
        self.words = [0] * _WORDS
        for name, value in values.items():
            self.words[_AT[name]] = value
        self._left: list[tuple[Any, Resident]] = []

    def leave(self, record: Any, memory: Resident) -> None:
        """Keep a host thread's context record and memory for a later launch, if they are small."""
        if memory.is_small and len(self._left) < _LEFT:
            self._left.append((record, memory))

    def taken(self) -> tuple[Any, Resident] | None:
        """A context record, and memory as it was when new; None if none is left."""
        try:
            record, memory = self._left.pop()
        except IndexError:
            return None
        record[_WORDS:] = 0
        memory.renew()
        return record, memory


def _plan_of(execution: Execution) -> _Plan:
    """The plan of a launch: of an earlier one, or made now."""
    job, launch = execution.job, execution.launch
    key = (
        launch.grid, launch.block, launch.cluster, launch.seed, launch.part, launch.limits.call_depth,
        launch.gpu.compute_capability, launch.shared_bytes, job.shared_bytes, job.gives_way,
    )  # fmt: skip
    plans: dict[Any, _Plan] = job.ready.plans
    found = plans.get(key)
    if found is None:
        found = _Plan(execution)
        if len(plans) >= _PLANS:
            plans.clear()
        plans[key] = found
    return found


class Execution:
    """A running launch."""

    def __init__(self, job: Job, placed: Placed) -> None:
        launch, ready = job.launch, job.ready
        self.job, self.launch, self.placed = job, launch, placed
        self.threads = math.prod(launch.block)
        self.warps = -(-self.threads // LANES)
        self.blocks, self.cluster_blocks = math.prod(launch.grid), math.prod(launch.cluster or ())
        self.clusters = self.blocks // self.cluster_blocks
        self.grid_barrier = GridBarrier(placed.memory, placed.workspace, self.blocks) if placed.workspace else None
        self._plan = _plan_of(self)
        self._order = self._plan.order
        self._ways = self._order.ways if job.gives_way else 0
        self._resident = RESIDENT_MAX if ready.translation.spins else _GIVING_WAY
        if ready.translation.spins and self.blocks > RESIDENT_MAX:
            self._resident = max(RESIDENT_MAX, most_resident(self.threads))
        self._resident = -(-self._resident // self.cluster_blocks)
        self._first = self.clusters - launch.part.count if launch.part else 0  # place of the first cluster in the order
        # A called function cannot pause, so a block that may wait for others inside one has a host thread of its own.
        self._calls = ready.calls
        self._waits_in_calls = bool(self._calls and ready.translation.waits_for_blocks)
        workers = 1 if job.gives_way else launch.limits.threads or host_threads()
        workers = max(workers, _WAITING_THREADS) if self._waits_in_calls else workers
        self.workers = min(workers, self.clusters - self._first)
        self._used_bytes = placed.memory.used_bytes
        self.budget = Budget(launch.limits.instructions or UNLIMITED, self.workers)
        self.warp_instructions = 0
        self._stop = ctypes.c_int32()
        self._next = ctypes.c_uint64(self._first)
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        translation = ready.translation
        self._counter_count = translation.tallies
        for instrument, rows in zip(job.instruments, translation.counter_rows, strict=True):
            self._counter_count += instrument.slots * len(rows)
        self._counters = np.zeros(self._counter_count, np.uint64)
        self._printout = Printout() if translation.prints else None
        self._callbacks = Callbacks(self._fail)
        self._turns = None
        if translation.waits_in_calls:
            self._turns = warp_turns(ready.address, self.warps, self._blocks_at_once, self._callbacks.address)
        self._better: ReadyKernel | None = None
        self._contexts: list[np.ndarray[Any, np.dtype[np.uint64]]] = []  # of all host threads
        self.observed = Observed(job.instruments, self._facts)
        self._guard: MemoryGuard | None = None
        seconds = launch.limits.seconds
        self._deadline = time.monotonic() + seconds if seconds is not None else None

    def run(self) -> None:
        """Run all blocks; returns when the grid is finished.

        Raises KernelError: what went wrong first.
        """
        with DeferredSigint() as interrupt:
            try:
                self._run(interrupt)
            finally:
                if self._turns is not None:
                    self._turns.end()
        if self._failure is not None:
            raise self._failure
        if self.budget.passed:  # in the last rounds
            raise self._diagnosis.stopped(self.blocks - 1)

    def _run(self, interrupt: DeferredSigint) -> None:
        """Run all blocks, or stop at an interrupt or a failure."""
        shift = self._shift()
        if self._is_small():
            self._safe_work(shift.pause_after(_QUICK_INSTRUCTIONS // self.job.ready.translation.slowness))
            if self._reuses and not shift.slots and self._failure is None:
                self._plan.leave(shift.context, shift.first)
        elif self.workers > 1 and not self._waits_in_calls:
            self._run_crew(shift.pause_after(_ALONE_INSTRUCTIONS), 1, interrupt)
        if shift.slots and self._failure is None:
            self._run_crew(shift.pause_after(None), self.workers, interrupt)

    def _shift(self) -> Shift:
        """A host thread's state, with the memory of its first cluster."""
        printed = np.zeros(PRINT_BYTES // 8, np.uint64) if self.job.ready.translation.prints else None
        left = self._plan.taken() if self._reuses else None
        if left is None:
            record, memory = np.zeros(_WORDS + max(self._counter_count, 1), np.uint64), self._cluster_memory()
        else:
            record, memory = left
            if self.grid_barrier is not None:
                self.grid_barrier.entered(self.cluster_blocks)
        return Shift(self._context(record, printed), memory, self.budget.share(), self._quantum, printed)

    @property
    def _reuses(self) -> bool:
        """Whether a host thread may take over the memory of an earlier launch of this shape."""
        return not (self.job.instruments or self.job.ready.translation.prints)

    def blocks_done(self) -> int:
        """A lower bound of the blocks that have ended: those that started, minus one cluster for each host thread."""
        return max(0, min(self._next.value, self.clusters) - self._first - self.workers) * self.cluster_blocks

    def stopped_by_hand(self) -> KernelError:
        """The place where Ctrl-C ended the launch, if a host thread reported one."""
        failure = self._failure
        return failure if isinstance(failure, KernelError) else KernelError(f"{self.launch.name}: stopped")

    def _is_small(self) -> bool:
        """Whether the calling thread may run it: its frame and memory are small, and no instrument calls Python."""
        return (
            not self._is_large
            and stack_bytes() >= _QUICK_STACK_BYTES
            and not self._calls
            and not self._callbacks.any
            and len(self.launch.program.ptx) <= _QUICK_PTX_CHARACTERS
        )

    @property
    def _blocks_at_once(self) -> int:
        """The most blocks whose memory is there at the same time."""
        clusters = self.workers * (self._resident if self.job.ready.translation.spins or self._ways else 1)
        return min(self.blocks, clusters * self.cluster_blocks)

    @functools.cached_property
    def _is_large(self) -> bool:
        """Whether it may take so much of the host's memory that its threads must often look whether they may go on."""
        layout = self.job.ready.translation.layout
        records = self.warps * self.job.ready.translation.warp_bytes
        of_block = layout.local_bytes * self.threads + self.job.shared_bytes + records
        of_byte = 1 + _OBSERVED_BYTES if self.job.instruments else 1
        taken = self._blocks_at_once * of_block + self._used_bytes * of_byte
        return taken > _LARGE_BYTES

    def _run_crew(self, shift: Shift, workers: int, interrupt: DeferredSigint) -> None:
        """Run on new host threads, of which the first continues a shift; wait for them, and handle Ctrl-C."""
        crew: list[threading.Event] = []
        if not self._enlist(crew, shift):
            raise MemoryError(f"{self.launch.name}: the host cannot allocate a thread's stack")
        while len(crew) < workers and self._enlist(crew, None):
            pass
        try:
            for done in crew:
                while not done.wait(_POLL_SECONDS):
                    self._improve()
                    if interrupt.came or (self._deadline is not None and time.monotonic() > self._deadline):
                        self._stop.value = 1
                    self._look_at_memory()
        except BaseException:  # stop every thread first: memory in use must not be released
            self._stop.value = 1
            for done in crew:
                done.wait()
            raise

    def _look_at_memory(self) -> None:
        """Stop the launch if it has used up the host's memory. A short launch ends before the first look."""
        self._guard = self._guard or MemoryGuard(self.placed.memory.allocated_bytes)
        if shortage := self._guard.shortage():
            remedy = "use less global or local memory, or fewer blocks that wait for each other"
            self._fail(OutOfMemoryError(f"{self.launch.name}: a launch must leave {shortage}; {remedy}"))

    def _enlist(self, crew: list[threading.Event], shift: Shift | None) -> bool:
        """Start a thread that runs blocks; False if the host cannot start one.

        Its end sets an event, which joins the crew. `Thread.join` does not work here: if Ctrl-C interrupts it, Python
        3.11 considers a running thread ended (`threading.Thread._wait_for_tstate_lock`).
        """
        done = threading.Event()

        def work() -> None:
            try:
                self._safe_work(shift)
            finally:
                done.set()

        started = start_worker(work)
        if started:
            crew.append(done)
        return started

    def _safe_work(self, shift: Shift | None) -> None:
        """Run blocks, in the given shift or a new one; any error is raised to the caller of the launch."""
        try:
            self._work(shift or self._shift().pause_after(None))
        except BaseException as error:
            self._fail(error)

    def _work(self, shift: Shift) -> None:
        """Run blocks on this thread until none is left, or until the shift pauses, with slots left."""
        context, slots = shift.context, shift.slots
        run, address = _function(host().runtime.addresses["tw_run"]), context.ctypes.data
        while True:
            code = run(address, slots[shift.current].address)
            if code == state.FINISHED:
                slots.pop(shift.current)
                if self.grid_barrier is not None:
                    self.grid_barrier.left(self.cluster_blocks)
                if not slots:
                    break
                shift.current %= len(slots)
            elif code == state.STALLED:
                if self.grid_barrier is not None and self.grid_barrier.is_stuck(self._next.value * self.cluster_blocks):
                    self._stop.value = 1
                    continue  # the block stops at once, and reports where it waits
                shift.current = self._next_slot(slots, shift.current)
            elif code != state.PAUSED:
                shift.share.report(shift.spent)
                found = self._diagnosis.fault(code, context, slots[shift.current].records, shift.prints())
                self._fail(found, slots[shift.current])
                break
            if self._stop.value or not shift.may_go_on(self._asked_to_stop):
                self._fail(self._diagnosis.stopped(shift.block_at_work(), context))
                break
            if shift.paused:
                return
        with self._lock:
            shift.share.close(shift.spent)
            self.warp_instructions += shift.spent
            if self._counter_count:
                self._counters += self._thread_counters(context)
            if self._printout is not None:
                self._printout.add(shift.prints(), shift.lost_lines, self.launch.name)

    def _cluster_memory(self) -> Resident:
        """Memory for the blocks of one more cluster."""
        if self.grid_barrier is not None:
            self.grid_barrier.entered(self.cluster_blocks)
        return Resident(self.job, self.observed, self.cluster_blocks, self.warps)

    def _next_slot(self, slots: list[Resident], current: int) -> int:
        """The cluster to go on with when one stalls: a fresh one if there are any, else the next in turn."""
        if current == len(slots) - 1 and len(slots) < self._resident and self._next.value < self.clusters:
            slots.append(self._cluster_memory())
            return len(slots) - 1
        return (current + 1) % len(slots)

    def _context(self, record: npt.NDArray[np.uint64], printed: Any) -> npt.NDArray[np.uint64]:
        """Fill a context record for one host thread; its counters come after it in the same array."""
        placed, observed = self.placed, self.observed
        host_address = placed.memory.host_address
        words = self._plan.words.copy()
        words[_AT["global_base"]] = host_address
        words[_AT["global_limit"]] = self._used_bytes
        words[_AT["module_base"]] = placed.module_base
        words[_AT["params"]] = host_address + placed.params_address - state.GLOBAL_BASE
        words[_AT["params_address"]] = placed.params_address
        words[_AT["counters"]] = record.ctypes.data + state.CONTEXT_BYTES
        words[_AT["stop"]] = ctypes.addressof(self._stop)
        words[_AT["next_cluster"]] = ctypes.addressof(self._next)
        words[_AT["quantum"]] = self._quantum
        words[_AT["warp_function"]] = (self._turns or self._better or self.job.ready).address
        if self.job.instruments:
            words[_AT["observed_launch"]] = observed.launch.ctypes.data
            words[_AT["observed_initial"]] = observed.initial.ctypes.data
            words[_AT["observed_bytes"]] = observed.initial.nbytes
        if self.grid_barrier is not None:
            words[_AT["grid_workspace"]] = self.grid_barrier.workspace
        if printed is not None:
            words[_AT["print_buffer"]], words[_AT["print_bytes"]] = printed.ctypes.data, printed.nbytes
        record[:_WORDS] = words
        self._contexts.append(record)
        return record

    def _improve(self) -> None:
        """Run warps in better code from their next turn on, once it is ready."""
        if self.job.improvement is not None and self._better is None:
            self._better = self.job.improvement.found()
            if self._better is not None:
                for record in list(self._contexts):
                    record[state.CONTEXT["warp_function"] // 8] = self._better.address

    @functools.cached_property
    def _quantum(self) -> int:
        """Instructions that a warp may run at a time: all warps of a cluster together run one portion."""
        translation = self.job.ready.translation
        spins = translation.spins or self._turns is not None
        usual = min(SPIN_QUANTUM if spins else QUANTUM, QUANTUM // translation.slowness)
        if self._callbacks.any and self._turns is None:
            usual = min(usual, _CALLING_QUANTUM)
        if self._is_large:
            usual = min(usual, _LARGE_QUANTUM)
        return max(1, min(usual, self.budget.portion // (self.warps * self.cluster_blocks)))

    def _facts(self) -> Facts:
        """The facts of the launch for instruments."""
        launch, memory = self.launch, self.placed.memory
        return Facts(
            launch.program.module, launch.program.entry, self.job.ready.translation.layout, launch.grid,
            launch.block, self.cluster_blocks, self.job.shared_bytes, launch.shared_bytes, memory.used_bytes,
            self.placed.module_base, memory.host_address, self.placed.params_address, self.job.param_bytes,
            self._callbacks.address,
        )  # fmt: skip

    def _thread_counters(self, context: Any) -> Any:
        return context[state.CONTEXT_BYTES // 8 :][: self._counter_count]

    # -- errors ----------------------------------------------------------------------------------------

    def _fail(self, error: BaseException, at_work: Resident | None = None) -> None:
        """Keep the first failure, or one of its kind that has a line, and stop the other threads.

        A block that was stopped just after it started has no line.

        Failures that the kernel did not cause take precedence: an interrupt, or lack of host memory.
        """
        with self._lock:
            kept = self._failure
            ours = kept is not None and not isinstance(kept, KernelError)
            if kept is None or not (ours or isinstance(error, KernelError)):
                self._failure = error
            elif isinstance(kept, KernelError) and type(error) is type(kept) and error.line and not kept.line:
                self._failure = error
            if error is self._failure and at_work is not None and isinstance(error, KernelError) and error.block:
                area = at_work.area_of(number_of(error.block, self.launch.grid))
                for instrument, part in zip(self.job.instruments, self.observed.parts(area), strict=True):
                    instrument.failed(error, part)
        self._stop.value = 1

    @property
    def _diagnosis(self) -> Diagnosis:
        """The data for this launch's errors."""
        return Diagnosis(self.job, self.placed, self.budget, self.grid_barrier, self._deadline, self._turns is not None)

    def _asked_to_stop(self) -> bool:
        return bool(self._stop.value)

    # -- results --------------------------------------------------------------------------------------

    def results(self) -> list[Any]:
        """Each instrument's result, in the order of the job's instruments."""
        found: list[Any] = []
        translation = self.job.ready.translation
        at = translation.tallies
        tallies = self._counters[:at]
        each = zip(self.job.instruments, translation.counter_rows, translation.multiples, strict=True)
        for instrument, rows, multiples in each:
            count = instrument.slots * len(rows)
            counters = self._counters[at : at + count].reshape(len(rows), instrument.slots).copy()
            if multiples:
                added = np.array(multiples, np.uint64)
                counters[added[:, 0]] += tallies[added[:, 1], None] * added[:, 2:]
            found.append(instrument.collect([translation.sites[r] for r in rows], counters))
            at += count
        return found

    def printed(self) -> str:
        """What the kernel printed, block by block."""
        return "" if self._printout is None else self._printout.text()

"""Running a ready kernel's blocks on host threads."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from typing import Any

import numpy as np

from tilewright.errors import KernelError, OutOfMemoryError
from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.ground.native.pages import stack_bytes
from tilewright.ground.progress import announced
from tilewright.ground.settings import host_threads
from tilewright.simulate import state
from tilewright.simulate.events import Facts
from tilewright.simulate.launch_request import UNLIMITED
from tilewright.simulate.machine.host_memory import MemoryGuard
from tilewright.simulate.run.compiler import host
from tilewright.simulate.run.crew import PRINT_BYTES, QUICK_QUANTUM, Budget, Shift
from tilewright.simulate.run.diagnosis import Diagnosis, number_of
from tilewright.simulate.run.grid_barrier import GridBarrier
from tilewright.simulate.run.job import Job, Placed
from tilewright.simulate.run.kernels import ReadyKernel
from tilewright.simulate.run.plan import AT
from tilewright.simulate.run.printing import Printout
from tilewright.simulate.run.resident import UNOBSERVED, Callbacks, Observed, Resident, Seat
from tilewright.simulate.run.turns import start_worker, warp_turns
from tilewright.simulate.translate.translation import QUANTUM, SPIN_QUANTUM

_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
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


@functools.lru_cache(maxsize=4)
def _function(address: int) -> Any:
    """The scheduler as a function."""
    return _RUN(address)


class Execution:
    """A running launch, with its packed parameters.

    Most launches end in their first turn, on the calling thread. What that turn does not need is made after it.
    """

    def __init__(self, job: Job, placed: Placed, params: bytes) -> None:
        self.job, self.launch, self.placed, self.plan = job, job.launch, placed, job.plan
        self.warp_instructions = 0
        self.seconds = 0.0
        self._used_bytes = placed.memory.used_bytes
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._better: ReadyKernel | None = None
        self._contexts: list[Any] = []  # of all host threads
        self._guard: MemoryGuard | None = None
        self.grid_barrier = GridBarrier(placed.memory, placed.workspace, self.plan.blocks) if placed.workspace else None
        self._turns = None
        if job.ready.translation.waits_in_calls:
            self._turns = warp_turns(job.ready.address, self.plan.warps, self._blocks_at_once, self._callbacks.address)
        self._seat = (self.plan.taken() if self._reuses else None) or self._new_seat()
        self._seat.begin(params, self.plan.first)
        self._stop, self._next = self._seat.stop, self._seat.next
        if placed.params_address:
            placed.memory.view(placed.params_address, len(params))[:] = np.frombuffer(params, np.uint8)
        self._began_s, seconds = time.monotonic(), self.launch.limits.seconds
        self._deadline = self._began_s + seconds if seconds is not None else None

    def run(self) -> None:
        """Run all blocks; returns when the grid is finished.

        Raises KernelError: what went wrong first; KeyboardInterrupt: Ctrl-C, with the place as a KernelError.
        """
        code = self._first_turn() if self._reuses and self.grid_barrier is None and self._is_small() else None
        if code == state.FINISHED and self.warp_instructions <= self._limit:
            self.plan.leave(self._seat)
        else:
            self._run_rest(code)
        self.seconds = time.monotonic() - self._began_s
        if self.job.improvement is not None:
            self.job.improvement.over(self.seconds)

    def _run_rest(self, code: int | None) -> None:
        """Run all blocks; `code` is that of the first turn, if there was one."""
        name, blocks, self.warp_instructions = self.launch.program.name, self.plan.blocks, 0
        try:
            announcement = announced("running", name, blocks, "blocks", self.blocks_done, launch=True)
            with announcement, DeferredSigint() as interrupt:
                self._run(code, interrupt)
        except KeyboardInterrupt:  # not a subclass: the interpreter's exit status needs this class
            failure = self._failure if isinstance(self._failure, KernelError) else KernelError(f"{name}: stopped")
            raise KeyboardInterrupt(failure) from None
        finally:
            if self._turns is not None:
                self._turns.end()
        if self._failure is not None:
            raise self._failure
        if self.budget.passed:  # in the last rounds
            raise self._diagnosis.stopped(blocks - 1)

    def _first_turn(self) -> int:
        """Run blocks on this thread for a short time; returns the code with which they stopped."""
        seat, placed, limit = self._seat, self.placed, self._limit
        places = placed.memory.host_address, self._used_bytes, placed.module_base, placed.params_address
        known = places, self.job.ready.address, limit, QUANTUM
        if known != seat.known:
            self._fill(seat)
            pause = _QUICK_INSTRUCTIONS // self.job.ready.translation.slowness
            seat.words[AT["quantum"]] = min(self._quantum, QUICK_QUANTUM)
            seat.words[AT["pause_at"]] = pause if limit == UNLIMITED else min(pause, self.budget.portion)
            seat.words[AT["instruction_limit"]] = limit
            seat.keep(known)
        code: int = _function(host().runtime.addresses["tw_run"])(seat.address, seat.memory.address)
        self.warp_instructions = seat.words[AT["instructions"]]
        return code

    def _run(self, code: int | None, interrupt: DeferredSigint) -> None:
        """Run all blocks, or stop at an interrupt or a failure."""
        shift = self._shift(self._seat, code)
        if code is not None or self._is_small():
            self._safe_work(shift.pause_after(_QUICK_INSTRUCTIONS // self.job.ready.translation.slowness))
        elif self.workers > 1 and not self._waits_in_calls:
            self._run_crew(shift.pause_after(_ALONE_INSTRUCTIONS), 1, interrupt)
        if shift.slots and self._failure is None:
            self._run_crew(shift.pause_after(None), self.workers, interrupt)

    def _shift(self, seat: Seat, code: int | None = None) -> Shift:
        """A host thread's state, in its seat."""
        printed = np.zeros(PRINT_BYTES // 8, np.uint64) if self.job.ready.translation.prints else None
        if code is None:
            self._fill(seat)
        if printed is not None:
            seat.words[AT["print_buffer"]], seat.words[AT["print_bytes"]] = printed.ctypes.data, printed.nbytes
        if self.grid_barrier is not None:
            self.grid_barrier.entered(self.plan.cluster_blocks)
        self._contexts.append(seat.record)
        return Shift(seat, self.budget.share(), self._quantum, printed, code)

    def _new_seat(self) -> Seat:
        return Seat(self._cluster_memory(), self._counter_count, self.job.param_bytes)

    def _cluster_memory(self) -> Resident:
        """Memory for the blocks of one cluster."""
        return Resident(self.job, self.observed, self.plan.cluster_blocks, self.plan.warps)

    @property
    def _reuses(self) -> bool:
        """Whether a host thread may take over the seat of an earlier launch of this shape."""
        return not (self.job.instruments or self.job.ready.translation.prints)

    @property
    def _limit(self) -> int:
        """The most warp instructions."""
        return self.launch.limits.instructions or UNLIMITED

    @functools.cached_property
    def workers(self) -> int:
        """The most host threads.

        A called function cannot pause, so a block that may wait for others inside one has a host thread of its own.
        """
        workers = 1 if self.job.gives_way else self.launch.limits.threads or host_threads()
        workers = max(workers, _WAITING_THREADS) if self._waits_in_calls else workers
        return min(workers, self.plan.clusters - self.plan.first)

    @property
    def _waits_in_calls(self) -> bool:
        return self.job.ready.calls and self.job.ready.translation.waits_for_blocks

    @functools.cached_property
    def budget(self) -> Budget:
        """The instructions that its host threads may run together."""
        return Budget(self._limit, self.workers)

    @functools.cached_property
    def _counter_count(self) -> int:
        translation = self.job.ready.translation
        each = zip(self.job.instruments, translation.counter_rows, strict=True)
        return translation.tallies + sum([instrument.slots * len(rows) for instrument, rows in each])

    @functools.cached_property
    def _counters(self) -> Any:
        return np.zeros(self._counter_count, np.uint64)

    @functools.cached_property
    def _printout(self) -> Printout | None:
        return Printout() if self.job.ready.translation.prints else None

    @functools.cached_property
    def _callbacks(self) -> Callbacks:
        return Callbacks(self._fail)

    @functools.cached_property
    def observed(self) -> Observed:
        """The memory of the launch's instruments."""
        return Observed(self.job.instruments, self._facts) if self.job.instruments else UNOBSERVED

    def blocks_done(self) -> int:
        """A lower bound of the blocks that have ended: those that started, minus one cluster for each host thread."""
        started = min(self._next.value, self.plan.clusters) - self.plan.first
        return max(0, started - self.workers) * self.plan.cluster_blocks

    def _is_small(self) -> bool:
        """Whether the calling thread may run it: its frame and memory are small, and no instrument calls Python."""
        return (
            not self._is_large
            and stack_bytes() >= _QUICK_STACK_BYTES
            and not self.job.ready.calls
            and not (self.job.instruments and self._callbacks.any)
            and len(self.launch.program.ptx) <= _QUICK_PTX_CHARACTERS
        )

    @property
    def _blocks_at_once(self) -> int:
        """The most blocks whose memory is there at the same time."""
        plan = self.plan
        waits = self.job.ready.translation.spins or plan.ways
        return min(plan.blocks, self.workers * (plan.resident if waits else 1) * plan.cluster_blocks)

    @property
    def _is_large(self) -> bool:
        """Whether it may take so much of the host's memory that its threads must often look whether they may go on."""
        left = _LARGE_BYTES - self._used_bytes * (1 + _OBSERVED_BYTES if self.job.instruments else 1)
        each = self.plan.block_bytes
        return self.plan.blocks * each > left and self._blocks_at_once * each > left

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
            self._work(shift or self._shift(self._new_seat()).pause_after(None))
        except BaseException as error:
            self._fail(error)

    def _work(self, shift: Shift) -> None:
        """Run blocks on this thread until none is left, or until the shift pauses, with slots left."""
        context, slots, run = shift.context, shift.slots, _function(host().runtime.addresses["tw_run"])
        while True:
            code = shift.turn(run)
            if code == state.FINISHED:
                slots.pop(shift.current)
                if self.grid_barrier is not None:
                    self.grid_barrier.left(self.plan.cluster_blocks)
                if not slots:
                    break
                shift.current %= len(slots)
            elif code == state.STALLED:
                handed_out = self._next.value * self.plan.cluster_blocks
                if self.grid_barrier is not None and self.grid_barrier.is_stuck(handed_out):
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

    def _next_slot(self, slots: list[Resident], current: int) -> int:
        """The cluster to go on with when one stalls: a fresh one if there are any, else the next in turn."""
        if current == len(slots) - 1 and len(slots) < self.plan.resident and self._next.value < self.plan.clusters:
            if self.grid_barrier is not None:
                self.grid_barrier.entered(self.plan.cluster_blocks)
            slots.append(self._cluster_memory())
            return len(slots) - 1
        return (current + 1) % len(slots)

    def _fill(self, seat: Seat) -> None:
        """Fill the context record of a host thread."""
        placed, observed, words = self.placed, self.observed, self.plan.words.copy()
        host_address = placed.memory.host_address
        words[AT["global_base"]] = host_address
        words[AT["global_limit"]] = self._used_bytes
        words[AT["module_base"]] = placed.module_base
        words[AT["params"]] = self._seat.params_address
        if placed.params_address:
            words[AT["params"]] = host_address + placed.params_address - state.GLOBAL_BASE
        words[AT["params_address"]] = placed.params_address
        words[AT["counters"]] = seat.address + state.CONTEXT_BYTES
        words[AT["stop"]] = ctypes.addressof(self._stop)
        words[AT["next_cluster"]] = ctypes.addressof(self._next)
        words[AT["quantum"]] = self._quantum
        words[AT["warp_function"]] = (self._turns or self._better or self.job.ready).address
        if self.job.instruments:
            words[AT["observed_launch"]] = observed.launch.ctypes.data
            words[AT["observed_initial"]] = observed.initial.ctypes.data
            words[AT["observed_bytes"]] = observed.initial.nbytes
        if self.grid_barrier is not None:
            words[AT["grid_workspace"]] = self.grid_barrier.workspace
        seat.record[: len(words)] = words

    def _improve(self) -> None:
        """Run warps in better code from their next turn on, once it is ready."""
        if self.job.improvement is not None and self._better is None:
            self._better = self.job.improvement.found(time.monotonic() - self._began_s)
            if self._better is not None:
                for record in list(self._contexts):
                    record[state.CONTEXT["warp_function"] // 8] = self._better.address

    @functools.cached_property
    def _quantum(self) -> int:
        """Instructions that a warp may run at a time: all warps of a cluster together run one portion."""
        translation = self.job.ready.translation
        spins = translation.spins or self._turns is not None
        usual = min(SPIN_QUANTUM if spins else QUANTUM, QUANTUM // translation.slowness)
        if self.job.instruments and self._callbacks.any and self._turns is None:
            usual = min(usual, _CALLING_QUANTUM)
        if self._is_large:
            usual = min(usual, _LARGE_QUANTUM)
        return max(1, min(usual, self.budget.portion // (self.plan.warps * self.plan.cluster_blocks)))

    def _facts(self) -> Facts:
        """The facts of the launch for instruments."""
        launch, memory = self.launch, self.placed.memory
        return Facts(
            launch.program.module, launch.program.entry, self.job.ready.translation.layout, launch.grid,
            launch.block, self.plan.cluster_blocks, self.job.shared_bytes, launch.shared_bytes, memory.used_bytes,
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

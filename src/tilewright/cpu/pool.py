"""Worker threads that run parts of products in machine code, the interpreter lock released throughout.

A job is a row of argument records for one kernel. Its caller offers it to idle workers and works at it too; whoever is
free takes the next record. The caller never waits for a worker that has not begun: it withdraws what nobody took, so a
job can always be finished by its caller alone, and calls from many Python threads cannot wait for each other.

Each worker has a mailbox of one word: 0 (idle), a job on offer, BUSY or ASLEEP. An idle worker watches its mailbox for
about a millisecond, as BLAS libraries do, since a sleeping thread takes longer to wake than a small product takes; then
it sleeps until a caller with a larger product wakes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.cpu.addresses import DATA_BYTES, address_reader, slow_address
from tilewright.native.compiler import Library, compiler
from tilewright.native.interrupts import HeldBack
from tilewright.native.once import once

#: Words of a job. First what nobody changes; then, on a cache line of their own, the next record and the next thread's
#: number; then how many workers hold the job.
FUNCTION, RECORDS, RECORD_BYTES, SCRATCH, SCRATCH_BYTES, A, B, OUT, MORE, END = range(10)
NEXT, SLOTS, WORKING = 16, 17, 24
JOB = struct.Struct(f"{END + 1}q{8 * (NEXT - END - 1)}x2q{8 * (WORKING - SLOTS - 1)}xq")
BUSY, ASLEEP = -2, -1
#: By architecture: PAUSE, and HINT #1, which is YIELD.
_PAUSES = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
WORKERS_MAX = 255
_BOX_WORDS = 8  # a cache line
#: Looks at an idle mailbox before sleep, about a millisecond of `pause` (140 cycles since Skylake).
#: Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Pause Latency in Skylake".
_LOOKS = 20_000
#: Looks at the last workers' count between giving the processor away.
_WAITS = 2_000


def pool_text(pause: str) -> str:
    """The LLVM module of `run(job, mailboxes, count, wanted)`, `serve(mailbox)` and `call(pair, a, b, out)`.

    The last calls the function of a (function, record) pair with the data of three array objects.

    Parameters
    ----------
    pause : str
        The processor's instruction for a thread that waits, as LLVM writes it; may be empty.

    Source: LLVM Language Reference, "Atomic Memory Ordering Constraints".
    """
    return f"""
declare i32 @give_way()
{_declaration(pause)}

define internal void @work(ptr %job) {{
  %slots = getelementptr i64, ptr %job, i64 {SLOTS}
  %next = getelementptr i64, ptr %job, i64 {NEXT}
  %function.at = getelementptr i64, ptr %job, i64 {FUNCTION}
  %records.at = getelementptr i64, ptr %job, i64 {RECORDS}
  %bytes.at = getelementptr i64, ptr %job, i64 {RECORD_BYTES}
  %scratch.at = getelementptr i64, ptr %job, i64 {SCRATCH}
  %size.at = getelementptr i64, ptr %job, i64 {SCRATCH_BYTES}
  %a.at = getelementptr i64, ptr %job, i64 {A}
  %b.at = getelementptr i64, ptr %job, i64 {B}
  %out.at = getelementptr i64, ptr %job, i64 {OUT}
  %more.at = getelementptr i64, ptr %job, i64 {MORE}
  %end.at = getelementptr i64, ptr %job, i64 {END}
  %function = load ptr, ptr %function.at
  %records = load ptr, ptr %records.at
  %bytes = load i64, ptr %bytes.at
  %table = load ptr, ptr %scratch.at
  %size = load i64, ptr %size.at
  %a = load ptr, ptr %a.at
  %b = load ptr, ptr %b.at
  %out = load ptr, ptr %out.at
  %more = load ptr, ptr %more.at
  %end = load i64, ptr %end.at
  %slot = atomicrmw add ptr %slots, i64 1 acq_rel
  %offset = mul i64 %slot, %size
  %scratch = getelementptr i8, ptr %table, i64 %offset
  br label %take
take:
  %item = atomicrmw add ptr %next, i64 1 acq_rel
  %inside = icmp slt i64 %item, %end
  br i1 %inside, label %do, label %done
do:
  %start = mul i64 %item, %bytes
  %record = getelementptr i8, ptr %records, i64 %start
  call void %function(ptr %record, ptr %scratch, ptr %a, ptr %b, ptr %out, ptr %more)
  br label %take
done:
  ret void
}}

define void @run(ptr %job, ptr %boxes, i64 %count, i64 %wanted) {{
entry:
  %working = getelementptr i64, ptr %job, i64 {WORKING}
  br label %offer
offer:
  %w = phi i64 [ 0, %entry ], [ %w.next, %offered ]
  %left = phi i64 [ %wanted, %entry ], [ %left.next, %offered ]
  %some = icmp slt i64 %w, %count
  %want = icmp sgt i64 %left, 0
  %go = and i1 %some, %want
  br i1 %go, label %try, label %own
try:
  %box.at = mul i64 %w, {8 * _BOX_WORDS}
  %box = getelementptr i8, ptr %boxes, i64 %box.at
  %before = atomicrmw add ptr %working, i64 1 acq_rel
  %swap = cmpxchg ptr %box, ptr null, ptr %job acq_rel acquire
  %taken = extractvalue {{ ptr, i1 }} %swap, 1
  br i1 %taken, label %offered, label %refused
refused:
  %after = atomicrmw sub ptr %working, i64 1 acq_rel
  br label %offered
offered:
  %one = zext i1 %taken to i64
  %left.next = sub i64 %left, %one
  %w.next = add i64 %w, 1
  br label %offer
own:
  call void @work(ptr %job)
  br label %withdraw
withdraw:
  %v = phi i64 [ 0, %own ], [ %v.next, %withdrawn ]
  %rest = icmp slt i64 %v, %w
  br i1 %rest, label %back, label %wait
back:
  %back.at = mul i64 %v, {8 * _BOX_WORDS}
  %back.box = getelementptr i8, ptr %boxes, i64 %back.at
  %unswap = cmpxchg ptr %back.box, ptr %job, ptr null acq_rel acquire
  %untaken = extractvalue {{ ptr, i1 }} %unswap, 1
  br i1 %untaken, label %lower, label %withdrawn
lower:
  %lowered = atomicrmw sub ptr %working, i64 1 acq_rel
  br label %withdrawn
withdrawn:
  %v.next = add i64 %v, 1
  br label %withdraw
wait:
  %look = phi i64 [ {_WAITS}, %withdraw ], [ %look.next, %again ], [ {_WAITS}, %yield ]
  %now = load atomic i64, ptr %working acquire, align 8
  %idle = icmp eq i64 %now, 0
  br i1 %idle, label %done, label %again
again:
  {pause}
  %look.next = sub i64 %look, 1
  %patient = icmp sgt i64 %look.next, 0
  br i1 %patient, label %wait, label %yield
yield:
  %gave = call i32 @give_way()
  br label %wait
done:
  ret void
}}

define void @call(ptr %pair, ptr %a.object, ptr %b.object, ptr %out.object) {{
  %record.at = getelementptr i64, ptr %pair, i64 1
  %function = load ptr, ptr %pair
  %record = load ptr, ptr %record.at
  %a.at = getelementptr i8, ptr %a.object, i64 {DATA_BYTES}
  %b.at = getelementptr i8, ptr %b.object, i64 {DATA_BYTES}
  %out.at = getelementptr i8, ptr %out.object, i64 {DATA_BYTES}
  %a = load ptr, ptr %a.at
  %b = load ptr, ptr %b.at
  %out = load ptr, ptr %out.at
  call void %function(ptr %record, ptr null, ptr %a, ptr %b, ptr %out, ptr null)
  ret void
}}

define void @serve(ptr %box) {{
entry:
  br label %look
look:
  %left = phi i64 [ {_LOOKS}, %entry ], [ %less, %idle ], [ {_LOOKS}, %served ], [ %left, %take ], [ 1, %doze ]
  %state = load atomic ptr, ptr %box acquire, align 8
  %none = icmp eq ptr %state, null
  br i1 %none, label %idle, label %take
take:
  %swap = cmpxchg ptr %box, ptr %state, ptr inttoptr (i64 {BUSY} to ptr) acq_rel acquire
  %taken = extractvalue {{ ptr, i1 }} %swap, 1
  br i1 %taken, label %served, label %look
served:
  call void @work(ptr %state)
  store atomic ptr null, ptr %box release, align 8
  %working = getelementptr i64, ptr %state, i64 {WORKING}
  %before = atomicrmw sub ptr %working, i64 1 acq_rel
  br label %look
idle:
  {pause}
  %less = sub i64 %left, 1
  %awake = icmp sgt i64 %less, 0
  br i1 %awake, label %look, label %doze
doze:
  %sleep = cmpxchg ptr %box, ptr null, ptr inttoptr (i64 {ASLEEP} to ptr) acq_rel acquire
  %asleep = extractvalue {{ ptr, i1 }} %sleep, 1
  br i1 %asleep, label %done, label %look
done:
  ret void
}}
"""


def _declaration(pause: str) -> str:
    return pause.replace("call", "declare").replace(" 1)", ")")


class Crew:
    """The workers of a process, started when first wanted."""

    def __init__(self) -> None:
        self._library = _library()  # its workers hold the crew, and the crew their code
        code = self._library.addresses
        self._run: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(code["run"])
        self._watch: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code["serve"])
        raw = np.zeros((WORKERS_MAX + 1) * _BOX_WORDS, np.int64)
        first = -raw.ctypes.data % (8 * _BOX_WORDS) // 8
        self._boxes = memoryview(raw.data)[first:]
        self._address = raw.ctypes.data + 8 * first
        self._lock = threading.Lock()
        self._gates: list[threading.Lock] = []
        self._threads: list[threading.Thread] = []
        self._placing = _Placing()

    def run(self, job: int, threads: int) -> None:
        """Run every record of the job at a host address on at most so many threads, the caller's among them.

        It returns when no record is being worked at any more.
        """
        wanted = min(threads - 1, WORKERS_MAX)
        if wanted > len(self._threads):
            self._start(wanted)
        for worker in range(min(wanted, len(self._threads))):
            if self._boxes[_BOX_WORDS * worker] == ASLEEP:
                self._wake(worker)
        self._run(job, self._address, len(self._threads), wanted)

    def mailbox(self, worker: int) -> int:
        """What a worker's mailbox holds: 0, the address of a job, BUSY or ASLEEP."""
        return int(self._boxes[_BOX_WORDS * worker])

    def _wake(self, worker: int) -> None:
        with HeldBack(), self._lock:
            if self.mailbox(worker) == ASLEEP:
                self._placing.elsewhere(self._threads[worker].native_id or 0)
                self._boxes[_BOX_WORDS * worker] = 0  # a job can be offered before the thread runs again
                self._gates[worker].release()

    def _start(self, workers: int) -> None:
        with HeldBack(), self._lock:
            while len(self._threads) < workers:
                number, gate = len(self._threads), threading.Lock()
                gate.acquire()
                self._boxes[_BOX_WORDS * number] = ASLEEP
                thread = threading.Thread(target=self._serve, args=(number, gate), daemon=True)
                thread.name = f"tilewright-{number}"
                try:
                    thread.start()
                except RuntimeError:  # the system gives no more threads: a caller works without them
                    return
                self._gates.append(gate)
                self._threads.append(thread)

    def _serve(self, number: int, gate: threading.Lock) -> None:
        box = self._address + 8 * _BOX_WORDS * number
        while True:
            gate.acquire()
            self._placing.anywhere()
            self._watch(box)


class _Placing:
    """Puts a worker that wakes on another processor than its caller's, where the host can say which that is.

    Linux tends to start a thread where its waker runs and may leave it there for tens of milliseconds, longer than most
    products take, while another processor stands idle. So the waker's processor is ruled out until the worker runs.
    Where that changes nothing else is done: workers are not pinned.
    """

    def __init__(self) -> None:
        self._processor: Callable[[], int] | None = None
        self._allowed: set[int] = set()
        if hasattr(os, "sched_setaffinity"):
            self._processor = getattr(ctypes.CDLL(None), "sched_getcpu", None)

    def elsewhere(self, thread: int) -> None:
        """Keep a thread that is about to wake off the processor that this call runs on."""
        if self._processor is None:
            return
        self._allowed = os.sched_getaffinity(0)
        others = self._allowed - {self._processor()}
        if others:
            with contextlib.suppress(OSError):  # a sandbox may forbid it; then the scheduler decides
                os.sched_setaffinity(thread, others)

    def anywhere(self) -> None:
        """Let the calling thread move again."""
        if self._allowed:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._allowed)


class _Crews:
    """The crew of each process; a forked child gets a new one, since threads do not survive a fork.

    Of several made at once, by threads' first products, one is kept; the others have started no worker yet.
    """

    def __init__(self) -> None:
        self._made: dict[int, Crew] = {}

    def __call__(self) -> Crew:
        process = os.getpid()
        return self._made.get(process) or self._made.setdefault(process, Crew())


#: The crew of this process.
crew = _Crews()


@once
def caller() -> Callable[[int, int, int, int], None] | None:
    """A function of the addresses of a (kernel, record) pair and of three array objects; None where it cannot be.

    It spares a small product half a microsecond of reading addresses one by one.
    """
    if address_reader() is slow_address:
        return None
    library = _library()
    call: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(library.addresses["call"])
    call.library = library
    found: Callable[[int, int, int, int], None] = call
    return found


@once
def _library() -> Library:
    """The pool's machine code, from disk or compiled now."""
    from tilewright.cpu.kernels import compiled

    triple = compiler().identity.split("/")[1]
    pause = next((text for name, text in _PAUSES.items() if triple.startswith(name)), "")
    if sys.platform == "win32":  # pragma: no cover
        give_way = ctypes.windll.kernel32.SwitchToThread
    else:
        give_way = ctypes.CDLL(None).sched_yield
    address = ctypes.cast(give_way, ctypes.c_void_p).value or 0
    library = compiled("pool", lambda: pool_text(pause), ("run", "serve", "call"), {"give_way": address})
    return library

"""Worker threads that run parts of products in machine code, the interpreter lock released throughout.

A job is an array of argument records for one kernel. The caller offers it to idle workers and works on it too; each
free thread takes the next record. The caller never waits for a worker that has not started: it withdraws offers that no
worker took. So a caller can always finish its job alone, and calls from many Python threads cannot deadlock.

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
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.compiler import Library, compiler
from tilewright.ground.native.header import header
from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.ground.native.memo import memo
from tilewright.multiply.backends.cpu.addresses import DATA_BYTES, address_reader, slow_address

_SHARED = header(Path(__file__).with_name("pool.h"))
_JOB = _SHARED.structs["tw_job"]
#: Offsets of a job's fields.
END, NEXT, SLOTS, WORKING = (_JOB.offsets[name] // 8 for name in ("end", "next", "slots", "working"))
#: A job: constant fields, then the next record and the next thread's number, then the count of workers that hold it.
JOB = struct.Struct(f"{END + 1}q{8 * (NEXT - END - 1)}x2q{8 * (WORKING - SLOTS - 1)}xq")
BUSY, ASLEEP = _SHARED.numbers["TW_POOL_BUSY"], _SHARED.numbers["TW_POOL_ASLEEP"]
#: By architecture: PAUSE, and HINT #1, which is YIELD.
_PAUSES = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
WORKERS_MAX = 255
_BOX_WORDS = _SHARED.structs["tw_mailbox"].bytes // 8


def host_text(pause: str) -> str:
    """The host-dependent functions that `pool.c` calls, as LLVM text.

    `pause` is the processor's spin-wait instruction as an LLVM call; it may be empty.
    """
    return f"""
@tw_array_data_bytes = constant i64 {DATA_BYTES}
{pause.replace("call", "declare").replace(" 1)", ")")}
define void @tw_pause() alwaysinline nounwind {{
  {pause}
  ret void
}}
"""


class Crew:
    """The worker threads of a process, started when first needed."""

    def __init__(self) -> None:
        self._library = _library()  # workers keep the crew alive, and the crew their code
        code = self._library.addresses
        self._run: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(code["tw_pool_run"])
        self._watch: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code["tw_pool_serve"])
        raw = np.zeros((WORKERS_MAX + 1) * _BOX_WORDS, np.int64)
        first = -raw.ctypes.data % (8 * _BOX_WORDS) // 8
        self._boxes = memoryview(raw.data)[first:]
        self._address = raw.ctypes.data + 8 * first
        self._lock = threading.Lock()
        self._gates: list[threading.Lock] = []
        self._threads: list[threading.Thread] = []
        self._placing = _Placing()

    def run(self, job: int, threads: int) -> None:
        """Run all records of the job at a host address on at most so many threads, including the caller's.

        It returns when all records are done.
        """
        wanted = min(threads - 1, WORKERS_MAX)
        if wanted > len(self._threads):
            self._start(wanted)
        for worker in range(min(wanted, len(self._threads))):
            if self._boxes[_BOX_WORDS * worker] == ASLEEP:
                self._wake(worker)
        self._run(job, self._address, len(self._threads), wanted)

    def mailbox(self, worker: int) -> int:
        """The content of a worker's mailbox: 0, the address of a job, BUSY or ASLEEP."""
        return int(self._boxes[_BOX_WORDS * worker])

    def _wake(self, worker: int) -> None:
        with DeferredSigint(), self._lock:
            if self.mailbox(worker) == ASLEEP:
                self._placing.elsewhere(self._threads[worker].native_id or 0)
                self._boxes[_BOX_WORDS * worker] = 0  # a job may be offered before the thread runs again
                self._gates[worker].release()

    def _start(self, workers: int) -> None:
        with DeferredSigint(), self._lock:
            while len(self._threads) < workers:
                number, gate = len(self._threads), threading.Lock()
                gate.acquire()
                self._boxes[_BOX_WORDS * number] = ASLEEP
                thread = threading.Thread(target=self._serve, args=(number, gate), daemon=True)
                thread.name = f"tilewright-{number}"
                try:
                    thread.start()
                except RuntimeError:  # the system allows no more threads: a caller works without them
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
    """Moves a worker that wakes off its caller's processor, if the host can tell which that is.

    Linux tends to start a thread on its waker's processor, and may leave it there for tens of milliseconds, longer than
    most products take, while another processor is idle. So the worker may not use the waker's processor until it runs.
    Apart from that workers are not pinned.
    """

    def __init__(self) -> None:
        self._processor: Callable[[], int] | None = None
        self._allowed: set[int] = set()
        if hasattr(os, "sched_setaffinity"):
            self._processor = getattr(ctypes.CDLL(None), "sched_getcpu", None)

    def elsewhere(self, thread: int) -> None:
        """Exclude the processor of this call from those of a thread that is about to wake."""
        if self._processor is None:
            return
        self._allowed = os.sched_getaffinity(0)
        others = self._allowed - {self._processor()}
        if others:
            with contextlib.suppress(OSError):  # a sandbox may forbid it; then the scheduler decides
                os.sched_setaffinity(thread, others)

    def anywhere(self) -> None:
        """Allow the calling thread all processors again."""
        if self._allowed:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._allowed)


class _Crews:
    """The crew of each process; a forked child gets a new one, since threads do not survive a fork.

    If first products in several threads make several at once, one is kept; the others have not started workers yet.
    """

    def __init__(self) -> None:
        self._made: dict[int, Crew] = {}

    def __call__(self) -> Crew:
        process = os.getpid()
        return self._made.get(process) or self._made.setdefault(process, Crew())


#: The crew of this process.
crew = _Crews()


@memo
def caller() -> Callable[[int, int, int, int], None] | None:
    """A function of the addresses of a (kernel, record) pair and of three array objects; None if not supported.

    It saves a small product half a microsecond of reading addresses one by one.
    """
    if address_reader() is slow_address:
        return None
    library = _library()
    call: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(library.addresses["tw_pool_call"])
    call.library = library
    found: Callable[[int, int, int, int], None] = call
    return found


@memo
def _library() -> Library:
    """The pool's machine code, from disk or compiled now."""
    from tilewright.multiply.backends.cpu.kernels import compiled

    triple = compiler().identity.split("/")[1]
    pause = next((text for name, text in _PAUSES.items() if triple.startswith(name)), "")
    if sys.platform == "win32":  # pragma: no cover
        give_way = ctypes.windll.kernel32.SwitchToThread
    else:
        give_way = ctypes.CDLL(None).sched_yield
    address = ctypes.cast(give_way, ctypes.c_void_p).value or 0
    return compiled(
        "pool",
        lambda: host_text(pause),
        ("tw_pool_run", "tw_pool_serve", "tw_pool_call"),
        {"tw_give_way": address},
        parts=(bitcode(Path(__file__).with_name("pool.c")),),
    )

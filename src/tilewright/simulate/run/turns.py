"""Host threads for translated code, and those for warps that wait for others of their block inside a called function.

A called function is on the host's stack, so its warp cannot return to the scheduler in order to wait. With its own host
thread the warp can pause inside the function. Only one thread of a block runs at a time: the scheduler's, or the one of
the current warp. So the data that a block's warps share need no atomics.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

from tilewright.ground.forking import wait_for
from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.ground.native.memo import memo
from tilewright.ground.native.pages import stack_end
from tilewright.simulate import state

#: Most threads of a launch; where there would be more, functions do not pause.
WARP_THREADS_MAX = 2048
_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_STACK_SIZE_LOCK = threading.Lock()
wait_for(_STACK_SIZE_LOCK)


def start_worker(work: Callable[[], object]) -> bool:
    """Start a thread that runs blocks; False if the host has no room for another: fewer threads do the same work."""
    return has_started(threading.Thread(target=work, name="tilewright-worker", daemon=True))


def has_started(worker: threading.Thread) -> bool:
    """Start a thread whose stack fits translated kernels' frames and their calls; False if there is no room for it."""
    with _STACK_SIZE_LOCK:  # the size is a setting of the process: change it for this thread only
        before = threading.stack_size(state.HOST_STACK_BYTES)
        try:
            worker.start()
        except RuntimeError:
            return False
        finally:
            threading.stack_size(before)
    return True


class WarpThread(threading.Thread):
    """The thread of one warp record: it runs the turns of the warps that get the record, one after another."""

    def __init__(self, run: Callable[[int, int, int], int]) -> None:
        super().__init__(name="tilewright-warp", daemon=True)
        self._function = run
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._records = (0, 0, 0)
        self._status = state.FAULT
        self._ended = False

    def turn(self, context: int, slot: int, warp: int) -> int:
        """Let the warp run until it returns or pauses."""
        self._records = (context, slot, warp)
        self._go.release()
        self._back.acquire()
        return self._status

    def run(self) -> None:
        """Turn after turn."""
        while self._goes_on():
            status = self._function(*self._records)
            self._hand_back(status)

    def pause(self) -> bool:
        """End the turn in the middle of a function; False if there is no other."""
        self._hand_back(state.YIELDED)
        return self._goes_on()

    def end(self) -> None:
        """Leave all functions, and end soon."""
        self._ended = True
        self._go.release()

    def _goes_on(self) -> bool:
        if not self._ended:
            self._go.acquire()
        if self._ended:
            return False
        end = stack_end()  # where it is unknown, no function may be called
        low = end + state.HOST_STACK_BYTES - state.CALL_STACK_BYTES if end else sys.maxsize
        ctypes.c_uint64.from_address(self._records[0] + state.CONTEXT["stack_low"]).value = low
        return True

    def _hand_back(self, status: int) -> None:
        self._status = status
        self._back.release()


class WarpTurns:
    """The threads of a launch's warps."""

    def __init__(self, address: int, callback: Callable[[Callable[..., int], int, int], int]) -> None:
        self._function = _RUN(address)
        self._threads: dict[int, WarpThread] = {}  # by the address of the warp's record
        self.address = callback(self._turn, 3, state.FAULT)  #: The C function that gives a warp its turn.

    def _turn(self, context: int, slot: int, warp: int) -> int:
        thread = self._threads.get(warp)
        if thread is None:
            thread = WarpThread(self._function)
            if not has_started(thread):
                raise MemoryError("the host cannot allocate a thread's stack for each warp of a block")
            self._threads[warp] = thread
        return thread.turn(context, slot, warp)

    def end(self) -> None:
        """End all threads, and wait until they have."""
        for thread in self._threads.values():
            thread.end()
        with DeferredSigint():
            for thread in self._threads.values():
                thread.join()


def warp_turns(
    address: int, warps: int, blocks: int, callback: Callable[[Callable[..., int], int, int], int]
) -> WarpTurns | None:
    """Threads for the warps of a kernel whose called functions may wait for other warps; None for one warp or too many.

    `address` is that of the kernel's warp function, `warps` are those of a block, and `blocks` the most that are in
    progress at the same time.
    """
    return WarpTurns(address, callback) if 1 < warps <= WARP_THREADS_MAX // blocks else None


@memo
def pause() -> Any:
    """The C function that a called function calls where it may wait; it returns 0 if the function goes on."""

    def call() -> int:
        thread = threading.current_thread()
        return int(isinstance(thread, WarpThread) and not thread.pause())

    return ctypes.CFUNCTYPE(ctypes.c_int32)(call)


def pause_address() -> int:
    """Its host address."""
    return ctypes.cast(pause(), ctypes.c_void_p).value or 0

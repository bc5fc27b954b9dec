"""Host threads that run blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tilewright.ground.forking import wait_for
from tilewright.simulate import state

_STACK_SIZE_LOCK = threading.Lock()
wait_for(_STACK_SIZE_LOCK)


def start_crew(workers: int, work: Callable[[], object]) -> list[threading.Thread]:
    """Start threads whose stacks fit translated kernels' frames and their calls."""
    crew = [threading.Thread(target=work, name=f"tilewright-{i}", daemon=True) for i in range(workers)]
    for worker in crew:
        if not is_started(worker):
            break
    return [worker for worker in crew if worker.ident is not None]


def is_started(worker: threading.Thread) -> bool:
    """Start such a thread; False if the host has no room for another stack: fewer threads do the same work."""
    with _STACK_SIZE_LOCK:  # the size is a setting of the process: change it for this thread only
        before = threading.stack_size(state.HOST_STACK_BYTES)
        try:
            worker.start()
        except RuntimeError:
            return False
        finally:
            threading.stack_size(before)
    return True

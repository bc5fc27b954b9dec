"""Python threads that call at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable


def at_once(work: Callable[[int], None], callers: int, seconds: float = 60) -> None:
    """Run ``work(0)``, ``work(1)`` and so on in separate threads, and wait for each to end."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive()

"""Quick code first: when a launch goes on in better code for its kernel.

With instruments a kernel is several times as long. Compiling it without optimisation takes a fifth of the time, and the
code runs 1.4 to 2.3 times as long (`benchmarks/waiting.py`). Most launches end before better code would be there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.simt.run.kernels import ReadyKernel

#: What launches of a kernel may take together, with instruments, before its code is optimised.
WORTH_SECONDS = 0.5


class Improvement:
    """Better code for a kernel, made on another thread once quickly made code has run for long.

    `quick` is what runs, and ran for `spent_seconds` before this launch. `make` makes the better code, which the store
    keeps; `over` gets, at the launch's end, how many seconds it ran.
    """

    def __init__(
        self,
        quick: ReadyKernel,
        spent_seconds: float,
        make: Callable[[], ReadyKernel],
        over: Callable[[float], None],
    ) -> None:
        self.over = over
        self._quick, self._make = quick, make
        self._due = time.monotonic() + WORTH_SECONDS - spent_seconds
        self._thread: threading.Thread | None = None
        self._better: ReadyKernel | None = None

    def found(self) -> ReadyKernel | None:
        """The better code, once it is there; the first call after it is due starts making it.

        To be called from time to time while a launch runs. Both codes come from one text for LLVM, so a warp that has
        left one goes on in the other.
        """
        if self._thread is None and time.monotonic() >= self._due:
            self._thread = threading.Thread(target=self._improve, name="tilewright-tier", daemon=True)
            self._thread.start()
        return self._better

    def _improve(self) -> None:
        with contextlib.suppress(Exception):  # nobody waits for it: the launch goes on as it is
            made = self._make()
            if made.translation.digest == self._quick.translation.digest:
                self._better = made

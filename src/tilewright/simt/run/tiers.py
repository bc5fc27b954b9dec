"""Quick code first: when a launch goes on in better code for its kernel.

With instruments a kernel is several times as long. Compiling it without optimisation takes a fifth of the time, and the
code runs 1.4 to 2.3 times as long (`benchmarks/waiting.py`). Most launches end before better code would be there. So
another thread makes that once launches of the kernel have run for as long as it takes, and no launch waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.simt.run.kernels import ReadyKernel

#: What launches of a kernel may take together, with instruments, before its code is optimised: so long, and so many
#: times what the quick code took to make. 0: optimised code is made at once, and waited for.
WORTH_SECONDS = 0.5
WORTH_TIMES = 4.0


class Improvement:
    """Better code for a kernel, made on another thread once quickly made code has run for long.

    `quick` is what runs, and ran for `spent_seconds` before this launch. `begin` starts making the better code, unless
    it has begun; `look` gives it once it is there; `over` gets, at the launch's end, how many seconds it ran.
    """

    def __init__(
        self,
        quick: ReadyKernel,
        spent_seconds: float,
        begin: Callable[[], None],
        look: Callable[[], ReadyKernel | None],
        over: Callable[[float], None],
    ) -> None:
        self.over = over
        self._quick, self._begin, self._look = quick, begin, look
        worth_seconds = max(WORTH_SECONDS, WORTH_TIMES * quick.translation.making_seconds)
        self._due = time.monotonic() + worth_seconds - spent_seconds
        self._begun = False

    def found(self) -> ReadyKernel | None:
        """The better code, once it is there; the first call after it is due has it made.

        To be called from time to time while a launch runs. Both codes come from one text for LLVM, so a warp that has
        left one goes on in the other.
        """
        if not self._begun and time.monotonic() >= self._due:
            self._begun = True
            self._begin()
        better = self._look() if self._begun else None
        return better if better and better.translation.digest == self._quick.translation.digest else None

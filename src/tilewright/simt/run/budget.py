"""The warp instructions that a launch may run, handed to its host threads in portions."""

from __future__ import annotations

import threading
from collections.abc import Callable

#: What a launch without a limit may run: more than any host will.
UNLIMITED = 2**62
#: Portions that a limit makes for each host thread.
_PORTIONS = 16
_POLL_SECONDS = 0.02


class Budget:
    """What all host threads of a launch may run together.

    A thread runs what it was handed and asks for more when a round of its block's warps is over; by then it has run
    about a portion too many at most, and the next one pays for that. Where too little is left to pay, it waits: another
    thread may end and give back what it did not run. When all wait, the launch has run more than its limit.

    So whether a limit is passed never depends on which thread ran what, nor on when; and what a launch runs before it
    is stopped is its limit and a sixteenth, give or take the stretches of code without a loop or barrier. Only inside
    functions that are called recursively or through a pointer, where no round ends, does a thread know the others'
    part as of its last round alone.
    """

    def __init__(self, limit: int, threads: int) -> None:
        self.limit = limit
        self.portion = max(1, limit // (_PORTIONS * threads))
        self._left = limit
        self._spent = 0
        self._at_work = 0
        self._waiting = 0
        self._changed = threading.Condition()

    @property
    def passed(self) -> bool:
        """Whether the threads have reported more than may be run."""
        return self._spent > self.limit

    def share(self) -> Share:
        """Let one more thread work, with a portion to begin with."""
        with self._changed:
            self._at_work += 1
            return Share(self, self._hand(self.portion))

    def _hand(self, wanted: int) -> int:
        handed = max(0, min(self._left, wanted))
        self._left -= handed
        return handed


class Share:
    """One host thread's part of a budget."""

    def __init__(self, budget: Budget, granted: int) -> None:
        self.granted = granted  #: Instructions that were handed to it so far.
        self._budget = budget
        self._spent = 0

    @property
    def ceiling(self) -> int:
        """When this thread has run more, the launch has passed its limit, whatever the others do."""
        return max(0, self._budget.limit - (self._budget._spent - self._spent))  # the others alone may have passed it

    def more(self, spent: int, stopped: Callable[[], bool]) -> bool:
        """Ask for another portion, after `spent` in all; False when the limit is passed, or `stopped` says so."""
        budget = self._budget
        with budget._changed:
            self._add(spent)
            budget._waiting += 1
            while budget._left < spent - self.granted and budget._waiting < budget._at_work and not stopped():
                budget._changed.wait(_POLL_SECONDS)
            budget._waiting -= 1
            if budget._left < spent - self.granted:
                return False
            self.granted += budget._hand(spent - self.granted + budget.portion)
            return True

    def close(self, spent: int) -> None:
        """Leave after `spent` in all, and give back the rest."""
        budget = self._budget
        with budget._changed:
            self._add(spent)
            budget._at_work -= 1
            budget._left += self.granted - spent
            self.granted = spent
            budget._changed.notify_all()

    def report(self, spent: int) -> None:
        """Say what was run so far."""
        with self._budget._changed:
            self._add(spent)

    def _add(self, spent: int) -> None:
        self._budget._spent += spent - self._spent
        self._spent = spent

"""The warp instructions that a launch may run, given to its host threads in portions."""

from __future__ import annotations

import threading
from collections.abc import Callable

#: The limit of a launch without one: more than any host can run.
UNLIMITED = 2**62
#: Portions of a limit for each host thread.
_PORTIONS = 16
_POLL_SECONDS = 0.02


class Budget:
    """The instructions that all host threads of a launch may run together.

    A thread runs its portion and asks for more after a round of its block's warps. By then it may have run about one
    portion too many, which it pays from the next one. If too little is left to pay, it waits: another thread may end
    and return what it did not run. When all threads wait, the launch has passed its limit.

    So passing the limit does not depend on which thread ran what, or when. A stopped launch has run at most its limit
    and a sixteenth, plus stretches of code without a loop or barrier. Inside functions that are called recursively or
    through a pointer, where no round ends, a thread knows the other threads' part only as of its last round.
    """

    def __init__(self, limit: int, threads: int) -> None:
        self.limit = limit
        self.portion = max(1, limit // (_PORTIONS * threads))
        self._left = limit
        self._spent = 0
        self.passed = False  #: Whether the threads have reported more than the limit.
        self._at_work = 0
        self._waiting = 0
        self._changed = threading.Condition()

    def share(self) -> Share:
        """Add a thread, with a first portion."""
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
        self.granted = granted  #: Instructions given to it so far.
        self._budget = budget
        self._spent = 0

    @property
    def ceiling(self) -> int:
        """If this thread has run more, the launch has passed its limit, whatever the others do."""
        return max(0, self._budget.limit - (self._budget._spent - self._spent))  # the others alone may have passed it

    def more(self, spent: int, stopped: Callable[[], bool]) -> bool:
        """Ask for another portion after `spent` in all; False if the limit is passed or `stopped()` is true."""
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
        """Leave after `spent` instructions in all, and return the rest."""
        budget = self._budget
        with budget._changed:
            self._add(spent)
            budget._at_work -= 1
            budget._left += self.granted - spent
            self.granted = spent
            budget._changed.notify_all()

    def report(self, spent: int) -> None:
        """Report the instructions run so far."""
        with self._budget._changed:
            self._add(spent)

    def _add(self, spent: int) -> None:
        self._budget._spent += spent - self._spent
        self._budget.passed = self._budget._spent > self._budget.limit
        self._spent = spent

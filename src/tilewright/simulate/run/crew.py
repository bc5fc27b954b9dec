"""The host threads of a launch, and the instructions that each may run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.simulate import state
from tilewright.simulate.launch_request import UNLIMITED
from tilewright.simulate.run import traps
from tilewright.simulate.run.resident import Seat

#: Portions of a limit for each host thread.
_PORTIONS = 16
_POLL_SECONDS = 0.02
#: Instructions of a warp in one turn while its thread is to pause soon.
QUICK_QUANTUM = 20_000
#: Buffer for the prints of one host thread's blocks.
PRINT_BYTES = 4 << 20


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


#: Words of a context record that change while a thread runs.
_QUANTUM, _PAUSE_AT, _INSTRUCTION_LIMIT = (state.CONTEXT[x] // 8 for x in ("quantum", "pause_at", "instruction_limit"))


class Shift:
    """The state of one host thread: context record, clusters in progress, part of the budget, print buffer.

    `code` is that of a first turn, which `turn` then gives first.
    """

    def __init__(self, seat: Seat, share: Share, quantum: int, printed: Any, code: int | None) -> None:
        self.context, self.share, self.printed = seat.record, share, printed
        self.slots = [seat.memory]
        self.current = 0
        self._address = seat.address
        self._code = code
        self._quantum = quantum
        self._pause_at = UNLIMITED

    def turn(self, run: Callable[[int, int], int]) -> int:
        """Run blocks until something must be decided; returns the code that says what."""
        code, self._code = self._code, None
        return run(self._address, self.slots[self.current].address) if code is None else code

    def pause_after(self, instructions: int | None) -> Shift:
        """Pause soon after `instructions` instructions; None: never."""
        quantum = self._quantum if instructions is None else min(self._quantum, QUICK_QUANTUM)
        self.context[_QUANTUM] = quantum
        self._pause_at = UNLIMITED if instructions is None else instructions
        self._set_bounds()
        return self

    @property
    def spent(self) -> int:
        """Instructions run so far."""
        return int(self.context[state.CONTEXT["instructions"] // 8])

    @property
    def paused(self) -> bool:
        """Whether it has run the instructions after which it pauses."""
        return self.spent > self._pause_at

    def may_go_on(self, stopped: Callable[[], bool]) -> bool:
        """Get another portion of the budget if the last one is used up; False if there is none."""
        if self.spent <= self.share.granted:
            return True
        more = self.share.more(self.spent, stopped)
        self._set_bounds()
        return more

    @property
    def lost_lines(self) -> int:
        """Lines of its blocks that did not fit in the print buffer."""
        return int(self.context[state.CONTEXT["print_lost"] // 8])

    def prints(self) -> Iterator[traps.PrintRecord]:
        """What its blocks printed so far, in order."""
        return traps.print_records(self.printed, int(self.context[state.CONTEXT["print_used"] // 8]))

    def block_at_work(self) -> int:
        """Linear index of the current block, the first of its cluster."""
        return int(self.slots[self.current].records[0, state.SLOT["block"] // 8])

    def _set_bounds(self) -> None:
        self.context[_PAUSE_AT] = min(self._pause_at, self.share.granted)
        self.context[_INSTRUCTION_LIMIT] = self.share.ceiling

"""An mbarrier by the manual's sentences, one operation after another, on Python's integers.

Source: PTX ISA, 9.7.13.15.1 to 9.7.13.15.6 (contents of an mbarrier object, phases, tx-count, expect-tx, complete-tx,
arrive-on).
"""

from __future__ import annotations

from dataclasses import dataclass

MOST = (1 << 20) - 1


class RefusedError(Exception):
    """The manual does not define this operation."""


@dataclass
class Mbarrier:
    """The current phase, counts of pending and of expected arrivals, and the count of pending transactions."""

    phase: int
    pending_arrivals: int
    expected_arrivals: int
    tx_count: int = 0

    @classmethod
    def init(cls, count: int) -> Mbarrier:
        """Phase 0; both counts are the initial one, and no transaction is pending."""
        return cls(0, count, count)

    def expect_tx(self, amount: int) -> None:
        """Increase the tx-count."""
        self.tx_count += amount
        self._in_range()
        self._end_phase()

    def complete_tx(self, amount: int) -> None:
        """Signal transactions as completed: decrease the tx-count."""
        self.tx_count -= amount
        self._in_range()
        self._end_phase()

    def arrive(self, count: int = 1, *, drop: bool = False, expects: int = 0, no_complete: bool = False):
        """Decrement the pending count; the result is phase and pending count before."""
        if not 1 <= count <= self.pending_arrivals or (drop and count > self.expected_arrivals):
            raise RefusedError
        self.tx_count += expects
        self._in_range()
        before = self.phase, self.pending_arrivals
        self.pending_arrivals -= count
        if drop:
            self.expected_arrivals -= count
        if no_complete and self.pending_arrivals == 0 and self.tx_count == 0:
            raise RefusedError
        self._end_phase()
        return before

    def _in_range(self) -> None:
        if not -MOST <= self.tx_count <= MOST:
            raise RefusedError

    def _end_phase(self) -> None:
        """The phase is complete when both are zero; the next begins with the expected number of pending arrivals."""
        if self.pending_arrivals == 0 and self.tx_count == 0:
            self.phase += 1
            self.pending_arrivals = self.expected_arrivals

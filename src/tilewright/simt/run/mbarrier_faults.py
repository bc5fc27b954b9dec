"""What went wrong at mbarriers and at the bulk copies that they are told of, in words.

Source of the rules: PTX ISA, 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tilewright.simt.translate import state

#: What a fault's fields are in the texts: `got` and `other`, numbers, and `object`, the mbarrier in words.
RULES: Final = {
    state.BULK_BYTES: "bytes moved in bulk must be a multiple of {other} (got {got:,}); move the rest by other means",
    state.MBARRIER_COUNT: f"the count of arrivals must be 1 to {state.MBARRIER_MOST:,} (got {{got:,}})",
    state.MBARRIER_SURPLUS: (
        "no more may arrive at {object} than its phase still waits for (got {got:,} of {other:,}); initialise it "
        "with the number of arrivals that a phase gets, and wait for a phase before arriving at the next"
    ),
    state.MBARRIER_BYTES: (
        f"the bytes pending at {{object}} must stay within {state.MBARRIER_MOST:,} (got {{got:+,}} to {{other:,}})"
    ),
    state.MBARRIER_COMPLETES: (
        "an arrival with .noComplete must not complete the phase of {object} (got the last one); leave .noComplete out"
    ),
    state.MBARRIER_LEFT: (
        "no more may leave {object} than it expects in a phase (got {got:,} of {other:,}); each participant leaves once"
    ),
}


@dataclass(frozen=True, slots=True)
class Mbarrier:
    """An mbarrier in shared memory, as its 64 bits say."""

    address: int
    expected: int  #: Arrivals that a phase takes.
    pending: int  #: Those that this one still waits for.
    pending_bytes: int
    phase: int  #: Modulo 8.

    @classmethod
    def of(cls, bits: int, address: int) -> Mbarrier:
        """Take it apart.

        >>> print(Mbarrier.of(3 | 2 << 20 | 1024 << 40 | 5 << 61, 0x40))
        the mbarrier at 0x40 (phase 5, parity 1: 2 of 3 arrivals pending, 1,024 bytes pending)
        """
        most = state.MBARRIER_MOST
        pending_bytes = bits >> state.MBARRIER_BYTES_SHIFT & (2 * most + 1)
        return cls(
            address,
            bits & most,
            bits >> state.MBARRIER_PENDING_SHIFT & most,
            pending_bytes - 2 * (most + 1) * (pending_bytes > most),
            bits >> state.MBARRIER_PHASE_SHIFT & 7,
        )

    def __str__(self) -> str:
        """All of it."""
        return (
            f"the mbarrier at {self.address:#x} (phase {self.phase}, parity {self.phase & 1}: {self.pending:,} of "
            f"{self.expected:,} arrivals pending, {self.pending_bytes:,} bytes pending)"
        )


def rule_text(kind: int, got: int, other: int, found: Mbarrier) -> str:
    """A rule with what broke it, in 32 bits each."""
    if kind == state.MBARRIER_BYTES:
        got, other = (value - (1 << 32) * (value >> 31) for value in (got, other))
    return RULES[kind].format(got=got, other=other, object=found)


def fault_of(kind: int) -> str:
    """What a broken rule is called."""
    return {state.MBARRIER_BYTES: "mbarrier bytes", state.BULK_BYTES: "misaligned"}.get(kind, "mbarrier arrivals")


def awaited_text(phase: int, found: Mbarrier) -> str:
    """What a thread waits for: `phase` is modulo 8, or a parity and 8.

    >>> awaited_text(8 + 1, Mbarrier(0x40, 3, 2, 0, 1)).partition(" at ")[0]
    'waits for the phase of parity 1 of the mbarrier'
    """
    which = f"the phase of parity {phase & 1}" if phase & 8 else f"phase {phase}"
    return f"waits for {which} of {found}"

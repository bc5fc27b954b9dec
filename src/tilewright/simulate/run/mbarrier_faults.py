"""The messages of errors in mbarriers, and in the bulk copies that they count.

Source of the rules: PTX ISA, 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from typing import Final

from tilewright.simulate import state
from tilewright.simulate.isa.mbarrier_bits import Mbarrier

#: Texts with a fault's fields: `got` and `other` are numbers, `object` is the mbarrier as text.
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


def rule_text(kind: int, got: int, other: int, found: Mbarrier) -> str:
    """A rule's text with the 32-bit values that broke it."""
    if kind == state.MBARRIER_BYTES:
        got, other = (value - (1 << 32) * (value >> 31) for value in (got, other))
    return RULES[kind].format(got=got, other=other, object=found)


def fault_of(kind: int) -> str:
    """The fault of a broken rule."""
    return {state.MBARRIER_BYTES: "mbarrier bytes", state.BULK_BYTES: "misaligned"}.get(kind, "mbarrier arrivals")


def awaited_text(phase: int, found: Mbarrier) -> str:
    """What a thread waits for: `phase` is a phase modulo 8, or 8 plus a parity.

    >>> awaited_text(8 + 1, Mbarrier(0x40, 3, 2, 0, 1)).partition(" at ")[0]
    'waits for the phase of parity 1 of the mbarrier'
    """
    which = f"the phase of parity {phase & 1}" if phase & 8 else f"phase {phase}"
    return f"waits for {which} of {found}"

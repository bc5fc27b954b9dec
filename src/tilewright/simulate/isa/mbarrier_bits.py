"""The fields in the 64 bits of an mbarrier, in this machine's format (`simulate/runtime/records.h`)."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.simulate import state


@dataclass(frozen=True, slots=True)
class Mbarrier:
    """The fields of an mbarrier in shared memory."""

    address: int
    expected: int  #: Arrivals that complete a phase.
    pending: int  #: Arrivals that the current phase still waits for.
    pending_bytes: int
    phase: int  #: Modulo 8.

    @classmethod
    def of(cls, bits: int, address: int) -> Mbarrier:
        """Decode the 64 bits.

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
        """The address and all fields."""
        return (
            f"the mbarrier at {self.address:#x} (phase {self.phase}, parity {self.phase & 1}: {self.pending:,} of "
            f"{self.expected:,} arrivals pending, {self.pending_bytes:,} bytes pending)"
        )

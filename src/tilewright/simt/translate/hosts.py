"""What translated code depends on of the host's vector instructions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostVectors:
    """How a host holds masks."""

    #: Masks have registers of their own, a bit a lane, and masked stores are as fast as others. Elsewhere a mask is a
    #: vector as wide as the data, and a masked store is slow (AVX2 on AMD) or a branch for each lane (SSE, NEON).
    mask_registers: bool = True
    #: Vectors of 32-bit and 64-bit elements are stored under a mask by an instruction.
    masked_stores: bool = True

    @classmethod
    def of(cls, features: str) -> HostVectors:
        """Read off LLVM's feature string.

        >>> HostVectors.of("+avx2,-avx512vl,-avx512bw")
        HostVectors(mask_registers=False, masked_stores=True)
        """
        given = set(features.split(","))
        return cls({"+avx512bw", "+avx512vl"} <= given, "+avx2" in given)

    def gathers(self, bits: int) -> bool:
        """Whether there are quick instructions that load and store elements of this width at a place for each lane."""
        return self.mask_registers and bits in (32, 64)

    def stores_masked(self, bits: int) -> bool:
        """Whether there is an instruction that stores elements of this width under a mask."""
        return self.mask_registers or (self.masked_stores and bits in (32, 64))

"""The host's vector features that translated code depends on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostVectors:
    """A host's support for masks."""

    #: Masks have their own registers, one bit a lane, and masked stores are as fast as others. Elsewhere a mask is a
    #: vector as wide as the data, and a masked store is slow (AVX2 on AMD) or a branch for each lane (SSE, NEON).
    mask_registers: bool = True
    #: There is an instruction for masked stores of 32-bit and 64-bit elements.
    masked_stores: bool = True

    @classmethod
    def of(cls, features: str) -> HostVectors:
        """From LLVM's feature string.

        >>> HostVectors.of("+avx2,-avx512vl,-avx512bw")
        HostVectors(mask_registers=False, masked_stores=True)
        """
        given = set(features.split(","))
        return cls({"+avx512bw", "+avx512vl"} <= given, "+avx2" in given)

    @property
    def registers(self) -> int:
        """Vector registers that 32 lanes of 32 bits take."""
        return 2 if self.mask_registers else 4 if self.masked_stores else 8

    def gathers(self, bits: int) -> bool:
        """Whether there are fast gathers and scatters of elements of this width."""
        return self.mask_registers and bits in (32, 64)

    def stores_masked(self, bits: int) -> bool:
        """Whether there is an instruction for masked stores of this width."""
        return self.mask_registers or (self.masked_stores and bits in (32, 64))

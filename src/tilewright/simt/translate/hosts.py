"""What translated code depends on of the host's vector instructions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostVectors:
    """How a host holds masks."""

    #: Masks have registers of their own, a bit a lane, and masked stores are as fast as others. Elsewhere a mask is a
    #: vector as wide as the data, and a masked store is slow (AVX2 on AMD) or a branch for each lane (SSE, NEON).
    mask_registers: bool = True

    @classmethod
    def of(cls, features: str) -> HostVectors:
        """Read off LLVM's feature string.

        >>> HostVectors.of("+avx2,-avx512vl,-avx512bw")
        HostVectors(mask_registers=False)
        """
        return cls({"+avx512bw", "+avx512vl"} <= set(features.split(",")))

"""Microarchitectures of host processors, one record each: caches, and block sizes for them.

The vector registers alone decide the register tile (`contexts`). Caches decide a block's extents along k and n, and
they differ between processors of one vector width. All rows have the same `kc` and `packed_bytes` today; `measured`
says whether they were timed on such a processor, beside other sizes.

Blocks never change a bit of a product: partial sums continue in the accumulator's dtype.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Microarchitecture:
    """One family of processor cores."""

    title: str
    names: tuple[str, ...]  #: LLVM's names of such hosts.
    #: `l1_bytes`, `l2_bytes`: a core's data cache, and its second level; Apple's cores share theirs in a cluster.
    l1_bytes: int
    l2_bytes: int
    kc: int  #: Steps of a block along k.
    packed_bytes: int  #: B's packed block.
    source: str  #: Of the caches.
    measured: bool = False  #: Whether the blocks were timed on one.


_K, _M = 1 << 10, 1 << 20
_AMD = "AMD, Software Optimization Guide for the"
_INTEL = "Intel 64 and IA-32 Architectures Optimization Reference Manual"
_ARM = "Arm, Technical Reference Manual of the core"

#: All known hosts. Hosts that were not timed have the block sizes of those that were: on Zen 4, smaller blocks of B and
#: fewer steps along k took the same time or up to 9 % longer (docs/design/cpu.md).
MICROARCHITECTURES = (
    Microarchitecture("Zen 2", ("znver2",), 32 * _K, 512 * _K, 512, _M, f"{_AMD} 17h Family, section 2.6"),
    Microarchitecture("Zen 3", ("znver3",), 32 * _K, 512 * _K, 512, _M, f"{_AMD} 19h Family, section 2.6"),
    Microarchitecture("Zen 4", ("znver4",), 32 * _K, _M, 512, _M, f"{_AMD} Zen4 Microarchitecture", measured=True),
    Microarchitecture("Zen 5", ("znver5",), 48 * _K, _M, 512, _M, f"{_AMD} Zen5 Microarchitecture"),
    Microarchitecture("Haswell", ("haswell", "broadwell", "skylake"), 32 * _K, 256 * _K, 512, _M, _INTEL),
    Microarchitecture("Skylake-X", ("skylake-avx512", "cascadelake", "cooperlake"), 32 * _K, _M, 512, _M, _INTEL),
    Microarchitecture("Ice Lake", ("icelake-server",), 48 * _K, 5 * _M // 4, 512, _M, _INTEL),
    Microarchitecture(
        "Sapphire Rapids", ("sapphirerapids", "emeraldrapids"), 48 * _K, 2 * _M, 512, _M, _INTEL, measured=True
    ),
    Microarchitecture("Neoverse N1", ("neoverse-n1",), 64 * _K, _M, 512, _M, _ARM),
    Microarchitecture("Neoverse V1", ("neoverse-v1",), 64 * _K, _M, 512, _M, _ARM),
    Microarchitecture("Neoverse V2", ("neoverse-v2",), 64 * _K, 2 * _M, 512, _M, _ARM),
    Microarchitecture(
        "Apple M1 and later", ("apple-m1", "apple-m2", "apple-m3", "apple-m4"), 128 * _K, 12 * _M, 512, _M,
        "Apple, sysctl hw.perflevel0 of such a machine: the cluster's L2",
    ),
)  # fmt: skip
#: The record for unknown hosts: the sizes of Sapphire Rapids.
UNKNOWN = Microarchitecture("unknown", (), 48 * _K, 2 * _M, 512, _M, "assumed")


def of_host(name: str) -> Microarchitecture:
    """The record of a host, by LLVM's name for it.

    >>> of_host("znver3").packed_bytes, of_host("alderlake").title
    (1048576, 'unknown')
    """
    return next((x for x in MICROARCHITECTURES if name in x.names), UNKNOWN)

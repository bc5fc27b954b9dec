"""What a kernel is made for, and the tile and block sizes of a host: the one table of both.

Source of the shapes: registers first (accumulators, one row of B and one broadcast fit the vector registers), then B's
packed block in half of L2; measured in benchmarks/.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelKey:
    """One kernel.

    Attributes
    ----------
    a, b, c : str
        Dtypes in memory.
    register : str
        LLVM type of the accumulator.
    family : str
        How a step is made: `fma`, `integer`.
    vector_bytes : int
        64 (AVX-512), 32 (AVX2) or 16 (SSE, NEON).
    """

    a: str
    b: str
    c: str
    register: str
    family: str
    vector_bytes: int


@dataclass(frozen=True, slots=True)
class Tile:
    """Register tile and cache blocks, in elements."""

    mr: int
    vectors: int  # of a row of B
    width: int  # lanes of a vector
    kc: int
    nc: int

    @property
    def nr(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.width


#: vector bytes -> (rows of a tile, vectors across): 32 registers hold 6 x 4 + 4 + 1, 16 hold 6 x 2 + 2 + 1.
_TILES = {64: (6, 4), 32: (6, 2), 16: (6, 2)}
#: Bytes of each register type.
REGISTER_BYTES = {"float": 4, "double": 8, "i32": 4, "i64": 8}
_KC = 256
#: B's packed block: kc x nc elements of the register type in half of a 2 MiB L2.
_PACKED_BYTES = 1 << 20


def tile_of(key: KernelKey) -> Tile:
    """The tile of a kernel.

    Examples
    --------
    >>> tile_of(KernelKey("float32", "float32", "float32", "float", "fma", 64)).nr
    64
    """
    size = REGISTER_BYTES[key.register]
    mr, vectors = _TILES[key.vector_bytes]
    width = key.vector_bytes // size
    nr = vectors * width
    return Tile(mr, vectors, width, _KC, _PACKED_BYTES // (size * _KC) // nr * nr)


def vector_bytes(features: str) -> int:
    """The vector width of a host, from LLVM's feature string.

    Examples
    --------
    >>> vector_bytes("+avx2,-avx512f")
    32
    """
    present = set(features.split(","))
    if {"+avx512f", "+avx512bw", "+avx512vl", "+avx512dq"} <= present:
        return 64
    return 32 if "+avx2" in present else 16

"""A kernel's key and its tile: by the vector registers, and by the host's caches (`microarchitectures`).

Source of the shapes: accumulators, one row of B and one broadcast fit the vector registers; measured in benchmarks/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from tilewright.ground.native.compiler import compiler
from tilewright.multiply.backends.cpu.finish import Finish
from tilewright.multiply.backends.cpu.microarchitectures import of_host
from tilewright.multiply.problem.algebra import Semiring


class Blocks(NamedTuple):
    """How the packed kernel cuts k and n.

    >>> str(Blocks(512, 1 << 20))
    '512 steps of k, B in 1024 KiB'
    """

    steps: int  #: Of a block along k.
    packed_bytes: int  #: Of B's packed block.

    def __str__(self) -> str:
        return f"{self.steps} steps of k, B in {self.packed_bytes >> 10} KiB"


@dataclass(frozen=True, slots=True)
class KernelKey:
    """One kernel."""

    #: `a`, `b`, `c`: dtypes in memory.
    a: str
    b: str
    c: str
    register: str  #: LLVM type of the accumulator.
    #: The instructions of a step: `fma`, `integer`, `dot` (accumulating dot products), `pairs` (products of words added
    #: in pairs), `amx`, `lanes` (fused steps in several chains), `semiring`.
    family: str
    vector_bytes: int  #: 64 (AVX-512), 32 (AVX2) or 16 (SSE, NEON).
    algebra: Semiring | None = None  #: For the family `semiring`.
    finish: Finish | None = None  #: The expression applied to the sums; `c` is then the accumulator's dtype.
    blocks: Blocks | None = None  #: By default the host's.

    @property
    def order(self) -> Literal["canonical", "fast"]:
        """`canonical`, or `fast` if the kernel sums floats in another order."""
        reordered = self.family == "lanes" or (self.family == "amx" and self.register == "float")
        return "fast" if reordered else "canonical"


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
REGISTER_BYTES = {"float": 4, "double": 8, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
#: Most operations of a semiring's step for tiles that fill the registers; with more, code grows without speed.
SHORT_STEP = 8
#: The tile for longer steps, and for booleans in words, whose rows are short.
_LONG_STEP_TILE, _WORD_TILE = (4, 1), (12, 1)


#: AMX: bytes along k of a block (32 rows of A are then 32 KiB of a 48 KiB L1), and columns of B's block of 1 MiB.
_AMX_KC_BYTES, _AMX_NC = 1024, 1024


def tile_of(key: KernelKey) -> Tile:
    """The tile of a kernel.

    >>> tile_of(KernelKey("float32", "float32", "float32", "float", "fma", 64)).nr
    64
    """
    if key.family == "amx":
        return Tile(32, 2, 16, _AMX_KC_BYTES // (2 if key.register == "float" else 1), _AMX_NC)
    size = REGISTER_BYTES[key.register]
    mr, vectors = _TILES[key.vector_bytes]
    if key.algebra is not None and key.algebra.cost > SHORT_STEP:
        mr, vectors = _LONG_STEP_TILE
    elif "bool" in (key.a, key.b):
        mr, vectors = _WORD_TILE
    width = key.vector_bytes // size
    nr = vectors * width
    host = of_host(compiler().cpu)
    steps, packed_bytes = key.blocks or (host.kc, host.packed_bytes)
    return Tile(mr, vectors, width, steps, max(nr, packed_bytes // (size * steps) // nr * nr))


def vector_bytes(features: str) -> int:
    """The vector width of a host, from LLVM's feature string.

    >>> vector_bytes("+avx2,-avx512f")
    32
    """
    present = set(features.split(","))
    if {"+avx512f", "+avx512bw", "+avx512vl", "+avx512dq"} <= present:
        return 64
    return 32 if "+avx2" in present else 16

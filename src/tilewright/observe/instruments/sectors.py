"""Handlers that count the distinct sectors and bytes of one warp's request, and may record the sectors.

A request adds to five counters: requests, lanes, sectors, bytes used and ideal sectors, the fewest that could hold the
bytes used. `sectors.c` computes them from addresses. If the lanes' offsets from a base are known, tables made at
translation hold what an access counts and records.

Source: CUDA C++ Best Practices Guide, 13.2.1 "Coalesced Access to Global Memory": 32-byte transactions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.ground.native.bitcode import bitcode
from tilewright.observe.instruments.counting import LANES, by_offsets
from tilewright.observe.instruments.requests import LINE_BYTES, LINE_SECTORS, SECTOR_BYTES
from tilewright.simulate.events import CFunction, EventKind, Handler, words as constant

#: Source: CUDA C++ Programming Guide, "Local Memory": consecutive 32-bit words belong to consecutive threads.
WORD_BYTES = 4
ROW_BYTES = WORD_BYTES * LANES
#: Counters of a site; one more if requests are recorded, which the first row uses.
SLOTS = 5
#: Words of a request that are written at a time.
_WRITTEN = 4
#: Rows of one stride that an access may have, to be recorded row by row.
_ROWS_MOST = 8
_PART = bitcode(Path(__file__).with_name("sectors.c"))
_ROWS = CFunction("tw_coalescing_rows_recorded", EventKind.ACCESS, (_PART,), strided=True, inline=True)


@dataclass(frozen=True, slots=True)
class Space:
    """How a state space is divided into sectors."""

    name: str
    modulus: int  #: The sectors of an access, relative to those of its base, depend on the base modulo this.
    place: Callable[[int, int], int]  #: The address that decides the sector of a byte, from its own and its lane.
    #: Bits of an address below its line number; an access's lines count from that of its base.
    line: int


def local_place(address: int, lane: int) -> int:
    """The offset of a byte of a lane's local memory in the local memory of its warp.

    Local memory is laid out so that the same 32-bit word of consecutive threads is adjacent.
    Source: CUDA C++ Programming Guide, "Local Memory".

    >>> local_place(0, 1), local_place(4, 0), local_place(6, 31)
    (4, 128, 254)
    """
    return address // WORD_BYTES * ROW_BYTES + WORD_BYTES * lane + address % WORD_BYTES


SPACES = {
    "global": Space("global", SECTOR_BYTES, lambda address, lane: address, line=7),
    "local": Space("local", WORD_BYTES, local_place, line=2),  # one word of 32 lanes is a line
}


def handler(space: Space, size: int, offsets: Sequence[int] | None, *, record: bool) -> Handler:
    """The handler of an access; it uses the lanes' offsets if they are known."""
    recorded = "_recorded" * record
    if offsets is None:
        return Handler(f"tw_coalescing_{space.name}{recorded}", needs=(_PART,))

    def counts(base: int) -> list[int]:
        return counted(space.place(base + at + byte, lane) for lane, at in enumerate(offsets) for byte in range(size))

    constants = (int(space.name == "local"), *(_recorded(space, offsets, size) if record else ()))
    function = f"tw_coalescing_affine{recorded}"
    return by_offsets(function, _PART, offsets, size, space.modulus, counts, constants, only_counts=not record)


def in_rows(size: int, offsets: Sequence[int], rows: Sequence[int]) -> Handler | None:
    """The handler that counts and records an access whose lanes are in rows of one stride; None for too many rows.

    Each row is an access of constant offsets. If no two rows share a line, what a request counts and records is the sum
    over its rows.
    """
    space, numbers = SPACES["global"], list(dict.fromkeys(rows))
    parts = [[at for at, row in zip(offsets, rows, strict=True) if row == number] for number in numbers]
    if len(parts) > _ROWS_MOST:
        return None
    most = max(_recorded(space, part, size)[-1] for part in parts)
    recorded = [_recorded(space, part, size, most) for part in parts]
    _, places, shift, _ = recorded[0]
    words = [word for part in recorded for word in part[0]]
    used = sum(len({at + byte for at in part for byte in range(size)}) for part in parts)
    apart = max(offsets) - min(offsets) + size + LINE_BYTES
    facts = (len(parts), used, apart, places, shift, most, size)
    listed = {"numbers": numbers, "words": words, "offsets": offsets, "rows": rows}
    symbol = f"tw.coalescing.rows.{hashlib.sha256(repr((facts, listed)).encode()).hexdigest()[:16]}"
    tables = "".join(f"@{symbol}.{name} = private constant {constant(x)}, align 64\n" for name, x in listed.items())
    constants = [*(f"ptr @{symbol}.{name}" for name in listed), *(f"i64 {n}" for n in facts)]
    return _ROWS.handler(symbol, constants, tables)


def _words(space: Space, offsets: Sequence[int], size: int, base: int) -> list[int]:
    """The words of a request of lanes at constant offsets, each `line << 4 | sectors`; lines count from the base's.

    >>> [(word >> 4, word & 15) for word in _words(SPACES["global"], [4 * lane for lane in range(32)], 4, 64)]
    [(0, 12), (1, 3)]
    """
    lines: dict[int, int] = {}
    for lane, at in enumerate(offsets):
        for byte in range(0, size, WORD_BYTES):
            line, sector = divmod(space.place(base + at + byte, lane) // SECTOR_BYTES, LINE_SECTORS)
            lines[line] = lines.get(line, 0) | 1 << sector
    return [line << LINE_SECTORS | lines[line] for line in sorted(lines)]


def _recorded(space: Space, offsets: Sequence[int], size: int, least: int = 0) -> tuple[list[int], int, int, int]:
    """The record of an access of a whole warp, by the place of its base in a line.

    Returns a table, its number of rows, the address bits below the place of a base, and the words of a row. A row is a
    head (see `_head`) and then words, padded to at least `least`. Accesses are naturally aligned, and so is the base.
    """
    step = min(size, 1 << space.line)
    rows = [_words(space, offsets, size, base) for base in range(0, 1 << space.line, step)]
    most = max(least, -(-max(map(len, rows)) // _WRITTEN) * _WRITTEN)
    table = [word for row in rows for word in (_head(row), *row, *[0] * (most - len(row)))]
    return table, len(rows), step.bit_length() - 1, most


def _head(words: Sequence[int]) -> int:
    """The number of words, and in bits 32 and up the number of sectors in them."""
    return len(words) | sum((word & (1 << LINE_SECTORS) - 1).bit_count() for word in words) << 32


def counted(touched: Iterable[int]) -> list[int]:
    """The counts of one request of all lanes that touches bytes at these places.

    >>> counted(range(1024, 1152))
    [1, 32, 4, 128, 4]
    """
    touched = set(touched)
    sectors = {place // SECTOR_BYTES for place in touched}
    return [1, LANES, len(sectors), len(touched), -(-len(touched) // SECTOR_BYTES)]

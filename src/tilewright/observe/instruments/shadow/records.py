"""Records of findings: one for each kind and pair of instructions, in the layout of `records.h`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.ground.native.bitcode import bitcode
from tilewright.ground.native.header import header
from tilewright.simulate.events import Facts

_HEADER = header(Path(__file__).with_name("records.h"))
#: Byte offsets at the start of a launch's memory.
FOUND = _HEADER.structs["tw_found"].offsets
_RECORD = _HEADER.structs["tw_record"]
_HOW = ("wrote", "other_wrote", "one_value", "lockstep", "unordered", "rounded")
_BITS = {name: _HEADER.numbers[f"TW_{name.upper()}"] for name in _HOW}
#: The C part that writes them.
PART = bitcode(Path(__file__).with_name("records.c"))


@dataclass(frozen=True, slots=True)
class Record:
    """One kind of finding at one instruction, or pair of them."""

    kind: int  #: The instrument's number of the kind.
    row: int  #: The instrument's number of the site.
    other: int  #: The other instruction of a race; SITE_MAX if unknown.
    wrote: bool
    other_wrote: bool
    one_value: bool  #: Both wrote the same.
    lockstep: bool  #: Both are volatile or atomic, and of one warp.
    unordered: bool  #: The same of two warps or blocks.
    rounded: bool  #: What both wrote differs by rounding alone.
    count: int
    #: `block`, `thread`: linear, of the first instance.
    block: int
    thread: int
    address: int
    cell: int  #: The cell of the other access at the first instance.


def read(table: npt.NDArray[Any]) -> list[Record]:
    """The records of a table, as `empty` makes it."""
    found = []
    for words in table[table[:, 0] != 0].tolist():
        kind, row, other, wrote, count, first, address, cell = words
        place = ~first & ((1 << 64) - 1)
        how = {name: bool(wrote & bit) for name, bit in _BITS.items()}
        found.append(
            Record(
                kind, row, other, count=count, block=place >> 10, thread=place & 1023, address=address, cell=cell, **how
            )
        )
    return found


def empty() -> npt.NDArray[np.uint64]:
    """A table without records."""
    return np.zeros((_HEADER.numbers["TW_RECORDS"], _RECORD.bytes // 8), np.uint64)


def launch_words(table: npt.NDArray[np.uint64], facts: Facts) -> npt.NDArray[np.uint64]:
    """The start of a launch's memory: the address of its table, and the number of threads of a block."""
    words = np.zeros(_HEADER.structs["tw_found"].bytes // 8, np.uint64)
    words[FOUND["table"] // 8] = table.ctypes.data
    words[FOUND["threads"] // 8] = math.prod(facts.block)
    return words

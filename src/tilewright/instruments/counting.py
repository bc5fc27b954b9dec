"""Handlers of accesses whose offsets between lanes are known when code is made.

Most accesses of a kernel have constant offsets between lanes and run with all lanes. What such an access adds to the
counters depends on no more than its base's alignment; so it is worked out in Python when the handler is made, and the
handler adds a row of a small table (`counting.h`). Where it depends on nothing, the machine counts how often the
straight line ran (`Handler.each`). With lanes switched off the handler takes the way of addresses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.simt.events import CFunction, EventKind, Handler, words

LANES = 32
FULL = (1 << LANES) - 1


def by_offsets(
    function: str,
    part: bytes,
    offsets: Sequence[int],
    size: int,
    modulus: int,
    counts: Callable[[int], Sequence[int]],
    constants: Sequence[int | Sequence[int]] = (),
    *,
    only_counts: bool = True,
) -> Handler:
    """A handler that is given the base of an access, of so many bytes a lane at the lanes' offsets from it.

    After what every handler is given the C function takes a table of rows and how many they are, the offsets, the size,
    and `constants`: numbers of 64 bits, and tables of them. A row is what an access of all lanes adds to each counter,
    which `counts` says of a base below `modulus`, a power of two that alone matters. With `only_counts` the function
    does nothing else.
    """
    rows = [tuple(counts(base)) for base in range(modulus)]
    if len(set(rows)) == 1:
        del rows[1:]
    passed = ([n for row in rows for n in row], len(rows), offsets, size, *constants)
    symbol = f"{function}.{hashlib.sha256(repr(passed).encode()).hexdigest()[:16]}"
    tables = "".join(
        f"@{symbol}.{i} = private constant {words(each)}, align 64\n"
        for i, each in enumerate(passed)
        if not isinstance(each, int)
    )
    listed = [f"i64 {each}" if isinstance(each, int) else f"ptr @{symbol}.{i}" for i, each in enumerate(passed)]
    called = CFunction(function, EventKind.ACCESS, (part,), affine=True, inline=True)
    handler = called.handler(symbol, listed, tables)
    return replace(handler, each=rows[0]) if only_counts and len(rows) == 1 else handler

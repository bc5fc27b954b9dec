"""Handlers of accesses whose offsets between lanes are known at translation.

Most accesses of a kernel have constant offsets between lanes and run with all lanes. What such an access adds to the
counters depends only on the alignment of its base. So Python computes it when the handler is made, and the handler adds
a row of a small table (`counting.h`). If it does not even depend on the base, the machine counts how often the straight
line ran (`Handler.each`). With lanes switched off the handler uses addresses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.simulate.events import CFunction, EventKind, Handler, words

LANES = 32


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
    """A handler that gets the base of an access of `size` bytes a lane at the lanes' `offsets` from the base.

    After the arguments of every handler, the C function gets a table of rows and their number, the offsets, the size,
    and `constants`: 64-bit numbers, and tables of such. A row is what an access of all lanes adds to each counter;
    `counts` gives it for a base below `modulus`. Only the base modulo this power of two matters. `only_counts`: the
    function does nothing but add the row.
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

"""The integers among a launch's packed parameters."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence

from tilewright.simulate.programs.listing import Parameter
from tilewright.simulate.translate.analysis.special import SMALL, SMALL_WIDE

_INTEGERS = ("integer", "pointer")
#: The most that an integer of so many bytes may be to be small.
_MOST = {4: SMALL, 8: SMALL_WIDE}


class Integers:
    """Reads the integers of 4 and 8 bytes, pointers among them, from packed parameters.

    >>> pair = [Parameter("x", 8, 8, "pointer"), Parameter("f", 4, 4, "float"), Parameter("n", 4, 4, "integer")]
    >>> Integers(pair, (0, 8, 12)).read(bytes([1] * 8 + [2] * 4 + [3, 0, 0, 0]))
    (72340172838076673, 3)
    """

    def __init__(self, parameters: Sequence[Parameter], offsets: Sequence[int]) -> None:
        placed = list(enumerate(zip(parameters, offsets, strict=True)))
        kept = [(at, one, offset) for at, (one, offset) in placed if one.kind in _INTEGERS and one.bytes in (4, 8)]
        self.numbers = {at: number for number, (at, _, _) in enumerate(kept)}  #: Of each, by its parameter's number.
        self.places = [(offset, 8 * one.bytes) for _, one, offset in kept]  #: Byte offset and bits of each.
        #: The most that each may be to be small; -1 for pointers.
        self.most_small = [_MOST[one.bytes] if one.kind == "integer" else -1 for _, one, _ in kept]
        form, end = "<", 0
        for _, one, offset in kept:
            form += f"{offset - end}x{'I' if one.bytes == 4 else 'Q'}"
            end = offset + one.bytes
        #: Unlike a `Struct`, it can be sent to another process.
        self.read: Callable[[bytes], tuple[int, ...]] = functools.partial(struct.unpack_from, form)
        self._wide = [at for at, (_, bits) in enumerate(self.places) if bits == 64]

    def addresses(self, params: bytes) -> list[int]:
        """Those of 8 bytes, which may be addresses."""
        values = self.read(params)
        return [values[at] for at in self._wide]

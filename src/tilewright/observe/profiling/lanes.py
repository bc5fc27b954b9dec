"""Which lanes of a warp are served together: by shared-memory wavefront, and by sector.

These are the models of :mod:`tilewright.observe.instruments.banks` and :mod:`tilewright.observe.instruments.sectors`,
which only count; here each lane has its wavefront. Tests compare the sums with those counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.observe.instruments.banks import BANK_BYTES
from tilewright.observe.profiling.counts import LANES, SECTOR_BYTES

BANKS = 32


def wavefronts(addresses: Sequence[int], mask: int, size: int) -> list[int | None]:
    """The wavefront, from 0, that serves each lane of an access to shared memory; None for an inactive lane.

    Lanes form groups of 128 bytes. In each group a wavefront serves one word of every bank; of several words in a bank,
    the word of the lowest lane goes first.

    >>> wavefronts([4 * lane for lane in range(32)], 2**32 - 1, 4) == [0] * 32
    True
    >>> wavefronts([128 * lane for lane in range(32)], 0b111, 4)[:4]
    [0, 1, 2, None]
    """
    unit = max(size, BANK_BYTES)
    group = LANES * BANK_BYTES // unit
    found: list[int | None] = [None] * LANES
    before = 0
    for first in range(0, LANES, group):
        in_bank: dict[int, list[int]] = {}  # bank, as wide as a lane -> its words in lane order
        for lane in range(first, first + group):
            if mask >> lane & 1:
                word = addresses[lane] // unit
                words = in_bank.setdefault(word % group, [])
                if word not in words:
                    words.append(word)
                found[lane] = before + words.index(word)
        before += max(map(len, in_bank.values()), default=0)
    return found


def ideal_wavefronts(mask: int, size: int) -> int:
    """Wavefronts of an access without bank conflicts: one for each group with an active lane.

    >>> ideal_wavefronts(2**32 - 1, 4), ideal_wavefronts(2**32 - 1, 16), ideal_wavefronts(1, 16)
    (1, 4, 1)
    """
    group = LANES * BANK_BYTES // max(size, BANK_BYTES)
    return sum(bool(mask >> first & (1 << group) - 1) for first in range(0, LANES, group))


def sectors(addresses: Sequence[int], mask: int, size: int) -> tuple[int, int]:
    """The number of 32-byte sectors that an access to global memory requests, and the least that would hold its bytes.

    >>> sectors([128 * lane for lane in range(32)], 2**32 - 1, 4)
    (32, 4)
    """
    active = [addresses[lane] for lane in range(LANES) if mask >> lane & 1]
    touched = {address + byte for address in active for byte in range(size)}
    return len({byte // SECTOR_BYTES for byte in touched}), -(-len(touched) // SECTOR_BYTES)

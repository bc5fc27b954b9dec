"""The claim of source row S10, compared with a climb's counts.

S10 says that tiles with edges 8 and 16 lose to bank conflicts, in storing the tiles and in the inner loop. Every
sentence follows from the counts of the rungs that ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.ladder.rung import Rung
from tilewright.report.figures import count

#: Tile edges that the source blames, and the one that it compares them with.
BLAMED = (8, 16)
REFERENCE = 32


@dataclass(frozen=True, slots=True)
class Tile:
    """The counts of the S9 kernel with one tile edge."""

    edge: int
    load_wavefronts: int
    store_wavefronts: int
    conflicts: int
    global_load_sectors: int


def tiles(rungs: Sequence[Rung]) -> dict[int, Tile]:
    """Return the S9 rungs with complete counts, by tile edge."""
    found: dict[int, Tile] = {}
    for rung in rungs:
        if rung.source != "S9" or rung.block is None or rung.block[0] != rung.block[1]:
            continue
        numbers = (
            rung.counts.shared_load_wavefronts,
            rung.counts.shared_store_wavefronts,
            rung.counts.shared_bank_conflicts,
            rung.counts.global_load_sectors,
        )
        if None not in numbers:
            found[rung.block[0]] = Tile(rung.block[0], *(n for n in numbers if n is not None))
    return dict(sorted(found.items()))


def verdict(counted: dict[int, Tile]) -> str:
    """Return the verdict in words, or "" if no blamed tile was counted."""
    blamed = [counted[edge] for edge in BLAMED if edge in counted]
    if not blamed:
        return ""
    guilty = [tile for tile in blamed if tile.conflicts]
    if not guilty:
        return (
            f"The counts do not support S10's claim: no shared-memory access of the {_names(blamed)} tiles has a bank "
            f"conflict, so bank conflicts do not slow them."
        ) + _traffic(counted)
    listed = ", ".join(f"{count(t.conflicts)} with {t.edge}x{t.edge}" for t in guilty)
    reference = counted.get(REFERENCE)
    if reference and any(tile.conflicts <= reference.conflicts for tile in guilty):
        return (
            f"The counts do not support S10's claim: there are excess wavefronts ({listed}), but the "
            f"{REFERENCE}x{REFERENCE} tiles have {count(reference.conflicts)}." + _traffic(counted)
        )
    extent = "" if len(guilty) == len(blamed) else " in part"
    return f"The counts support S10's claim{extent}: bank conflicts add excess wavefronts, {listed}." + _traffic(
        counted
    )


def evidence(counted: dict[int, Tile]) -> list[str]:
    """Return one line a tile edge."""
    return [
        f"{t.edge}x{t.edge}: {count(t.load_wavefronts)} load and {count(t.store_wavefronts)} store wavefronts, "
        f"{count(t.conflicts)} of them from conflicts; {count(t.global_load_sectors)} global load sectors"
        for t in counted.values()
    ]


def _names(blamed: Sequence[Tile]) -> str:
    return " and ".join(f"{tile.edge}x{tile.edge}" for tile in blamed)


def _traffic(counted: dict[int, Tile]) -> str:
    """Compare global traffic in words, if it differs."""
    reference = counted.get(REFERENCE)
    if reference is None or not reference.global_load_sectors:
        return ""
    ratios = [
        f"{edge}x{edge} tiles have {tile.global_load_sectors / reference.global_load_sectors:.2g} times"
        for edge, tile in counted.items()
        if edge != REFERENCE and tile.global_load_sectors != reference.global_load_sectors
    ]
    if not ratios:
        return ""
    return f" Global traffic differs: {' and '.join(ratios)} the load sectors of {REFERENCE}x{REFERENCE}."

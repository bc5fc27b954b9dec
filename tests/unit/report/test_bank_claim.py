"""The verdict on S10 follows from the counts, whatever they are."""

from __future__ import annotations

from tilewright.ladder.rung import Counts, Rung
from tilewright.report import bank_claim


def rung(edge: int, conflicts: int, sectors: int = 100, source: str = "S9") -> Rung:
    return Rung(
        name=f"tile_{edge}",
        title="",
        source=source,
        order="fma",
        published=False,
        device="simulated",
        dtype="int32",
        block=(edge, edge, 1),
        counts=Counts(1, sectors, 1, 7, 3, conflicts),
    )


def shown(*rungs: Rung) -> str:
    return bank_claim.verdict(bank_claim.tiles(rungs))


def test_no_conflicts_at_all() -> None:
    assert shown(rung(8, 0), rung(16, 0), rung(32, 0)) == (
        "The counts do not support S10's claim: no shared-memory access of the 8x8 and 16x16 tiles has a bank "
        "conflict, so bank conflicts do not slow them."
    )


def test_conflicts_in_the_small_tiles_only() -> None:
    text = shown(rung(8, 40), rung(16, 20), rung(32, 0))
    assert text.startswith("The counts support S10's claim: bank conflicts add excess wavefronts, 40 with 8x8, 20")


def test_conflicts_in_one_of_them() -> None:
    assert "claim in part: " in shown(rung(8, 40), rung(16, 0), rung(32, 0))


def test_conflicts_everywhere_explain_nothing() -> None:
    assert "do not support" in shown(rung(8, 40), rung(16, 40), rung(32, 40))


def test_global_traffic_is_reported_where_it_differs() -> None:
    text = shown(rung(8, 0, 400), rung(16, 0, 200), rung(32, 0, 100))
    assert "8x8 tiles have 4 times and 16x16 tiles have 2 times the load sectors of 32x32" in text


def test_nothing_is_said_without_counts() -> None:
    assert shown(rung(32, 0)) == ""
    assert shown(rung(8, 0, source="S3")) == ""
    bare = rung(8, 0)
    assert bank_claim.tiles([type(bare)(**{**_fields(bare), "counts": Counts()})]) == {}


def _fields(one: Rung) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__slots__}

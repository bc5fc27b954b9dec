"""The verdict: its limit, its lines, and the findings of accesses; `test_rules.py` has the rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright import machine
from tilewright.observe.profiling.counts import Counts, Mix, Operations, Sectors, Served, Wavefronts
from tilewright.observe.profiling.faults import findings
from tilewright.observe.profiling.record import LineCounts, SiteCounts
from tilewright.observe.profiling.units import position, traffic, units, work
from tilewright.observe.profiling.verdict import NOTHING, Evidence, verdict

H100 = machine.gpu("h100")
GOOD = Sectors(1000, 32_000, 4000, 4000, 128_000)
WIDE = Sectors(1000, 32_000, 32_000, 4000, 128_000)
FAR = replace(WIDE, served=Served(dram_compulsory=32_000))  # all from DRAM
PLAIN = Counts(1000, 32_000, global_loads=GOOD)


def evidence(counts: Counts, blocks: int = 999, **more: Any) -> Evidence:
    """What a launch with these counts on line 7, and few on line 8, has."""
    lines = [LineCounts("k.py", 7, "guilty", counts), LineCounts("k.py", 8, "", Counts(10, 320, Mix(integer=10)))]
    totals, gpu = lines[0].counts + lines[1].counts, more.pop("gpu", H100)
    moved = traffic(gpu, totals)
    return Evidence(gpu, blocks, totals, units(gpu, totals, moved, blocks), moved, lines, **more)


def test_the_largest_share_is_the_limit() -> None:
    """A wait of 16 % is none where issue takes 42 %."""
    found = verdict(evidence(PLAIN, shares={"Long Scoreboard": 0.16, "Issue": 0.42, "L1/TEX": 0.3}))
    assert found is not None and (found.bound, found.share) == ("Issue", 0.42)


def test_spills_of_the_assembler_are_named_with_the_line_whose_code_they_are_in() -> None:
    sites = [SiteCounts(5, "fma.rn.f32", "k.py:7", Counts(1)), SiteCounts(6, "fma.rn.f32", "k.py:8", Counts(1))]
    more = {"sites": sites, "local": {5: 9.0, 6: 1.0}, "shares": {"L1/TEX": 0.9}}
    found = verdict(evidence(PLAIN, local_share=0.6, **more))
    assert found is not None and found.rule == "spilled registers" and "60 % of the accesses" in found.sentence
    assert [(cause.line, cause.share, cause.text) for cause in found.causes] == [(7, 0.9, "guilty")]
    twin = verdict(evidence(PLAIN, local_share=0.1, **more))
    assert twin is not None and twin.rule == NOTHING


def test_nothing_ran() -> None:
    assert verdict(Evidence(H100, 1, Counts(), (), traffic(H100, Counts()))) is None


def test_a_second_line_is_named_from_a_fifth_on() -> None:
    shares = [LineCounts("k.py", line, "", Counts(amount, 32 * amount)) for line, amount in ((1, 70), (2, 25), (3, 5))]
    totals = Counts(100, 3200)
    moved = traffic(H100, totals)
    found = verdict(Evidence(H100, 999, totals, units(H100, totals, moved, 999), moved, shares))
    assert found is not None
    assert [(cause.line, cause.share) for cause in found.causes] == [(1, 0.7), (2, 0.25)]


def test_findings_are_one_a_line_and_code_at_the_worst_access() -> None:
    sites = [
        SiteCounts(5, "ld.global.f32", "k.py:3", Counts(global_loads=Sectors(1, 32, 8, 4, 128))),
        SiteCounts(6, "ld.global.f64", "k.py:3", Counts(global_loads=Sectors(1, 32, 32, 8, 256))),
        # rows of 32 and of 16 words that start unaligned
        SiteCounts(7, "ld.global.f32", "k.py:4", Counts(global_loads=Sectors(1, 32, 5, 4, 128))),
        SiteCounts(7, "ld.global.f32", "k.py:5", Counts(global_loads=Sectors(1, 32, 6, 4, 128))),
        SiteCounts(8, "st.shared.f32", "", Counts(shared_stores=Wavefronts(1, 32, 2, 1))),
    ]
    found = findings("k", sites, 4)
    assert [(f.code, f.source, f.line, f.ptx_line, f.count) for f in found] == [
        ("TW701", "", 0, 8, 32),
        ("TW702", "k.py", 3, 6, 64),
    ]
    assert all(f.launch == 4 for f in found)


def test_units_take_their_amounts_at_the_gpus_rates() -> None:
    totals = Counts(100, 3200, Mix(float=100), Operations(float32=6400), global_loads=FAR)
    slow = {unit.name: unit for unit in units(H100, totals, traffic(H100, totals), 999)}
    assert slow["DRAM"].seconds == pytest.approx(32 * 32_000 / 3350e9)
    assert slow["DRAM"].seconds == max(unit.seconds for unit in slow.values())
    assert slow["FMA"].seconds == pytest.approx(3200 / (128 * 132 * 1980e6))
    assert slow["Issue"].seconds == pytest.approx(100 / (4 * 132 * 1980e6))
    assert "FP64" not in slow


def test_few_blocks_keep_few_multiprocessors_busy() -> None:
    totals = Counts(100, 3200, Mix(float=100), global_loads=FAR)
    many, few = (
        {unit.name: unit.seconds for unit in units(H100, totals, traffic(H100, totals), blocks)} for blocks in (999, 33)
    )
    assert few["DRAM"] == many["DRAM"] and few["L2"] == many["L2"]
    for name in ("Issue", "FMA", "L1/TEX"):
        assert few[name] == pytest.approx(4 * many[name])


def test_served_sectors_show_what_reaches_each_level() -> None:
    served = Served(l1_hits=10, l2_hits=20, dram_compulsory=3, dram_capacity=4, dram_conflict=5, l2_allocated=6)
    totals = Counts(100, 3200, Mix(float=100), Operations(float32=6400), global_loads=replace(GOOD, served=served))
    full = replace(H100, l2_bytes=32 * (3 + 6) - 1)
    moved = traffic(full, totals, 26)  # sectors that atomics or stores changed after a read are written back too
    assert (moved.l2_bytes, moved.dram_read_bytes, moved.dram_written_bytes) == (32 * 38, 32 * 12, 32 * 26)
    kept = traffic(replace(full, l2_bytes=32 * (3 + 6)), totals, 26)
    assert (kept.dram_written_bytes, kept.dram_kept_bytes, moved.dram_kept_bytes) == (0, 32 * 26, 0)
    assert (kept.dram_bytes, [work("DRAM", how)(totals) for how in (kept, moved)]) == (32 * 12, [32 * 12, 32 * 18])
    assert (moved.compulsory_bytes, moved.again_bytes) == (32 * 3, 32 * 9)
    assert next(unit for unit in units(H100, totals, moved, 999) if unit.name == "DRAM").amount == 32 * 38
    found = position(H100, totals, moved)
    assert found is not None
    assert {level.name: level.bytes for level in found.roof.levels} == {
        "l1": 32 * 4000, "l2": 32 * 38, "dram": 32 * 38,
    }  # fmt: skip
    assert (found.dtype, found.operations) == ("float32", 6400)


def test_memories_that_were_not_modelled_bound_nothing() -> None:
    loads = Sectors(requests=100, lanes=3200, sectors=3200, ideal_sectors=400, bytes_used=12800)
    totals = Counts(warp_instructions=100, thread_instructions=3200, global_loads=loads)
    names = [unit.name for unit in units(H100, totals, traffic(H100, totals), blocks=1000)]
    assert names == ["L1/TEX", "Issue"]


@pytest.mark.parametrize(("sectors", "ideal", "codes"), [(2000, 1000, []), (8000, 4000, ["TW702"])])
def test_a_broadcast_of_two_rows_is_no_uncoalesced_access(sectors: int, ideal: int, codes: list[str]) -> None:
    """A warp of a 16 x 16 block reads one element of two rows of A; a stride of two elements is what TW702 means."""
    counts = Counts(1000, 32_000, global_loads=Sectors(1000, 32_000, sectors, ideal, 128_000))
    found = findings("k", [SiteCounts(5, "ld.global.f32", "k.py:3", counts)], 0)
    assert [one.code for one in found] == codes

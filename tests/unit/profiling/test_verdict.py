"""Each rule speaks where its reason holds, and names the line that causes it."""

from __future__ import annotations

import pytest

from tilewright import machine
from tilewright.profiling.counts import Counts, Mix, Operations, Sectors, Wavefronts
from tilewright.profiling.record import LineCounts, SiteCounts
from tilewright.profiling.units import roofline, traffic, units
from tilewright.profiling.verdict import Evidence, findings, verdict

H100 = machine.gpu("h100")
GOOD = Sectors(1000, 32_000, 4000, 4000, 128_000)
WIDE = Sectors(1000, 32_000, 32_000, 4000, 128_000)
CASES = {
    "few blocks": ((5, 1, 1), Counts(1000, 32_000, Mix(integer=1000))),
    "bank conflicts": ((999, 1, 1), Counts(1000, 32_000, shared_loads=Wavefronts(1000, 32_000, 8000, 1000))),
    "uncoalesced access": ((999, 1, 1), Counts(1000, 32_000, global_loads=WIDE)),
    "local memory": ((999, 1, 1), Counts(1000, 32_000, global_loads=GOOD, local_stores=GOOD)),
    "divergence": ((999, 1, 1), Counts(1000, 8_000, Mix(float=1000))),
    "slowest unit": ((999, 1, 1), Counts(1000, 32_000, global_loads=GOOD)),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule_speaks_for_its_reason(name: str) -> None:
    grid, counts = CASES[name]
    lines = [LineCounts("k.py", 7, "guilty", counts), LineCounts("k.py", 8, "", Counts(10, 320, Mix(integer=10)))]
    totals = lines[0].counts + lines[1].counts
    found = verdict(Evidence(H100, grid, totals, units(H100, totals), None), lines)
    assert found is not None
    assert found.rule == name
    assert [cause.line for cause in found.causes] == [7]
    assert found.causes[0].share > 0.95


def test_nothing_ran() -> None:
    assert verdict(Evidence(H100, (1, 1, 1), Counts(), (), None), []) is None


def test_a_second_line_is_named_from_a_fifth_on() -> None:
    shares = [LineCounts("k.py", line, "", Counts(amount, 32 * amount)) for line, amount in ((1, 70), (2, 25), (3, 5))]
    totals = Counts(100, 3200)
    found = verdict(Evidence(H100, (999, 1, 1), totals, units(H100, totals), None), shares)
    assert found is not None
    assert [(cause.line, cause.share) for cause in found.causes] == [(1, 0.7), (2, 0.25)]


def test_findings_are_one_a_line_and_code_at_the_worst_access() -> None:
    sites = [
        SiteCounts(5, "ld.global.f32", "k.py:3", Counts(global_loads=Sectors(1, 32, 8, 4, 128))),
        SiteCounts(6, "ld.global.f64", "k.py:3", Counts(global_loads=Sectors(1, 32, 32, 8, 256))),
        SiteCounts(7, "ld.global.f32", "k.py:4", Counts(global_loads=Sectors(1, 32, 5, 4, 128))),  # off its alignment
        SiteCounts(8, "st.shared.f32", "", Counts(shared_stores=Wavefronts(1, 32, 2, 1))),
    ]
    found = findings("k", sites, 4)
    assert [(f.code, f.source, f.line, f.ptx_line, f.count) for f in found] == [
        ("TW701", "", 0, 8, 32),
        ("TW702", "k.py", 3, 6, 64),
    ]
    assert all(f.launch == 4 for f in found)


def test_the_slowest_unit_sets_the_attainable_rate() -> None:
    totals = Counts(100, 3200, Mix(float=100), Operations(float32=6400), global_loads=WIDE)
    slow = units(H100, totals)
    assert [unit.name for unit in slow][:2] == ["DRAM", "shared memory and L1"]
    assert slow[0].seconds == 32 * 32_000 / 3350e9
    roof = roofline(H100, totals, traffic(totals), slow[0])
    assert roof is not None
    assert roof.attainable_gflops == pytest.approx(6400 / slow[0].seconds / 1e9)
    assert roof.peak_gflops == H100.peak_gflops()
    assert roof.intensity == {"l1": 6400 / (32 * 32_000)}

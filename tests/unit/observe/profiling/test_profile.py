"""Counts of whole launches, against published figures and counts calculated by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tilewright import ladder
from tilewright.errors import MissingExtraError
from tilewright.multiply.kernels import catalogue
from tilewright.profiling import Counts, Profile, profile
from tilewright.programs import Program


def _load(name: str) -> ModuleType:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kernels = _load("kernels")


def of_record(name: str, m: int, n: int, k: int, dtype: str) -> Profile:
    """Profile a kernel of the catalogue."""
    record = catalogue.find(name)
    a, b = ladder.operands(m, n, k, dtype)
    shape = record.launch_rule(m, n, k)
    arguments = record.arguments(a, b, np.zeros((m, n), dtype))
    return profile(record.program(dtype, (9, 0)), shape.grid, shape.block, arguments)


def at(seen: Profile, function: object, mark: str) -> Counts:
    """The counts of a marked line."""
    number = kernels.line_of(function, mark)
    return next(line.counts for line in seen.lines if line.line == number)


def test_s7_to_the_transaction() -> None:
    """S7: width 32, block (32, 32), grid (1, 1): 5,120 load and 128 store transactions."""
    seen = of_record("global_memory", 32, 32, 32, "int32")
    assert (seen.grid, seen.block) == ((1, 1, 1), (32, 32, 1))
    assert seen.totals.global_loads.sectors == 5_120
    assert seen.totals.global_loads.lanes == 2 * 32**3
    assert seen.totals.global_stores.sectors == 128
    assert seen.totals.global_stores.efficiency == 1.0


def test_sites_and_lines_have_the_same_sum() -> None:
    seen = of_record("tiled", 64, 64, 64, "float32")
    for parts in (seen.sites, seen.lines):
        assert sum((part.counts for part in parts), Counts()) == seen.totals
    assert seen.totals.operations.float32 == 2 * 64**3
    assert seen.totals.global_loads.sectors == seen.totals.global_loads.ideal_sectors == 2 * 64**3 // 16 // 8
    assert sum(getattr(seen.totals.mix, unit) for unit in seen.totals.mix.__slots__) == seen.totals.warp_instructions


STRAIGHT = """
.version 8.0 .target sm_90 .address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y) {
  .reg .b32 %r<4>; .reg .b64 %d<6>;
  ld.param.u64 %d1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;
  ld.global.u32 %r2, [%d3];
  ld.param.u64 %d4, [y]; add.s64 %d5, %d4, %d2;
  st.global.u32 [%d5], %r2;
  ret;
}"""


def test_the_next_launch_of_a_kernel_is_counted_from_zero() -> None:
    """The mapping from rows to lines is kept; their counts are not."""
    one, four = (of_record("tiled", 64, n, 64, "float32") for n in (64, 256))
    assert four.totals.warp_instructions == 4 * one.totals.warp_instructions > 0
    assert [line.counts.warp_instructions for line in four.lines] == [
        4 * line.counts.warp_instructions for line in one.lines
    ]


def test_an_instruction_that_stands_twice_on_one_line_counts_twice() -> None:
    text = """.version 8.0 .target sm_90 .address_size 64
    .visible .entry twice() { .reg .b32 %r<2>; mov.u32 %r1, 1; add.s32 %r1, %r1, %r1; add.s32 %r1, %r1, %r1; ret; }"""
    seen = profile(Program.from_ptx(text), 1, 64, ())
    counted = {site.opcode: (site.counts.warp_instructions, site.counts.operations.integer) for site in seen.sites}
    assert counted["add.s32"] == (4, 4 * 32)
    assert seen.lines[0].counts == seen.totals == sum((site.counts for site in seen.sites), Counts())


def test_every_instruction_has_its_own_counts() -> None:
    """All loads and stores of a straight line run equally often; only those of global memory count as its accesses."""
    x = np.zeros(96, np.int32)
    seen = profile(Program.from_ptx(STRAIGHT), 2, 96, (x, x.copy()))
    assert {site.counts.warp_instructions for site in seen.sites} == {6}
    loads = [
        (site.opcode, site.counts.global_loads.requests, site.counts.global_stores.requests) for site in seen.sites
    ]
    assert [row for row in loads if row[1:] != (0, 0)] == [("ld.global.u32", 6, 0), ("st.global.u32", 0, 6)]
    assert (seen.totals.global_loads.requests, seen.totals.global_loads.sectors) == (6, 24)
    assert (seen.totals.warp_instructions, seen.totals.mix.memory) == (9 * 6, 4 * 6)


def test_a_row_is_coalesced_and_a_column_is_not() -> None:
    a = np.zeros((64, 64), np.float32)
    out = np.zeros(64, np.float32)
    seen = profile(kernels.rows_and_columns, 1, 64, (a, out))
    row, column, store = (at(seen, kernels.rows_and_columns, mark) for mark in ("row", "column", "store"))
    assert (row.global_loads.sectors, row.global_loads.ideal_sectors, row.global_loads.bytes_used) == (8, 8, 256)
    assert (column.global_loads.sectors, column.global_loads.ideal_sectors) == (64, 8)
    assert column.global_loads.efficiency == 4 / 32
    assert store.global_stores.requests == 2
    assert [(f.code, f.line) for f in seen.findings] == [("TW702", kernels.line_of(kernels.rows_and_columns, "column"))]
    assert "32 sectors a request where 4 would do" in seen.findings[0].message


def test_a_column_of_a_tile_conflicts() -> None:
    seen = profile(kernels.conflicts, 1, 32, (np.zeros(32, np.float32),))
    store, load = (at(seen, kernels.conflicts, mark) for mark in ("store", "load"))
    assert (store.shared_stores.wavefronts, store.shared_stores.ideal_wavefronts) == (32, 1)
    assert (load.shared_loads.wavefronts, load.shared_loads.ideal_wavefronts) == (1, 1)
    assert [(f.code, f.line) for f in seen.findings] == [("TW701", kernels.line_of(kernels.conflicts, "store"))]


def test_counts_do_not_depend_on_the_order() -> None:
    record = catalogue.find("tiled")
    a, b = ladder.operands(33, 50, 41, "float32")
    shape = record.launch_rule(33, 50, 41)
    arguments = record.arguments(a, b, np.zeros((33, 50), np.float32))
    seen = [
        profile(record.program("float32", (9, 0)), shape.grid, shape.block, arguments, seed=s) for s in (None, 1, 2)
    ]
    assert seen[0].sites == seen[1].sites == seen[2].sites


def test_a_missing_assembler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise MissingExtraError("no ptxas; install tilewright[gpu]")

    monkeypatch.setattr("tilewright.simulate.programs.assembler.resources", nothing)
    seen = of_record("tiled", 16, 16, 16, "float32")
    assert seen.resources is None and seen.occupancy is None
    assert seen.notes == ("registers, spills and occupancy are unknown: no ptxas; install tilewright[gpu]",)


def test_registers_of_another_gpu_are_reported_as_such() -> None:
    record = catalogue.find("tiled")
    a = np.zeros((16, 16), np.float32)
    seen = profile(record.program("float32", (8, 6)), 1, (16, 16), (a, a, a.copy()), gpu="a100")
    assert seen.notes == ("registers are those on compute capability 8.6, the target of the PTX",)
    assert profile(record.program("float32", (8, 0)), 1, (16, 16), (a, a, a.copy()), gpu="a100").notes == ()


def test_the_gpu_is_the_one_that_was_named() -> None:
    out = np.zeros(32, np.float32)
    seen = {key: profile(kernels.conflicts, 1, 32, (out,), gpu=key) for key in ("t4", "h100")}
    assert [p.gpu for p in seen.values()] == ["NVIDIA T4", "NVIDIA H100 SXM5 80GB"]
    rates = [next(u.amount / u.seconds for u in p.units if u.name == "DRAM") for p in seen.values()]
    assert rates == pytest.approx([320e9, 3350e9])


def test_divergent_branches_are_counted() -> None:
    seen = profile(kernels.parting, 2, 64, (np.ones(256, np.float32),))
    branch, few, many = (at(seen, kernels.parting, mark) for mark in ("branch", "few", "many"))
    assert (branch.branches, branch.divergent_branches) == (4, 4)
    assert few.active_lanes == 8.0
    assert many.global_stores.lanes == 24 * many.global_stores.requests > 0
    assert seen.totals.branch_efficiency == 1 - seen.totals.divergent_branches / seen.totals.branches < 1
    lanes = [(site.counts.thread_instructions, site.counts.warp_instructions) for site in seen.sites]
    assert seen.totals.lane_efficiency == sum(t for t, _ in lanes) / sum(32 * w for _, w in lanes) < 1


def test_warps_arriving_at_barriers_are_counted() -> None:
    seen = of_record("tiled", 64, 64, 64, "float32")
    assert seen.totals.barriers == 16 * 8 * 4 * 2  # blocks, warps, tiles, barriers
    assert sum(line.counts.barriers > 0 for line in seen.lines) == 2


@pytest.mark.parametrize("results", [1, 2, 4, 8])
def test_s11_to_the_wavefront(results: int) -> None:
    """S11: 2 + 1 shared load wavefronts a step of a warp for two results, against 1 + 1 for one; n + 1 for n."""
    seen = of_record(f"results_{results}", 64, 64, 64, "float32")
    warps = 2 * 2 * 32 // results
    assert seen.totals.shared_loads.wavefronts == warps * 64 * (results + 1)
    assert seen.totals.in_shared.excess_wavefronts == 0


@pytest.mark.parametrize("edge", [8, 16, 32])
def test_s10_blames_conflicts_that_do_not_exist(edge: int) -> None:
    """S10: it says that tiles of 8 and 16 lose to bank conflicts; they have none, and smaller ones read more."""
    seen = of_record(f"shared_memory_{edge}", 64, 64, 64, "int32")
    assert seen.totals.in_shared.excess_wavefronts == 0
    assert seen.totals.shared_loads.wavefronts == 64 * 64 // 32 * 64 * 2
    assert seen.totals.global_loads.sectors == 2 * 64**3 // edge // 8

"""Profiles of well-known kernels; each figure is calculated by hand from the kernel's source."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.profiling import Counts, Profile, profile
from tilewright.programs import Program

BLOCKS, THREADS = 200, 256
WARPS, ELEMENTS = BLOCKS * THREADS // 32, BLOCKS * THREADS


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


by_hand, kernels = _load("by_hand"), _load("kernels")


def at(seen: Profile, function: Any, mark: str) -> Counts:
    """The counts of a marked line."""
    number = kernels.line_of(function, mark)
    return next(line.counts for line in seen.lines if line.line == number)


def codes(seen: Profile) -> list[str]:
    return [finding.code for finding in seen.findings]


def dram_seconds(seen: Profile) -> float:
    return next(unit.seconds for unit in seen.units if unit.name == "DRAM")


@pytest.mark.parametrize(
    ("name", "dtype", "sectors", "wavefronts", "ideal", "found"),
    [
        # a warp stores a column: a sector a lane. The other seven words of a lane's sector then hit.
        ("transpose_naive", np.float32, 32, 0, 0, ["TW702"]),
        ("transpose_tile", np.float32, 4, 32, 1, ["TW701"]),
        ("transpose_padded", np.float32, 4, 1, 1, []),
        # lanes of 8 bytes go by half warps; all 16 words of each are in two banks
        ("transpose_doubles", np.float64, 8, 32, 2, ["TW701"]),
    ],
)
def test_transposes(name: str, dtype: Any, sectors: int, wavefronts: int, ideal: int, found: list[str]) -> None:
    a = np.arange(128 * 128, dtype=dtype).reshape(128, 128)
    out = np.zeros_like(a)
    seen = profile(getattr(by_hand, name), (4, 4), (32, 32), (a, out))
    assert (out == a.T).all()
    requests, whole = 128 * 128 // 32, a.nbytes // 32  # warps, and sectors of a matrix
    moved = at(seen, getattr(by_hand, name), "move")
    assert (moved.global_stores.requests, moved.global_stores.sectors) == (requests, sectors * requests)
    assert (seen.totals.global_loads.sectors, seen.totals.global_loads.ideal_sectors) == (whole, whole)
    assert seen.totals.global_stores.ideal_sectors == whole
    loads = moved.shared_loads
    assert (loads.wavefronts, loads.ideal_wavefronts) == (wavefronts * requests, ideal * requests)
    stored = seen.totals.shared_stores
    assert (stored.wavefronts, stored.excess_wavefronts) == (ideal * requests, 0)
    served = moved.global_stores.served
    assert (served.l2_allocated, served.l2_hits) == (whole, sectors * requests - whole)
    assert (seen.traffic.compulsory_bytes, seen.traffic.again_bytes) == (a.nbytes, 0)
    assert (seen.traffic.dram_written_bytes, seen.traffic.dram_kept_bytes) == (0, a.nbytes)  # of H100's 50 MB
    assert dram_seconds(seen) == pytest.approx(a.nbytes / 3350e9)
    assert codes(seen) == found
    assert seen.verdict is not None and seen.verdict.rule == (
        "bank conflicts" if name == "transpose_tile" else "few blocks"
    )
    assert seen.occupancy is not None and seen.occupancy.occupancy.active_warps == 64  # two blocks of 32 warps


def test_a_tree_of_sums() -> None:
    a, out = np.ones(ELEMENTS, np.float32), np.zeros(BLOCKS, np.float32)
    seen = profile(by_hand.reduction, BLOCKS, THREADS, (a, out))
    assert (out == THREADS).all()
    # Of eight warps 4, 2 and 1 add while the step is 128, 64 and 32, and then one in each of five steps, in parts.
    adding = 4 + 2 + 1 + 5
    part, add, last = (at(seen, by_hand.reduction, mark) for mark in ("part", "add", "last"))
    assert (part.branches, part.divergent_branches) == (8 * WARPS, 5 * BLOCKS)
    assert (last.branches, last.divergent_branches) == (WARPS, BLOCKS)
    assert seen.totals.branch_efficiency == pytest.approx(1 - 6 / 72)
    assert (add.shared_loads.requests, add.shared_stores.requests) == (2 * adding * BLOCKS, adding * BLOCKS)
    assert add.shared_loads.lanes == 2 * (128 + 64 + 32 + 16 + 8 + 4 + 2 + 1) * BLOCKS
    assert seen.totals.in_shared.excess_wavefronts == 0
    assert seen.totals.operations.float32 == (THREADS - 1) * BLOCKS
    assert seen.totals.barriers == 9 * WARPS
    assert (seen.totals.global_stores.sectors, seen.totals.global_stores.served.l2_allocated) == (BLOCKS, BLOCKS // 8)
    assert seen.traffic.dram_kept_bytes == out.nbytes
    assert codes(seen) == []


def test_a_stencil_reads_its_neighbours() -> None:
    a, out = np.ones(ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    seen = profile(by_hand.stencil, BLOCKS, THREADS, (a, out))
    moved = at(seen, by_hand.stencil, "sum")
    # One element to the left or right touches a fifth sector, except in the first or last warp.
    assert moved.global_loads.sectors == (5 + 4 + 5) * WARPS - 2
    assert moved.global_loads.ideal_sectors == 3 * 4 * WARPS
    served = moved.global_loads.served
    # Each sector comes from DRAM once. Neighbouring blocks run on different multiprocessors: both request two sectors.
    assert (served.dram_compulsory, served.dram_capacity + served.dram_conflict) == (ELEMENTS // 8, 0)
    assert served.l2_hits == 2 * (BLOCKS - 1)
    assert served.l1_hits == moved.global_loads.sectors - served.l2_hits - served.dram_compulsory
    # `0 < i` makes the first warp diverge, and `i < a.size - 1` the last.
    assert seen.totals.divergent_branches == 2
    assert dram_seconds(seen) == pytest.approx(a.nbytes / 3350e9)
    assert seen.verdict is not None and (seen.verdict.bound, seen.verdict.rule) == ("DRAM", "the work itself")
    assert [cause.line for cause in seen.verdict.causes] == [kernels.line_of(by_hand.stencil, "sum")]
    assert codes(seen) == []


def test_a_histogram_in_shared_memory() -> None:
    keys, out = (np.arange(ELEMENTS) % 32 * 8).astype(np.int32), np.zeros(256, np.int32)
    seen = profile(by_hand.histogram, BLOCKS, THREADS, (keys, out))
    assert out.sum() == ELEMENTS
    count, total = (at(seen, by_hand.histogram, mark) for mark in ("count", "total"))
    # Words 0, 8, 16 ... 248 are in four banks, eight in each.
    assert (count.shared_atomics.wavefronts, count.shared_atomics.ideal_wavefronts) == (8 * WARPS, WARPS)
    assert (total.global_atomics.requests, total.global_atomics.sectors) == (WARPS, 4 * WARPS)
    served = total.global_atomics.served
    assert (served.dram_compulsory, served.l2_hits, served.l1_hits) == (32, 4 * WARPS - 32, 0)
    assert seen.traffic.dram_read_bytes == keys.nbytes + out.nbytes
    assert seen.traffic.dram_kept_bytes == out.nbytes
    assert dram_seconds(seen) == pytest.approx((keys.nbytes + out.nbytes) / 3350e9)
    assert [(f.code, f.line) for f in seen.findings] == [("TW701", kernels.line_of(by_hand.histogram, "count"))]


def test_a_strided_copy() -> None:
    a, out = np.ones(8 * ELEMENTS, np.float32), np.zeros(ELEMENTS, np.float32)
    seen = profile(by_hand.strided, BLOCKS, THREADS, (a, out))
    loads = seen.totals.global_loads
    assert (loads.sectors, loads.ideal_sectors, loads.efficiency) == (32 * WARPS, 4 * WARPS, 1 / 8)
    assert seen.traffic.dram_read_bytes == a.nbytes
    assert dram_seconds(seen) == pytest.approx(a.nbytes / 3350e9)
    assert seen.verdict is not None and (seen.verdict.bound, seen.verdict.rule) == ("DRAM", "uncoalesced access")
    assert seen.verdict.sentence == "uncoalesced access: 18 sectors a request where 4 would do"  # the store takes 4
    assert [(f.code, f.line) for f in seen.findings] == [("TW702", kernels.line_of(by_hand.strided, "copy"))]


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + THREADS], ids=["fits", "a block too much"])
def test_changed_sectors_are_written_back_unless_all_fit_the_second_level(size: int) -> None:
    """Stores hit in T4's 4 MiB if the whole array fits."""
    a = np.ones(size, np.float32)
    seen = profile(by_hand.in_place, size // THREADS, THREADS, (a,), gpu="t4")
    written = a.nbytes if size > 1 << 20 else 0
    moved = seen.traffic
    assert seen.totals.global_stores.served.l2_hits == size // 8
    assert (moved.dram_read_bytes, moved.dram_written_bytes) == (a.nbytes, written)
    assert moved.dram_kept_bytes == a.nbytes - written
    assert dram_seconds(seen) == pytest.approx((a.nbytes + written) / 320e9)
    assert ("more stay in L2" in " ".join(str(seen).split())) == (not written)


@pytest.mark.parametrize(
    ("step", "wavefronts"),
    [
        (16, 4),  # 32 lanes of 16 bytes, contiguous: a quarter warp fills all banks
        (32, 8),  # every second place: two of eight lanes conflict
        (128, 32),  # all in the first four banks
        (0, 4),  # all in one place: a group is still a wavefront
    ],
)
def test_sixteen_bytes_a_lane(step: int, wavefronts: int) -> None:
    text = f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry vectors() {{
  .shared .align 16 .b8 room[4096];
  .reg .b32 %r<9>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, room; mad.lo.s32 %r3, %r1, {step}, %r2;
  mov.u32 %r4, 0; st.shared.v4.u32 [%r3], {{%r4, %r4, %r4, %r4}};
  ret;
}}"""
    seen = profile(Program.from_ptx(text), 3, 32, ())
    stores = seen.totals.shared_stores
    assert (stores.requests, stores.wavefronts, stores.ideal_wavefronts) == (3, 3 * wavefronts, 3 * 4)

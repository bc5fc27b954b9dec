"""The float32 ladder up to tiles of warps: ragged shapes, arrays at any address, and what its accesses cost."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import simt
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.catalogue import Record
from tilewright.multiply.problem.reference import same_bits
from tilewright.profiling import Profile
from tilewright.simt import DeviceArray, Memory

LADDER = [record for record in catalogue.records() if record.source == "SGEMM"]
#: What reads and writes four elements at once.
WIDE = [record for record in LADDER if record.name in ("vectorised", "padded", "double_buffered", "warp_tiled")]
#: (m, n, k): whole tiles; one of them ragged, in fours or not; less than a tile; k = 1; many steps.
SHAPES = [
    (128, 128, 32), (129, 128, 16), (132, 128, 16), (128, 131, 16), (128, 132, 16), (128, 128, 17), (128, 128, 20),
    (3, 260, 9), (257, 5, 33), (130, 126, 1), (64, 64, 203),
]  # fmt: skip
#: Compute capabilities; the newest has the least registers left.
NEWEST, OTHERS = (12, 0), [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0)]


def records(of: list[Record]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("record", of, ids=lambda record: record.name)


def placed(memory: Memory, values: np.ndarray, offset: int) -> tuple[DeviceArray, DeviceArray]:
    """Values `offset` elements behind an address that a float4 may have, and all that lies around them."""
    around = memory.array(np.full(values.size + 8, 77, np.float32))
    inner = DeviceArray(memory, around.address + 4 * offset, values.shape, values.dtype)
    inner.view()[:] = values
    return inner, around


#: Elements by which A, B and C are moved from an address that a float4 may have.
OFFSETS = ((0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 3))


@records(LADDER)
@pytest.mark.parametrize("extent", ["one in turn", pytest.param("all", marks=pytest.mark.volume)])
def test_every_shape_at_every_address_has_the_canonical_bits(record: Record, extent: str) -> None:
    for index, (m, n, k) in enumerate(SHAPES):
        a, b = operands(m, n, k, "float32", seed=index)
        expected, shape = record.reference(a, b), record.launch_rule(m, n, k)
        for offsets in OFFSETS if index == 0 or extent == "all" else (OFFSETS[0], OFFSETS[1 + index % 3]):
            with Memory() as memory:
                (x, _), (y, _) = placed(memory, a, offsets[0]), placed(memory, b, offsets[1])
                c, around = placed(memory, np.full((m, n), 77, np.float32), offsets[2])
                sizes = (np.int32(m), np.int32(n), np.int32(k))
                simt.launch(record.program("float32"), shape.grid, shape.block, (x, y, c, *sizes))
                assert same_bits(c.to_host(), expected), (m, n, k, offsets)
                assert (around.to_host() == 77).sum() == 8, (m, n, k, offsets)


def profiled(record: Record, m: int, n: int, k: int, offset: int = 0) -> Profile:
    with Memory() as memory:
        a, b = (placed(memory, values, offset)[0] for values in operands(m, n, k, "float32"))
        c, shape = memory.empty((m, n)), record.launch_rule(m, n, k)
        sizes = (np.int32(m), np.int32(n), np.int32(k))
        return tw.profile(record.program("float32"), shape.grid, shape.block, (a, b, c, *sizes))


def test_neighbouring_lanes_read_neighbouring_words_or_not() -> None:
    uncoalesced, coalesced = (profiled(catalogue.find(name), 64, 64, 64) for name in ("uncoalesced", "coalesced"))
    # A step: each lane's own sector of A and one of B, against one of A and four of B; stores alike.
    assert uncoalesced.totals.global_loads.sectors == 128 * 64 * (32 + 1)
    assert coalesced.totals.global_loads.sectors == 128 * 64 * (1 + 4)
    assert uncoalesced.totals.global_stores.sectors == 8 * coalesced.totals.global_stores.sectors


@records(WIDE)
def test_aligned_rows_are_read_and_written_in_fours(record: Record) -> None:
    def loads_and_stores(m: int, n: int, k: int, offset: int = 0) -> tuple[set[bool], set[bool]]:
        """Whether those that ran move four elements."""
        sites = profiled(record, m, n, k, offset).sites
        loads = {".v4" in site.opcode for site in sites if site.counts.global_loads.requests}
        return loads, {".v4" in site.opcode for site in sites if site.counts.global_stores.requests}

    assert loads_and_stores(128, 128, 32) == ({True}, {True})
    assert loads_and_stores(101, 132, 36) == ({True}, {True})
    assert loads_and_stores(128, 128, 32, offset=1) == ({False}, {True})  # C lies where it may
    assert loads_and_stores(128, 128, 30) == ({True, False}, {True})
    assert loads_and_stores(128, 130, 30) == ({False}, {False})


@records(LADDER[2:])
def test_shared_memory_has_no_excess_from_the_padded_tiles_on(record: Record) -> None:
    totals = profiled(record, 128, 128, 64).totals
    conflicts = {"thread_tile_2d": (True, False), "vectorised": (True, True)}.get(record.name, (False, False))
    assert (totals.shared_loads.excess_wavefronts > 0, totals.shared_stores.excess_wavefronts > 0) == conflicts
    # As many multiply-adds a read as the results a thread say, where a read is of one element or of four.
    rows, columns = record.results
    read = totals.shared_loads.lanes * (4 if record in WIDE else 1)
    least = 128 * 128 * 64 * (rows + columns) // (rows * columns)
    assert read == least


@records(LADDER)
@pytest.mark.parametrize("cc", [NEWEST, *(pytest.param(cc, marks=pytest.mark.volume) for cc in OTHERS)], ids=str)
def test_the_assembler_keeps_all_in_registers(record: Record, cc: tuple[int, int]) -> None:
    resources = record.program("float32", cc).resources()
    assert resources.spill_store_bytes == resources.spill_load_bytes == resources.stack_bytes == 0
    # Two blocks fit, and of the last, whose threads have 128 sums each.
    assert 2 * resources.registers_per_thread * record.block[0] <= 65_536 * (1 + (record.block[0] == 1024))

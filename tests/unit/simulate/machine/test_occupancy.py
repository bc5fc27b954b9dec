"""Occupancy equals what the vendor's header computes, for every kind of input."""

import dataclasses
import random
from itertools import product

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.machine.occupancy import FACTORS, PREFERENCES, occupancy, shared_memory
from tilewright.simulate.machine import gpu

from .occupancy_header import CACHE_CONFIG, INT_MAX, ONE_EACH, PLAIN, header, name

each = pytest.mark.parametrize("record", ONE_EACH, ids=name)
#: Both ends of each number of warps, and blocks that are too large.
BLOCKS = sorted({edge for warps in range(1, 34) for edge in (32 * warps - 31, 32 * warps)} | {1056, 2048})
#: Both ends of each allocation of registers to a thread, a thread's most, and more.
REGISTERS = sorted({edge for unit in range(38) for edge in (8 * unit, 8 * unit + 1)} | {254, 255, 258})


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The vendor's calculator: (gpu, cases, one dict each) -> a row of answers a case."""
    return header("occupancy", tmp_path_factory.mktemp("include"))


def ours(record, case):
    """Our answers to a case in the header's form, all but its status."""
    preference = {number: name for name, number in CACHE_CONFIG.items()}[case["preference"]]
    carveout = PREFERENCES.get(preference) if case["carveout"] == -1 else case["carveout"]
    found = occupancy(
        record,
        registers_per_thread=case["registers"],
        shared_bytes=case["static"] + case["dynamic"],
        block_threads=case["block"],
        barriers=case["barriers"],
        dynamic_shared_bytes=case["dynamic"],
        dynamic_limit_bytes=case["dynamic_limit"],
        optin=bool(case["optin"]),
        carveout=carveout,
        virtual_resources=case["virtual"],
    )
    limits = (INT_MAX if (limit := found.limits.get(name)) is None else limit for name in FACTORS)
    return found, (
        found.active_blocks, found.limiting_factors, *limits, found.allocated_registers, found.allocated_shared_bytes
    )  # fmt: skip


def compare(reference, record, changes):
    cases = [PLAIN | change for change in changes]
    answers = reference(record, cases)
    for case, (status, *answer, partitioned) in zip(cases, answers, strict=True):
        found, mine = ours(record, case)
        assert (status, partitioned) == (0, 0)  # partitioned caching ended with Pascal
        assert mine == tuple(answer), case
        # `limiters` differs from the header's bits only where barriers limit more.
        assert found.limiters == tuple(name for name in FACTORS if found.limits.get(name) == found.active_blocks)


@each
def test_blocks_and_registers(reference, record):
    """Every allocation of registers with every number of warps, and beyond both."""
    compare(reference, record, [{"block": b, "registers": r} for b, r in product(BLOCKS, REGISTERS)])


@each
def test_every_block(reference, record):
    changes = [{"block": b, "registers": r, "barriers": 1} for b, r in product(range(1, 1101), (0, 32, 168))]
    compare(reference, record, changes)


@each
def test_shared_memory(reference, record):
    """Every size at which the allocation steps, and one byte more, up to sizes that are too large."""
    top, unit = record.shared_per_multiprocessor_bytes + 2048, record.shared_unit_bytes
    sizes = [edge + step for edge in range(0, top, unit) for step in (0, 1)]
    ways = product((0, 1), (-1, 0, 40))
    changes = [{"static": s, "optin": o, "carveout": c} for (o, c), s in product(ways, sizes)]
    changes += [{"dynamic": s, "static": 5, "dynamic_limit": s} for s in sizes]
    compare(reference, record, changes)


@each
def test_carve_outs(reference, record):
    """Every percentage and preference, around each size that shared memory can be set to."""
    edges = [(step << 10) - record.shared_reserved_bytes for step in record.shared_steps_kib]
    sizes = sorted({s for e in edges for s in (e // 3, e - 1, e, e + 1) if s >= 0})
    ways = [(c, 0) for c in range(-1, 101)] + [(c, p) for c in (-1, 30) for p in CACHE_CONFIG.values()]
    changes = [{"static": s, "carveout": c, "preference": p} for s, (c, p) in product(sizes, ways)]
    compare(reference, record, changes)


@each
def test_static_and_dynamic(reference, record):
    """Declared, requested and allowed sizes, around 48 KB and the largest size."""
    usual, most = record.launch.shared_per_block_bytes, record.shared_per_block_optin_bytes
    sizes = [0, 1, 1024, usual - 1024, usual - 1, usual, usual + 1, most - 1024, most - 1, most, most + 1]
    names = ("static", "dynamic", "dynamic_limit", "optin")
    compare(reference, record, [dict(zip(names, case, strict=True)) for case in product(sizes, sizes, sizes, (0, 1))])


@each
def test_barriers_and_virtual_resources(reference, record):
    changes = [
        {"block": b, "registers": r, "barriers": n} for b, r, n in product(BLOCKS[1:65:3], (0, 32, 100), range(70))
    ]
    changes += [{"block": b, "barriers": n, "virtual": v} for b, n, v in product((32, 256), (0, 3), range(140))]
    compare(reference, record, changes)


@each
def test_random_kernels(reference, record):
    rng = random.Random(record.key)
    changes = []
    for _ in range(2000):
        static, dynamic = (rng.choice([0, rng.randrange(8192), rng.randrange(1 << 17)]) for _ in range(2))
        changes.append({
            "block": rng.randrange(1, 1100), "registers": rng.randrange(260), "static": static, "dynamic": dynamic,
            "dynamic_limit": rng.choice([dynamic, rng.randrange(1 << 17)]), "optin": rng.randrange(2),
            "partitioned": rng.randrange(3), "barriers": rng.randrange(17),
            "virtual": rng.choice([0, rng.randrange(9)]), "carveout": rng.randrange(-1, 101),
            "preference": rng.randrange(4),
        })  # fmt: skip
    compare(reference, record, changes)


def test_a_block_that_may_take_half_the_registers(reference):
    """Embedded GPUs have this limit; only there does the hardware's check by whole partitions matter."""
    record = dataclasses.replace(gpu("a10"), registers_per_block=32768)
    compare(reference, record, [{"block": b, "registers": r} for b, r in product(BLOCKS, REGISTERS) if r < 256])


@each
def test_inputs_that_the_header_refuses(reference, record):
    wrong = [{"block": 0}, {"block": -5}, {"registers": -1}, {"carveout": -2}, {"carveout": 101}]
    cases = [PLAIN | change for change in wrong]
    assert [answer[0] for answer in reference(record, cases)] == [1] * len(wrong)  # CUDA_OCC_ERROR_INVALID_INPUT
    for case in cases:
        with pytest.raises(ArgumentValueError):
            ours(record, case)


def test_known_cases():
    """Calculated by hand from the guide's table, because the header gets its device properties from our records."""
    t4, a100 = gpu("t4"), gpu("a100")
    full = occupancy(t4, registers_per_thread=64, shared_bytes=0, block_threads=256)
    assert (full.active_blocks, full.fraction, full.limiter) == (4, 1.0, "warps, registers")
    assert full.limits["shared"] is None
    tile = occupancy(a100, registers_per_thread=32, shared_bytes=40 * 1024, block_threads=128)
    assert (tile.active_blocks, tile.active_warps, tile.fraction, tile.limiter) == (4, 16, 0.25, "shared")
    assert (tile.allocated_registers, tile.allocated_shared_bytes) == (4096, 41 * 1024)
    fat = occupancy(a100, registers_per_thread=255, shared_bytes=0, block_threads=512)
    assert (fat.active_blocks, fat.fraction, fat.limiter) == (0, 0.0, "registers")
    small = occupancy(a100, registers_per_thread=16, shared_bytes=0, block_threads=32)
    assert (small.active_blocks, small.fraction, small.limiter) == (32, 0.5, "blocks")
    assert "barriers" not in small.limits


def test_barriers():
    rtx5090 = gpu("rtx5090")
    many = occupancy(rtx5090, registers_per_thread=16, shared_bytes=0, block_threads=64, barriers=8)
    assert (many.active_blocks, many.limiter, many.limits["barriers"]) == (3, "barriers", 3)
    assert many.limiting_factors == 0b11001  # the header names warps and blocks too, although barriers limit more
    older = occupancy(gpu("a100"), registers_per_thread=16, shared_bytes=0, block_threads=64, barriers=8)
    assert "barriers" not in older.limits


def test_tensor_memory():
    plain = {"registers_per_thread": 16, "shared_bytes": 0, "block_threads": 64}
    free = occupancy(gpu("b200"), **plain)
    for columns, blocks in ((512, 1), (256, 2), (160, 3)):
        found = occupancy(gpu("b200"), **plain, tensor_columns=columns)
        assert (found.active_blocks, found.limiters) == (blocks, ("tensor memory",))
        assert found.limiting_factors == free.limiting_factors  # the header does not know it


def test_settings_of_shared_memory():
    t4 = gpu("t4")
    assert [shared_memory(t4, size, 0) >> 10 for size in (0, 32768, 32769)] == [32, 32, 64]
    assert shared_memory(t4, 0) == 65536
    assert [shared_memory(gpu("h100"), 100, percent) >> 10 for percent in (0, 1, 50, 99)] == [8, 8, 132, 228]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"block_threads": 0}, r"`block_threads` must be at least 1 \(got 0\)"),
        ({"shared_bytes": -4}, r"`shared_bytes` must not be negative \(got -4\)"),
        ({"dynamic_shared_bytes": 5}, r"`dynamic_shared_bytes` must be a part of `shared_bytes` \(got 5 of 0\)"),
        ({"tensor_columns": -1}, r"`tensor_columns` must not be negative \(got -1\)"),
        ({"carveout": 101}, r"`carveout` must be a percentage, 0 to 100 \(got 101\)"),
    ],
)
def test_wrong_numbers(wrong, message):
    plain = {"registers_per_thread": 1, "shared_bytes": 0, "block_threads": 32}
    with pytest.raises(ArgumentValueError, match=message):
        occupancy(gpu("h100"), **plain | wrong)

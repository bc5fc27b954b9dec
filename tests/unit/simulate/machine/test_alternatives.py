"""The smallest changes that raise occupancy, against a search through all changes."""

import random

import pytest

from tilewright.machine import gpus
from tilewright.machine.alternatives import Demand, alternatives
from tilewright.machine.occupancy import occupancy
from tilewright.simulate.machine import gpu


def fraction(record, registers, shared, block):
    return occupancy(record, registers_per_thread=registers, shared_bytes=shared, block_threads=block).fraction


def shown(found):
    return [
        (a.demand.registers_per_thread, a.demand.shared_bytes, a.demand.block_threads, a.occupancy.fraction)
        for a in found.steps_up
    ]


def test_fewer_registers():
    found = alternatives(gpu("a100"), Demand(48, 0, 768))
    assert (found.occupancy.fraction, found.occupancy.limiter) == (0.375, "registers")
    assert shown(found) == [(40, 0, 768, 0.75), (48, 0, 640, 0.625)]


def test_less_shared_memory():
    found = alternatives(gpu("rtx5090"), Demand(40, 9000, 128))
    assert shown(found)[0] == (40, 8192, 128, 44 / 48)


def test_both_must_change():
    found = alternatives(gpu("h100"), Demand(128, 100_000, 256))
    assert found.occupancy.limiters == ("registers", "shared")
    assert shown(found)[0] == (80, 76_800, 256, 24 / 64)


def test_full_occupancy_has_no_step():
    found = alternatives(gpu("h100"), Demand(32, 0, 256))
    assert (found.occupancy.fraction, found.steps_up) == (1.0, ())


def test_the_block_alone_limits():
    found = alternatives(gpu("h100"), Demand(16, 0, 32))
    assert shown(found) == [(16, 0, 64, 1.0)]


def test_a_kernel_that_cannot_run():
    found = alternatives(gpu("t4"), Demand(128, 60_000, 1024))
    assert found.occupancy.active_blocks == 0
    assert shown(found) == [(64, 60_000, 1024, 1.0), (128, 60_000, 512, 0.5)]


@pytest.mark.parametrize("record", gpus().values(), ids=lambda record: record.key)
def test_steps_are_the_least_that_help(record):
    """No change between the kernel and a step helps; brute force over registers, blocks, and shared memory by units."""
    rng = random.Random(record.key)
    for _ in range(6):
        registers, shared, block = rng.randrange(256), rng.choice([0, rng.randrange(50_000)]), 32 * rng.randrange(1, 33)
        found = alternatives(record, Demand(registers, shared, block))
        now = fraction(record, registers, shared, block)
        one_less = [r for r in range(registers) if fraction(record, r, shared, block) > now]
        less_shared = [s for s in range(0, shared, 64) if fraction(record, registers, s, block) > now]
        every = {b: fraction(record, registers, shared, b) for b in range(32, 1025, 32)}
        best = [b for b in every if every[b] == max(every.values())]
        steps = shown(found)
        wanted = [(registers, shared, min(best, key=lambda b: abs(b - block)))] if max(every.values()) > now else []
        leaner = [step for step in steps if step[2] == block]
        assert [step[:3] for step in steps if step[2] != block] == wanted
        if one_less:
            assert leaner[0][:3] == (one_less[-1], shared, block)
        elif less_shared:
            assert leaner[0][0] == registers
            assert leaner[0][1] - less_shared[-1] in range(64)
        assert all(fraction(record, *step[:3]) == step[3] > now for step in steps)


def test_tables_hold_every_number_of_blocks():
    record, demand = gpu("l4"), Demand(64, 3000, 96)
    found = alternatives(record, demand)
    assert [a.demand.block_threads for a in found.blocks] == list(range(32, 1025, 32))
    by_count = {}
    for registers in range(256):
        blocks = occupancy(record, registers_per_thread=registers, shared_bytes=3000, block_threads=96).active_blocks
        by_count[blocks] = registers
    assert {a.occupancy.active_blocks: a.demand.registers_per_thread for a in found.registers} == by_count
    for other in found.shared:
        more = other.demand.shared_bytes + 1
        if more <= record.shared_per_block_optin_bytes:
            assert fraction(record, 64, more, 96) < other.occupancy.fraction

"""Suggested sizes of blocks equal those of the vendor's header."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

from tilewright.machine.alternatives import Demand
from tilewright.simulate.machine import gpu
from tilewright.simulate.machine.suggestions import room_for_dynamic, suggest_block

from .occupancy_header import PLAIN, header


def demand(case: dict[str, int]) -> Demand:
    carveout = None if case["carveout"] < 0 else case["carveout"]
    return Demand(case["registers"], case["static"], case["block"], case["barriers"], carveout)


def test_blocks(tmp_path: Path) -> None:
    record = gpu("h100")
    suggestion = header("suggestion", tmp_path, record)
    rng = random.Random(1)
    changes = [{"registers": registers} for registers in range(258)]
    changes += [
        {
            "registers": rng.randrange(256),
            "static": rng.choice([0, rng.randrange(50_000)]),
            "dynamic": rng.choice([0, 4, 40, 400]),
            "most_threads": rng.choice([1 << 30, 1024, rng.randrange(1, 1025)]),
            "barriers": rng.randrange(5),
            "carveout": rng.randrange(-1, 101),
        }
        for _ in range(400)
    ]
    cases = [PLAIN | change for change in changes]
    for case, (status, threads, blocks) in zip(cases, suggestion(record, cases), strict=True):
        most = min(case["most_threads"], record.launch.threads_per_block)
        found = suggest_block(record, demand(case), most, lambda threads, each=case["dynamic"]: threads * each)
        assert (status, *found) == (0, threads, blocks), case


@pytest.mark.parametrize("key", ["t4", "h100"])
def test_room(key: str, tmp_path: Path) -> None:
    record = gpu(key)
    room = header("room", tmp_path, record)
    static, wanted = (0, 1, 1000, 5000, 40_000), range(-1, 34)
    changes = [
        {"static": s, "dynamic": n, "block": b, "carveout": c, "registers": 32}
        for s, n, b, c in product(static, wanted, (32, 256, 1024), (-1, 0, 30, 100))
    ]
    cases = [PLAIN | change for change in changes]
    wrapped = 0
    for case, (status, size) in zip(cases, room(record, cases), strict=True):
        if status:
            assert room_for_dynamic(record, demand(case), case["dynamic"]) is None
            continue
        found = room_for_dynamic(record, demand(case), case["dynamic"])
        if found == 0 and size == case["dynamic_limit"]:  # its unsigned difference wrapped, and was cut to the limit
            wrapped += 1
        else:
            assert found == size, case
    assert wrapped < len(cases) / 4


def test_a_kernel_that_cannot_run_gets_no_block() -> None:
    assert suggest_block(gpu("a100"), Demand(16, 200_000, 1), 1024, lambda threads: 0) == (0, 0)

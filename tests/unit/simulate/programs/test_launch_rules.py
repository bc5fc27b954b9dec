"""What a launch may take, rule by rule: each at its edge and one past it."""

from __future__ import annotations

import itertools

import pytest

from tilewright import machine
from tilewright.simulate.programs.launch_rules import Rule, broken, default_dynamic_bytes, most_dynamic_bytes

#: Most shared memory of a block with permission. Source: CUDA C++ Programming Guide, technical specifications.
OPT_IN = {"t4": 64 << 10, "a100": 163 << 10, "rtx4090": 99 << 10, "h100": 227 << 10}
USUAL = 48 << 10


def rules(name: str, *shared: int, allowed: int | None = None, **extents: tuple[int, int, int]) -> list[Rule]:
    grid, block = extents.get("grid", (1, 1, 1)), extents.get("block", (32, 1, 1))
    return [one.rule for one in broken(machine.gpu(name), grid, block, *shared, allowed=allowed)]


@pytest.mark.parametrize(("name", "static"), [*itertools.product(OPT_IN, (0, 4, 128, 4096, USUAL))])
def test_static_memory_counts_in_the_sum_and_not_in_what_is_allowed(name: str, static: int) -> None:
    usual, most = USUAL - static, OPT_IN[name] - static
    record = machine.gpu(name)
    assert (default_dynamic_bytes(record, static), most_dynamic_bytes(record, static)) == (usual, most)
    assert rules(name, static, usual, allowed=usual) == []
    assert rules(name, static, usual + 1, allowed=usual) == [Rule.DYNAMIC]
    assert rules(name, static, most, allowed=most) == rules(name, static, most) == []
    assert rules(name, static, most + 1, allowed=most + 1) == rules(name, static, most + 1) == [Rule.SHARED]
    assert rules(name, static, 0, allowed=0) == []


@pytest.mark.parametrize(
    ("extents", "rule", "said"),
    [
        ({"block": (1024, 1, 1)}, None, ""),
        ({"block": (1025, 1, 1)}, Rule.BLOCK, "`block` must have at most 1,024 threads (got 1,025: 1,025 x 1 x 1)"),
        ({"block": (32, 32, 2)}, Rule.BLOCK, "(got 2,048: 32 x 32 x 2)"),
        ({"block": (1, 1, 64)}, None, ""),
        ({"block": (1, 1, 65)}, Rule.BLOCK_AXIS, "`block` must have at most 64 threads in z (got 65)"),
        ({"grid": (2**31 - 1, 65_535, 65_535)}, None, ""),
        ({"grid": (1, 65_536, 1)}, Rule.GRID_AXIS, "`grid` must have at most 65,535 blocks in y (got 65,536)"),
        ({"grid": (2**31, 1, 1)}, Rule.GRID_AXIS, "in x"),
        ({"grid": (4, 0, 1)}, Rule.EMPTY, "`grid` must have at least 1 of its blocks in y (got 4 x 0 x 1)"),
        ({"block": (-1, 1, 1)}, Rule.EMPTY, "`block` must have at least 1"),
    ],
)
def test_extents(extents: dict[str, tuple[int, int, int]], rule: Rule | None, said: str) -> None:
    grid, block = extents.get("grid", (1, 1, 1)), extents.get("block", (1, 1, 1))
    found = list(broken(machine.gpu("h100"), grid, block))
    assert [one.rule for one in found] == ([rule] if rule else [])
    assert all(said in one.sentence and one.rule.is_of_extents for one in found)


def test_an_error_names_the_limit_the_part_and_what_to_do() -> None:
    (one,) = broken(machine.gpu("h100"), (1, 1, 1), (32, 1, 1), 128, 65_536, allowed=49_024)
    assert one.sentence == (
        "dynamic shared memory of this kernel must be at most 49,024 bytes, which 128 static bytes leave of the usual "
        "49,152 (got 65,536); set its attribute MaxDynamicSharedMemorySize to 65,536 before the launch "
        "(cudaFuncSetAttribute)"
    )
    (one,) = broken(machine.gpu("h100"), (1, 1, 1), (32, 1, 1), 128, 65_536, allowed=4096)
    assert "at most 4,096 bytes, as the program has set (got 65,536)" in one.sentence
    (one,) = broken(machine.gpu("t4"), (1, 1, 1), (32, 1, 1), 1024, 65_536)
    assert "at most 65,536 bytes together on the NVIDIA T4 (got 1,024 static and 65,536 dynamic)" in one.sentence

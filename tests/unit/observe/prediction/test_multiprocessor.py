"""The model of a multiprocessor, against published measurements on hardware.

Oracle: Huerta, Abaie Shoushtary, Cruz, Gonzalez, Dissecting and Modeling the Architecture of Modern GPU Cores, MICRO
2025: clocks that microbenchmarks of machine code took on an RTX A6000.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import pytest

from tilewright import machine
from tilewright.observe.prediction import multiprocessor
from tilewright.observe.prediction.crew import Crew
from tilewright.observe.prediction.deadline import Deadline
from tilewright.observe.prediction.workload import Requests, Workload
from tilewright.simulate.programs.disassembler import NO_COUNTER, Instruction

A6000 = machine.gpu("a6000")


def one(
    opcode: str,
    *operands: str,
    stall: int = 1,
    sets: int = NO_COUNTER,
    waits: int = 0,
    line: int = 0,
    yields: bool = False,
    reuse: int = 0,
) -> Instruction:
    return Instruction(opcode, "", operands, line, None, stall, yields, sets, NO_COUNTER, waits, reuse)


def clocks(code: Sequence[Instruction], warps: int = 1, site: Requests | None = None, blocks: int = 1) -> int:
    """Clocks of `blocks` blocks in turn, of `warps` warps each; each warp runs the code once."""
    work = Workload(blocks, warps, 1, MappingProxyType({1: site or Requests(1.0)}))
    full = [*code, one("EXIT")]
    trace = np.arange(len(full), dtype=np.uint32)
    return multiprocessor.run(
        full, Crew.alike(trace, work.block_warps), work, A6000, blocks=blocks, active=84, deadline=Deadline()
    ).clocks


#: Table 1: clocks from the first load to the n-th of the last partition.
LOADS = {
    1: {5: 4, 6: 11, 7: 15, 8: 19, 9: 23},
    2: {5: 4, 6: 13, 7: 17, 8: 21, 9: 25},
    3: {5: 4, 6: 15, 7: 21, 8: 27, 9: 33},
    4: {5: 4, 6: 17, 7: 25, 8: 33, 9: 41},
}


@pytest.mark.parametrize("partitions", LOADS)
def test_memory_instructions_issue_as_measured(partitions: int) -> None:
    # A clock after the last load the exit issues, and a clock after that all has ended.
    took = {n: clocks([one("LDG.E", "R8", "[R2.64]", line=1)] * n, partitions) - 2 for n in LOADS[partitions]}
    assert took == LOADS[partitions]


@pytest.mark.parametrize(("x", "y", "bubbles"), [(19, 21, 0), (18, 21, 1), (18, 20, 2)])
def test_register_ports_hold_back_as_measured(x: int, y: int, bubbles: int) -> None:
    """Listing 1: two multiply-adds between two reads of the clock take 5, 6 or 7 clocks."""
    first, second = one("FFMA", "R11", "R10", "R12", "R14"), one("FFMA", "R13", "R16", f"R{x}", f"R{y}")
    free = clocks([one("NOP"), one("NOP"), one("NOP"), one("NOP")])
    assert clocks([one("NOP"), first, second, one("NOP")]) - free == bubbles


def test_kept_operands_need_no_port() -> None:
    same = [one("FFMA", "R11", "R10", "R12", "R14")] * 8
    kept = [one("FFMA", "R11", "R10", "R12", "R14", reuse=7)] * 8
    assert clocks(kept) < clocks(same)


@pytest.mark.parametrize(
    ("opcode", "latency"), [("LDG.E", 32), ("LDG.E.64", 34), ("LDG.E.128", 38), ("LDS", 24), ("LDS.128", 26)]
)
def test_results_have_the_measured_latency(opcode: str, latency: int) -> None:
    """Table 2: from a load that the first level or shared memory serves to the first that reads its result."""
    load, reader = one(opcode, "R8", "[R2]", sets=0, stall=2, line=1), one("MOV", "R9", "R8", waits=1)
    assert clocks([load, reader], site=Requests(1.0, wavefronts=1.0, sectors=4.0, lines=1.0)) - 2 == latency


def test_dependent_arithmetic_takes_its_stall_counts() -> None:
    assert clocks([one("FFMA", "R1", "R1", "R1", "R1", stall=4)] * 10) == 4 * 10 + 1


def test_half_wide_pipes_take_an_instruction_every_other_clock() -> None:
    """Section 5.1.1: the latch of a unit of half a warp's width is taken for two clocks."""
    assert clocks([one("IADD3", "R1", "R2", "R3", "R5")] * 10) - clocks([one("NOP")] * 10) == 9
    assert clocks([one("FFMA", "R1", "R3", "R2", "0x1")] * 10) - clocks([one("NOP")] * 10) == 0


def test_bank_conflicts_take_a_clock_a_wavefront() -> None:
    loads = [*[one("LDS", "R8", "[R2]", sets=0, stall=2, line=1)] * 64, one("MOV", "R9", "R8", waits=1)]
    free, conflict = (clocks(loads, 4, Requests(1.0, wavefronts=w)) for w in (1.0, 32.0))
    assert conflict - free == pytest.approx(4 * 64 * (32 - 2), rel=0.02)


def test_uncoalesced_loads_take_a_clock_a_line() -> None:
    loads = [*[one("LDG.E", "R8", "[R2]", sets=0, stall=2, line=1)] * 64, one("MOV", "R9", "R8", waits=1)]
    apart = clocks(loads, 4, Requests(1.0, sectors=32.0, lines=32.0))
    assert apart == pytest.approx(4 * 64 * 32, rel=0.02)


def test_a_barrier_waits_for_the_last_warp_of_its_block_alone() -> None:
    slow = [one("FFMA", "R1", "R1", "R1", "R1", stall=4)] * 50
    barrier = one("BAR.SYNC", "0x0")
    assert clocks([*slow, barrier, *slow], 4) > 2 * 50 * 4
    assert clocks([barrier] * 3, 4) < 100


def test_a_barrier_of_some_warps_waits_for_these_alone() -> None:
    """One half of a block meets and works, the other works and meets: they do not wait for each other."""
    work = Workload(1, 8, 1, MappingProxyType({}))
    slow = [one("FFMA", "R1", "R1", "R1", "R1", stall=4)] * 100
    taken = []
    for threads in ("0x80", "0x100"):
        code = [one("BAR.SYNC", "R2", threads), *slow, one("EXIT")]
        first, second = np.arange(102), np.array([*range(1, 101), 0, 101])
        operations = Crew.alike(first.astype(np.uint32), 4).operations
        crew = Crew((first.astype(np.uint32), second.astype(np.uint32)), operations * 2, (0,) * 4 + (1,) * 4)
        taken.append(multiprocessor.run(code, crew, work, A6000, blocks=1, active=1, deadline=Deadline()).clocks)
    some, whole = taken
    assert whole > some + 150


def test_blocks_start_when_others_end() -> None:
    code = [one("FFMA", "R1", "R1", "R1", "R1", stall=4)] * 100
    assert clocks(code, 4, blocks=5) == pytest.approx(5 * clocks(code, 4), rel=0.1)


def test_code_after_the_end_of_a_path_is_not_read() -> None:
    """A warp may end by an exit under a predicate, or in the middle of code."""
    work = Workload(3, 2, 1, MappingProxyType({}))
    for last in (one("EXIT"), one("FFMA", "R1", "R2", "R3", "R5"), one("BAR.SYNC", "0x0"), one("LDG.E", "R1", "[R2]")):
        trace = np.zeros(1, np.uint32)
        assert (
            multiprocessor.run(
                [last], Crew.alike(trace, work.block_warps), work, A6000, blocks=3, active=1, deadline=Deadline()
            ).clocks
            > 0
        )


def test_unknown_instructions_are_refused() -> None:
    with pytest.raises(Exception, match="no textures"):
        clocks([one("UTCSHIFT", "tmem[UR8]")])

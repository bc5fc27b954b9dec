"""Limits of a launch: valid values, and one bound on instructions for all host threads together."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.errors import ArgumentTypeError, ArgumentValueError, LimitError
from tilewright.simt import Limits
from tilewright.simulate.run import execution
from tilewright.simulate.run.crew import Budget

WRONG = [
    ("instructions", 0, "between 1 and"),
    ("instructions", -5, "between 1 and"),
    ("instructions", 2**62 + 1, "between 1 and"),
    ("instructions", 1e6, "a whole number"),
    ("instructions", True, "a whole number"),
    ("call_depth", 0, "between 1 and 2,147,483,647"),
    ("call_depth", 2**31, "between 1 and 2,147,483,647"),
    ("call_depth", None, "a whole number"),
    ("threads", 0, "between 1 and 1,024"),
    ("threads", 1025, "between 1 and 1,024"),
    ("threads", "2", "a whole number"),
    ("seconds", 0, "more than 0"),
    ("seconds", -0.5, "more than 0"),
    ("seconds", math.nan, "more than 0"),
    ("seconds", "1", "a number"),
    ("seconds", False, "a number"),
]


@pytest.mark.parametrize(("name", "value", "rule"), WRONG)
def test_a_wrong_limit_is_refused_immediately(name: str, value: Any, rule: str) -> None:
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match="leave it out") as raised:
        Limits(**{name: value})
    shown = str(raised.value)
    assert f"`limits.{name}` must be {rule}" in shown
    assert f"(got {value:,})" in shown if type(value) is int else f"(got {value!r})" in shown


def test_limits_at_their_bounds_are_taken() -> None:
    most = Limits(instructions=2**62, seconds=math.inf, call_depth=2**31 - 1, threads=1024)
    out = np.zeros(64, np.uint32)
    assert run(kernel("st.global.u32 [%at], 7;"), out, limits=most).warp_instructions > 0
    least = Limits(np.int64(1), np.float32(0.5), np.int32(1), np.uint8(1))
    assert (type(least.instructions), least.call_depth, least.threads) == (int, 1, 1)


#: Blocks whose lengths differ: block 0 runs 64 times as long as a middle one, so threads share the work unevenly.
UNEVEN = """
    mov.u32 %r1, 0; mov.u32 %r2, 400; setp.eq.u32 %p2, %block, 0; @%p2 mov.u32 %r2, 25600;
    L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, %r2; @%p1 bra L;
"""


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"], ids=["plain", "barriers"])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("quick", [0, 300_000])
def test_a_limit_is_exact_for_any_number_of_threads(
    threads: int, quick: int, barrier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The instructions of a run are enough for every number of threads; one fewer never is."""
    monkeypatch.setattr(execution, "_QUICK_INSTRUCTIONS", quick)
    program = kernel(UNEVEN.replace("L:", f"L: {barrier}"))
    out = np.zeros(64 * 32, np.uint32)
    used = run(program, out, grid=32, block=64).warp_instructions
    for _ in range(3):
        within = run(program, out, grid=32, block=64, limits=Limits(threads=threads, instructions=used))
        assert within.warp_instructions == used
        with pytest.raises(LimitError, match=f"{used - 1:,} warp instructions"):
            run(program, out, grid=32, block=64, limits=Limits(threads=threads, instructions=used - 1))


@pytest.mark.parametrize("threads", [1, 2, 6])
@pytest.mark.parametrize("block", [32, 1024])
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"], ids=["plain", "barriers"])
def test_instructions_before_a_stop_do_not_grow_with_threads(
    threads: int, block: int, barrier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    original = execution.Execution.run

    def watched(self: execution.Execution) -> None:
        try:
            original(self)
        finally:
            ran.append(self.warp_instructions)

    monkeypatch.setattr(execution.Execution, "run", watched)
    limit = 2_000_000
    with pytest.raises(LimitError, match="2,000,000 warp instructions"):
        run(
            kernel(f"L: {barrier} add.u32 %r1, %r1, 1; bra L;"),
            np.zeros(16 * block, np.uint32),
            grid=16,
            block=block,
            limits=Limits(threads=threads, instructions=limit),
        )
    # a sixteenth, and a few instructions of each warp between two looks
    assert limit < ran[0] <= limit * 17 / 16 + threads * block


def test_a_thread_without_budget_waits_for_what_others_return() -> None:
    budget = Budget(1_600, 2)  # portions of 50
    first, second = budget.share(), budget.share()
    assert (budget.portion, first.granted, second.granted) == (50, 50, 50)
    for spent in range(51, 1_550, 50):
        assert first.more(spent, lambda: False)
    assert first.granted == 1_550  # the rest is the second's
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(first.more(1_580, lambda: False)))
    asking.start()
    time.sleep(0.1)
    assert asking.is_alive()  # the second may use all of its 50
    second.close(10)
    asking.join()
    assert answers == [True]
    assert not budget.passed
    assert not first.more(1_591, lambda: False)
    assert budget.passed


def test_a_thread_that_waits_for_the_budget_can_be_stopped() -> None:
    budget = Budget(32, 1)
    first, _second = budget.share(), budget.share()
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    while first.more(first.granted + 1, stop.is_set):
        pass
    assert stop.is_set() and not budget.passed


def test_a_share_has_nothing_left_when_the_others_have_passed_the_limit() -> None:
    """The ceiling is an unsigned number in the context record, so it must not fall below zero."""
    budget = Budget(limit=100, threads=2)
    one, other = budget.share(), budget.share()
    one.report(101)
    assert other.ceiling == 0

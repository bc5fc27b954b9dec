"""The path of an operand from `matmul` to machine code: few modules, each entered once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tilewright as tw

Array = np.ndarray[Any, Any]
#: Most modules that an operand may pass.
MOST = 12

RANDOM = np.random.default_rng(3)
A, B = RANDOM.standard_normal((40, 30)).astype(np.float32), RANDOM.standard_normal((30, 50)).astype(np.float32)
C, BIAS = np.zeros((40, 50), np.float32), np.ones(50, np.float32)
Z, W = A.astype(np.complex64), B.astype(np.complex64)
P, Q = A > 0, B > 0
CALLS: dict[str, tuple[Array, Callable[[], Any]]] = {
    "plain": (A, lambda: tw.matmul(A, B)),
    "out": (A, lambda: tw.matmul(A, B, C)),
    "list": (A, lambda: tw.matmul(A, B.tolist())),
    "epilogue": (A, lambda: tw.matmul(A, B, epilogue=lambda t, x: tw.relu(t + x), epilogue_args=[BIAS])),
    "scaled": (A, lambda: tw.matmul(A, B, C, alpha=2, beta=3)),
    "axes": (A, lambda: tw.matmul(A, B, axes=[(0, 1), (0, 1), (1, 0)])),
    "semiring": (A, lambda: tw.matmul(A, B, algebra="min-plus")),
    "dtype": (A, lambda: tw.matmul(A, B, dtype="float64")),
    "vector": (A, lambda: tw.matmul(A[0], B, alpha=2)),
    "device": (A, lambda: tw.matmul(A, B, device="cpu")),
    "complex": (Z, lambda: tw.matmul(Z, W, alpha=2)),
    "booleans": (P, lambda: tw.matmul(P, Q)),
    "words": (P, lambda: tw.matmul(P, Q, algebra="xor-and")),
}


def holds(value: Any, operand: Array) -> bool:
    """Whether an argument is the operand, a view of it, or a sequence with one."""
    if isinstance(value, np.ndarray):
        return value.size > 0 and np.shares_memory(value, operand)
    return isinstance(value, tuple | list) and any(holds(x, operand) for x in value)


def way(operand: Array, call: Callable[[], Any]) -> list[str]:
    """The modules that an operand is passed to by another one, in order."""
    found: list[str] = []

    def see(frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        name, caller = frame.f_globals.get("__name__", ""), frame.f_back
        if not name.startswith("tilewright.") or caller is None or caller.f_globals.get("__name__") == name:
            return
        sys.setprofile(None)
        if any(holds(x, operand) for x in frame.f_locals.values()):
            found.append(name)
        sys.setprofile(see)

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("times", [0, 1])
def test_an_operand_enters_few_modules_and_each_once(name: str, times: int) -> None:
    operand, call = CALLS[name]
    for _ in range(times):
        call()
    passed = way(operand, call)
    assert passed[0] == "tilewright.multiply.engine.matmul"
    assert len(passed) == len(set(passed)) <= MOST, passed


def test_the_measure_sees_a_module_that_is_entered_twice() -> None:
    from tilewright.multiply.engine import operands

    passed = way(A, lambda: (operands.array(A, "a"), operands.array(A, "a")))
    assert passed == ["tilewright.multiply.engine.operands"] * 2

"""A device added in a test: one module that implements the protocol, and one row of the table."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright import ladder
from tilewright.errors import DeviceError
from tilewright.multiply.backends import inventory
from tilewright.multiply.backends.protocol import Backend, Device, Planned, Strided
from tilewright.multiply.problem.kind import Kind

Array = npt.NDArray[Any]


class Slow:
    """A device that sums floats one product after another, by NumPy."""

    name = "An abacus"

    def __init__(self, device: str) -> None:
        self.device = device
        self.kinds: list[Kind] = []

    def refusal(self, kind: Kind) -> str:
        return "" if kind.algebra is None else "an abacus has plus and times alone"

    def plan(self, arrays: Strided, kind: Kind, threads: int) -> Planned:
        m, n, k = *arrays.out[-2:], arrays.a[-1]
        return Planned("by hand", "canonical", None, None, 1, 1, 0, 2 * m * n * k, "by hand: one bead at a time")

    def multiply_into(
        self, a: Array, b: Array, out: Array, kind: Kind, threads: int | None = None, more: Sequence[Array] = ()
    ) -> None:
        self.kinds.append(kind)
        sums = np.zeros(out.shape)
        for i in range(a.shape[-1]):
            sums = sums + a[..., :, i, None].astype(float) * b[..., None, i, :].astype(float)
        out[...] = sums if kind.finish is None else kind.finish.evaluate(sums.astype(kind.accumulator), *more)


class SlowArrays:
    """Lists of rows as arrays on the abacus."""

    def seen(self, name: str, value: Any) -> Any:
        return value

    def check(self, name: str, value: Any) -> None:
        pass

    def output(self, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        return Beads(np.zeros(shape, dtype)) if out is None else out

    def result(self, made: Any) -> Any:
        return made

    def converted(self, name: str, x: Any, wanted: np.dtype[Any]) -> Any:
        return Beads(x.values.astype(wanted))

    def multiply_into(self, a: Any, b: Any, out: Any, kind: Kind, more: Sequence[Any], shape: tuple[int, ...]) -> None:
        Slow("abacus").multiply_into(a.values, b.values, out.values, kind, None, more)


class Beads:
    """An array on the abacus."""

    def __init__(self, values: Array) -> None:
        self.values, self.shape, self.dtype, self.size = values, values.shape, values.dtype, values.size


@pytest.fixture
def abacus(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("abacus")
    module.describe = lambda: [Device("abacus", Slow.name, "accelerator", 10, commands=("tw.matmul",))]  # type: ignore[attr-defined]
    kept = Slow("abacus")
    module.kept = kept  # type: ignore[attr-defined]
    module.opened = lambda device: kept  # type: ignore[attr-defined]
    module.arrays_of = lambda a, b: SlowArrays()  # type: ignore[attr-defined]
    module.Beads = Beads  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "abacus", module)
    row = inventory.Row("abacus", "an abacus", "abacus", multiplies=True, arrays=("abacus", "Beads"))
    monkeypatch.setattr(inventory, "BACKENDS", (*inventory.BACKENDS, row))
    return module


def test_it_multiplies_all_that_the_processor_does(abacus: Any) -> None:
    random = np.random.default_rng(1)
    a, b = random.integers(-9, 9, (2, 5, 7)).astype(np.float32), random.integers(-9, 9, (7, 3)).astype(np.float32)
    bias = np.float32([1, -100, 3])
    backend: Backend = abacus.kept
    assert backend.refusal(Kind(*["float32"] * 4)) == ""
    assert (tw.matmul(a, b, device="abacus") == tw.matmul(a, b)).all()
    scaled = tw.matmul(a, b, alpha=2, epilogue=lambda total, bias: tw.relu(total + bias), epilogue_args=[bias])
    asked: dict[str, Any] = {"epilogue": lambda total, bias: tw.relu(total + bias), "epilogue_args": [bias]}
    assert (tw.matmul(a, b, alpha=2, device="abacus", **asked) == scaled).all()
    assert [kind.finish is None for kind in abacus.kept.kinds] == [True, False]


def test_complex_numbers_and_booleans_are_lowered_for_it(abacus: Any) -> None:
    p = np.random.default_rng(2).random((6, 6)) > 0.5
    assert (tw.matmul(p, p, device="abacus") == p @ p).all()


def test_a_plan_and_the_list_of_devices_use_it(abacus: Any, tilewright: Callable[..., Any]) -> None:
    plan = tw.plan((4, 5), (5, 6), "float32", device="abacus")
    assert (plan.path, plan.flops) == ("by hand", 240)
    assert "one bead at a time" in str(plan)
    assert (plan(np.ones((4, 5), np.float32), np.ones((5, 6), np.float32)) == 5).all()
    assert len(abacus.kept.kinds) == 1
    listed = {found["device"]: found["name"] for found in json.loads(tilewright("devices", "--json").out)["devices"]}
    assert listed["abacus"] == "An abacus"


def test_unsupported_products_are_refused_before_it_is_called(abacus: Any) -> None:
    one = np.ones((2, 2), np.float32)
    for call in (tw.matmul, lambda a, b, **asked: tw.plan(a.shape, b.shape, a.dtype, **asked)):
        with pytest.raises(DeviceError, match="An abacus: an abacus has plus and times alone"):
            call(one, one, algebra="min-plus", device="abacus")
    assert abacus.kept.kinds == []


def test_the_ladder_has_no_rungs_there(abacus: Any, tilewright: Callable[..., Any]) -> None:
    a, b = ladder.operands(2, 2, 2, "float32")
    with pytest.raises(ValueError, match=r"has kernels for: simulated, cpu, cuda, opencl \(got 'abacus'\)"):
        ladder.climb(a, b, device="abacus")
    done = tilewright("ladder", "--device", "abacus")
    assert done.status == 2
    assert "--device must be one of simulated, cpu, cuda, opencl" in done.err


def test_arrays_on_it_are_multiplied_there(abacus: Any) -> None:
    a, b = Beads(np.full((2, 3), 2, np.int8)), Beads(np.full((3, 4), 5, np.int8))
    found = tw.matmul(a, b, dtype="int32")
    assert isinstance(found, Beads)
    assert found.dtype == np.int32
    assert (found.values == 30).all()
    with pytest.raises(TypeError, match="`axes` must be left out for arrays of an abacus"):
        tw.matmul(a, b, axes=[(0, 1), (0, 1), (0, 1)])


def test_an_unknown_device_is_refused_with_the_known_ones(abacus: Any) -> None:
    with pytest.raises(ValueError, match=r"`device` must be cpu, cuda, .*, simulated:NAME or abacus \(got 'loom'\)"):
        tw.matmul([[1]], [[1]], device="loom")
    with pytest.raises(ValueError, match="must be cpu, cuda"):
        tw.matmul([[1]], [[1]], device="abacus:2")

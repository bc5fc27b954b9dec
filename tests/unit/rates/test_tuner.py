"""The tuner, with a table for a clock: what it times, what it keeps, and what it does after failures."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.backends import ranking, winners
from tilewright.backends.cpu import product
from tilewright.backends.cuda.launches import Launches
from tilewright.backends.winners import Extents, Timed
from tilewright.errors import CompileError, DeviceError
from tilewright.kernels import catalogue
from tilewright.ladder import operands
from tilewright.machine import Gpu
from tilewright.native import private
from tilewright.problem.reference import same_bits
from tilewright.rates import cpu_blocks, tuner

DEVICE = "simulated:a100"
SHAPE = (512, 384, 640)
SINGLE = np.dtype("float32")
pytestmark = pytest.mark.usefixtures("cache")


class Clock:
    """Makes each kernel quicker than the one before; the third has no time, and Ctrl-C comes at one."""

    def __init__(self, stop_at: int = 99) -> None:
        self.asked: list[str] = []
        self.stop_at = stop_at

    def __call__(self, one: ranking.Candidate, extents: Extents, gpu: Gpu) -> Timed:
        if len(self.asked) == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append(one.record.name)
        if len(self.asked) == 3:
            raise CompileError("the model must know it (got another)\nmore")
        return Timed(one.record.name, 1e-4 / len(self.asked), "memory", extents)


def plan(name: str = "float32", order: Any = "canonical") -> Any:
    m, n, k = SHAPE
    return tw.plan((m, k), (k, n), name, device=DEVICE, order=order)


@pytest.mark.parametrize(("name", "order"), [("float32", "canonical"), ("float16", "fast"), ("int8", "canonical")])
def test_it_times_the_first_of_the_ranking_and_plans_take_the_quickest(name: str, order: Any) -> None:
    few = [one.name for one in plan(name, order).ranking[:5]]
    clock = Clock()
    found = tuner.tune(DEVICE, SHAPE, np.dtype(name), order, measure=clock)
    assert [one.ranked.name for one in found.tried] == clock.asked == few
    assert [one.refused for one in found.tried if one.timed is None] == ["the model must know it (got another)"]
    after = plan(name, order)
    assert found.best is not None
    timed = [name for name in few if name != few[2]]
    assert found.best.kernel == after.path == timed[-1]
    assert [one.name for one in after.ranking if one.source == "tuned"] == timed[::-1]


def test_arrays_on_a_gpu_that_were_multiplied_before_take_the_quickest_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda: Any = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    names: list[str] = []
    add = Launches.add
    monkeypatch.setattr(
        Launches, "add", lambda to, program, *rest: (names.append(program.name), add(to, program, *rest))
    )
    with tw.simulated_gpu("a100"):
        a, b = (cuda.to_device(np.ones((40, 40), np.float32)) for _ in range(2))
        for _ in range(2):
            tw.matmul(a, b)
            tw.matmul(a, b, casting="equiv")
        before = set(names)
        found = tuner.tune(DEVICE, (40, 40, 40), SINGLE, measure=Clock())
        names.clear()
        tw.matmul(a, b)
        tw.matmul(a, b, casting="equiv")
    assert found.best is not None
    wanted = catalogue.find(found.best.kernel).program("float32", (8, 0)).name
    assert names == [wanted, wanted] and wanted not in before


def test_ctrl_c_loses_nothing_and_the_next_search_continues() -> None:
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(DEVICE, SHAPE, SINGLE, measure=Clock(stop_at=2))
    again = Clock()
    found = tuner.tune(DEVICE, SHAPE, SINGLE, measure=again)
    assert [one.known for one in found.tried] == [True, True, False, False, False]
    assert again.asked == [one.ranked.name for one in found.tried[2:]]
    anew = Clock()
    tuner.tune(DEVICE, SHAPE, SINGLE, again=True, measure=anew)
    assert len(anew.asked) == 5
    elsewhere = Clock()  # the same class, but other extents
    tuner.tune(DEVICE, (510, 384, 640), SINGLE, few=2, measure=elsewhere)
    assert len(elsewhere.asked) == 2


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "write", full)
    found = tuner.tune(DEVICE, SHAPE, SINGLE, measure=Clock())
    assert found.unkept == "No space left on device"
    assert found.best is not None
    assert {one.source for one in plan().ranking} == {"estimated"}


@pytest.mark.parametrize(("device", "shown"), [
    ("opencl:1", "kernels are timed for the CPU and the simulated GPU (got 'opencl:1'"),
    ("cuda", "kernels are timed for the CPU and the simulated GPU (got 'cuda'"),
])  # fmt: skip
def test_problems_that_are_not_timed_are_refused(device: str, shown: str) -> None:
    clock = Clock()
    with pytest.raises(DeviceError) as refused:
        tuner.tune(device, SHAPE, SINGLE, measure=clock)
    assert shown in str(refused.value)
    assert not clock.asked


def test_booleans_have_one_kernel_on_units_for_bits() -> None:
    clock = Clock()
    with pytest.raises(DeviceError, match=r"booleans have only one kernel on .*A100"):
        tuner.tune(DEVICE, SHAPE, np.dtype(bool), measure=clock)
    assert not clock.asked
    assert plan("bool").ranking[0].name == "tensor_core_bits"
    assert len(plan("bool").ranking) == 1


def test_nothing_is_timed_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    clock = Clock()
    with pytest.raises(DeviceError, match="must be kept on disk"):
        tuner.tune(DEVICE, SHAPE, SINGLE, measure=clock)
    assert not clock.asked


@pytest.fixture
def command(tilewright: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command line, with a clock in place of the model."""
    monkeypatch.setattr(tuner.tune, "__kwdefaults__", {"again": False, "measure": Clock()})
    return lambda *words: tilewright("tune", "--device", DEVICE, "--shape", ",".join(map(str, SHAPE)), *words)


def test_the_command_prints_what_it_keeps(command: Callable[..., Any]) -> None:
    done = command()
    assert (done.status, done.err) == (0, "")
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert f"{plan().path} multiplies such products from now on" in done.out
    found = json.loads(command("--json").out)["products"][0]
    assert found["best"] == plan().path
    assert [one["kept_before"] for one in found["kernels"]] == [True, True, False, True, True]


def test_the_command_reports_what_it_cannot_keep(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "write", full)
    done = command()
    assert done.status == 4
    assert "No space left on device" in done.err
    assert "multiplies such products" not in done.out


def test_the_command_fails_where_no_kernel_has_a_time(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def clock(one: ranking.Candidate, extents: Extents, gpu: Gpu) -> Timed:
        raise CompileError(f"the model must know {one.record.name}")

    monkeypatch.setattr(tuner.tune, "__kwdefaults__", {"again": False, "measure": clock})
    done = command()
    assert done.status == 4
    assert "no kernel has a time" in done.out


def test_the_command_reports_ctrl_c(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner.tune, "__kwdefaults__", {"again": False, "measure": Clock(stop_at=2)})
    done = command()
    assert done.status == 130
    assert "are kept" in done.err


def test_the_cpu_takes_the_blocks_that_were_quickest() -> None:
    m, n, k = 260, 300, 1100
    a, b = operands(m, n, k, "float64")
    before, plain = tw.plan(a.shape, b.shape), tw.matmul(a, b)
    assert before.kernel.blocks is None
    found = tw.tune(a.shape, b.shape, few=3)
    made = product._product.cache_info().misses
    assert same_bits(tw.matmul(a, b), plain)
    assert product._product.cache_info().misses == made + 1, "a product that was made before the tuner is made again"
    assert found.best is not None
    assert str(tw.plan(a.shape, b.shape).kernel.blocks) == found.best.kernel
    assert all(one.known for one in tw.tune(a.shape, b.shape, few=3).tried)
    bench = cpu_blocks.Bench((m, n, k), found.kind)
    for one in bench.choices:  # the bits are the same for either
        winners.keep(bench.key, Timed(one.ranked.name, 1e-9 / (1 + bench.choices.index(one)), "packing", (m, n, k)))
        cpu_blocks.forget()
        assert tw.plan(a.shape, b.shape).kernel.blocks == one.blocks
        assert same_bits(tw.matmul(a, b), plain)
    winners.keep(bench.key, Timed("3 steps of k", 1e-12, "packing", (m, n, k)))  # another host's entry is not used
    cpu_blocks.forget()
    assert tw.plan(a.shape, b.shape).kernel.blocks == bench.choices[-1].blocks
    assert tw.plan((64, 64), (64, 64)).kernel.blocks is None


def test_a_problem_without_blocks_is_refused() -> None:
    with pytest.raises(DeviceError, match="without blocks"):
        tw.tune((8, 4), (4, 8))
    with pytest.raises(tw.errors.ArgumentValueError, match="shapes must be"):
        tw.tune((8, 4), (5, 8))

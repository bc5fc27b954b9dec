"""The tuner, with a table for a clock: what it times, what it keeps, and what it does after failures."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import machine
from tilewright.errors import CompileError, DeviceError
from tilewright.ground.native import secure_files
from tilewright.ladder import operands
from tilewright.machine import Gpu
from tilewright.multiply.backends import estimates, tuning_db
from tilewright.multiply.backends.cpu import backend as processor, product
from tilewright.multiply.backends.cuda.launches import Launches
from tilewright.multiply.backends.launched import LaunchedProducts
from tilewright.multiply.backends.opencl import product as product_of_opencl, tiles
from tilewright.multiply.backends.tuning_db import Extents, Timed
from tilewright.multiply.engine import known_layouts
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import same_bits
from tilewright.show.rates import tuner
from tilewright.show.rates.turns import Ready, Spread, Taken

DEVICE = "simulated:a100"
SHAPE = (512, 384, 640)
SINGLE = np.dtype("float32")
pytestmark = pytest.mark.usefixtures("cache")


class Clock:
    """Makes each kernel quicker than the one before; the third has no time, and Ctrl-C comes at one."""

    def __init__(self, stop_at: int = 99) -> None:
        self.asked: list[str] = []
        self.stop_at = stop_at

    def __call__(self, one: estimates.Candidate, extents: Extents, gpu: Gpu) -> Timed:
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
    monkeypatch.setattr(secure_files, "write", full)
    found = tuner.tune(DEVICE, SHAPE, SINGLE, measure=Clock())
    assert found.unkept == "No space left on device"
    assert found.best is not None
    assert {one.source for one in plan().ranking} == {"estimated"}


def test_problems_with_one_kernel_are_refused() -> None:
    clock = Clock()
    for more, shown in (({"algebra": "min-plus"}, "one kernel for such products (semiring)"),
                        ({"algebra": "max-plus", "device": "h100"}, "H100")):  # fmt: skip
        with pytest.raises(DeviceError, match="nothing is tuned") as refused:
            tuner.tune(**{"device": DEVICE, "extents": SHAPE, "dtype": SINGLE, "measure": clock} | more)
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
    monkeypatch.setattr(tuner.tune, "__kwdefaults__", {**tuner.tune.__kwdefaults__, "measure": Clock()})
    return lambda *words: tilewright("tune", "--device", DEVICE, "--sizes", "x".join(map(str, SHAPE)), *words)


def test_the_command_prints_what_it_keeps(command: Callable[..., Any]) -> None:
    done = command()
    assert (done.status, done.err) == (0, "")
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert f"{plan().path} multiplies such products from now on" in done.out
    found = json.loads(command("--json").out)["products"][0]
    assert found["best"] == plan().path
    assert [one["kept_before"] for one in found["kernels"]] == [True, True, False, True, True]


def test_the_command_reports_what_it_cannot_keep(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_files, "write", full)
    done = command()
    assert done.status == 4
    assert "No space left on device" in done.err
    assert "multiplies such products" not in done.out


def test_the_command_fails_where_no_kernel_has_a_time(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def clock(one: estimates.Candidate, extents: Extents, gpu: Gpu) -> Timed:
        raise CompileError(f"the model must know {one.record.name}")

    monkeypatch.setattr(tuner.tune, "__kwdefaults__", {**tuner.tune.__kwdefaults__, "measure": clock})
    done = command()
    assert done.status == 4
    assert "no kernel has a time" in done.out


def test_the_command_reports_ctrl_c(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner.tune, "__kwdefaults__", {**tuner.tune.__kwdefaults__, "measure": Clock(stop_at=2)})
    done = command()
    assert done.status == 130
    assert "are kept" in done.err


class Race:
    """Says that each contender is quicker than the one before; each multiplies once.

    The quartiles are `apart` of the time apart.
    """

    def __init__(self, apart: float = 0.08) -> None:
        self.seen: list[float | None] = []
        self.apart = apart

    def __call__(self, contenders: Sequence[Ready]) -> list[Spread]:
        self.seen += [None if one.timed is None else one.timed() for one in contenders]
        times = [1e-4 / (1 + place) for place in range(len(contenders))]
        return [Spread(one, (1 - self.apart / 2) * one, (1 + self.apart / 2) * one) for one in times]


def forbidden(*_: object) -> Any:
    raise AssertionError("nothing is predicted, or measured again")


def path_of(device: str | None, m: int, n: int, k: int, **more: Any) -> Any:
    return tw.plan((m, k), (k, n), "float32", device=device, **more)


def test_an_opencl_device_takes_the_tile_that_was_quickest(opencl_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    m, n, k = shape = 40, 70, 90
    a, b = operands(m, n, k, "float32")
    before = path_of("opencl", *shape)
    assert {one.source for one in before.ranking} == {"estimated"}
    found = tuner.tune("opencl", shape, SINGLE, few=3, measure=forbidden, race=Race())
    few = [one.ranked.name for one in found.tried]
    assert few == [one.name for one in before.ranking[:3]]
    assert [one.timed and round(one.timed.spread, 9) for one in found.tried] == [0.08] * 3
    assert found.best is not None and found.best.kernel == few[-1]
    after = path_of("opencl", *shape)
    assert (after.ranking[0].name, after.ranking[0].source) == (few[-1], "tuned") and after.tile != before.tile
    assert str(after.tile) == few[-1] and "tuned" in str(after)
    cuts: list[str] = []
    made = product_of_opencl.kernel
    monkeypatch.setattr(product_of_opencl, "kernel", lambda *given: (cuts.append(str(given[3])), made(*given))[1])
    assert same_bits(tw.matmul(a, b, device="opencl"), tw.matmul(a, b))
    assert cuts == [few[-1]]
    assert all(one.known for one in tuner.tune("opencl", shape, SINGLE, few=3, race=forbidden).tried)
    assert path_of("opencl", *shape, order="fast").tile == after.tile, "each order is computed canonically"
    assert path_of("opencl", *shape, epilogue=tw.relu).tile == after.tile, (
        "an epilogue leaves the steps of k as they are"
    )
    for other in (path_of("opencl", *shape, algebra="min-plus"), path_of("opencl", 300, n, k), tw.plan((m, k), (k, n),
                  device="opencl")):  # fmt: skip
        assert {one.source for one in other.ranking} == {"estimated"}
    algebra = tuner.tune("opencl", shape, SINGLE, few=2, algebra="min-plus", race=Race())
    assert path_of("opencl", *shape, algebra="min-plus").ranking[0].name == algebra.tried[1].ranked.name
    assert same_bits(tw.matmul(a, b, device="opencl", algebra="min-plus"), tw.matmul(a, b, algebra="min-plus"))


def test_another_driver_has_times_of_its_own(opencl_device: Any) -> None:
    kind = Kind(*["float32"] * 4)
    for change in ({"driver": "another"}, {"units": 99}, {"name": "another"}, {"platform": "another"}):
        other = replace(opencl_device, **change)
        assert tiles.key_of(other, kind, *SHAPE) != tiles.key_of(opencl_device, kind, *SHAPE), change
    assert tiles.key_of(replace(opencl_device), kind, *SHAPE) == tiles.key_of(opencl_device, kind, *SHAPE)


def test_a_tile_that_a_driver_refuses_has_no_time(opencl_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tiles.ranked(opencl_device, Kind(*["float32"] * 4), 40, 70, 90)[0][0]
    made = product_of_opencl.kernel

    def kernel(context: Any, handle: Any, kind: Kind, cut: Any, layout: Any) -> Any:
        if cut == first:
            raise CompileError("no registers are left\nlog")
        return made(context, handle, kind, cut, layout)

    monkeypatch.setattr(product_of_opencl, "kernel", kernel)
    found = tuner.tune("opencl", (40, 70, 90), SINGLE, few=2, race=Race())
    assert [(one.refused, one.timed is None) for one in found.tried] == [("no registers are left", True), ("", False)]


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`device="cuda"` as an A100 of a driver's version, whose launches run on the simulated GPU by a scripted clock."""
    from tilewright.multiply.backends.cuda import backend

    gpu = machine.gpu("a100")

    def launch(*asked: Any, **options: Any) -> Any:
        return tw.simt.launch(*asked, **options, gpu="a100")

    def driver(version: str) -> None:
        found = LaunchedProducts(
            "An A100",
            gpu.compute_capability,
            launch,
            gpu,
            identity=f"cuda A100, driver {version}",
            resident=lambda *_: lambda: 0.25,
        )
        monkeypatch.setattr(backend, "opened", lambda device: found)

    driver("1")
    return driver


def test_a_real_gpu_is_timed_by_its_own_clock_under_its_own_key(real: Callable[[str], None]) -> None:
    shape = 40, 24, 20
    before, race = path_of("cuda", *shape), Race()
    found = tuner.tune("cuda", shape, SINGLE, few=3, measure=forbidden, race=race)
    assert race.seen == [0.25] * 3, "seconds between events, not the host's"
    assert found.best is not None and found.best.kernel == before.ranking[2].name == path_of("cuda", *shape).path
    a, b = operands(*shape, "float32")
    assert same_bits(tw.matmul(a, b, device="cuda"), tw.matmul(a, b))
    assert path_of(DEVICE, *shape).path == before.path, "a simulated GPU of that record has times of its own"
    real("2")
    assert path_of("cuda", *shape).path == before.path, "so has another driver"


def test_a_simulated_gpu_in_place_of_the_driver_has_predicted_times() -> None:
    pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    with tw.simulated_gpu("a100"):
        tuner.tune("cuda", SHAPE, SINGLE, measure=Clock(), race=forbidden)
        assert path_of("cuda", *SHAPE).path == plan().path == plan().ranking[0].name
        assert plan().ranking[0].source == "tuned"


def test_a_cache_that_cannot_be_used_is_a_tuner_s_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(DeviceError, match=r"the cache .*file cannot be used \(.*\); set TILEWRIGHT_CACHE_DIR"):
        tw.tune((64, 64), (64, 64), device=DEVICE)


def test_a_full_disk_ends_no_race(opencl_device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_files, "write", full)
    found = tuner.tune("opencl", (40, 70, 90), SINGLE, few=2, race=Race())
    assert found.unkept == "No space left on device" and found.best is not None
    assert {one.source for one in path_of("opencl", 40, 70, 90).ranking} == {"estimated"}


def test_measured_times_are_medians_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = [Ready(forbidden, forbidden), Ready(forbidden, forbidden)]

    def turns(contenders: Sequence[Ready], samples: int) -> Taken:
        assert list(contenders) == ready and samples > 1
        return Taken(((1.0, 9.0, 5.0, 2.0, 7.0), (4.0,) * 5), disturbed=False)

    monkeypatch.setattr(tuner, "turns", turns)
    assert tuner.in_turns(ready) == [Spread(5.0, 2.0, 7.0), Spread(4.0, 4.0, 4.0)]


def test_the_cpu_takes_the_blocks_that_were_quickest() -> None:
    m, n, k = 260, 300, 1100
    a, b = operands(m, n, k, "float64")
    before, plain = tw.plan(a.shape, b.shape), tw.matmul(a, b)
    assert before.kernel.blocks is None
    found = tw.tune(a.shape, b.shape, few=3, accept_noise=True)
    made = product._product.cache_info().misses
    assert same_bits(tw.matmul(a, b), plain)
    assert product._product.cache_info().misses == made + 1, "a product that was made before the tuner is made again"
    assert found.best is not None
    assert str(tw.plan(a.shape, b.shape).kernel.blocks) == found.best.kernel
    assert all(one.known for one in tw.tune(a.shape, b.shape, few=3, accept_noise=True).tried)
    choices = processor.opened("cpu").choices(found.kind, (m, n, k))
    names = [one.name for one in choices.ranking]
    for place, name in enumerate(names):  # the bits are the same for each
        tuning_db.keep(choices.key, Timed(name, 1e-9 / (1 + place), "packing", (m, n, k)))
        choices.forget()
        known_layouts.forget()
        assert str(tw.plan(a.shape, b.shape).kernel.blocks) == name
        assert same_bits(tw.matmul(a, b), plain)
    assert str(tw.plan(a.shape, b.shape, epilogue=tw.relu).kernel.blocks) == names[-1]
    assert tw.plan(a.shape, b.shape, algebra="min-plus").kernel.blocks is None
    tuning_db.keep(choices.key, Timed("3 steps of k", 1e-12, "packing", (m, n, k)))  # another host's entry is not used
    choices.forget()
    assert str(tw.plan(a.shape, b.shape).kernel.blocks) == names[-1]
    assert tw.plan((64, 64), (64, 64)).kernel.blocks is None


def test_the_cpu_has_blocks_for_each_algebra() -> None:
    shape = 260, 300, 1100
    found = tuner.tune("cpu", shape, SINGLE, few=2, algebra="min-plus", race=Race())
    assert found.best is not None and found.best.kernel == found.tried[1].ranked.name
    tuned = path_of(None, *shape, algebra="min-plus")
    assert str(tuned.kernel.blocks) == found.best.kernel and tuned.text.endswith(", tuned")
    assert path_of(None, *shape).kernel.blocks is None and not path_of(None, *shape).text.endswith("tuned")


def test_a_problem_without_blocks_is_refused() -> None:
    with pytest.raises(DeviceError, match="without blocks"):
        tw.tune((8, 4), (4, 8))
    with pytest.raises(tw.errors.ArgumentValueError, match="shapes must be"):
        tw.tune((8, 4), (5, 8))


def test_a_time_that_is_too_noisy_is_not_kept(cache: Path) -> None:
    """Nothing of a noisy race is stored, and the report says so; a calm one is, and so is a noisy one on request."""
    from tilewright.show.report import tuning
    from tilewright.show.report.page import html_of

    shape = (512, 512, 512)
    found = tuner.tune("cpu", shape, SINGLE, few=2, race=Race(apart=0.23))
    assert found.best is None and [one.noisy for one in found.tried] == [True, True]
    said = html_of(list(tuning.blocks(found)))
    assert "its quartiles are 23 % of its time apart, more than 10 %" in said and "--accept-noise" in said
    assert path_of("cpu", *shape).kernel.blocks is None
    calm = tuner.tune("cpu", shape, SINGLE, few=2, race=Race())
    assert calm.best is not None and not any(one.known or one.noisy for one in calm.tried)
    again = tuner.tune("cpu", shape, SINGLE, few=2, race=Race(apart=0.23), again=True, accept_noise=True)
    assert again.best is not None and round(again.best.spread, 9) == 0.23
    assert tuning.document(again)["kernels"][0]["noisy"] is False

"""The first screen, from a story that is written down here."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace

import pytest
from rich.console import Console

from tilewright import catalogue, machine
from tilewright.ladder import Climb, HostTime, Machine, Product, Rung, StepTime, Story, steps_of
from tilewright.multiply.kernels.record import OLDEST
from tilewright.show.report import screen, terminal

GPUS = ("h100", "b200", "t4", "a100", "v100", "rtx5090")


def rung(name: str, gpu: machine.Gpu, **more: object) -> Rung:
    """What a right kernel gives, or one that needs another GPU."""
    record = catalogue.find(name)
    fits = record.backend == "cpu" or not record.unfit(max(gpu.compute_capability, OLDEST))
    others = () if fits else tuple(k for k in machine.names() if not record.unfit(machine.gpu(k).compute_capability))
    blank = Rung(
        name, record.title, record.source, record.order, record.published, "simulated", record.dtypes[0],
        verified=fits or None, mismatches=0 if fits else None, seconds=0.0145 if fits else None, gpus=others,
    )  # fmt: skip
    return replace(blank, **more)  # type: ignore[arg-type]


def story(key: str = "h100") -> Story:
    """All kernels of the catalogue that the simulated GPU would run, each right."""
    gpu = machine.gpu(key)
    rungs = tuple(rung(r.name, gpu) for r in catalogue.records() if r.backend != "opencl")
    steps = []
    for number, step in enumerate(steps_of(gpu)):
        seconds = 0.273 / 4**number
        times = (seconds, 0.75 * seconds, 1.35 * seconds)
        steps.append(
            StepTime(step.kernel, step.changed, catalogue.find(step.kernel).dtypes[0], 4096, *times, 4.0**number)
        )
    product = Product(256, 256, 256, ("float32",), None)
    made = Machine(gpu.name, gpu.name, "9.0", "simulated", "a host", 2, "0")
    host = HostTime(256, "float32", 197e-6, 500)
    return Story(key, Climb(made, product, rungs), steps=tuple(steps), host=host)


def lines(what: Story, width: int = 80, encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    terminal.show(screen.blocks(what, 98.2), Console(file=stream, width=width, color_system=None))
    return stream.buffer.getvalue().decode(encoding).splitlines()  # type: ignore[attr-defined]


def changed(what: Story, name: str, **more: object) -> Story:
    """The story with another result of one kernel."""
    rungs = tuple(replace(r, **more) if r.name == name else r for r in what.climb.rungs)  # type: ignore[arg-type]
    return replace(what, climb=replace(what.climb, rungs=rungs))


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("gpu", GPUS)
def test_it_is_one_screen(gpu: str, width: int) -> None:
    shown = lines(story(gpu), width)
    assert len(shown) <= 24 and max(map(len, shown)) == 80
    assert shown[0].startswith(f"C = A x B from three loops to tensor cores, on a simulated {gpu.upper()} ")
    assert shown[0].endswith(" 98 s")
    rows = [line.split()[0] for line in shown if " ms  " in line or " us  " in line or " ns  " in line]
    assert rows == [step.kernel for step in steps_of(machine.gpu(gpu))]


def test_each_gpu_has_its_own_last_step() -> None:
    last = {gpu: steps_of(machine.gpu(gpu))[-1].kernel for gpu in GPUS}
    assert last == {
        "h100": "hopper", "b200": "blackwell_pairs", "t4": "turing", "a100": "tensor_core", "v100": "warp_tiled",
        "rtx5090": "tensor_core",
    }  # fmt: skip


def test_every_kernel_that_ran_is_counted_once() -> None:
    what = story()
    second = lines(what)[1]
    assert second.startswith("✓ ") and "✗" not in second
    exact, bounded, elsewhere = (int(word) for word in second.split() if word.isdigit())
    assert exact + bounded + elsewhere == sum(not r.published for r in what.climb.rungs)
    assert second.endswith("need --gpu b200 or t4")


def test_the_kernels_of_an_opencl_device_have_a_line_of_their_own() -> None:
    what = story()
    more = [replace(rung("naive", machine.gpu("h100")), name=f"opencl_{n}", device="opencl") for n in range(3)]
    climb = replace(what.climb, rungs=(*what.climb.rungs, *more))
    shown = lines(replace(what, climb=climb))
    assert shown[1] == lines(what)[1] and len(shown) <= 24
    assert shown.count("Your OpenCL device: ✓ 3 kernels bit for bit") == 1
    wrong = lines(changed(replace(what, climb=climb), "opencl_1", verified=False, mismatches=2))
    assert "Your OpenCL device: ✗ 2 of 3 kernels bit for bit" in wrong and "✗ opencl_1: 2 elements wrong" in wrong


def test_a_wrong_kernel_has_no_tick() -> None:
    right = lines(story())
    wrong = lines(changed(story(), "coalesced", verified=False, mismatches=3))
    assert right[1].startswith("✓ 33 kernels bit for bit   ✓ 17 ")
    assert wrong[1].startswith("✗ 32 of 33 kernels bit for bit   ✓ 17 ")
    assert wrong[2] == "✗ coalesced: 3 elements wrong"
    assert [line.split()[:3] for line in wrong[4:] if "✗" in line] == [["✗", "coalesced", "f32"]]
    assert len(wrong) <= 24


def test_a_kernel_that_stopped_says_why_and_many_are_not_all_named() -> None:
    what = changed(story(), "hopper", verified=False, error="hopper: out of bounds store " + "far " * 40)
    shown = lines(what)
    assert shown[1].startswith("✓ 33 kernels bit for bit   ✗ 16 of 17 within their bound")
    assert shown[2].startswith("✗ hopper: hopper: out of bounds") and len(shown[2]) == 80
    for name in ("naive", "tiled", "coalesced"):
        what = changed(what, name, verified=False, mismatches=1)
    shown = lines(what)
    assert "✗ and 2 more: tilewright ladder --full" in shown and len(shown) <= 24


def test_a_published_specimen_may_be_wrong() -> None:
    assert lines(changed(story(), "tiled_published", verified=False, mismatches=9)) == lines(story())


def test_bars_grow_with_the_speed_up_on_a_logarithmic_scale() -> None:
    shown = [line for line in lines(story()) if "█" in line or "▏" in line]
    eighths = [sum(8 if c == "█" else " ▏▎▍▌▋▊▉".index(c) for c in line if c in "█▏▎▍▌▋▊▉") for line in shown]
    steps = [after - before for before, after in itertools.pairwise(eighths)]
    assert eighths[0] == 1 and eighths[-1] == 64
    assert all(9 <= step <= 12 for step in steps)  # each step of the story is four times as fast


def test_without_compilers_it_has_the_host_and_what_to_install() -> None:
    what = story()
    rungs = tuple(
        replace(r, verified=None, missing="gpu", gpus=()) if r.source not in ("S5", "CPU") else r
        for r in what.climb.rungs
    )
    shown = lines(replace(what, climb=replace(what.climb, rungs=rungs), steps=()))
    assert shown[1] == "✓ 2 kernels bit for bit"
    assert [line for line in shown if "pip install" in line] and not [line for line in shown if "predicted" in line]
    assert "Your CPU, tw.matmul 256^3: 197 us, 170 GFLOPS (three loops: 14.5 ms)" in shown
    assert len(shown) <= 24 and max(map(len, shown)) <= 80


def test_ctrl_c_keeps_what_was_found() -> None:
    what = story()
    few = replace(what.climb, rungs=what.climb.rungs[:20], interrupted=True)
    shown = lines(replace(what, climb=few, steps=(), host=None, interrupted=True))
    assert shown[1] == "✓ 18 kernels bit for bit"
    assert "Stopped by Ctrl-C: this is what was found until then." in shown


def test_the_band_is_the_models_and_not_that_of_a_step_at_its_limit() -> None:
    what = story()
    first = replace(what.steps[0], predicted_least_seconds=what.steps[0].predicted_seconds)
    said = "* a model; nothing was measured. Most published times lie within -25/+35 %"
    assert said in lines(replace(what, steps=(first, *what.steps[1:])))


def test_a_step_without_a_prediction_says_so() -> None:
    what = story()
    *others, last = what.steps
    none = StepTime(last.kernel, last.changed, last.dtype, last.size, refused="jump tables are not supported")
    shown = lines(replace(what, steps=(*others, none)))
    assert "hopper: no prediction: jump tables are not supported" in shown
    assert next(line for line in shown if line.startswith("hopper ")).split()[2:4] == ["-", "-"]


def test_ascii_has_marks_and_columns_too() -> None:
    shown, known = lines(story(), encoding="ascii"), lines(story())
    assert shown[1].startswith("+ 33 kernels")
    assert [len(line) for line in shown] == [len(line) for line in known]
    wrong = lines(changed(story(), "coalesced", verified=False, mismatches=3), encoding="ascii")
    assert wrong[1].startswith("x 32 of 33")

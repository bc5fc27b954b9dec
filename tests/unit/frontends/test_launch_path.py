"""A warm launch takes no more steps than `benchmarks/launch_path.py` has counted."""

from __future__ import annotations

import launch_path

from tilewright.ground.settings import gpu_name
from tilewright.simulate.launch_request import Limits

#: Most modules, Python calls, and crossings between modules, with a margin of a twentieth; lower them when you can.
MOST = {
    "simt.launch": (25, 167, 80),
    "check": (45, 711, 281),
    "profile": (68, 2_640, 995),
    "numba": (17, 77, 27),
    "simt.launch, checked": (46, 676, 259),
    "numba, checked": (44, 549, 178),
    "simt.launch, checked and profiled": (72, 1_337, 437),
}


def test_a_warm_launch_runs_its_kernel_once_and_takes_few_steps() -> None:
    found = launch_path.ways()
    assert {name: way.executions for name, way in found.items()} == dict.fromkeys(MOST, 1)
    beyond = {
        name: (way.modules, way.calls, way.crossings)
        for name, way in found.items()
        if any(got > most for got, most in zip((way.modules, way.calls, way.crossings), MOST[name], strict=True))
    }
    assert beyond == {}


def test_calls_and_crossings_are_counted() -> None:
    """A function of the package that calls one of another module, and the twin that calls none."""
    assert launch_path.way(gpu_name) == launch_path.Way(modules=1, calls=1, crossings=0, executions=0)
    made = launch_path.way(lambda: Limits().with_stack(1 << 16))
    assert made.modules == 1 and made.calls > 2 and made.crossings == 0

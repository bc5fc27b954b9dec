"""No limit of a clean kernel is above its prediction; where none is possible, the verdict says that it is of PTX."""

from __future__ import annotations

from pathlib import Path

import corpus
import pytest
from case import Case

from tilewright import profiling
from tilewright.observe.prediction import launches
from tilewright.simt import Memory
from tilewright.simulate.launch_request import LaunchRequest
from tilewright.simulate.machine import limiters as names

PATHS = [*corpus.files("correct"), *corpus.files("defects")]
#: Files whose kernels are predicted in every run of the tests.
QUICK = PATHS[::30]


def holds(case: Case) -> bool:
    """Profile a case, and compare its limits with its prediction; whether there is one."""
    memory = Memory()
    arguments, _ = case.device_arguments(memory)
    options = {"shared_bytes": case.shared_bytes, "gpu": case.gpu, "cooperative": case.cooperative, "memory": memory}
    asked = LaunchRequest.by("profile", case.launchable(), case.grid, case.block, arguments, options)
    seen = profiling.profile(asked.program, case.grid, case.block, arguments, **options)
    assert seen.verdict is not None and seen.verdict.share is None and seen.verdict.bound in names.UNITS
    try:
        found = launches.of_profile(seen, asked.program, asked.target, changes=False)
    except launches.REFUSED:
        return False
    assert found.limits[0].seconds <= found.seconds <= found.most_seconds
    judged = launches.judged(seen, found)
    assert (judged.units, judged.verdict) == (found.limits, found.verdict)
    assert found.limiter in {*names.UNITS, *names.STALLS}
    return True


def clean(path: Path) -> list[Case]:
    return [case for case in corpus.cases(path) if not case.defective]


@pytest.mark.parametrize("path", QUICK, ids=lambda path: path.stem)
def test_no_limit_of_a_clean_kernel_is_above_its_prediction(path: Path) -> None:
    for case in clean(path):
        holds(case)


@pytest.mark.volume
def test_no_limit_of_any_clean_kernel_is_above_its_prediction() -> None:
    predicted = [holds(case) for path in PATHS for case in clean(path)]
    assert predicted.count(True) > 0.8 * len(predicted)

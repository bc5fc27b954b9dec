"""A sweep's record of its host, and of other processes that were at work."""

from __future__ import annotations

import os
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from tilewright.show.rates import conditions as rates_conditions
from tilewright.show.rates.conditions import Usage, clock_mhz, conditions, last_level_bytes, processor, usage

STAT = "cpu  100 20 30 1000 50 6 7 40 0 0\ncpu0 1 2 3\n"
CPUINFO = """processor : 0
cpu family : 6
model : 167
model name : Xeon
cpu MHz : 2000.0

processor : 1
cpu family : 6
model : 167
model name : Xeon
cpu MHz : 3000.0
"""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Files that stand in for the host's own."""
    files = {"/proc/stat": STAT, "/proc/cpuinfo": CPUINFO}

    def read(path: Path, **_: object) -> str:
        if str(path) not in files:
            raise FileNotFoundError(str(path))
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read)
    return files


def test_processor_seconds_stolen_or_used_by_others(host: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates_conditions.time, "process_time", lambda: 0.5)
    tick = os.sysconf("SC_CLK_TCK")
    before = usage()
    assert astuple(before) == pytest.approx((1253 / tick, 203 / tick - 0.5, 40 / tick))
    host["/proc/stat"] = STAT.replace("100 20", "140 20").replace("7 40", "7 50")
    assert astuple(usage().since(before)) == pytest.approx((50 / tick, 50 / tick, 10 / tick))


def test_a_host_without_these_files(host: dict[str, str]) -> None:
    del host["/proc/stat"]
    host["/proc/cpuinfo"] = ""
    assert usage() == Usage()
    assert clock_mhz() == 0
    assert "family" not in processor()


def test_the_processor_with_family_model_and_clock(host: dict[str, str]) -> None:
    assert processor().endswith("(family 6, model 167)")
    assert clock_mhz() == 2500


def test_conditions_name_versions_that_are_installed() -> None:
    found = conditions(["pytest", "no-such-package"])
    assert found["versions"]["numpy"] == np.__version__
    assert "pytest" in found["versions"]
    assert "no-such-package" not in found["versions"]
    assert found["cores"] >= 1


def test_the_largest_cache_is_no_small_one() -> None:
    assert last_level_bytes() >= 1 << 20

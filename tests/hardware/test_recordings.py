"""Recordings of real GPUs against the simulated counts; and the reading of the profiler's output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import profiler
import pytest

from tilewright.kernels import catalogue
from tilewright.ladder import operands

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))
#: Counts that must agree exactly, simulated PTX against the hardware's machine code.
EXACT = ("global_load_sectors", "global_store_sectors", "shared_load_wavefronts", "shared_store_wavefronts")

TABLE = """==PROF== Connected to process 7
==PROF== Profiling "k": 0%....50%....100%
"ID","Process ID","Kernel Name",{columns}
"","","",{units}
"0","7","k","5,120",{rest}
"1","7","k","64",{rest}
==PROF== Disconnected
"""


def table() -> str:
    columns = ",".join(f'"{metric}"' for metric in profiler.METRICS.values())
    rest = ",".join(f'"{i}"' for i in range(1, len(profiler.METRICS)))
    return TABLE.format(columns=columns, units=",".join('""' for _ in profiler.METRICS), rest=rest)


def test_the_profilers_table() -> None:
    first, second = profiler.read(table())
    assert first["global_load_sectors"] == 5120
    assert second["global_load_sectors"] == 64
    assert first["global_store_sectors"] == 1
    assert first["duration_ns"] == len(profiler.METRICS) - 1


def test_no_table() -> None:
    with pytest.raises(ValueError, match="printed no table"):
        profiler.read("==ERROR== no permission")


def simulated(record: catalogue.Record, dtype: str, shape: tuple[int, int, int], cc: tuple[int, int]) -> dict[str, Any]:
    """The simulated GPU's counts by the recording's names."""
    from tilewright import simt
    from tilewright.instruments import Banks, Coalescing

    m, n, k = shape
    a, b = operands(m, n, k, dtype)
    c = np.zeros((m, n), dtype)
    at = record.launch_rule(m, n, k)
    program = record.program(dtype, cc)
    given, instruments = record.arguments(a, b, c), (Coalescing(), Banks())
    run = simt.launch(program, at.grid, at.block, given, at.shared_bytes, instruments)
    sectors, banks = run.results["coalescing"], run.results["banks"]
    return {
        "global_load_sectors": sectors.total("load", "sectors"),
        "global_store_sectors": sectors.total("store", "sectors"),
        "shared_load_wavefronts": banks.total("load", "wavefronts"),
        "shared_store_wavefronts": banks.total("store", "wavefronts"),
        "registers_per_thread": program.resources(cc).registers_per_thread,
        "static_shared_bytes": program.shared_bytes,
    }


def differences(recorded: dict[str, Any], counted: dict[str, Any]) -> list[str]:
    """What a recording of one kernel and the simulated counts disagree on."""
    names = (*EXACT, "registers_per_thread", "static_shared_bytes")
    return [
        f"{recorded['name']} {recorded['dtype']}: {name} is {recorded[name]:.0f} on the GPU, {counted[name]} simulated"
        for name in names
        if recorded[name] != counted[name]
    ]


def test_a_difference_is_seen() -> None:
    counted = dict.fromkeys((*EXACT, "registers_per_thread", "static_shared_bytes"), 10)
    recorded = {"name": "k", "dtype": "int32", **counted}
    assert differences(recorded, counted) == []
    recorded["global_load_sectors"] = 11.0
    assert differences(recorded, counted) == ["k int32: global_load_sectors is 11 on the GPU, 10 simulated"]


@pytest.mark.parametrize("file", RECORDINGS or [None], ids=lambda f: f.stem if f else "none")
def test_a_recording_agrees_with_the_simulated_gpu(file: Path | None) -> None:
    if file is None:
        pytest.skip("not run: no recording of a real GPU yet; tests/hardware/record.py makes one")
    recording = json.loads(file.read_text())
    m, n, k = recording["shape"]
    cc = tuple(recording["compute_capability"])
    found: list[str] = []
    for kernel in recording["kernels"]:
        record = catalogue.find(kernel["name"])
        found += differences(kernel, simulated(record, kernel["dtype"], (m, n, k), (cc[0], cc[1])))
    assert found == []

"""Recordings of real GPUs against the simulated one, and the script that makes them, run on the simulated GPU."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import comparing_recordings
import core_bits
import measure
import profiler
import pytest

import tilewright as tw
from tilewright.errors import DeviceError

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.json"))

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


#: A fake Nsight Compute: runs the program, and prints a table of one launch with the counts of a kernel.
NCU = """#!{python}
import subprocess, sys
subprocess.run(sys.argv[sys.argv.index("--metrics") + 2:], check=True)
print('==PROF== Disconnected from process 7')
print('"ID","Process ID","Kernel Name",' + ','.join('"%s"' % one for one in {metrics!r}))
print('"","","",' + ','.join('""' for _ in {metrics!r}))
print('"0","7","k",' + ','.join('"{{:,}}"'.format(one) for one in {counts!r}))
"""
SHAPE, KERNEL = (33, 18, 20), "coalesced"
OPTIONS = ["--simulated", "h100", "--shapes", "33,18,20", "--races", "64,64,64", "--only", KERNEL, "--bits",
           r"^mma.sync.aligned.m16n8k16.row.col.f32.bf16|^floor m16n8k8|^wgmma bf16"]  # fmt: skip


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Children run in this process, on one simulated GPU: an interpreter for each stage takes seconds."""
    real = subprocess.run

    def run(command: list[str], **options: Any) -> Any:
        if "--child" not in command:
            return real(command, **options)
        try:
            return SimpleNamespace(returncode=measure.main(command[2:]))
        except SystemExit as ended:
            return SimpleNamespace(returncode=ended.code)

    monkeypatch.setattr(measure, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired))
    monkeypatch.setattr(measure, "on_device", lambda simulated: contextlib.nullcontext())
    with tw.simulated_gpu("h100") as gpu:
        yield gpu


def counts() -> list[float]:
    found = {"compute_capability": [9, 0], "device": "NVIDIA H100 SXM5 80GB"}
    kernel = comparing_recordings.counted({"name": KERNEL, "dtype": "float32"}, SHAPE, found)
    return [float(kernel.get(name, 7)) for name in profiler.METRICS]


def test_the_script_runs_from_end_to_end_and_its_recording_agrees(
    simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(NCU.format(python=sys.executable, metrics=list(profiler.METRICS.values()), counts=counts()))
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(profiler, "find", lambda: str(ncu))
    out = tmp_path / "found.json"
    assert measure.main(["--out", str(out), *OPTIONS]) == 0
    found = json.loads(out.read_text())
    assert (found["simulated"], found["compute_capability"]) == (True, [9, 0])
    items = {stage: set(one) for stage, one in found["stages"].items()}
    assert items["verify"] == {"coalesced float32 33x18x20"}
    assert items["counts"] == {"33x18x20"}
    assert items["bits"] == {
        "floor m16n8k8 tf32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "wgmma bf16.bf16.f32"
    }  # fmt: skip
    race = found["stages"]["race"]["float32 64x64x64"]["contenders"]
    assert (len(race[KERNEL]["samples"]), race[KERNEL]["error"] < 1e-6) == (7, True)
    assert comparing_recordings.differences(found) == []
    _a_difference_is_seen(found)


def _a_difference_is_seen(found: dict[str, Any]) -> None:
    """Whether a changed value is found in each stage of a recording."""
    wrong = copy.deepcopy(found)
    stages, name = wrong["stages"], "wgmma bf16.bf16.f32"
    stages["verify"]["coalesced float32 33x18x20"]["wrong_elements"] = 3
    stages["counts"]["33x18x20"]["kernels"][0]["global_load_sectors"] += 1
    stages["race"]["float32 64x64x64"] = {"error": "DeviceError: gone"}
    d = bytearray(base64.b64decode(stages["bits"][name]["d"]))
    d[5] ^= 1
    stages["bits"][name]["d"] = base64.b64encode(d).decode()
    shown = comparing_recordings.differences(wrong)
    assert shown[:3] == [
        "race float32 64x64x64: DeviceError: gone", "verify coalesced float32 33x18x20: 3 wrong",
        f"bits {name}: 1 registers are other than the model's",
    ]  # fmt: skip
    assert [one.partition(" is ")[0] for one in shown[3:]] == ["coalesced float32: global_load_sectors"]


def test_a_recording_is_resumed_and_an_item_that_ends_the_process_fails_alone(
    simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def items(options: Any) -> Iterator[Any]:
        def measured(name: str) -> Any:
            made.append(name)
            if name == "gone" and made.count("gone") == 1:
                raise DeviceError("the driver reports CUDA_ERROR_ILLEGAL_ADDRESS")
            return {"name": name}

        for name in ("first", "gone", "last"):
            yield name, lambda name=name: measured(name)

    monkeypatch.setattr(measure, "STAGES", {"verify": items})
    out, again = tmp_path / "one.json", tmp_path / "two.json"
    assert measure.main(["--out", str(out), "--simulated", "h100"]) == 1
    found = json.loads(out.read_text())["stages"]["verify"]
    assert found["gone"] == {"error": "DeviceError: the driver reports CUDA_ERROR_ILLEGAL_ADDRESS"}
    assert (found["first"], found["last"], made) == ({"name": "first"}, {"name": "last"}, ["first", "gone", "last"])
    assert measure.main(["--out", str(again), "--resume", str(out), "--simulated", "h100"]) == 0
    assert json.loads(again.read_text())["stages"]["verify"]["gone"] == {"name": "gone"}
    assert made == ["first", "gone", "last", "gone"]


def test_an_item_that_has_no_result_failed(tmp_path: Path) -> None:
    log = measure.Log(tmp_path / "log.jsonl")
    log.add(stage="bits", item="crashed")
    assert log.read()["stages"]["bits"]["crashed"] == {"error": "the process ended while it was measured"}


def test_the_floor_of_the_alignment_is_found() -> None:
    """For sums made with another floor than the machine's, that floor explains all, and its neighbours do not."""
    shape, name = core_bits.FLOORS[1]
    a, b, _ = core_bits.tiny(shape, name)
    oracle = core_bits.oracle_matrix
    kept = oracle._LEAST
    try:
        oracle._LEAST = -129
        d = oracle.dot(a[:, :, None], b.swapaxes(1, 2)[:, None], 0, (name, name, "f32"), "9.0")
    finally:
        oracle._LEAST = kept
    found = core_bits.floors(d, shape, name, "9.0")
    assert found[-129] == 0
    assert found[-126] > found[-128] > 0
    assert found[-130] > 0


def test_bars_are_ratios_to_the_vendors_product() -> None:
    def contender(seconds: float, error: float = 1e-7) -> dict[str, Any]:
        return {"samples": [seconds, seconds, 9 * seconds], "error": error}

    races = {
        "float32": {"torch": contender(2.0), "warp_tiled": contender(2.2), "tensor_core_tf32x3": contender(1.0),
                    "tensor_core_tf32": contender(0.1)},
        "bfloat16": {"torch": contender(1.0), "hopper": contender(1.1), "triton": {"refused": "no"}},
    }  # fmt: skip
    found = {"stages": {"race": {f"{name} 4096x4096x4096": {"contenders": one} for name, one in races.items()}}}
    shown = comparing_recordings.bars(found)
    assert {name: (round(ratio, 2), met) for name, (ratio, met) in shown.items()} == {
        "float32 SIMT": (0.91, True), "tf32x3": (2.0, True), "bfloat16": (0.91, False)
    }  # fmt: skip
    races["float32"]["tensor_core_tf32x3"]["error"] = 2e-7
    assert comparing_recordings.bars(found)["tf32x3"] == (2.0, False)


@pytest.mark.parametrize("file", RECORDINGS or [None], ids=lambda f: f.stem if f else "none")
def test_a_recording_agrees_with_the_simulated_gpu(file: Path | None) -> None:
    if file is None:
        pytest.skip("not run: no recording of a real GPU yet; tests/hardware/measure.py makes one")
    found = json.loads(file.read_text())
    assert not found["simulated"], "a recording of a simulated GPU proves nothing"
    assert comparing_recordings.differences(found) == []

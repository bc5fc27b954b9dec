"""Recordings of real GPUs against the simulated one, and the script that makes them, run on the simulated GPU."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import math
import re
import resource
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
import numpy as np
import oracle
import preflight
import profiler
import pytest
import racing
import verify

import tilewright as tw
from tilewright.errors import DeviceError
from tilewright.multiply.kernels import catalogue

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
           r"^mma.sync.aligned.m16n8k16.row.col.f32.bf16|^floor m16n8k8|^wgmma(.sp)? bf16"]  # fmt: skip


@pytest.fixture(autouse=True)
def _all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy host's simulated launches are long, which leaves out samples."""
    monkeypatch.setattr(racing, "_LONG_SECONDS", math.inf)
    monkeypatch.setattr(racing, "_ONCE_SECONDS", math.inf)


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
        "floor m16n8k8 tf32", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "wgmma bf16.bf16.f32",
        "wgmma.sp bf16.bf16.f32",
    }  # fmt: skip
    race = found["stages"]["race"]["float32 64x64x64"]["contenders"]
    assert (len(race[KERNEL]["samples"]), race[KERNEL]["error"] < 1e-6) == (7, True)
    assert comparing_recordings.differences(found) == []
    _a_difference_is_seen(found)


def _a_difference_is_seen(found: dict[str, Any]) -> None:
    """Whether a changed value is found in each stage of a recording."""
    wrong = copy.deepcopy(found)
    stages, name = wrong["stages"], "wgmma.sp bf16.bf16.f32"
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


def test_a_line_that_was_cut_spoils_no_other(tmp_path: Path) -> None:
    log = measure.Log(tmp_path / "log.jsonl")
    log.add(stage="bits", item="first", result={"d": 1})
    with log.path.open("a") as file:
        file.write('{"stage": "bits", "item": "cu')
    log.add(stage="bits", item="last", result={"d": 2})
    assert log.read()["stages"]["bits"] == {"first": {"d": 1}, "last": {"d": 2}}


def test_a_contender_that_fails_is_left_out_and_the_others_race(
    simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One raises an error of its own, one ends the process, and one ends the GPU; each is tried once."""
    made: list[str] = []

    def failing(name: str, error: BaseException) -> Any:
        def make(given: Any) -> Any:
            made.append(name)
            raise error

        return make

    works = iter([True, False])
    monkeypatch.setattr(measure, "works", lambda: next(works))
    monkeypatch.setattr(racing, "measure", measure)
    monkeypatch.setattr(racing, "DTYPES", ("float32",))
    monkeypatch.setattr(racing, "PEERS", {name: racing.Peer(make) for name, make in {
        "own": failing("own", LookupError("at 9:16:\n  dot(a, b)\n  unsupported")),
        "ends": failing("ends", SystemExit(9)),
        "breaks": failing("breaks", RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")), "works": _Copied,
    }.items()})  # fmt: skip
    out = tmp_path / "found.json"
    more = [word for name in racing.PEERS for word in ("--only", name)]
    assert measure.main(["--out", str(out), *OPTIONS, *more, "--stage", "race"]) == 0
    found = json.loads(out.read_text())["stages"]["race"]["float32 64x64x64"]["contenders"]
    assert made == ["own", "ends", "breaks"]
    assert {name: found[name].get("refused") for name in ("own", "ends", "breaks")} == {
        "own": "LookupError: at 9:16: ... unsupported", "ends": "the process ended while it was measured",
        "breaks": "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS",
    }  # fmt: skip
    assert {len(found[name]["samples"]) for name in (KERNEL, "works")} == {7}


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "float64", "float8_e4m3fn"])
def test_torch_and_triton_race(simulated: Any, tmp_path: Path, kind: str) -> None:
    """Torch's product is that of the host, in place of cuBLAS's; Triton's is its own, of every dtype that it takes."""
    pytest.importorskip("triton", reason="not run: triton is not installed")
    pytest.importorskip("torch", reason="not run: torch is not installed")
    parts = measure.Parts(measure.Log(tmp_path / "log.jsonl"), "race", kind)
    found = racing.race(kind, (64, 64, 64), (9, 0), parts, math.inf, ("torch", "triton"))
    assert set(found) == {"torch", "triton"}
    for one in found.values():
        assert (len(one["samples"]), one["error"] < 2e-3) == (7, True)


def test_peers_of_integers_are_exact(gpu_of_torch: None) -> None:
    for kind, names in (
        ("int32", ["torch", "torch float64", "torch on the host"]), ("int8", ["torch", "torch by columns"])
    ):  # fmt: skip
        given = racing.Operands(kind, 32, 24, 40)
        for name in names:
            product = racing.PEERS[name].make(given)
            product(0)
            assert given.error(product.result()) == 0
    peers = {
        kind: [name for name, peer in racing.PEERS.items() if peer.fits(kind, (4096,) * 3)]
        for kind in ("int8", "int32")
    }
    assert peers == {
        "int8": ["torch", "torch by columns", "cupy", "triton"], "int32": ["torch", "torch float64", "cupy", "triton"],
    }  # fmt: skip


@pytest.fixture
def gpu_of_torch() -> Iterator[None]:
    pytest.importorskip("torch", reason="not run: torch is not installed")
    with tw.simulated_gpu("h100"):
        yield


def test_errors_of_integers_are_those_of_sums_that_wrap() -> None:
    given = racing.Operands("int8", 20, 20, 300)
    wide = np.matmul(*(x.astype(np.int32) for x in given.host))
    assert [given.error(wide.astype(kind)) for kind in ("i4", "i1")] == [0, 0]
    wide[0, 0] += 1
    assert given.error(wide) > 0


def test_forms_of_tensor_cores_have_no_placeholder_among_their_names() -> None:
    assert not [name for name in core_bits.names((9, 0)) if ".rnd" in name]


class _Copied:
    """A contender that takes no time, with the right product."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def __call__(self, i: int) -> None: ...

    def result(self) -> Any:
        a, b = self._given.host
        return a @ b


def test_a_race_that_its_time_ended_keeps_its_contenders(tmp_path: Path) -> None:
    log = measure.Log(tmp_path / "log.jsonl")
    log.add(stage="race", item="float32")
    parts = measure.Parts(log, "race", "float32")
    parts.begin("torch")
    parts.end("torch", {"error": 0.0, "samples": [1.0]})
    race = log.read()["stages"]["race"]["float32"]
    assert (race["contenders"]["torch"]["samples"], race["again"]) == ([1.0], False)
    parts.begin("cupy")
    assert log.read()["stages"]["race"]["float32"]["again"], "without cupy it may end"
    assert measure.Parts(log, "race", "float32").refused.keys() == {"cupy"}


def test_a_recording_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "found.json"
    measure._replace(out, {"stages": {"verify": {}}})
    before = out.read_text()

    def full(path: Path, text: str) -> int:
        with path.open("w") as file:
            file.write(text[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(measure.UnwrittenError, match="No space"):
        measure._replace(out, {"stages": {"verify": {"more": {}}}})
    assert out.read_text() == before


@pytest.mark.parametrize(("text", "words"), [
    ("echo '==ERROR== ERR_NVGPUCTRPERM'", "the profiler failed: ==ERROR== ERR_NVGPUCTRPERM"),
    ("echo no library >&2; exit 1", "no library"),
    ("sleep 60", "longer than 1 s"),
], ids=["no permission", "it fails", "it hangs"])  # fmt: skip
def test_a_profiler_that_counts_nothing_is_tried_again_later(
    simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    ncu = tmp_path / "ncu"
    ncu.write_text(f"#!/bin/sh\nexec 2>&1\n{text}\n")
    ncu.chmod(ncu.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(profiler, "find", lambda: str(ncu))
    out = tmp_path / "found.json"
    limit = ["--seconds", "1"] if "sleep" in text else []
    assert measure.main(["--out", str(out), *OPTIONS, "--stage", "counts", *limit]) == 0
    assert words in json.loads(out.read_text())["stages"]["counts"]["33x18x20"]["refused"]
    measure._keep([json.loads(out.read_text())], log := tmp_path / "again.jsonl")
    assert measure.Log(log).read()["stages"] == {}


def test_a_stage_that_cannot_begin_says_why(tmp_path: Path) -> None:
    """Its process ends with an error, as where a package is missing; the other stages follow."""
    out = tmp_path / "new" / "found.json"
    assert measure.main(["--out", str(out), "--simulated", "no such GPU", "--stage", "bits"]) == 1
    found = json.loads(out.read_text())["stages"]
    assert set(found) == {"about", "bits"}
    assert re.search(r"process ended with 1: .*no such GPU", found["bits"][""]["error"])


def test_an_output_that_cannot_be_written_ends_with_a_line_and_loses_nothing(
    simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert measure.main(["--out", str(tmp_path / "file" / "found.json"), *OPTIONS]) == measure._UNWRITTEN
    assert re.search(
        r"file/found.json cannot be written \(.+\); free room or give another --out", capsys.readouterr().err
    )
    out, (soft, hard) = tmp_path / "found.json", resource.getrlimit(resource.RLIMIT_FSIZE)

    def items(options: Any) -> Iterator[Any]:
        yield from ((name, lambda name=name: {"text": name * 300}) for name in ("first", "second", "third"))

    monkeypatch.setattr(measure, "STAGES", {"verify": items})
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))  # room for the device and two items
    try:
        assert measure.main(["--out", str(out), "--simulated", "h100"]) == measure._UNWRITTEN
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    said = capsys.readouterr()
    assert re.search(
        r"found.jsonl cannot be written \(File too large\); .* what was measured before stays in", said.err
    )
    printed = [json.loads(one)["item"] for one in said.out.splitlines() if one.startswith("{")]
    assert printed == ["third"], "what no file took is printed"
    kept = measure.Log(out.with_suffix(".jsonl")).read()["stages"]["verify"]
    assert [name for name, one in kept.items() if "error" not in one] == ["first", "second"]
    assert measure.main(["--out", str(out), "--simulated", "h100"]) == 0
    assert len(json.loads(out.read_text())["stages"]["verify"]) == 3


def test_the_time_ends_a_stage_between_items_and_the_next_call_goes_on(
    simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(measure, "time", SimpleNamespace(time=lambda: clock[0]))

    def items(options: Any) -> Iterator[Any]:
        def measured(name: str) -> Any:
            clock[0] += 60
            return {"name": name}

        for name in ("first", "second", "third"):
            yield name, lambda name=name: measured(name)

    monkeypatch.setattr(measure, "STAGES", {"verify": items, "bits": items})
    out, seen = tmp_path / "found.json", []
    for _ in range(3):
        assert measure.main(["--out", str(out), "--simulated", "h100", "--seconds", "100"]) == 0
        found = json.loads(out.read_text())["stages"]
        seen.append({stage: len(one) for stage, one in found.items()})
    assert seen == [{"verify": 2}, {"verify": 3, "bits": 1}, {"verify": 3, "bits": 3}]


def test_without_the_profiler_and_without_a_library_a_line_says_so(
    simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiler, "find", lambda: None)
    monkeypatch.setattr(racing, "DTYPES", ("float32",))
    monkeypatch.setitem(sys.modules, "triton_product", None)
    out = tmp_path / "found.json"
    assert measure.main(["--out", str(out), *OPTIONS, "--only", "triton", "--stage", "race", "--stage", "counts"]) == 0
    found = json.loads(out.read_text())["stages"]
    assert found["counts"]["33x18x20"] == {"refused": "Nsight Compute (ncu) is not installed"}
    race = found["race"]["float32 64x64x64"]["contenders"]
    assert len(race[KERNEL]["samples"]) == 7
    assert re.match("ModuleNotFoundError: import of triton_product halted", race["triton"]["refused"])


def test_compilers_have_folders_for_their_caches_where_the_home_folder_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("XDG_CACHE_HOME", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR", "NUMBA_CACHE_DIR")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    assert not {*names} & preflight.environment().keys(), "the home folder can be written"
    monkeypatch.setattr(preflight.os, "access", lambda *_: False)
    monkeypatch.setenv("CUPY_CACHE_DIR", "/chosen")
    found = preflight.environment()
    assert found["CUPY_CACHE_DIR"] == "/chosen"
    assert len({found[name] for name in names}) == 4


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
        "int32": {"torch": {"refused": "not implemented"}, "torch float64": contender(1.0), "tiled": contender(0.25)},
    }  # fmt: skip
    found = {"stages": {"race": {f"{name} 4096x4096x4096": {"contenders": one} for name, one in races.items()}}}
    shown = comparing_recordings.bars(found)
    brief = {name: (one["kernel"], one["against"], round(one["ratio"], 2), one["met"]) for name, one in shown.items()}
    assert brief == {
        "float32 SIMT": ("warp_tiled", "torch", 0.91, True), "tf32x3": ("tensor_core_tf32x3", "torch", 2.0, True),
        "bfloat16": ("hopper", "torch", 0.91, False), "int32": ("tiled", "torch float64", 4.0, True),
    }  # fmt: skip
    races["float32"]["tensor_core_tf32x3"]["error"] = 2e-7
    assert not comparing_recordings.bars(found)["tf32x3"]["met"], "its error is larger than the library's"
    races["float32"]["hopper_tf32x3"] = contender(0.5)
    assert comparing_recordings.bars(found)["tf32x3"]["kernel"] == "hopper_tf32x3", "the quickest"
    assert comparing_recordings.bars(found)["tf32x3"]["met"]
    del races["bfloat16"]
    del found["stages"]["race"]["bfloat16 4096x4096x4096"]
    lines = comparing_recordings.shown_bars(found)
    assert lines[0] == (
        "bar float32 SIMT: 0.91 of torch, at least 0.85: met (warp_tiled 2200.000 ms, error 1.0e-07; "
        "torch 2000.000 ms, 1.0e-07)"
    )
    assert [one.split(": ")[1] for one in lines[2:3]] == ["not decided by this recording"]


def test_predicted_times_stand_beside_the_measured_ones() -> None:
    """At the clock that was seen; a product that the host took as long to launch is marked."""
    race = {
        "coalesced": {"samples": [2.0, 3.0, 9.0], "sm_mhz": [1400, 1500, 1500], "host_seconds": [2.9, 2.9, 2.9]},
        "hopper": {"samples": [1.0]}, "torch": {"samples": [1.0]}, "tiled": {"refused": "no"},
    }  # fmt: skip
    found = {
        "device": "NVIDIA H100 SXM5 80GB", "compute_capability": [9, 0],
        "stages": {"race": {"float32 64x64x64": {"contenders": race}}},
    }  # fmt: skip
    rows = list(comparing_recordings.predictions(found))
    assert [(row["kernel"], row["clock_mhz"], row["measured"], row["host_bound"]) for row in rows] == [
        ("coalesced", 1500, 3.0, True), ("hopper", None, 1.0, False),
    ]  # fmt: skip
    assert rows[0]["ratio"] == rows[0]["predicted"] / 3.0
    assert 1e-7 < rows[0]["predicted"] < 1e-3
    race["coalesced"]["sm_mhz"] = [750]
    assert next(comparing_recordings.predictions(found))["predicted"] > 1.5 * rows[0]["predicted"]
    assert "takes float16, bfloat16 only" in rows[1]["error"]
    lines = [comparing_recordings.shown(row) for row in rows]
    assert lines[0].endswith("the host was timed")
    assert lines[1].endswith(rows[1]["error"])
    assert list(comparing_recordings.predictions(found, ["float32 1x1x1"])) == []


def test_a_recording_is_compared_by_a_script(tmp_path: Path) -> None:
    race = {"coalesced": {"samples": [1.0]}, "torch": {"samples": [2.0], "error": 0.0}}
    found = {
        "device": "NVIDIA H100 SXM5 80GB", "compute_capability": [9, 0],
        "stages": {"race": {"float32 64x64x64": {"contenders": race}}, "bits": {"gone": {"error": "no such form"}}},
    }  # fmt: skip
    (file := tmp_path / "found.json").write_text(json.dumps(found))
    command = [sys.executable, comparing_recordings.__file__, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0]) == (1, "bits gone: no such form"), done.stderr
    assert re.fullmatch(r"float32 64x64x64 +coalesced +- +1000\.0000 +\d\.\d+ +0\.00", lines[-1])


def test_the_first_lines_say_what_a_machine_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert preflight.lacks()[0] == []
    absent = {"torch", "ml_dtypes"}
    monkeypatch.setattr(preflight, "_has", lambda part: part not in absent)
    monkeypatch.setattr(preflight, "_version", lambda package: (0, 47))
    monkeypatch.setattr(profiler, "find", lambda: None)
    monkeypatch.setattr(preflight, "environment", lambda: {"PATH": str(tmp_path)})
    missing, less = preflight.lacks()
    assert missing[0] == "ml-dtypes is missing"
    assert "pip download --no-deps -d FOLDER ml-dtypes;" in missing[1]
    assert [one.split()[0] for one in less] == ["torch", "ptxas", "nvcc", "Nsight", "llvmlite"]
    assert "compared elsewhere" in less[-1]
    assert measure.main(["--out", str(tmp_path / "found.json")]) == 1, "nothing can be measured"


def test_cuda_s_tools_are_found_beside_the_search_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ptxas").write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert preflight.environment()["PATH"].endswith(str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_HOME")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert preflight.environment()["CUDA_HOME"] == str(tmp_path)


def test_verifying_needs_no_compiled_code_of_the_host(simulated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A borrowed machine's LLVM may not read the project's bitcode."""

    def compiled(*_: Any, **__: Any) -> Any:
        raise RuntimeError("bitcode")

    monkeypatch.setattr("tilewright.multiply.problem.reference._kernel", compiled)
    oracle.expected.cache_clear()
    opened = measure._opened()
    for name, dtype in (("coalesced", "float32"), ("shared_memory_8", "float64"), ("tensor_core", "float16")):
        found = verify.verified(opened, catalogue.find(name), dtype, (33, 18, 20), predict=False)
        assert found["wrong_elements"] == 0, found


def test_a_kernel_of_seconds_is_timed_once(simulated: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    monkeypatch.setattr(racing, "_ONCE_SECONDS", 2.0)

    def timed(call: Any, times: int, buffers: int) -> tuple[float, float, int]:
        taken.append("own" if isinstance(call, racing.Rung) else "library")
        call(0)
        return 3.0, 0.1, 1500

    monkeypatch.setattr(racing, "_timed", timed)
    monkeypatch.setattr(racing, "PEERS", {"host": racing.Peer(lambda given: racing._Library(
        [lambda: np.matmul(*given.host)], lambda c: c
    ))})  # fmt: skip
    parts = measure.Parts(measure.Log(tmp_path / "log.jsonl"), "race", "one")
    found = racing.race("float32", (16, 16, 16), (9, 0), parts, math.inf, ("host", KERNEL))
    assert found[KERNEL]["samples"] == [3.0]
    assert (found[KERNEL]["sm_mhz"], found[KERNEL]["host_seconds"]) == ([1500], [0.1])
    assert len(found["host"]["samples"]) == racing._ROUNDS, "its first call may compile"
    assert taken.count("own") == 1


def test_a_count_that_a_profiler_lacks_is_said() -> None:
    (first, _) = profiler.read(table().replace('"1","2"', '"n/a","2"'))
    assert (first["global_load_sectors"], first["shared_load_wavefronts"]) == (5120, 2)
    known = dict.fromkeys(profiler.METRICS, 1.0) | {"name": "k", "dtype": "float32"}
    assert comparing_recordings.count_differences(known | {"occupancy_percent": None}, known) == [
        "k float32: no occupancy_percent on the GPU"
    ]
    assert first["global_store_sectors"] is None


def test_pairs_of_operands_do_not_fit_the_second_level_cache() -> None:
    counts = {shape: racing.Operands("int8", *shape).count for shape in ((8, 8, 8), (1024,) * 3)}
    assert counts == {(8, 8, 8): racing._MOST, (1024,) * 3: racing._MOST}
    assert racing._MOST * 2 * 1024**2 > 60 << 20, "an H200's"


@pytest.mark.parametrize("file", RECORDINGS or [None], ids=lambda f: f.stem if f else "none")
def test_a_recording_agrees_with_the_simulated_gpu(file: Path | None) -> None:
    if file is None:
        pytest.skip("not run: no recording of a real GPU yet; tests/hardware/measure.py makes one")
    found = json.loads(file.read_text())
    assert not found["simulated"], "a recording of a simulated GPU proves nothing"
    assert comparing_recordings.differences(found) == []

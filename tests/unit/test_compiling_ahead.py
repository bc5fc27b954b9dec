"""The second process of a cold climb: when it starts, that it ends, and that what it makes is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright import catalogue, ladder, machine
from tilewright.ground.native import out_of_process
from tilewright.show.ladder import ahead


def rung(device: str, translate_seconds: float) -> Any:
    return SimpleNamespace(device=device, translate_seconds=translate_seconds)


@pytest.fixture
def one() -> ahead.Ahead:
    pairs = {"float32": ladder.operands(8, 8, 8, "float32")}
    records = [catalogue.find("three_loops"), catalogue.find("naive")]
    return ahead.Ahead(records, pairs, machine.gpu("h100"), counted=False)


def test_it_starts_once_after_a_kernel_that_was_not_in_the_cache(
    one: ahead.Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[str, ...]] = []
    monkeypatch.setattr(out_of_process, "begun", lambda *words, **_: begun.append(words) or SimpleNamespace())
    for seen in (rung("cpu", 9.0), rung("simulated", 0.1)):
        one.after(seen)
    assert begun == []
    for seen in (rung("simulated", 1.0), rung("simulated", 1.0)):
        one.after(seen)
    ((module, work),) = begun
    assert (module, json.loads(work)) == ("tilewright.show.ladder.ahead", ["h100", ["naive"], [8, 8, 8], False])


def test_it_ends_with_the_climb_and_a_host_without_processes_does_without(
    one: ahead.Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [sys.executable, "-c", "import time; time.sleep(300)"]
    monkeypatch.setattr(out_of_process, "begun", lambda *_, **__: subprocess.Popen(waiting))
    with one:
        one.after(rung("simulated", 1.0))
        process = one._process
        assert process is not None and process.poll() is None
    assert process.wait(20) < 0

    def none(*_: str, **__: bool) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(out_of_process, "begun", none)
    other = ahead.Ahead([], {"float32": ladder.operands(8, 8, 8, "float32")}, machine.gpu("h100"), counted=False)
    with other:
        other.after(rung("simulated", 1.0))


def test_its_translations_are_found(
    one: ahead.Ahead, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numba")
    code = "import sys; sys.argv.insert(1, ''); from tilewright.show.ladder import ahead\n"
    code += "ahead.step_times = lambda gpu: ()\nahead.main()"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    subprocess.run([sys.executable, "-c", code, "tilewright.show.ladder.ahead", one._work], check=True)
    assert capfd.readouterr().out == ""
    climb = """
from tilewright import catalogue, ladder
a, b = ladder.operands(8, 8, 8, "float32")
run = ladder.climber.Climber.on("simulated", "h100", None)
print(run.launch(catalogue.find("naive"), catalogue.find("naive").program("float32", (9, 0)), a, b)[1].cached)
"""
    done = subprocess.run([sys.executable, "-c", climb], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


PROBE = """
from tilewright.programs import Program

def main():
    print(Program.from_cuda('extern "C" __global__ void k(float *x) { *x = 1; }', "k").name)
"""


def test_such_a_process_finds_the_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("cuda.pathfinder")
    (tmp_path / "probe_of_compilers.py").write_text(PROBE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    process = out_of_process.begun("probe_of_compilers", packages=True)
    assert process.communicate()[0] == b"k\n"

"""An installation without extras: every command works or names the extra, and so do public functions.

The environment is a real one, whose packages are links to those of the base among the installed ones.
"""

from __future__ import annotations

import json
import re
import subprocess
import venv
from importlib import metadata
from pathlib import Path

import base_commands
import pytest
from packaging.requirements import Requirement

from tilewright.cli.app import COMMANDS
from tilewright.multiply.kernels import catalogue


def base() -> dict[str, metadata.Distribution]:
    """The project and what it requires without extras, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = ["tilewright"]
    while waiting:
        if (name := waiting.pop()) not in found:
            found[name] = metadata.distribution(name)
            wanted = map(Requirement, found[name].requires or ())
            waiting += [row.name for row in wanted if row.marker is None or row.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the base alone."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for distribution in base().values():
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())
    return folder / "bin" / "python"


def child(python: Path, *arguments: str, given: object = None) -> str:
    """Run Python there; returns its output."""
    done = subprocess.run(
        [python, *arguments], cwd=python.parent, input=json.dumps(given), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shown(python: Path) -> dict[str, base_commands.Outcome]:
    """Status, output and errors of every command, from one process."""
    return dict(json.loads(child(python, base_commands.__file__, "--json")))


def test_the_environment_has_the_base_alone(python: Path) -> None:
    code = "from importlib import metadata; print(*sorted(row.name for row in metadata.distributions()))"
    names = {name.lower().replace("_", "-") for name in child(python, "-c", code).split()}
    assert {"tilewright", "numpy", "llvmlite", "typer", "rich"} <= names
    assert not {"numba", "pyopencl", "platformdirs", "pytest"} & names


@pytest.mark.parametrize("line", base_commands.COMMANDS)
def test_every_command_works_or_names_the_extra(shown: dict[str, base_commands.Outcome], line: str) -> None:
    assert base_commands.mistake(line, shown[line]) == ""


def test_no_command_is_left_out() -> None:
    assert {line.split()[0] for line in base_commands.COMMANDS} == {row.name for row in COMMANDS}


def test_the_ladder_runs_kernels_of_the_host_and_names_the_extra_for_the_rest(
    shown: dict[str, base_commands.Outcome],
) -> None:
    out = shown["ladder --sizes 32"][1]
    assert "2 of 2 trusted kernels give the canonical product" in out
    wanting = sum(record.backend == "gpu" and not record.unfit((9, 0)) for record in catalogue.records())
    told = " ".join(out.split())  # a long path of Python moves its command to the next line
    (command,) = re.findall(rf"\b{wanting} kernels not run; to run them: (.*?\[gpu\]')", told)
    assert " install " in command
    rungs = json.loads(shown["ladder --sizes 16 --kernels three_loops,tiled --json"][1])["rungs"]
    assert [(rung["name"], rung["verified"], rung["missing"]) for rung in rungs] == [
        ("three_loops", True, ""),
        ("tiled", None, "gpu"),
    ]


def test_devices_lists_nothing_that_is_missing(shown: dict[str, base_commands.Outcome]) -> None:
    found = {row["device"]: row for row in json.loads(shown["devices --json"][1])["devices"]}
    assert found["cpu"]["commands"] == ["tw.matmul", "ladder"]
    assert not {"ladder", "run", "check", "profile"} & set(found["simulated"]["commands"])
    assert any("pip install" in text and "[gpu]'" in text for text in found["simulated"]["features"])
    assert "[opencl]'" in found["opencl"]["missing"]


#: Calls of public functions -> the extra that they need; None if they need none.
_CALLS = {
    "tw.matmul(a, a)": None,
    "tw.plan((4, 4), (4, 4), 'float32', 'float32')": None,
    "tw.simt.launch(ptx, 1, 1, [out])": None,
    "tw.check(ptx, 1, 1, [out])": None,
    "tw.profile(ptx, 1, 1, [out])": None,
    "tw.devices()": None,
    "tw.cuda.available()": None,
    "tw.matmul(a, a, device='opencl')": "opencl",
    "tw.matmul('a.npy', 'a.npy', 'c.npy', client=1)": "cluster",
    "tw.matmul(a, a, device='simulated:h100')": "gpu",
    "tw.plan((4, 4), (4, 4), 'float32', device='simulated')": None,
    "Program.from_python(kernel, 'void(int32[::1])')": "gpu",
    "Program.from_cuda('extern \"C\" __global__ void f() {}', 'f')": "gpu",
    "tw.simt.launch(kernel, 1, 1, [out])": "gpu",
    "tw.check(kernel, 1, 1, [out])": "gpu",
    "tw.profile(kernel, 1, 1, [out])": "gpu",
    "tw.simulated_gpu().__enter__()": "gpu",
    "tw.ladder.multiply(tw.ladder.choose(tw.catalogue.records(), 'tiled'), a, a)": "gpu",
}
_CALLING = """
import json, sys
import numpy as np
import tilewright as tw
from tilewright.programs import Program
ptx = Program.from_ptx(\'\'\'.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a) {
  .reg .u64 %p;
  .reg .u32 %x;
  ld.param.u64 %p, [a];
  mov.u32 %x, 7;
  st.global.u32 [%p], %x;
  ret;
}\'\'\')
def kernel(x):
    x[0] = 1
a, out = np.ones((4, 4), np.float32), np.zeros(4, np.int32)
results = {}
for call in json.load(sys.stdin):
    try:
        eval(call)
        results[call] = None
    except Exception as error:
        results[call] = [type(error).__name__, getattr(error, "extra", None), str(error)]
print(json.dumps(results))
"""


def test_public_functions_name_the_extra(python: Path) -> None:
    found = json.loads(child(python, "-c", _CALLING, given=list(_CALLS)))
    assert {call: row and row[:2] for call, row in found.items()} == {
        call: extra and ["MissingExtraError", extra] for call, extra in _CALLS.items()
    }
    assert all(f"[{row[1]}]'" in row[2] for row in found.values() if row)

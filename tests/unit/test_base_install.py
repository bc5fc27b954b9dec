"""An installation without extras: base features work, and for others the error names the extra.

Extras that are installed are hidden from child processes by a finder that has none of their modules.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.kernels import catalogue

#: Top-level modules of what pyproject.toml lists beyond the base.
_EXTRAS = ("numba", "numba_cuda", "cuda", "pyopencl", "pocl", "pytools", "ml_dtypes", "threadpoolctl", "torch", "cupy",
           "zarr", "h5py", "distributed")  # fmt: skip
_HIDE = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {_EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""
_COMMANDS = """
import contextlib, io, json, os
from tilewright.cli.main import main
results = []
for line in json.load(sys.stdin):
    sys.argv = ["tilewright", *line.split()]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as leave:
            results.append([leave.code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""
_GPU, _OPENCL = (f"run: pip install 'tilewright[{extra}]'\n" for extra in ("gpu", "opencl"))
#: Command line -> exit status, and how its standard error ends; "" if it succeeds.
COMMANDS = {
    "ladder --size 32": (0, ""),
    "ladder --size 16 --kernels three_loops,tiled --json": (0, ""),
    "ladder --size 16 --kernels tiled": (2, _GPU),
    "ladder --size 16 --device opencl": (2, _OPENCL),
    "bench --sizes 8 --samples 1": (0, ""),
    "bench --table S12": (2, _GPU),
    "devices": (0, ""),
    "devices --json": (0, ""),
    "kernels": (0, ""),
    "gpus": (0, ""),
    "cache": (0, ""),
    "occupancy --registers 32 --block 256": (0, ""),
    "ptx-support": (0, ""),
    "check --codes": (0, ""),
    "run program.py": (2, _GPU),
    "check program.py": (2, _GPU),
    "profile program.py": (2, _GPU),
    "matmul a.npy a.npy -o c.npy": (0, ""),
    "matmul a.npy a.npy -o d.npy --kernel tiled": (2, _GPU),
    "matmul a.npy a.npy -o d.npy --device opencl": (2, _OPENCL),
    "matmul a.npy a.npy -o d.npy --device simulated": (2, _GPU),
}


def child(code: str, folder: Path, given: object = None) -> str:
    """Run code without the extras; returns its output."""
    done = subprocess.run(
        [sys.executable, "-c", _HIDE + code], cwd=folder, input=json.dumps(given), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    """Status, output and errors of every command, from one process."""
    import numpy as np

    folder = tmp_path_factory.mktemp("base")
    (folder / "program.py").write_text("print('never')")
    np.save(folder / "a.npy", np.ones((4, 4), np.float32))
    return dict(zip(COMMANDS, json.loads(child(_COMMANDS, folder, list(COMMANDS))), strict=True))


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_works_or_names_the_extra(shown: dict[str, tuple[int, str, str]], line: str) -> None:
    status, out, errors = shown[line]
    assert (status, errors[-len(COMMANDS[line][1]) or len(errors) :]) == COMMANDS[line]
    assert bool(out) == (status == 0)
    assert "Traceback" not in errors and "ImportError" not in errors


def test_the_ladder_runs_kernels_of_the_host_and_names_the_extra_for_the_rest(
    shown: dict[str, tuple[int, str, str]],
) -> None:
    out = shown["ladder --size 32"][1]
    assert "2 of 2 trusted kernels give the canonical product" in out
    wanting = sum(record.backend == "gpu" and not record.unfit((9, 0)) for record in catalogue.records())
    assert f"{wanting} kernels not run; to run them: pip install 'tilewright[gpu]'" in out
    rungs = json.loads(shown["ladder --size 16 --kernels three_loops,tiled --json"][1])["rungs"]
    assert [(rung["name"], rung["verified"], rung["missing"]) for rung in rungs] == [
        ("three_loops", True, ""),
        ("tiled", None, "gpu"),
    ]


def test_devices_lists_nothing_that_is_missing(shown: dict[str, tuple[int, str, str]]) -> None:
    found = {row["device"]: row for row in json.loads(shown["devices --json"][1])["devices"]}
    assert found["cpu"]["commands"] == ["tw.matmul", "ladder"]
    assert not {"ladder", "run", "check", "profile"} & set(found["simulated"]["commands"])
    assert any("pip install 'tilewright[gpu]'" in text for text in found["simulated"]["features"])
    assert "pip install 'tilewright[opencl]'" in found["opencl"]["missing"]


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
import json
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


def test_public_functions_name_the_extra(tmp_path: Path) -> None:
    found = json.loads(child(_CALLING, tmp_path, list(_CALLS)))
    assert {call: row and row[:2] for call, row in found.items()} == {
        call: extra and ["MissingExtraError", extra] for call, extra in _CALLS.items()
    }
    assert all(f"pip install 'tilewright[{row[1]}]'" in row[2] for row in found.values() if row)

"""Records of front ends: each names what there is, others come by entry points, and nothing else lists them."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from source_tree import ROOT, Module, modules, offenders

from tilewright.frontends.frontend import Frontend, frontends, replacing

#: A package that launches PTX, as its author writes it.
PACKAGE = """
def launch(ptx, kernel, grid, block, *arguments):
    raise RuntimeError("there is no GPU")
"""
#: Its front end, in a file of its own.
FRONT_END = """
from collections.abc import Iterator
from typing import Any

import tilewright as tw
from tilewright.frontends.frontend import Frontend
from tilewright.programs import Program

RECORD = Frontend("ptxgo", {"ptxgo": "ptxgo_simulated"}, internal=("ptxgo",), extra="compilers")


def rows(gpu: Any) -> Iterator[tuple[str, str, Any]]:
    def launch(ptx: str, kernel: str, grid: int, block: int, *arguments: Any) -> None:
        tw.simt.launch(Program.from_ptx(ptx, kernel), grid, block, arguments)

    yield "ptxgo", "launch", launch
"""
PROGRAM = """
import numpy as np
import ptxgo
PTX = '''
.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 x) {
  .reg .b32 %r<2>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], 7; ret;
}'''
x = np.zeros(BLOCK, np.int32)
ptxgo.launch(PTX, "fill", 1, 32, x)
print(x.sum())
"""


@pytest.mark.parametrize("record", frontends(), ids=lambda record: record.name)
def test_a_record_names_modules_and_an_extra_that_exist(record: Frontend) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert record.extra in extras
    for module in record.replaces.values():
        found = importlib.util.find_spec(module)
        assert found is not None and found.origin is not None
        text = Path(found.origin).read_text("utf-8")
        assert "def rows(" in text or "def installed(" in text or "installed =" in text


def lists(module: Module) -> list[int]:
    """Lines of collections that name packages of several front ends."""
    roots = [{package.split(".")[0] for package in one.replaces} for one in frontends()]
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            items = node.keys if isinstance(node, ast.Dict) else node.elts
            names = {item.value.split(".")[0] for item in items if isinstance(item, ast.Constant) and _is_text(item)}
            if sum(bool(names & one) for one in roots) > 2:
                found.append(node.lineno)
    return found


def _is_text(item: ast.Constant) -> bool:
    return isinstance(item.value, str)


def test_no_module_that_runs_programs_lists_front_ends() -> None:
    rooms = ("frontends.", "simulate.", "ground.", "cli.")
    assert offenders(lists, (m for m in modules() if m.name.startswith(rooms))) == {}


def test_the_rule_sees_a_list() -> None:
    assert lists(
        Module("m", ROOT, 'x = ("numba.cuda", "torch", "cupy")\ny = ("torch", "torch._dynamo", "cupy")\n')
    ) == [1]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with another project's package and its front end, as pip would install them."""
    (tmp_path / "ptxgo.py").write_text(PACKAGE)
    (tmp_path / "ptxgo_simulated.py").write_text(FRONT_END)
    facts = tmp_path / "ptxgo-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: ptxgo\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[tilewright.frontends]\nptxgo = ptxgo_simulated:RECORD\n")
    return tmp_path


def tilewright(command: str, folder: Path, elements: int) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM.replace("BLOCK", str(elements)))
    words = [sys.executable, "-m", "tilewright", command, str(program)]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env=_with(folder))


def _with(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


def test_another_package_brings_a_front_end_by_an_entry_point(outside: Path) -> None:
    pytest.importorskip("cuda.bindings", reason="not run: the compilers extra is not installed")
    done = tilewright("run", outside, 32)
    assert (done.returncode, done.stdout) == (0, "224\n"), done.stderr
    assert tilewright("check", outside, 32).returncode == 0
    short = tilewright("check", outside, 31)
    assert short.returncode == 1 and "TW101" in short.stdout, short.stderr
    assert "program.py" in short.stdout  # the launch's line is the user's


def test_a_broken_front_end_is_left_out_with_a_warning(outside: Path) -> None:
    pytest.importorskip("cuda.bindings", reason="not run: the compilers extra is not installed")
    (outside / "ptxgo_simulated.py").write_text("raise ImportError('another version')\n")
    done = tilewright("run", outside, 32)
    assert "there is no GPU" in done.stderr  # the package is not replaced
    assert "the front end 'ptxgo' (ptxgo_simulated:RECORD) is left out: ImportError: another version" in done.stderr


def test_a_program_that_lacks_a_package_is_told_the_extra(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings", reason="not run: the compilers extra is not installed")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nsys.modules.pop('cutlass', None)\nsys.path_importer_cache.clear()\nimport cutlass\n"
    )
    if importlib.util.find_spec("cutlass") is not None:
        pytest.skip("not run: CuTe is installed")
    words = [sys.executable, "-m", "tilewright", "run", str(program)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "CuTe can be installed with what it needs here: " in done.stderr and "[cute]" in done.stderr


def test_the_packages_of_all_records_are_waited_for() -> None:
    assert {"numba.cuda", "torch", "triton", "cupy", "cutlass", "cuda.core"} <= set(replacing())

"""pytest's `--check`: suites of all forms run in their own process, and each finding fails its test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
if "tilewright.cli.pytest_plugin.plugin" not in {point.value for point in entry_points(group="pytest11")}:
    pytest.skip("not run: this environment was made before --check; install the project again", allow_module_level=True)

#: A suite, and what becomes of each of its tests below.
SUITE = """\
import unittest, numpy as np, pytest
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError

@cuda.jit
def outside(x):
    x[cuda.threadIdx.x] = 1

@cuda.jit
def fine(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1

@cuda.jit
def short(x):
    x[cuda.grid(1)] += 1

def bad(n=30):
    outside[1, 32](cuda.to_device(np.zeros(n, np.float32)))

@pytest.fixture(scope="module")
def shared():
    bad()
    return cuda.to_device(np.zeros(100, np.float32))

@pytest.fixture
def array():
    return cuda.to_device(np.zeros(100, np.float32))

@pytest.fixture(scope="session")
def kept():
    return cuda.to_device(np.zeros(100, np.float32))

def test_fine_a():
    fine[4, 32](cuda.to_device(np.zeros(100, np.float32)))
def test_bad():
    bad()
def test_fine_b():
    fine[4, 32](cuda.to_device(np.zeros(100, np.float32)))
def test_fixture_bad(shared):
    fine[4, 32](shared)
def test_fixture_fine(shared):
    fine[4, 32](shared)
@pytest.mark.parametrize("n", [30, 32, 31])
def test_param(n):
    bad(n)
@pytest.mark.tilewright_ignore("TW101")
def test_ignored():
    bad()
def test_comment():
    commented[1, 32](cuda.to_device(np.zeros(30, np.float32)))
@cuda.jit
def commented(x):
    x[cuda.threadIdx.x] = 1  # tilewright: ignore[TW101]
def test_raises():
    with pytest.raises(CudaAPIError):
        fine[1, 2048](cuda.to_device(np.zeros(30, np.float32)))
def test_fails_anyway():
    bad()
    assert 1 == 2
@pytest.mark.xfail
def test_xfail():
    bad()
@pytest.mark.xfail(strict=True)
def test_xfail_strict():
    bad()
def test_coverage_local():
    short[3, 32](cuda.to_device(np.zeros(100, np.float32)))
def test_coverage_fixture(array):
    short[3, 32](array)
def test_coverage_session(kept):
    short[3, 32](kept)
def test_after():
    pass
class TestU(unittest.TestCase):
    def setUp(self): self.x = cuda.to_device(np.zeros(30, np.float32))
    def test_bad(self): outside[1, 32](self.x)
    def test_fine(self): fine[1, 32](self.x)
    def test_fails(self):
        outside[1, 32](self.x)
        self.assertEqual(1, 2)
    @unittest.expectedFailure
    def test_expected(self):
        outside[1, 32](self.x)
        self.assertEqual(1, 2)
class TestC:
    @pytest.fixture(scope="class", autouse=True)
    def auto(self): bad()
    def test_first(self): pass
    def test_second(self): pass
@pytest.mark.tilewright_ignore("TW1")
def test_wrong_mark():
    bad()
def test_skip():
    bad(); pytest.skip("no")
"""
EXPECTED = {
    "fine_a": "PASSED", "bad": "FAILED", "fine_b": "PASSED", "fixture_bad": "FAILED", "fixture_fine": "PASSED",
    "param[30]": "FAILED", "param[32]": "PASSED", "param[31]": "FAILED", "ignored": "PASSED", "comment": "PASSED",
    "raises": "PASSED", "fails_anyway": "FAILED", "xfail": "XFAIL", "xfail_strict": "XFAIL",
    "coverage_local": "FAILED", "coverage_fixture": "PASSED ERROR", "coverage_session": "PASSED", "after": "PASSED",
    "TestU::bad": "FAILED", "TestU::fine": "PASSED", "TestU::fails": "FAILED", "TestU::expected": "XFAIL",
    "TestC::first": "FAILED", "TestC::second": "PASSED", "wrong_mark": "FAILED", "skip": "SKIPPED",
}  # fmt: skip


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the suite of a folder."""
    plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]  # Hypothesis takes a second to import
    line = [sys.executable, "-m", "pytest", *plugins, "-q", "-rA", "-W", "ignore", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COLUMNS"))}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


def outcomes(out: str) -> dict[str, str]:
    """The outcome of each test, from the report's last part."""
    found: dict[str, str] = {}
    for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR|XFAIL) test_suite\.py::(\S+)", out, re.MULTILINE):
        key = name.replace("test_", "")
        found[key] = f"{found[key]} {outcome}" if key in found else outcome
    return found | ({"skip": "SKIPPED"} if re.search(r"^SKIPPED \[1\] test_suite", out, re.MULTILINE) else {})


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_suite.py").write_text(SUITE)
    done = run(folder, "-p", "no:xdist", "--simulated-gpu=a100", "--check")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("test", EXPECTED)
def test_each_finding_fails_the_test_in_which_it_appears(shown: str, test: str) -> None:
    assert outcomes(shown)[test] == EXPECTED[test]


def test_the_finding_is_the_report(shown: str) -> None:
    (part,) = re.findall(r"^_+ test_bad _+\n(.*?)^_+ ", shown, re.DOTALL | re.MULTILINE)
    assert part.startswith("TW101 error: out-of-bounds global access\n  → test_suite.py:7  kernel outside, ")
    assert "> 7 |     x[cuda.threadIdx.x] = 1\n" in part
    assert "Traceback" not in shown
    assert "FAILED test_suite.py::test_bad - Failed: TW101 error: out-of-bounds" in shown


def test_a_test_that_fails_anyway_shows_the_finding_too(shown: str) -> None:
    for name in ("test_fails_anyway", "TestU.test_fails"):
        (part,) = re.findall(rf"^_+ {name} _+\n(.*?)^(?:_+ |=+ )", shown, re.DOTALL | re.MULTILINE)
        assert re.search(r"assert|AssertionError", part)
        assert part.partition("Captured tilewright call")[2].partition("\n")[2].startswith("TW101 error")


def test_findings_of_another_test_s_launch_have_their_own_section(shown: str) -> None:
    """An array of a session's fixture is freed in the last test, which does not use it."""
    section = shown.partition("tilewright: findings in no test's report")[2].partition("short test summary")[0]
    assert section.partition("\n")[2].startswith("test_suite.py::test_coverage_session\n\nTW501 error")
    assert section.count("error:") == 1


def test_a_wrong_mark_is_reported(shown: str) -> None:
    assert "the mark tilewright_ignore: 'TW1' must be the code of a finding" in shown


#: One test that fails by a warning, and an array that is never freed.
SMALL = """\
import numpy as np
from numba import cuda

@cuda.jit
def short(x):
    x[cuda.grid(1)] += 1

@cuda.jit
def doubles(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * 0.1 + 0.2

def test_kept(kept_array):
    assert kept_array.copy_to_host()[3] == 3

def test_warned():
    doubles[1, 32](cuda.to_device(np.zeros(30, np.float32)))

def test_left():
    global left
    left = cuda.to_device(np.zeros(100, np.float32))
    short[3, 32](left)
"""
#: Uses the GPU during import, as a suite does that leaves out its tests of kernels if there is no GPU.
CONFTEST = """\
import numpy as np, pytest
from numba import cuda

collect_ignore = [] if cuda.is_available() else ["test_suite.py"]
kept = cuda.to_device(np.arange(64, dtype=np.float32))

@cuda.jit
def outside(x):
    x[cuda.threadIdx.x] = 1

x, behind = cuda.to_device(np.zeros(30, np.float32)), cuda.device_array(64); outside[1, 32](x)

@pytest.fixture
def kept_array():
    return kept
"""


@pytest.mark.parametrize("options", [("-p", "no:xdist"), ("-p", "xdist", "-n", "1")], ids=["alone", "xdist"])
def test_settings_of_a_project_and_findings_before_and_after_its_tests(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "test_suite.py").write_text(SMALL)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    settings = '[tool.pytest.ini_options]\ntilewright_check = true\nsimulated_gpu = "t4"\n'
    (tmp_path / "pyproject.toml").write_text(f'{settings}[tool.tilewright]\nfail-on = "error"\n')
    done = run(tmp_path, "-v", *options)
    assert "simulated GPU: NVIDIA T4" in done.stdout
    assert outcomes(done.stdout) == {"kept": "PASSED", "warned": "PASSED", "left": "PASSED"}
    section = done.stdout.partition("tilewright: findings in no test's report")[2]
    assert "before the first test\n\nTW101 error" in section
    assert "test_suite.py::test_warned, no failure\n\nTW601 warning" in section
    assert "test_suite.py::test_left\n\nTW501 error" in section
    assert done.returncode == 1


def test_what_a_strict_project_would_find_is_counted_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(
        "import numpy as np\nfrom numba import cuda\n\n@cuda.jit\ndef set_flag(flag):\n    flag[0] = 1\n\n"
        "def test_flag():\n    set_flag[2, 32](np.zeros(1, np.int32))\n"
    )
    done = run(tmp_path, "--check", "-v", "-p", "no:xdist")
    assert outcomes(done.stdout) == {"flag": "PASSED"} and done.returncode == 0, done.stdout
    assert "1 more with strict = true: TW312 (like TW303)" in done.stdout
    (tmp_path / "pyproject.toml").write_text("[tool.tilewright]\nstrict = true\n")
    done = run(tmp_path, "--check", "-v", "-p", "no:xdist")
    assert outcomes(done.stdout) == {"flag": "FAILED"}
    assert "TW312 warning" in done.stdout and "more with" not in done.stdout


def test_a_conftest_may_use_the_gpu_while_it_is_imported(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_suite.py").write_text("def test_it(kept_array): assert kept_array.copy_to_host()[3] == 3\n")
    plain = run(tmp_path, "--simulated-gpu=a100", "-p", "no:xdist")
    assert outcomes(plain.stdout) == {"it": "PASSED"} and plain.returncode == 0, plain.stdout + plain.stderr

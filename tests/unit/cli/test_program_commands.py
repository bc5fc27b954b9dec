"""`tilewright run`, `check` and `profile` with programs that never end, raise, or are interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")

Run = Callable[..., Any]

#: Two kernels: one with a race, and one that waits for a value that is never written.
KERNELS = """\
import sys
import numpy as np
from numba import cuda

@cuda.jit
def race(x):
    tile = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    x[i] = tile[63 - i]

@cuda.jit
def endless(x):
    while x[0] == 0:
        x[1] = 1

x, y = (cuda.to_device(np.zeros(64, np.float32)) for _ in range(2))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a program of these kernels into an empty folder and go there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")
    numbers = iter(range(99))

    def write(rest: str, kernels: str = KERNELS) -> str:
        name = f"program{next(numbers)}.py"  # Python caches lines of files by name
        (tmp_path / name).write_text(kernels + rest)
        return name

    return write


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Exceptions that ended programs; the tests' command line refuses tracebacks."""
    errors: list[BaseException] = []
    monkeypatch.setattr(sys, "__excepthook__", lambda _kind, error, _frames: errors.append(error))
    return errors


@pytest.mark.parametrize("command", ["run", "check", "profile", "predict"])
def test_a_launch_that_never_ends_is_given_up(
    tilewright: Run, program: Any, shown: list[BaseException], command: str
) -> None:
    name = program("race[1, 64](x)\nendless[1, 32](y)\nprint('never')\n")
    done = tilewright(command, "--limit", "0.25", name)
    assert done.status == 1
    assert [type(error).__name__ for error in shown] == ["SimulatedLaunchError"]
    assert "[702] CUDA_ERROR_LAUNCH_TIMEOUT: endless: passed its limit of 0.25 seconds" in str(shown[0])
    assert "never" not in done.out.splitlines()
    if command == "check":  # earlier findings are still reported
        assert "TW301 error" in done.out
    if command == "profile":
        assert "race  grid 1x1x1" in done.out
        assert "endless: its launch has no profile" in done.err


def test_a_launch_within_the_limit_is_not_changed(tilewright: Run, program: Any) -> None:
    done = tilewright("run", "--limit", "60", program("race[1, 64](x)\nprint('done')\nsys.exit(3)\n"))
    assert (done.status, done.out) == (3, "done\n")


#: Interrupted commands: the options, and further output. The compiler removes the endless kernel's store, which
#: is a further finding.
INTERRUPTED = ("check --ignore TW501 --format sarif=found.sarif", "profile --json")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, int, str, str]]:
    """Folder, status, standard output and errors of commands that get Ctrl-C while an endless kernel runs."""
    children = {}
    environment = {**os.environ, "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}
    for command in INTERRUPTED:
        folder = tmp_path_factory.mktemp("interrupted")
        first = "race[1, 64](x); endless[1, 32](cuda.to_device(np.ones(64, np.float32)))"  # this compiles it
        ready = f"{first}\nopen('ready', 'w')\nendless[1, 32](y)\nprint('never')\n"
        (folder / "program.py").write_text(KERNELS + ready)
        line = [sys.executable, "-m", "tilewright", *command.split(), "program.py"]
        children[command] = folder, subprocess.Popen(
            line, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )  # fmt: skip
    for folder, child in children.values():
        while not (folder / "ready").exists() and child.poll() is None:
            time.sleep(0.02)
    time.sleep(0.5)  # until the kernel runs
    for _, child in children.values():
        child.send_signal(signal.SIGINT)
    ended = {}
    for command, (folder, child) in children.items():
        out, errors = child.communicate(timeout=60)
        ended[command] = folder, child.returncode, out, errors
    return ended


@pytest.mark.parametrize("command", INTERRUPTED)
def test_ctrl_c_is_reported_in_one_line(interrupted: Any, command: str) -> None:
    _, status, out, errors = interrupted[command]
    assert status == 130
    assert "Traceback" not in errors + out
    said = [line for line in errors.splitlines() if line.startswith("interrupted")]
    assert len(said) == 1
    assert "the program was stopped by Ctrl-C at program.py:20 (endless: stopped in block (0, 0, 0), thread" in said[0]
    assert said[0].endswith("program.py:14)")


def test_what_check_found_before_ctrl_c_is_reported(interrupted: Any) -> None:
    folder, _, out, _ = interrupted["check --ignore TW501 --format sarif=found.sarif"]
    assert out.startswith("TW301 error")
    assert " ".join(out.split()).endswith(  # lines are as wide as the terminal
        "1 finding (1 error), 1 suppressed, in 3 launches of 2 kernels; 1 of them did not run to its end (endless); "
        "interrupted, the program was not checked to its end"
    )
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    assert [r["ruleId"] for r in run["results"] if "suppressions" not in r] == ["TW301"]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (notice,) = invocation["toolExecutionNotifications"]
    assert notice["exception"]["kind"] == "KeyboardInterrupt"


def test_what_profile_counted_before_ctrl_c_is_reported(interrupted: Any) -> None:
    document = json.loads(interrupted["profile --json"][2])
    assert [row["kernel"] for row in document["profiles"]] == ["race", "endless"]
    assert [row["kernel"] for row in document["failed"]] == ["endless"]
    assert (document["program"]["status"], document["program"]["interrupted"]) == (130, True)
    assert document["program"]["exception"]["line"] == 20


def test_a_program_s_own_130_is_no_ctrl_c(tilewright: Run, program: Any) -> None:
    done = tilewright("run", program("import sys\nsys.exit(130)\n", kernels=""))
    assert (done.status, done.out, done.err) == (130, "", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("check", "--kernels", "k", "x.py"),
            "an option must be one of `tilewright check`: --gpu, --seed, --limit, --ignore, --strict, --schedules,",
        ),
        (("check", "--limt", "3", "x.py"), "--codes (got --limt); did you mean --limit?"),
        (("run", "--sarif", "f", "x.py"), "`tilewright run`: --gpu, --seed, --limit (got --sarif); "),
        (
            ("profile", "--seed", "1", "x.py"),
            "an option must be one of `tilewright profile`: --gpu, --limit, --kernels,",
        ),
    ],
)
def test_an_unknown_option_is_reported_with_the_known_ones(tilewright: Run, words: tuple[str, ...], said: str) -> None:
    done = tilewright(*words)
    assert (done.status, done.out) == (2, "")
    assert said in " ".join(done.err.replace("│", " ").split())


def test_options_after_the_program_s_name_are_its_own(tilewright: Run, program: Any) -> None:
    name = program("import sys\nprint(sys.argv[1:])\n", kernels="")
    words = ["--gpu", "x", "-h", "--", "--limit=0", "--nothing", "-", ""]
    for command in ("run", "check", "profile", "predict"):
        assert tilewright(command, name, *words).out.splitlines()[0] == str(words)
        assert tilewright(command, "--gpu", "a100", "--", name, *words).out.splitlines()[0] == str(words)


#: A program whose kernels are launched by processes that it starts, by the methods that its arguments name.
PARENT = """\
import functools
import multiprocessing
import os
import sys
import numpy as np
from numba import cuda

@cuda.jit
def count(x, rounds):
    i = 0
    while i != rounds:  # for ever, if they are fewer than 0
        i += 1
        x[0] = i

def work(rounds):
    x = cuda.to_device(np.zeros(32, np.float32))
    try:
        count[1, 32](x, rounds)
        return int(x.copy_to_host()[0])
    except Exception as error:
        return error.code.name

if __name__ == "__main__":
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(method, pool.map(work, [3, -1]))
            pool.map(functools.partial(print, flush=True), [f"by {method}"])  # the pool ends its processes by a signal
    os.write(1, b"by the system\\n")
"""


@pytest.mark.parametrize(
    ("command", "methods"), [("check", ("spawn", "fork")), ("profile", ("spawn", "fork")), ("predict", ("spawn",))]
)
def test_processes_of_the_program_have_a_gpu_and_are_followed(
    program: Any, command: str, methods: tuple[str, ...]
) -> None:
    limit = "0.3" if command == "check" else "4"  # a prediction must take no longer either
    line = [sys.executable, "-m", "tilewright", command, "--limit", limit, "--json", program("", PARENT), *methods]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    said = done.stderr.splitlines()
    assert {f"{x} [3, 'CUDA_ERROR_LAUNCH_TIMEOUT']" for x in methods} <= set(said)
    assert {*(f"by {x}" for x in methods), "by the system"} <= set(said)  # no JSON
    document = json.loads(done.stdout)
    assert document["program"]["children_launched"] is True
    assert done.returncode == (3 if command == "check" else 0)  # one of each was ended, and the program continues
    if command == "check":
        assert (document["launches"], document["unchecked"]) == (4, {"count": 2})
    else:
        assert [one["kernel"] for one in document["failed"]] == ["count"] * len(methods)
        found = document["profiles" if command == "profile" else "predictions"]
        assert [(one["kernel"], one["launch"]) for one in found] == [("count", 0)] * len(methods)
    if command == "profile":
        assert all(one["predicted"]["seconds"] > 0 for one in found)


#: A program of `cuda.core` in a process that a program starts.
CHILD = """\
import subprocess
import sys

SOURCE = r'''
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
device = Device()
device.set_current()
code = 'extern "C" __global__ void shift(float *x) {\\n    x[threadIdx.x] = x[threadIdx.x + 1];\\n}\\n'
kernel = Program(code, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("shift")
stream = device.create_stream()
memory = device.allocate(256, stream=stream)
launch(stream, LaunchConfig(grid=1, block=64), kernel, memory)
stream.sync()
'''
KILLED = SOURCE + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
others = [subprocess.Popen([sys.executable, "-c", KILLED]) for _ in sys.argv[1:]]
ended = [subprocess.run([sys.executable, "-c", SOURCE]).returncode, *(one.wait() for one in others)]
print(*ended)
sys.exit(ended[0])
"""


def test_children_that_use_another_package_are_checked(program: Any) -> None:
    line = [sys.executable, "-m", "tilewright", "check", "--json", program("", CHILD)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    found = {one["code"] for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1 and {"TW101", "TW302"} <= found, done.stdout + done.stderr


@pytest.mark.volume
def test_two_parallel_programs_of_which_one_is_killed_leave_nothing(program: Any, tmp_path: Path) -> None:
    """Launches of the killed one are reported too; no file is left, nor shared memory."""
    room = tmp_path / "room"
    room.mkdir()
    shared = {*Path("/dev/shm").iterdir()}
    line = [sys.executable, "-m", "tilewright", "check", "--json", program("", CHILD), "killed"]
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "TMPDIR": str(room)}
    )
    document = json.loads(done.stdout)
    assert "0 -9" in done.stderr.splitlines() and document["launches"] == 2
    assert sum(one["count"] for one in document["findings"] if one["code"] == "TW101") == 2  # once in each
    assert [*room.iterdir()] == [] and {*Path("/dev/shm").iterdir()} <= shared


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.py", "SCRIPT must be a file that is there (got missing.py: no such file); check its name"),
        ("progam.py", "(got progam.py: no such file); did you mean program0.py?"),
        ("no/progam.cu", "(got no/progam.cu: no such file); there is no folder no"),
        (".", "SCRIPT must be a Python program that can be read (got .: Is a directory without __main__.py); name a"),
    ],
)
@pytest.mark.parametrize("command", ["run", "check", "profile", "predict"])
def test_a_program_that_is_no_file_is_reported(
    tilewright: Run, program: Any, command: str, name: str, said: str
) -> None:
    program("")
    done = tilewright(command, name)
    assert (done.status, done.out) == (2, "")
    assert said in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (
            "noise.py",
            b"\0\1\2",
            "SCRIPT must be a Python program, a .cu file or a program for this host (got noise.py: ",
        ),
        ("cut.pyc", MAGIC_NUMBER + bytes(20), "SCRIPT must be a Python program, a .cu file or a program for this host"),
        (
            "cut",
            b"\x7fELF\2\1\1" + bytes(6),
            "cut must be a whole program for this host (got a cut or damaged ELF file",
        ),
        ("damaged", b"\x7fELF" + b"\xff" * 200, "damaged must be a whole program for this host (got a cut or damaged"),
    ],
)
def test_a_file_that_is_no_program_is_reported(
    tilewright: Run, program: Any, name: str, data: bytes, said: str
) -> None:
    program("")
    Path(name).write_bytes(data)
    done = tilewright("run", name)
    assert (done.status, done.out) == (2, "") and f"error: {said}" in done.err


def test_a_program_comes_through_a_pipe(program: Any) -> None:
    program("")
    line = [sys.executable, "-m", "tilewright", "check", "/dev/stdin"]
    done = subprocess.run(line, input="print(3)", capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "3\nno findings: no kernel was launched\n"


#: Launches without a device: one with an array of the host, two with one that stays in simulated memory.
OWN = """
import tilewright as tw
host = np.arange(64, dtype=np.float32)
tw.simt.launch({kernel}, 1, 64, (host,))
memory = tw.simt.Memory()
kept = memory.array(np.arange(64, dtype=np.float32))
for _ in range(2):
    run = tw.simt.launch({kernel}, 1, 64, (kept,), instruments=[tw.instruments.Mix()])
print(host[1], kept.to_host()[1], *run.results)
"""
ADD = "\n@cuda.jit\ndef add(x):\n    x[cuda.threadIdx.x] += 1\n"


def test_launches_without_a_device_are_checked(tilewright: Run, program: Any) -> None:
    done = tilewright("check", "--json", program(OWN.format(kernel="race")))
    seen = json.loads(done.out)
    assert (done.status, seen["launches"], seen["kernels"]) == (1, 3, ["race"])
    assert [(one["code"], one["line"]) for one in seen["findings"]] == [("TW301", 9)]


def test_a_check_does_not_change_launches_without_a_device(tilewright: Run, program: Any) -> None:
    done = tilewright("check", program(ADD + OWN.format(kernel="add")))
    assert (done.status, done.out) == (0, "2.0 3.0 mix\nno findings in 3 launches of 1 kernel\n")


def test_launches_without_a_device_are_profiled(tilewright: Run, program: Any) -> None:
    name = program(ADD + OWN.format(kernel="add"))
    seen = json.loads(tilewright("profile", "--json", name).out)
    assert [one["launch"] for one in seen["profiles"]] == [0, 1, 2]
    assert {one["totals"]["global_loads"]["requests"] for one in seen["profiles"]} == {2}
    assert {Path(one["launched_at"].rpartition(":")[0]).name for one in seen["profiles"]} == {name}


@pytest.mark.parametrize("command", ["run", "check", "profile"])
@pytest.mark.parametrize("own", ["", ", limits=tw.simt.Limits(seconds=99, instructions=2**60)"])
def test_launches_without_a_device_have_the_limit(
    tilewright: Run, program: Any, shown: list[BaseException], command: str, own: str
) -> None:
    name = program(f"import tilewright as tw\ntw.simt.launch(endless, 1, 1, (np.zeros(2, np.float32),){own})")
    tilewright(command, "--limit", "0.05", name)
    assert "endless: passed its limit of 0.05 seconds" in str(shown[0])


def test_a_page_without_the_launches_of_other_processes_says_so(tmp_path: Path) -> None:
    program, page = tmp_path / "program.py", tmp_path / "page.html"
    kernel = (
        "import numpy as np\nfrom numba import cuda\n"
        "@cuda.jit\ndef one(x):\n    x[0] = 1\none[1, 1](np.zeros(1, np.float32))\n"
    )
    start = (
        "import subprocess, sys\nfirst = len(sys.argv) == 1\n"
        "first and subprocess.run([sys.executable, __file__, 'inner'], check=True)\n"
    )
    line = [sys.executable, "-m", "tilewright", "profile", "--force", "--html", str(page), str(program)]
    for text, said in (
        (start + kernel, "the page shows the 1 longest of"),
        (f"{start}first and sys.exit()\n{kernel}", "no page is written"),
        (kernel, ""),
    ):
        program.write_text(text)
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert said in done.stderr
        assert ("launches of the processes that it started" in done.stderr) == bool(said)

"""Times that a tuner keeps: they change only the order of a ranking, and survive the end of their writer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright import machine
from tilewright.errors import DeviceError, TilewrightWarning
from tilewright.ground.native import store
from tilewright.multiply.backends import estimates, ranking, tuning_db
from tilewright.multiply.backends.tuning_db import Key, Timed
from tilewright.multiply.problem.algebra import semiring
from tilewright.multiply.problem.expression import identity
from tilewright.multiply.problem.kind import Kind

SINGLE = Kind(*["float32"] * 4)
SHAPE = (1000, 1024, 900)
GPU = machine.gpu("a100")
pytestmark = pytest.mark.usefixtures("cache")


def key() -> Key:
    return tuning_db.key(tuning_db.simulated(GPU), SINGLE, *SHAPE)


def plan(shape: tuple[int, int, int] = SHAPE) -> Any:
    m, n, k = shape
    return tw.plan((m, k), (k, n), "float32", device="simulated:a100")


def kept(root: Path) -> dict[str, Timed]:
    tuning_db.kept.cache_clear()
    return dict(tuning_db.kept(key(), root))


def entry(root: Path) -> Path:
    (path,) = (root / "winners").iterdir()
    return path


def test_the_quickest_that_was_timed_multiplies(cache: Path) -> None:
    before = plan()
    assert {one.source for one in before.ranking} == {"estimated"}
    few = [one.name for one in before.ranking[2:5]]
    for name, seconds in zip(few, (3e-4, 1e-4, 2e-4), strict=True):
        tuning_db.keep(key(), Timed(name, seconds, "memory", SHAPE))
    after = plan()
    order = [few[1], few[2], few[0]]
    assert after.path == after.kernel.name == few[1]
    assert [(one.name, one.seconds, one.source) for one in after.ranking[:3]] == [
        (name, seconds, "tuned") for name, seconds in zip(order, (1e-4, 2e-4, 3e-4), strict=True)
    ]
    assert after.ranking[3:] == tuple(one for one in before.ranking if one.name not in few)
    (line,) = (line for line in str(after).splitlines() if line.startswith("choice 1"))
    assert line.split(maxsplit=3)[2:] == [few[1], "100.0 us tuned: memory"]
    tuning_db.keep(key(), Timed(few[0], 5e-5, "memory", SHAPE))  # replaces its time
    assert plan().path == few[0]
    assert len(kept(cache)) == 3
    elsewhere = tw.plan(SHAPE[::2], (SHAPE[2], SHAPE[1]), "float32", device="simulated:h100")
    assert {one.source for one in elsewhere.ranking} == {"estimated"}


def test_a_time_counts_for_its_class_of_extents() -> None:
    last = plan().ranking[-1].name
    tuning_db.keep(key(), Timed(last, 1e-9, "memory", SHAPE))
    near, far = (900, 1023, 1000), (800, 1024, 900)
    found = plan(near).ranking[0]
    assert (found.name, found.source) == (last, "tuned")
    candidate = next(one for one in chosen().candidates if one.record.name == last)
    scale = estimates.estimate(candidate, *near, GPU).seconds / estimates.estimate(candidate, *SHAPE, GPU).seconds
    assert found.seconds == pytest.approx(1e-9 * scale)
    assert plan(far).ranking[0].source == "estimated"


def chosen() -> ranking.Choice:
    return ranking.chosen(SINGLE, *SHAPE, GPU, GPU.compute_capability)


def test_kernels_that_may_not_multiply_are_not_taken() -> None:
    before = plan()
    for name in ("tensor_core_tf32", "no_such_kernel"):  # one of another chain, and one that no longer exists
        tuning_db.keep(key(), Timed(name, 1e-9, "memory", SHAPE))
    assert plan().ranking == before.ranking


def test_each_algebra_has_a_key_and_an_epilogue_has_that_of_the_product_without_it() -> None:
    device, half = tuning_db.simulated(GPU), Kind("float16", "float16", "float16", "float32", order="fast")
    kinds = [SINGLE, SINGLE._replace(order="fast"), half, half._replace(out="float32")]
    kinds += [SINGLE._replace(algebra=semiring(name, "float32")) for name in ("min-plus", "max-plus")]
    assert len({tuning_db.key(device, kind, *SHAPE) for kind in kinds}) == len(kinds)
    finished = half._replace(out="float32", finish=identity("float32", "float32"))
    assert tuning_db.key(device, finished, *SHAPE) == tuning_db.key(device, half, *SHAPE)


def test_other_data_of_a_gpu_have_another_key() -> None:
    other = replace(GPU, memory_gb_per_s=GPU.memory_gb_per_s + 1)
    assert tuning_db.key(tuning_db.simulated(other), SINGLE, *SHAPE) != key()
    assert tuning_db.key(tuning_db.simulated(GPU), SINGLE, *SHAPE, "multiply/backends/opencl") != key()


def test_an_epilogue_takes_times_of_the_plain_product_only_if_its_own_first_kernel_has_one() -> None:
    found = ranking.chosen(SINGLE, *SHAPE, GPU, GPU.compute_capability)
    pairs = list(zip(found.candidates, found.ranking, strict=True))
    tuning_db.keep(key(), Timed(found.ranking[-1].name, 1e-9, "memory", SHAPE))

    def first(shared: bool) -> str:
        return tuning_db.first(pairs, key(), lambda one, extents: 1.0, shared)[0][1].name

    assert first(shared=False) == found.ranking[-1].name
    assert first(shared=True) == found.ranking[0].name
    tuning_db.keep(key(), Timed(found.ranking[0].name, 1e-3, "memory", SHAPE))
    assert first(shared=True) == found.ranking[-1].name


def spoiled(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def spoil(path: Path) -> None:
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))

    return spoil


def linked(path: Path) -> None:
    real = path.rename(path.parent.parent / "elsewhere.json")
    path.symlink_to(real)


@pytest.mark.parametrize("spoil", [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:-20]),
    lambda path: path.write_bytes(b"\xff\xfe"),
    lambda path: path.write_text("[" * 100_000),
    lambda path: path.write_text("[]"),
    lambda path: path.write_bytes(path.read_bytes().ljust(1 << 21)),
    lambda path: path.chmod(0o620),
    linked,
    spoiled(lambda found: found["key"].update(version="another's")),
    spoiled(lambda found: found["key"].update(extents=[8, 8, 8])),
    spoiled(lambda found: found.update(times=None)),
    spoiled(lambda found: found["times"][0].pop("limiter")),
    spoiled(lambda found: found["times"][0].update(seconds=-1.0)),
    spoiled(lambda found: found["times"][0].update(seconds=float("nan"))),
    spoiled(lambda found: found["times"][0].update(seconds="1")),
    spoiled(lambda found: found["times"][0].update(spread=-1.0)),
    spoiled(lambda found: found["times"][0].update(spread=None)),
    spoiled(lambda found: found["times"][0].update(extents=[0, 1024, 900])),
    spoiled(lambda found: found["times"][0].update(extents=[8, 8])),
    spoiled(lambda found: found["times"][0].update(kernel=["warp_tiled"])),
])  # fmt: skip
def test_an_invalid_entry_is_ignored_with_one_warning(cache: Path, spoil: Callable[[Path], object]) -> None:
    before = plan().ranking
    tuning_db.keep(key(), Timed(before[-1].name, 1e-9, "memory", SHAPE))
    assert plan().ranking != before, "the clean twin is read"
    spoil(entry(cache))
    tuning_db.kept.cache_clear()
    with pytest.warns(TilewrightWarning) as shown:
        assert plan().ranking == before
        assert plan().ranking == before
    assert len(shown) == 1
    remedies = "remove it, or set TILEWRIGHT_CACHE_DIR", "until `tilewright tune` runs again"
    assert any(one in str(shown[0].message) for one in remedies)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tuning_db.keep(key(), Timed(before[-1].name, 1e-9, "memory", SHAPE))
    assert plan().ranking != before, "a tuner writes it again"


def test_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    with pytest.raises(DeviceError, match="TILEWRIGHT_CACHE_BYTES is 0"):
        tuning_db.keep(key(), Timed("warp_tiled", 1e-4, "memory", SHAPE))


#: Functions for the programs below, which fork; a test's own process cannot, because it has threads.
_PRELUDE = """
import itertools, os, resource, signal, sys, warnings
from pathlib import Path
from tilewright.multiply.backends import tuning_db as winners
from tilewright.multiply.backends.tuning_db import Timed
from tilewright.multiply.problem.kind import Kind

warnings.simplefilter("error")
root = Path(os.environ["TILEWRIGHT_CACHE_DIR"])
device = "opencl Portable Computing Language: a processor 0123456789abcdef"
asked = winners.key(device, Kind(*["float32"] * 4), 8, 8, 8, "multiply/backends/opencl")

def keep(name, seconds):
    winners.keep(asked, Timed(name, seconds, "memory " * 500, (8, 8, 8), spread=0.1))  # several blocks of a file

def kept():
    winners.kept.cache_clear()
    return {name: one.seconds for name, one in winners.kept(asked, root).items()}

def child(work):
    process = os.fork()
    if process == 0:
        try:
            work()
        except BaseException as error:
            sys.stderr.write(repr(error))
            os._exit(1)
        os._exit(0)
    return process

def ended(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

"""


def program(text: str, root: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + text], env={**os.environ, "TILEWRIGHT_CACHE_DIR": str(root)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_kill_9_at_any_line_of_a_write_leaves_the_old_times_or_the_new(tmp_path: Path) -> None:
    shown = program(
        """
def killed_at(line):
    left = itertools.count()
    def trace(frame, event, value):
        if not frame.f_code.co_filename.endswith(("private.py", "winners.py", "pathlib.py")):
            return None
        if "write" in (frame.f_code.co_name, frame.f_back.f_code.co_name):
            if event == "line" and next(left) == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    def work():
        sys.settrace(trace)
        keep("new", 2.0)
    return ended(child(work))

seen = []
for line in itertools.count():
    keep("old", 1.0)
    for path in (root / "winners").glob("*.json"):
        before = path.read_bytes()
    status = killed_at(line)
    seen.append(sorted(kept()))
    if status == 0:
        break
    assert status == -signal.SIGKILL, status
    path.write_bytes(before)
print(len(seen), seen.count(["old"]), seen.count(["new", "old"]))
""",
        tmp_path,
    )
    lines, old, new = map(int, shown.split())
    assert old + new == lines
    assert old > 8, "lines of `private.write` before the file is in its place"
    assert new >= 1


@pytest.mark.parametrize("times", [8, pytest.param(100, marks=pytest.mark.volume)])
def test_kill_9_at_any_moment_loses_nothing_that_was_kept(times: int, tmp_path: Path) -> None:
    shown = program(
        f"""
import random, time

random.seed(1)
said = set()
for turn in range({times}):
    reader, writer = os.pipe()
    def work():
        for i in itertools.count():
            keep(f"{{turn}} {{i % 20}}", 1.0)
            os.write(writer, f"{{turn}} {{i % 20}};".encode())
    process = child(work)
    os.close(writer)
    time.sleep(random.uniform(0, 0.03))
    os.kill(process, signal.SIGKILL)
    assert ended(process) == -signal.SIGKILL
    with os.fdopen(reader) as lines:
        said |= set(lines.read().split(";")) - {{""}}
    assert said <= set(kept()), said - set(kept())  # warnings are errors: no file is damaged
    for path in list((root / "winners").glob("*.json"))[:turn % 10 == 9]:
        path.unlink()  # so that files stay short
        said = set()
keep("after", 1.0)  # the lock of one that was killed holds nobody up
print("after" in kept())
""",
        tmp_path,
    )
    assert shown == "True"


def test_parallel_tuners_lose_no_times(tmp_path: Path) -> None:
    shown = program(
        """
def tuner(number):
    return lambda: [keep(f"{number} {i}", 1.0 + i) for i in range(20)]

before, running = {}, {child(tuner(number)) for number in range(2)}
while running:
    now = kept()  # whole at any moment, and never less than before
    assert before.items() <= now.items()
    before = now
    process, status = os.waitpid(-1, os.WNOHANG)
    assert status == 0
    running -= {process}
print(len(kept()))
""",
        tmp_path,
    )
    assert shown == "40"


def test_a_full_disk_leaves_the_old_times(tmp_path: Path) -> None:
    shown = program(
        """
keep("old", 1.0)
def work():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
    try:
        keep("new", 2.0)
    except OSError as error:
        print(type(error).__name__, flush=True)
assert ended(child(work)) == 0
print(*kept(), len(list((root / "winners").iterdir())))
""",
        tmp_path,
    )
    assert shown.split() == ["OSError", "old", "1"]


def test_an_entry_names_its_problem(cache: Path) -> None:
    one = Timed("warp_tiled", 1e-4, "memory", SHAPE)
    tuning_db.keep(key(), one)
    found = json.loads(entry(cache).read_text())
    assert found["key"]["extents"] == [1024, 1024, 1024]
    assert found["times"] == [{**asdict(one), "extents": list(SHAPE)}]
    assert kept(cache) == {"warp_tiled": one}


@pytest.mark.parametrize(
    ("name", "counts"),
    [("multiply/kernels/warp_tiled.cu", True), ("multiply/kernels/tiles.cuh", True),
     ("observe/prediction/opcodes.toml", True),
     ("observe/prediction/multiprocessor.bc", True), ("multiply/kernels/notes.txt", False)],
)  # fmt: skip
def test_times_belong_to_the_sources_that_made_them(
    name: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in tuning_db._SOURCES:
        shutil.copytree(Path(tw.__file__).parent / room, tmp_path / room)
    (tmp_path / "multiply/kernels/notes.txt").touch()
    monkeypatch.setattr(store, "_PACKAGE", tmp_path)
    before = store.fingerprint.__wrapped__(*tuning_db._SOURCES)
    with (tmp_path / name).open("ab") as source:
        source.write(b" ")
    assert (store.fingerprint.__wrapped__(*tuning_db._SOURCES) != before) is counts

"""`tilewright ladder`, on fake records."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import COUNTED, FakeRecord

from tilewright.errors import MemoryAccessError
from tilewright.ladder import StepTime

Run = Callable[..., Any]

LOOPS = FakeRecord("loops")
TILED = FakeRecord("tiled", source="S9", backend="gpu")


def test_json_has_every_field_of_the_issue(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, TILED)
    done = tilewright("ladder", "--sizes", "31x33x32", "--json")
    document = json.loads(done.out)
    assert set(document) == {"schema", "version", "machine", "problem", "rungs", "steps", "host", "interrupted"}
    assert (document["problem"]["m"], document["problem"]["n"], document["problem"]["k"]) == (31, 33, 32)
    cpu, gpu = document["rungs"]
    expected = {
        "name": "tiled",
        "source": "S9",
        "device": "simulated",
        "dtype": "float32",
        "verified": True,
        "seconds": 0.25,
        **COUNTED,
        "registers_per_thread": 40,
        "shared_bytes": 2048,
    }
    assert {key: gpu[key] for key in expected} == expected
    assert 0 < gpu["occupancy"] <= 1
    assert gpu["occupancy_limiter"]
    assert (cpu["device"], cpu["verified"], cpu["warp_instructions"], cpu["occupancy"]) == ("cpu", True, None, None)
    assert done.err == ""


def test_objects_that_stay_are_examined_rarely_while_kernels_run(
    tilewright: Run, catalogue_of: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright import ladder

    usual, seen, climb = gc.get_threshold(), [], ladder.climb_dtypes
    monkeypatch.setattr(ladder, "climb_dtypes", lambda *a, **k: seen.append(gc.get_threshold()) or climb(*a, **k))
    catalogue_of(LOOPS)
    tilewright("ladder", "--sizes", "8")
    assert seen == [(*usual[:2], 20 * usual[2])] and gc.get_threshold() == usual


def test_each_dtype_is_the_sources_own_unless_one_is_requested(tilewright: Run, catalogue_of: Run) -> None:
    integers = FakeRecord("integers", dtypes=("int32", "float32"))
    catalogue_of(LOOPS, integers)
    own = json.loads(tilewright("ladder", "--sizes", 4, "--json").out)
    assert [rung["dtype"] for rung in own["rungs"]] == ["float32", "int32"]
    one = json.loads(tilewright("ladder", "--sizes", 4, "--dtypes", "int32", "--json").out)
    assert [rung["dtype"] for rung in one["rungs"]] == ["int32", "int32"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step, of a known time."""
    step = StepTime("tiled", "tiles", "float32", 4096, 0.25, 0.2, 0.3, 1.0)
    monkeypatch.setattr("tilewright.show.ladder.story.steps_of", lambda gpu: (step,))
    monkeypatch.setattr("tilewright.show.ladder.story.step_times", lambda gpu: iter((step,)))


@pytest.mark.usefixtures("told")
def test_without_options_it_is_one_screen_and_with_full_every_kernel(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, TILED)
    done = tilewright("ladder")
    lines = done.out.splitlines()
    assert (done.status, len(lines) <= 24, max(map(len, lines))) == (0, True, 80)
    assert lines[1] == "✓ 2 kernels bit for bit"
    assert [line.split()[:4] for line in lines if line.startswith("tiled")] == [["tiled", "f32", "250", "ms"]]
    assert "within -25/+35 %" in done.out and "Your CPU, tw.matmul 256^3: " in done.out
    full = tilewright("ladder", "--full").out
    assert "S9  CUDA C++, tiles in shared memory, integers\ntiled " in full and "2 of 2 trusted" in full


@pytest.mark.usefixtures("told")
def test_json_has_the_screen_and_the_counts(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, TILED)
    document = json.loads(tilewright("ladder", "--json").out)
    assert [step["predicted_seconds"] for step in document["steps"]] == [0.25]
    assert document["host"]["size"] == 256 and document["host"]["gflops"] > 0
    assert document["rungs"][1]["warp_instructions"] == COUNTED["warp_instructions"]


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("options", [(), ("--full",)])
def test_a_wrong_kernel_changes_the_tick_and_the_status(tilewright: Run, catalogue_of: Run, options: Any) -> None:
    catalogue_of(LOOPS, FakeRecord("wrong", wrong=3))
    done = tilewright("ladder", *options)
    assert done.status == 1
    assert ("1 of 2 trusted" if options else "✗ 1 of 2 kernels bit for bit") in done.out


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("options", [(), ("--full",)])
def test_ctrl_c_shows_what_ran(tilewright: Run, catalogue_of: Run, options: Any) -> None:
    class Pressed(FakeRecord):
        def run_cpu(self, a: Any, b: Any) -> Any:
            raise KeyboardInterrupt

    catalogue_of(LOOPS, Pressed("pressed"), TILED)
    done = tilewright("ladder", *options)
    assert done.status == 130
    assert "Stopped by Ctrl-C" in done.out
    assert ("1 of 1 trusted" if options else "✓ 1 kernel bit for bit") in done.out


def test_kernels_that_need_another_gpu_take_one_line(tilewright: Run, catalogue_of: Run) -> None:
    class Tensor(FakeRecord):
        def unfit(self, cc: tuple[int, int]) -> str:
            return "" if cc == (10, 0) else "needs compute capability 10.0"

    catalogue_of(LOOPS, Tensor("first", backend="gpu"), Tensor("second", backend="gpu"))
    out = tilewright("ladder", "--sizes", 8).out
    assert [line for line in out.splitlines() if "second" in line] == ["2 need --gpu b200: first, second"]


def test_a_wrong_kernel_is_shown_and_sets_the_status(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, FakeRecord("wrong", wrong=3))
    done = tilewright("ladder", "--sizes", 8)
    assert done.status == 1
    assert "✗ 3 differ" in done.out
    assert "1 of 2 trusted kernels give" in done.out


def test_a_published_specimen_may_be_wrong(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, FakeRecord("tiled_published", wrong=3, published=True, notes="assumes multiples of 16"))
    done = tilewright("ladder", "--sizes", 8)
    assert done.status == 0
    assert "✗ 3 differ" in done.out
    assert "tiled_published: assumes multiples of 16" in done.out
    assert "1 of 1 trusted kernels give" in done.out
    shown = " ".join(done.out.split())
    assert "Also shown, but not counted: 1 published specimen (tiled_published)." in shown
    assert "Published: the kernel as its source has it, with its defects. Its results are shown, not trusted." in shown
    assert "Own order:" not in shown


def test_without_specimens_none_are_named(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS)
    out = tilewright("ladder", "--sizes", 8).out
    assert [words for words in ("specimen", "besides", "Published", "Own order") if words in out] == []


def test_the_numbers_add_up_to_the_rows(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(
        LOOPS,
        TILED,
        FakeRecord("wrong", wrong=1),
        FakeRecord("old_published", published=True, order="rounded-product"),
        FakeRecord("older_published", published=True, wrong=2),
        FakeRecord("picky", refuses="multiples of 16"),
        FakeRecord("sorted", order="rounded-product"),
    )
    shown = " ".join(tilewright("ladder", "--sizes", 8).out.split())
    assert "3 of 4 trusted kernels give" in shown
    assert (
        "not counted: 2 published specimens (old_published, older_published); 1 kernel not run." in shown
    )  # 4 + 2 + 1 rows
    assert "Own order: exact, bit for bit, in the source's order of sums" in shown


def test_specimens_alone_are_explained_too(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(FakeRecord("old_published", published=True, wrong=2))
    shown = " ".join(tilewright("ladder", "--sizes", 8).out.split())
    assert "No trusted kernel ran. Also shown, but not counted: 1 published specimen (old_published)." in shown
    assert "Published: the kernel as its source has it" in shown


def test_the_vendors_library_is_no_specimen(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, FakeRecord("cublas", source="-", published=True))
    out = tilewright("ladder", "--sizes", 8).out
    assert "Also shown, but not counted: a library's product (cublas)." in " ".join(out.split())
    assert "Published:" not in out


@pytest.mark.parametrize(
    ("does", "seen"),
    [
        ({"wrong": 7}, "run at 31x33x32: 7 of 1,023 elements are wrong"),
        ({}, "run at 31x33x32: all 1,023 elements are right, in its own order"),
        (
            {"fails": MemoryAccessError("old: out of bounds store at address 0x7, in block (1, 0, 0)", kernel="old")},
            "run at 31x33x32: stopped, out of bounds store",
        ),
    ],
)
def test_a_specimen_is_shown_off_its_multiples(
    tilewright: Run, catalogue_of: Run, does: dict[str, Any], seen: str
) -> None:
    specimen = FakeRecord("old", backend="gpu", published=True, order="rounded-product", **does)
    catalogue_of(LOOPS, TILED, specimen)
    assert f"  old: {seen}\n" in tilewright("ladder", "--sizes", 8).out
    rungs = json.loads(tilewright("ladder", "--sizes", 8, "--json").out)["rungs"]
    assert [rung["off_multiples"] is None for rung in rungs] == [True, True, False]
    assert (rungs[2]["off_multiples"]["m"], rungs[2]["off_multiples"]["mismatches"]) == (
        31,
        does.get("wrong", 0 if not does else None),
    )


def test_a_kernel_with_another_order_is_not_called_exact(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, FakeRecord("other", order="rounded-product", published=True))
    out = tilewright("ladder", "--sizes", 8).out
    assert "✓ own order" in out
    assert out.count("✓ exact") == 1


def test_a_kernel_that_stops_does_not_end_the_climb(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(FakeRecord("wild", backend="gpu", fails=MemoryAccessError("kernel.py:7: outside")), LOOPS)
    done = tilewright("ladder", "--sizes", 8)
    assert done.status == 1
    assert "✗ stopped" in done.out
    assert "wild: kernel.py:7: outside" in done.out
    assert "✓ exact" in done.out


def test_a_kernel_that_refuses_says_why(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, FakeRecord("squares", refuses="needs multiples of 16"))
    done = tilewright("ladder", "--sizes", 9)
    assert done.status == 0
    assert "squares: not run: needs multiples of 16" in done.out


def test_operands_from_files(tilewright: Run, catalogue_of: Run, tmp_path: Path) -> None:
    catalogue_of(LOOPS)
    np.save(tmp_path / "a.npy", np.ones((3, 5), np.int32))
    np.save(tmp_path / "b.npy", np.ones((5, 2), np.int32))
    done = tilewright("ladder", "--a", tmp_path / "a.npy", "--b", tmp_path / "b.npy", "--json")
    document = json.loads(done.out)
    assert (document["problem"]["m"], document["problem"]["n"], document["problem"]["k"]) == (3, 2, 5)
    assert document["rungs"][0]["dtype"] == "int32"


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal(
    tilewright: Run, catalogue_of: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    catalogue_of(*(FakeRecord(f"a_kernel_with_a_long_name_{i}", source="S9", backend="gpu") for i in range(3)))
    tables = tilewright("ladder", "--sizes", 8).out.split("trusted kernels give")[0]
    rows = [line for line in tables.splitlines() if line.startswith("a_kernel")]
    assert rows
    assert len(rows) % 3 == 0
    assert max(map(len, rows)) <= width
    assert not any("…" in row for row in rows)
    assert (len(rows) == 3) == (width == 200)


def test_progress_is_silent_off_a_terminal(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS)
    assert tilewright("ladder", "--sizes", 4).err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sizes", "3x4"], ["--sizes", "N or MxNxK", "'3x4'", "31x33x32"]),
        (["--sizes", "3x0x4"], ["--sizes", "'3x0x4'"]),
        (["--sizes", "4", "--sizes", "3x4x5"], ["--sizes must name one here", "4,3x4x5"]),
        (["--a", "a.npy"], ["--a and --b must come together", "only --a", "both files"]),
        (["--kernels", "lops"], ["'lops'", "did you mean loops?"]),
        (["--kernels", ","], ["--kernels", "at least one"]),
        (["--gpu", "h1000"], ["h1000", "h100"]),
        (["--sizes", "99999999"], ["must fit this machine's memory of", "99999999", "GiB", "smaller extents"]),
        (["--sizes", "99999999999"], ["must fit this machine's memory of", "99999999999"]),
        (["--sizes", "9999999999999x1x1"], ["must fit this machine's memory of"]),
    ],
)
def test_wrong_use_is_one_message(tilewright: Run, catalogue_of: Run, arguments: list[str], words: list[str]) -> None:
    catalogue_of(LOOPS)
    done = tilewright("ladder", *arguments)
    assert done.status == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1
    assert [word for word in words if word not in done.err] == []


def test_without_a_gpu_the_device_cuda_is_one_clear_line(tilewright: Run, catalogue_of: Run) -> None:
    from tilewright.multiply.backends.cuda import device

    if device.available():
        pytest.skip("there is a GPU here")
    catalogue_of(LOOPS)
    done = tilewright("ladder", "--device", "cuda")
    assert done.status == 2
    assert len(done.err.strip().splitlines()) == 1
    assert "GPU" in done.err


def test_kernels_may_be_named_once_or_more(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(LOOPS, TILED, FakeRecord("other"))
    done = tilewright("ladder", "--sizes", 8, "--kernels", "loops", "--kernels", "tiled", "--json")
    assert [rung["name"] for rung in json.loads(done.out)["rungs"]] == ["loops", "tiled"]

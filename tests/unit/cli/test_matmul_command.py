"""`tilewright matmul`, on fake records."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import FakeRecord, canonical

import tilewright as tw
from tilewright.multiply.problem import reference

Run = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, catalogue_of: Run) -> Path:
    """A folder with a.npy (3, 5) and b.npy (5, 2), and a catalogue of two kernels."""
    catalogue_of(
        FakeRecord("published", published=True, wrong=1), FakeRecord("loops"), FakeRecord("tiled", backend="gpu")
    )
    random = np.random.default_rng(3)
    np.save(tmp_path / "a.npy", random.random((3, 5), np.float32))
    np.save(tmp_path / "b.npy", random.random((5, 2), np.float32))
    return tmp_path


@pytest.mark.parametrize("kernel", [None, "loops", "tiled"])
def test_the_product_is_written(tilewright: Run, folder: Path, kernel: str | None) -> None:
    choice = ["--kernels", kernel] if kernel else []
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy", *choice)
    assert done.status == 0
    assert f"3 x 2 float32, by {kernel or 'matmul'}" in done.out
    expected = (canonical if kernel else reference.canonical)(np.load(folder / "a.npy"), np.load(folder / "b.npy"))
    assert np.array_equal(np.load(folder / "c.npy"), expected)
    assert sorted(p.name for p in folder.iterdir()) == ["a.npy", "b.npy", "c.npy"]


def test_the_product_is_made_on_a_device(tilewright: Run, folder: Path, opencl_device: Any) -> None:
    files = folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy"
    done = tilewright("matmul", *files, "--device", "opencl:0")
    assert done.status == 0
    assert "3 x 2 float32, by matmul on opencl:0" in done.out
    expected = reference.canonical(np.load(folder / "a.npy"), np.load(folder / "b.npy"))
    assert np.array_equal(np.load(folder / "c.npy"), expected)
    done = tilewright("matmul", *files, "--force", "--device", "opencl", "--kernels", "loops")
    assert done.status == 2
    assert "--device must be left out with --kernels" in done.err
    done = tilewright("matmul", *files, "--force", "--device", "gpu")
    assert done.status == 2
    assert (
        "must be cpu, cuda, opencl, opencl:NAME, simulated or simulated:NAME" in done.err and "(got 'gpu')" in done.err
    )


@pytest.mark.parametrize("kernel", [None, "loops"])
@pytest.mark.parametrize("name", ["c.csv", "c.txt", "c.npz", "c.NPY", "c"])
def test_an_output_of_no_known_format_is_refused(tilewright: Run, folder: Path, name: str, kernel: str | None) -> None:
    choice = ["--kernels", kernel] if kernel else []
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / name, *choice)
    assert (done.status, (folder / name).exists()) == (2, False)
    said = " ".join(done.err.split())
    assert "--output must name a file of a known format, by its suffix: .npy, .h5, .hdf5, .zarr" in said
    assert said.endswith("name another; a dataset in HDF5 is written x.h5:/name")


def test_a_kernel_of_the_catalogue_writes_npy_alone(tilewright: Run, folder: Path) -> None:
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.zarr", "--kernels", "loops")
    assert (done.status, (folder / "c.zarr").exists()) == (2, False)
    assert "--output must be an .npy file with --kernels" in done.err


def test_an_existing_output_is_kept_unless_forced(tilewright: Run, folder: Path) -> None:
    (folder / "c.npy").write_text("precious")
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy")
    assert done.status == 2
    assert "--force" in done.err
    assert (folder / "c.npy").read_text() == "precious"
    assert tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy", "--force").status == 0
    assert np.load(folder / "c.npy").shape == (3, 2)


def test_an_output_that_appears_meanwhile_is_kept(tilewright: Run, folder: Path, catalogue_of: Run) -> None:
    class Slow(FakeRecord):
        def run_cpu(self, a: Any, b: Any) -> Any:
            (folder / "c.npy").write_text("someone else's")
            return super().run_cpu(a, b)

    catalogue_of(Slow("loops"))
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy", "--kernels", "loops")
    assert done.status == 2
    assert (folder / "c.npy").read_text() == "someone else's"
    assert sorted(p.name for p in folder.iterdir()) == ["a.npy", "b.npy", "c.npy"]


def test_an_interrupted_write_leaves_the_old_file(
    tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(file: Any, array: Any, **options: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    (folder / "c.npy").write_text("old")
    monkeypatch.setattr(np, "save", interrupted)
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy", "--force")
    assert done.status == 130
    assert len(done.err.strip().splitlines()) == 1
    assert (folder / "c.npy").read_text() == "old"
    assert sorted(p.name for p in folder.iterdir()) == ["a.npy", "b.npy", "c.npy"]


def _wrong(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """Case -> (file given for A, words of the message)."""
    whole = (folder / "a.npy").read_bytes()
    (folder / "truncated.npy").write_bytes(whole[:-7])
    (folder / "header.npy").write_bytes(whole[:20])
    (folder / "lying.npy").write_bytes(whole.replace(b"(3, 5), }        ", b"(30000000, 50), }"))
    (folder / "empty.npy").write_bytes(b"")
    (folder / "text.npy").write_text("1 2 3\n")
    np.savez(folder / "archive.npz", x=np.ones(3))
    np.save(folder / "objects.npy", np.array([[1, "a"]], dtype=object), allow_pickle=True)
    np.save(folder / "vector.npy", np.ones(5, np.float32))
    np.save(folder / "words.npy", np.array([list("abcde")] * 3))
    np.save(folder / "zero.npy", np.ones((0, 5), np.float32))
    np.save(folder / "wide.npy", np.ones((3, 6), np.float32))
    np.save(folder / "double.npy", np.ones((3, 5)))
    (folder / "folder.npy").mkdir()
    return {
        "missing": ("nowhere.npy", ["nowhere.npy", "no such file"]),
        "truncated": ("truncated.npy", ["truncated.npy", "whole .npy file", "bytes"]),
        "header": ("header.npy", ["header.npy", "whole .npy file", "20 bytes"]),
        "lying": ("lying.npy", ["lying.npy", "whole .npy file", "188 bytes", "fewer than its header promises"]),
        "empty": ("empty.npy", ["empty.npy", "whole .npy file", "0 bytes"]),
        "text": ("text.npy", ["text.npy", "whole .npy file", "not the .npy format"]),
        "archive": ("archive.npz", ["archive.npz", "one array", "numpy.save"]),
        "objects": ("objects.npy", ["objects.npy", "whole .npy file of numbers"]),
        "words": ("words.npy", ["<U1", "astype"]),
        "shapes": ("wide.npy", ["`b.shape[-2]` must equal `a.shape[-1]` (got 5 and 6)"]),
        "folder": ("folder.npy", ["folder.npy", "readable"]),
    }


CASES = [
    "missing", "truncated", "header", "lying", "empty", "text", "archive", "objects", "words", "shapes", "folder",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_wrong_files_are_one_message(tilewright: Run, folder: Path, case: str) -> None:
    name, words = _wrong(folder)[case]
    done = tilewright("matmul", folder / name, folder / "b.npy", "-o", folder / "c.npy")
    assert done.status == 2
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1
    assert [word for word in words if word not in done.err] == []
    assert not (folder / "c.npy").exists()


#: Operands that a kernel of the catalogue does not take: A, and words of the message.
REFUSED = {
    "vector": (np.ones(5, np.float32), ["`a` must be a matrix", "got 1", "(5,)"]),
    "zero": (np.ones((0, 5), np.float32), ["`a.shape`", "(0, 5)"]),
    "dtypes": (np.ones((3, 5)), ["`b.dtype` must equal `a.dtype` (got float32 and float64)"]),
    "complex": (np.ones((3, 5), np.complex64), ["`a.dtype`", "complex64"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_operands_that_one_kernel_refuses_are_taken_without_a_kernel(tilewright: Run, folder: Path, case: str) -> None:
    operand, words = REFUSED[case]
    np.save(folder / "x.npy", operand)
    files = (folder / "x.npy", folder / "b.npy", "-o", folder / "c.npy")
    done = tilewright("matmul", *files, "--kernels", "loops")
    assert done.status == 2 and len(done.err.strip().splitlines()) == 1
    assert [word for word in words if word not in done.err] == []
    assert tilewright("matmul", *files).status == 0
    b = np.load(folder / "b.npy")
    found = np.load(folder / "c.npy")
    truth = operand @ b
    assert found.dtype == truth.dtype and found.shape == truth.shape
    np.testing.assert_allclose(found, truth, rtol=1e-5)


def test_every_wrong_case_runs(folder: Path) -> None:
    assert list(_wrong(folder)) == CASES


def test_a_missing_output_folder_is_reported_before_work(tilewright: Run, folder: Path) -> None:
    done = tilewright("matmul", "nowhere.npy", folder / "b.npy", "-o", folder / "no" / "c.npy")
    assert done.status == 2
    assert "folder must exist" in done.err


@pytest.mark.parametrize(
    ("kernel", "words"),
    [("nothing", "kernels must name records of the catalogue"), ("*", "published, loops, tiled")],
)
def test_a_kernel_is_one_record(tilewright: Run, folder: Path, kernel: str, words: str) -> None:
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy", "--kernels", kernel)
    assert done.status == 2
    assert words in done.err


@pytest.mark.parametrize("kernel", [None, "loops"])
def test_other_byte_orders_are_read(tilewright: Run, folder: Path, kernel: str | None) -> None:
    a = np.load(folder / "a.npy")
    np.save(folder / "swapped.npy", a.astype(">f4"))
    choice = ["--kernels", kernel] if kernel else []
    assert tilewright("matmul", folder / "swapped.npy", folder / "b.npy", "-o", folder / "c.npy", *choice).status == 0
    expected = (canonical if kernel else reference.canonical)(a, np.load(folder / "b.npy"))
    assert np.array_equal(np.load(folder / "c.npy"), expected)


def test_the_products_dtype_can_be_chosen(tilewright: Run, folder: Path) -> None:
    x = np.full((2, 3), 100, np.int8)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", x.T)
    done = tilewright("matmul", folder / "x.npy", folder / "y.npy", "-o", folder / "c.npy", "--dtype", "int32")
    assert "2 x 2 int32" in done.out
    assert (np.load(folder / "c.npy") == 30_000).all()
    wrong = tilewright("matmul", folder / "x.npy", folder / "y.npy", "-o", folder / "d.npy", "--dtype", "int3")
    assert (wrong.status, "(got 'int3'); did you mean int" in wrong.err) == (2, True)


@pytest.mark.parametrize("by", [[], ["--memory", "64GB"]])  # tests before this one may hold more than one
def test_sums_algebra_and_threads_can_be_chosen(tilewright: Run, folder: Path, by: list[str]) -> None:
    a, b = np.load(folder / "a.npy"), np.load(folder / "b.npy")
    expected = {
        "--acc-dtype float64": reference.canonical(a.astype(np.float64), b.astype(np.float64)).astype(np.float32),
        "--algebra min-plus": (a[:, :, None] + b).min(axis=1),
        "--threads 1": reference.canonical(a, b),
    }
    for options, c in expected.items():
        done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy", *options.split(), *by)
        assert done.status == 0, done.err
        assert np.array_equal(np.load(folder / "c.npy"), c), options
        (folder / "c.npy").unlink()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--threads none", "--threads must be a whole number of at least 1 (got 'none'); try 2"),
        ("--algebra plus-plus", "(got 'plus-plus')"),
        ("--acc-dtype thin", "(got 'thin')"),
        ("--algebra min-plus --kernels loops", "--algebra must be left out with --kernels"),
    ],
)
def test_wrong_options_are_one_message(tilewright: Run, folder: Path, option: str, words: str) -> None:
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy", *option.split())
    assert done.status == 2 and words in " ".join(done.err.split()), done.err
    assert done.err.startswith("error: ") and not (folder / "c.npy").exists()


def test_after_a_real_ctrl_c_the_same_command_continues_from_the_kept_tiles(tmp_path: Path) -> None:
    a = np.random.default_rng(5).integers(-4, 5, (2000, 2000)).astype(np.float64)
    np.save(tmp_path / "a.npy", a)
    said = (
        "import tilewright as tw; from tilewright.multiply.engine import outside; tw.matmul([[1.0]], [[1.0]], "
        "algebra='max-plus'); print(outside.host_memory.resident_bytes())"
    )
    alone = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, timeout=60, check=True).stdout
    # So little besides the process's own memory makes dozens of tiles; the arithmetic is exact and takes seconds.
    words = [sys.executable, "-m", "tilewright", "matmul", "a.npy", "a.npy", "-o", "c.npy", "--algebra", "max-plus"]
    words += ["--memory", str(int(alone) + (40 << 20))]
    journal, pipe = tmp_path / "c.npy.part.journal", subprocess.PIPE
    process = subprocess.Popen(words, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
    until = time.monotonic() + 60
    while time.monotonic() < until and not (journal.exists() and journal.read_bytes().count(b"\n") > 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT), err
    kept = journal.read_bytes().count(b"\n") - 1
    kept_of = re.fullmatch(
        r"interrupted: stopped by Ctrl-C; (\d+) of (\d+) tiles are kept beside c\.npy; the same command goes on",
        " ".join(err.splitlines()[-1].split()),
    )
    assert kept_of is not None and int(kept_of[1]) == kept and 2 <= kept < int(kept_of[2]), err
    assert not (tmp_path / "c.npy").exists()
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert f"; {kept} of {kept_of[2]} tiles were there already" in " ".join(done.stdout.split()), done
    some = slice(0, None, 29)  # of every tile
    assert np.array_equal(np.load(tmp_path / "c.npy")[some], tw.matmul(a[some], a, algebra="max-plus"))


def test_help_shows_products_larger_than_memory(tilewright: Run) -> None:
    shown = tilewright("matmul", "--help").out
    examples = shown.partition("Examples:")[2]
    assert all(word in examples for word in ("--memory 2GB", ".zarr", "--dask tcp://"))
    assert "Multiply two arrays on disk" in tilewright("--help").out


def test_a_failed_write_without_a_reason_from_numpy_is_reported(
    tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any, **named: Any) -> None:
        raise OSError("1000 requested and 10 written")

    monkeypatch.setattr(np, "save", full)
    done = tilewright("matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy")
    assert done.status == 2 and "10 written: is the disk full?" in done.err and "None" not in done.err

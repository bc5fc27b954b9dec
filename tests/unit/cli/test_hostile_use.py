"""Every option with wrong values: one message, with the rule, the value and what to do; no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import FakeRecord

Run = Callable[..., Any]
LONG = "n" * 300

#: Subcommand and options -> what the message says of the rule, the value, and what to do.
WRONG = [
    ("ladder --sizes 0", "--sizes must be N or MxNxK", "(got '0')", "try 256 or 31x33x32"),
    ("ladder --sizes -4", "--sizes must be N or MxNxK", "(got '-4')", "try 256 or 31x33x32"),
    ("ladder --sizes 1.5", "--sizes must be N or MxNxK", "(got '1.5')", "try 256 or 31x33x32"),
    ("ladder --sizes ''", "--sizes must name at least one", "(got '')", "leave it out"),
    ("ladder --sizes ²", "--sizes must be N or MxNxK", "(got '²')", "try 256 or 31x33x32"),
    (f"ladder --sizes {'9' * 5000}", "--sizes must be N or MxNxK", "(got '999", "try 256 or 31x33x32"),
    ("ladder --sizes 99999999999", "must fit this machine's memory", "(got 298,023,", "smaller extents"),
    (f"ladder --sizes {2**63 - 1}", "must fit this machine's memory", "(got ", "smaller extents"),
    ("ladder --sizes 1,2", "--sizes must name one here", "(got '1,2')", "one product is N or MxNxK"),
    ("ladder --sizes 1,2,3,4", "--sizes must name one here", "(got '1,2,3,4')", "one product is N or MxNxK"),
    ("ladder --sizes 1x0x3", "--sizes must be N or MxNxK", "(got '1x0x3')", "try 256 or 31x33x32"),
    ("ladder --sizes 1x-2x3", "--sizes must be N or MxNxK", "(got '1x-2x3')", "try 256 or 31x33x32"),
    ("ladder --sizes ٣x4x5", "--sizes must be N or MxNxK", "(got '٣x4x5')", "try 256 or 31x33x32"),
    ("ladder --sizes 99999999999x1x1", "must fit this machine's memory", "(got 2,235 GiB)", "smaller extents"),
    ("ladder --sizes 4 --sizes 5", "--sizes must name one here", "(got '4,5')", "one product is"),
    ("ladder --seed -1", "--seed must be a whole number of at least 0", "(got '-1')", "try 1"),
    ("ladder --seed x", "--seed must be a whole number", "(got 'x')", "try 1"),
    (f"ladder --seed {2**63}", f"--seed must be a whole number from 0 to {2**63 - 1:,}", f"(got '{2**63}')", "try 1"),
    ("ladder --dtypes float16", "--dtypes must be one of float32, float64", "(got 'float16')", "did you mean float"),
    ("ladder --dtypes ''", "--dtypes must name at least one", "(got '')", "leave it out"),
    ("ladder --device gpu", "--device must be one of simulated, cpu, cuda, opencl", "(got 'gpu')", "did you mean cpu?"),
    ("ladder --gpu ''", "--gpu must name at least one", "(got '')", "leave it out"),
    ("ladder --gpu h1000", "a GPU must be one of v100", "(got 'h1000')", "did you mean h100?"),
    ("ladder --gpu v100", "compute capability 7.5 or more", "(got NVIDIA V100", "tilewright gpus"),
    ("ladder --help=1", "--help must come without a value", "(got one)", "tilewright ladder --help"),
    ("--version=1", "--version must come without a value", "(got one)", "tilewright --help"),
    ("ladder --kernels ''", "--kernels must name at least one", "(got '')", "leave it out"),
    ("ladder --kernels ' , '", "--kernels must name at least one", "(got ' , ')", "leave it out"),
    ("ladder --kernels nothing*", "kernels must name records", "(got 'nothing*')", "tilewright kernels"),
    ("ladder --a a.npy", "--a and --b must come together", "(got only --a)", "give both"),
    ("ladder --b a.npy", "--a and --b must come together", "(got only --b)", "give both"),
    ("ladder --a a.npy --b b.npy --dtypes int32", "--dtypes must be left out with", "(got int32)", "their own"),
    ("ladder --a a.npy --b b.npy --sizes 4", "--sizes must be left out with --a and --b", "(got 4)", "have their own"),
    ("ladder --a a.npy --b a.npy", "`b.shape[0]` must equal `a.shape[1]`", "(got 3 and 5)", "shapes were"),
    ("ladder --a no.npy --b b.npy", "no.npy must be a file that is there", "(got no such file)", "check its name"),
    ("ladder --a . --b b.npy", "must be a readable .npy file", "(got a folder)", "name a file"),
    ("ladder --a '' --b b.npy", "must be a readable .npy file", "(got a folder)", "name a file"),
    (f"ladder --a {LONG} --b b.npy", "must be a readable .npy file", "(got: File name too long)", "name one"),
    ("ladder --a a.npy/x --b b.npy", "must be a readable .npy file", "(got: Not a directory)", "name one"),
    ("matmul pipe b.npy -o c.npy", "must be a readable .npy file", "(got no regular file)", "name a file"),
    (f"matmul {LONG}.npy b.npy -o c.npy", "must be a readable .npy file", "(got: File name too long)", "name one"),
    (f"matmul a.npy b.npy -o {LONG}.zarr", "must be readable", "(got: File name too long)", "check the file"),
    (f"matmul a.npy b.npy -o {LONG}.npy --memory 2GB", "must be readable", "(got: File name too long)", "check the"),
    ("matmul empty.npy b.npy -o c.npy", "must be a whole .npy file", "(got 0 bytes", "numpy.save"),
    ("matmul lying.npy b.npy -o c.npy", "whole .npy file", "fewer than its header promises, 4,398,046,511,", "save"),
    ("matmul huge.npy b.npy -o c.npy", "whole .npy file", "fewer than its header promises, 4,835,703,278,", "save"),
    ("matmul negative.npy b.npy -o c.npy", "whole .npy file", "a shape of (-1, 5)", "numpy.save"),
    ("matmul truth.npy b.npy -o c.npy", "whole .npy file", "a shape of (True, 5)", "numpy.save"),
    ("matmul version.npy b.npy -o c.npy", "whole .npy file", "a version of the .npy format", "numpy.save"),
    ("matmul pickle.npy b.npy -o c.npy", "whole .npy file", "an array of Python objects", "numpy.save"),
    ("matmul code.npy b.npy -o c.npy", "whole .npy file", "bytes: ", "numpy.save"),
    ("matmul archive.npz b.npy -o c.npy", "must hold one array", "(got an .npz archive)", "numpy.save"),
    ("matmul a.npy b.npy -o a.npy", "must be a new file", "(got one that exists)", "--force"),
    ("matmul a.npy b.npy -o link.npy", "must be a new file", "(got one that exists)", "--force"),
    ("matmul a.npy b.npy -o .", "the output must be a file", "(got a folder)", "name a file in it"),
    ("matmul a.npy b.npy -o ''", "the output must be a file", "(got a folder)", "name a file in it"),
    ("matmul a.npy b.npy -o no/c.npy", "folder must exist", "(got no no)", "make it first"),
    ("matmul a.npy b.npy -o a.npy/c.npy", "folder must exist", "(got no a.npy)", "make it first"),
    ("matmul a.npy b.npy -o pipe --force", "must be a regular file", "(got a device or pipe)", "name another"),
    (f"matmul a.npy b.npy -o {LONG}", "the output must be writable", "(got: File name too long)", "name another"),
    ("matmul a.npy b.npy -o c.npy --kernels ''", "--kernels must name at least one", "(got '')", "leave it out"),
    ("matmul a.npy b.npy -o c.npy --kernels picky", "must be given operands it takes", "(got others: ", "see `tile"),
    ("matmul a.npy b.npy -o c.npy --gpu zzz", "a GPU must be one of v100", "(got 'zzz')", "FILE.json"),
    ("tune --dtypes fp16", "--dtypes must be one of float8_e4m3fn,", "(got 'fp16')", "did you mean float16?"),
    ("matmul a.npy b.npy -o c.npy --dtype i8x", "--dtype must be one of", "(got 'i8x')", "did you mean int8?"),
    ("matmul a.npy b.npy -o c.npy --acc-dtype fp32", "--acc-dtype must be one of", "(got 'fp32')", "float32?"),
    ("matmul a.npy b.npy -o c.npy --dask abacus", "--dask must be the address", "(got abacus: ", "`dask scheduler`"),
    ("predict --kernels coalesced --dtypes abacus", "--dtypes must be one of float8_e4", "(got 'abacus')", "choose"),
    ("bench --dtypes bf16", "--dtypes must be one of float8_e4m3fn,", "(got 'bf16')", "did you mean bfloat16?"),
    ("ladder --dtypes fp16", "--dtypes must be one of float8_e4m3fn,", "(got 'fp16')", "did you mean float16?"),
    ("report -o r.html --dtypes fp16", "--dtypes must be one of float8_e4m3fn,", "(got 'fp16')", "mean float16?"),
    ("ladder --kernels tilde", "--kernels must name records", "(got 'tilde')", "tilewright kernels"),
    ("occupancy --block 64 --registers 256", "--registers must be a whole number from 0 to", "(got '256')", "try 64"),
    ("occupancy --block 64 --registers -1", "--registers must be a whole number from 0 to", "(got '-1')", "try 64"),
    ("occupancy --block 1025 --registers 8", "--block must be a whole number from 1 to 1,", "(got '1025')", "try 256"),
    ("occupancy --block 0 --registers 8", "--block must be a whole number from 1 to 1,", "(got '0')", "try 256"),
    ("occupancy --block 8 --registers 8 --shared 48Q", "a positive number of bytes", "(got '48Q')", "try 2GB"),
    ("occupancy --block 8 --registers 8 --shared 65537 --gpu t4", "at most 64 KiB", "(got '65537')", "try 8KiB"),
    ("occupancy --block 8 --registers 8 --barriers 17", "--barriers must be a whole number", "(got '17')", "try 1"),
    ("occupancy --block 8 --registers 8 --columns 513", "--columns must be a whole number", "(got '513')", "try 256"),
    ("occupancy --block 8 --registers 8 --carveout 101", "from 0 to 100", "(got '101')", "try l1, equal or shared"),
    ("occupancy --block 8 --registers 8 --carveout ''", "from 0 to 100", "(got '')", "try l1, equal or shared"),
    ("occupancy --block 8 --registers 8 --gpu ''", "--gpu must name at least one", "(got '')", "leave it out"),
    ("run --limit 0 x.py", "--limit must be seconds in plain digits, more than 0", "(got '0')", "try 60 or 0.5"),
    ("run --limit 0.0 x.py", "--limit must be seconds in plain digits", "(got '0.0')", "try 60 or 0.5"),
    ("check --limit -1 x.py", "--limit must be seconds in plain digits", "(got '-1')", "try 60 or 0.5"),
    ("check --limit x x.py", "--limit must be seconds in plain digits", "(got 'x')", "try 60 or 0.5"),
    ("profile --limit 1e99 x.py", "--limit must be seconds in plain digits", "(got '1e99')", "try 60 or 0.5"),
    ("profile --limit '' x.py", "--limit must be seconds in plain digits", "(got '')", "try 60 or 0.5"),
    ("run --limit nan x.py", "--limit must be seconds in plain digits", "(got 'nan')", "try 60 or 0.5"),
    ("run --limit ٣ x.py", "--limit must be seconds in plain digits", "(got '٣')", "try 60 or 0.5"),
]  # fmt: skip


def header(shape: object, descr: str = "<f4") -> bytes:
    """The start of an .npy file that promises an array."""
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.fixture
def folder(tmp_path: Path, catalogue_of: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of good and bad files, and a catalogue of two kernels."""
    catalogue_of(FakeRecord("loops"), FakeRecord("picky", refuses="needs multiples of 16"))
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.ones((3, 5), np.float32))
    np.save("b.npy", np.ones((5, 2), np.float32))
    np.savez("archive.npz", x=np.ones(3))
    np.save("pickle.npy", np.array([[1, "a"]], dtype=object), allow_pickle=True)
    os.mkfifo("pipe")
    Path("link.npy").symlink_to("dangling.npy")
    for name, content in {
        "empty": b"",
        "lying": header((2**20, 2**20)) + bytes(100),
        "huge": header((2**40, 2**40)) + bytes(100),
        "negative": header((-1, 5)) + bytes(100),
        "truth": header((True, 5)) + bytes(100),
        "version": header((3, 5)).replace(b"NUMPY\x01", b"NUMPY\x09") + bytes(100),
        "code": header("(__import__('os').abort(),)").replace(b'"', b"") + bytes(100),
    }.items():
        Path(f"{name}.npy").write_bytes(content)
    Path("x.py").touch()
    return tmp_path


@pytest.mark.parametrize(("line", "rule", "got", "hint"), WRONG, ids=[line[0][:60] for line in WRONG])
def test_wrong_use(tilewright: Run, folder: Path, line: str, rule: str, got: str, hint: str) -> None:
    before = {path.name: path.lstat().st_mtime_ns for path in folder.iterdir()}
    done = tilewright(*words(line))
    assert (done.status, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("error: ")
    assert [part for part in (rule, got, hint) if part not in done.err] == []
    assert {path.name: path.lstat().st_mtime_ns for path in folder.iterdir()} == before


def words(line: str) -> list[str]:
    """The words of a command line; quoted ones may be empty or blank."""
    import shlex

    return shlex.split(line)


@pytest.mark.parametrize("option", ["--sizes", "--seed", "--output", "--nothing", "extra"])
def test_missing_or_unknown_words_are_named(tilewright: Run, option: str) -> None:
    done = tilewright(*(["matmul", option] if option in ("--output", "extra") else ["ladder", option]))
    assert (done.status, done.out) == (2, "")
    named = {"--output": "--output", "extra": "B must be given"}.get(option, option)
    assert named in done.err


@pytest.mark.parametrize("line", [line for line, *_ in WRONG if line.startswith("ladder")][::6])
def test_wrong_use_prints_no_half_json(tilewright: Run, folder: Path, line: str) -> None:
    done = tilewright(*words(line), "--json")
    assert (done.status, done.out) == (2, "")


def test_json_is_complete_if_a_kernel_is_wrong(tilewright: Run, catalogue_of: Run) -> None:
    catalogue_of(FakeRecord("wrong", wrong=3, title="über"), FakeRecord("bad", fails=ValueError("no\nline")))
    done = tilewright("ladder", "--sizes", 8, "--json", "--kernels", "wrong")
    assert done.status == 1
    assert done.out.isascii()
    assert json.loads(done.out)["rungs"][0]["title"] == "über"


def test_a_file_that_may_not_be_read(tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refused)
    for line in ("ladder --a a.npy --b b.npy", "matmul a.npy b.npy -o c.npy"):
        done = tilewright(*words(line))
        assert done.status == 2
        assert "a.npy: must be a readable .npy file (got: Permission denied); name one" in done.err


def test_a_disk_that_is_full(tilewright: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    done = tilewright(*words("matmul a.npy b.npy -o c.npy"))
    assert (done.status, done.err) == (
        4,
        "the host refused: [Errno 28] No space left on device: 'c.npy' (TILEWRIGHT_DEBUG=1 shows where); free room, or "
        "ask for access\n",
    )
    assert not list(folder.glob("*c.npy*"))


def command(line: str, **streams: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "tilewright", *words(line)], text=True, **streams)


@pytest.mark.parametrize("line", ["kernels", "ptx-support", "ladder --sizes 8 --kernels three_loops --json"])
def test_a_reader_that_leaves_is_no_error(line: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        child = command(line, stdout=pipe, stderr=subprocess.PIPE)
        assert child.communicate(timeout=60)[1] == ""
    assert child.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_standard_output_is_an_error_of_the_host() -> None:
    with Path("/dev/full").open("w") as full:
        child = command("ptx-support", stdout=full, stderr=subprocess.PIPE)
        errors = child.communicate(timeout=60)[1]
    assert child.returncode == 4
    assert errors.startswith("the host refused: ") and "No space left" in errors
    assert len(errors.splitlines()) == 1


def test_ctrl_c_ends_a_climb_immediately() -> None:
    child = command("ladder --sizes 3000 --kernels three_loops", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(3)
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, errors = child.communicate(timeout=60)
    assert time.monotonic() - start < 20
    assert (child.returncode, out) == (130, "")
    assert errors == "interrupted: stopped by Ctrl-C; nothing was written\n"


@pytest.mark.parametrize("columns", ["0", "1", "007", "x", "60", "80", "120"])
@pytest.mark.parametrize("command", ["kernels", "gpus"])
def test_any_width_shows_every_name(
    tilewright: Run, monkeypatch: pytest.MonkeyPatch, command: str, columns: str
) -> None:
    from tilewright import machine
    from tilewright.multiply.kernels import catalogue

    monkeypatch.setenv("COLUMNS", columns)
    out = tilewright(command).out
    names = machine.names() if command == "gpus" else [record.name for record in catalogue.records()]
    assert [name for name in names if not any(line.startswith(f"{name} ") for line in out.splitlines())] == []
    assert "…" not in out
    if command == "kernels":
        sums = {"fma": "exact", "tensor-core": "in bound", "rounded-product": "own order"}
        rows = {line.split(" ")[0]: f"{line} " for line in reversed(out.splitlines())}
        assert [r.name for r in catalogue.records() if f"  {sums[r.order]} " not in rows[r.name]] == []
        assert "uint8-64" in out

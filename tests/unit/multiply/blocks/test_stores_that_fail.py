"""Stores whose file is truncated, unreadable or without room report it; and stores need little memory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tilewright.cli import files
from tilewright.errors import ArgumentTypeError, StorageError, TilewrightError
from tilewright.multiply.blocks.stores import created, existing, opened
from tilewright.multiply.engine.matmul import matmul


def saved(folder: Path, rows: int = 50, columns: int = 40) -> Path:
    np.save(folder / "x.npy", np.ones((rows, columns)))
    return folder / "x.npy"


def test_a_file_that_is_too_short(tmp_path: Path) -> None:
    path = saved(tmp_path)
    os.truncate(path, 1000)
    with pytest.raises(StorageError, match=r"x\.npy: must have 16,128 bytes.*\(got 1,000\): it was cut short; copy or"):
        opened(path, "a")


@pytest.mark.parametrize("columns", [slice(0, 40), slice(3, 9)], ids=["whole", "part"])
def test_a_file_that_becomes_too_short(tmp_path: Path, columns: slice) -> None:
    path = saved(tmp_path)
    store = opened(path, "a")
    os.truncate(path, 8000)
    room = np.zeros((20, columns.stop - columns.start))
    store.read((), slice(0, 20), columns, room)
    with pytest.raises(StorageError, match=r"\(got 8,000\): it was cut short"):
        store.read((), slice(20, 40), columns, room)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "EOF: reading magic string"),
        (b"hello, I am text", "magic string is not correct"),
        (b"\x93NUMPY\x03\x00" + b"\0" * 20, "version 3.0 of the format"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4'}", "EOF|does not contain the correct keys"),
    ],
    ids=["empty", "text", "version", "header"],
)
def test_files_of_another_format(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(StorageError, match=f"must be a file of NumPy's format .*({says})"):
        opened(tmp_path / "x.npy", "a")


def npy(text: str) -> bytes:
    """A file with a header that NumPy did not write."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * 64


def array(shape: str, descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 150, "(" * 3000 + ")" * 3000, "-" * 3000 + "1", "-" * 9000 + "1", "{" * 9000, "'" * 7, "\0", "1" * 9000,
        "null", "[]", array("None"), array("(True, 4)"), array("(-1, 4)"), array("4"), array("(4.0, 4)"),
        array("(0, 2**70)"), array(f"(0, {2**70})"), array(f"({10**4000}, {10**4000})"),
        array("(4, 4)", "'<f1000000000000'"), array("(4, 4)", "[" * 90 + "]" * 90), array("(4, 4)", "{'f4': 1}"),
    ],
)  # fmt: skip
def test_headers_that_no_parser_takes(tmp_path: Path, text: str) -> None:
    """Python's parser reads them, and raises RecursionError, MemoryError, TokenError or others."""
    (tmp_path / "x.npy").write_bytes(npy(text))
    with pytest.raises(StorageError, match=r"x\.npy: must "):
        opened(tmp_path / "x.npy", "a")
    with pytest.raises(TilewrightError, match=r"x\.npy: must "):
        files.read(tmp_path / "x.npy")


@pytest.mark.parametrize("end", [".npy", ".zarr", ".h5", ".h5:/a", ".zarr/b"])
@pytest.mark.parametrize("name", ["a\0b", "\ud800", "\0", "x" * 300, "x/" * 3000, "é\udfff"], ids=ascii)
def test_paths_that_no_system_has(tmp_path: Path, name: str, end: str) -> None:
    for path in (f"{tmp_path}/{name}{end}", Path(f"{tmp_path}/{name}{end}")):
        with pytest.raises(TilewrightError):
            opened(path, "a")
        with pytest.raises(TilewrightError):
            matmul(np.ones((2, 2)), np.ones((2, 2)), path)


def test_a_name_that_leaves_no_room_for_what_an_unfinished_result_is_called(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"x\.npy: must be readable \(got: File name too long\)"):
        matmul(np.ones((2, 2)), np.ones((2, 2)), tmp_path / ("x" * 245 + ".npy"))
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    (tmp_path / "x.npy").rename(tmp_path / os.fsdecode(b"\xff.npy"))
    assert opened(os.fsencode(tmp_path / os.fsdecode(b"\xff.npy")).decode(errors="surrogateescape"), "a").shape == (
        2,
        2,
    )


def test_an_archive_and_objects_are_no_arrays_of_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones(2))
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(ArgumentTypeError, match=r"\.npz archive"):
        opened(tmp_path / "x.npy", "a")
    np.save(tmp_path / "o.npy", np.array([None, 1]), allow_pickle=True)
    with pytest.raises(ArgumentTypeError, match="elements of object"):
        opened(tmp_path / "o.npy", "a")


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"none\.npy must be a file that is there \(got no such file") as caught:
        opened(tmp_path / "none.npy", "a")
    assert caught.value.errno == errno.ENOENT
    (tmp_path / "d.npy").mkdir()
    with pytest.raises(StorageError, match="Is a directory"):
        opened(tmp_path / "d.npy", "a")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npy")
    with pytest.raises(StorageError, match="Illegal seek"):
        opened(tmp_path / "x.npy", "a")


def test_a_full_disk_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier writes stay, and a write that found no room can be repeated."""
    store = created(tmp_path / "c.npy", (4, 1000), "float64", chunks_hint=(1, 1))
    store.write((), slice(0, 1), slice(0, 1000), np.ones((1, 1000)))
    write = os.pwrite

    def full(file: int, values: memoryview, offset: int) -> int:
        if len(values) > 3000:
            return write(file, values[:3000], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StorageError) as caught:
            store.write((), slice(1, 2), slice(0, 1000), np.ones((1, 1000)))
    assert caught.value.errno == errno.ENOSPC
    for words in ("7.8 KiB must find room", "No space left on device", " free)", "is kept; make room", "run again"):
        assert words in str(caught.value)
    store.write((), slice(1, 2), slice(0, 1000), np.ones((1, 1000)))
    store.flush()
    assert np.load(tmp_path / "c.npy").sum() == 2000


@pytest.mark.parametrize("columns", [slice(0, 3000), slice(7, 2900)], ids=["whole", "part"])
def test_a_system_that_moves_less_than_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: slice
) -> None:
    read, write = os.preadv, os.pwrite
    monkeypatch.setattr(os, "preadv", lambda file, rooms, place: read(file, [memoryview(rooms[0])[:1000]], place))
    monkeypatch.setattr(os, "pwrite", lambda file, values, place: write(file, memoryview(values)[:1000], place))
    store = created(tmp_path / "c.npy", (3, 3000), "float32", chunks_hint=(1, 1))
    wanted = np.random.default_rng(0).random((3, columns.stop - columns.start), dtype=np.float32)
    store.write((), slice(0, 3), columns, wanted)
    found = np.zeros_like(wanted)
    store.read((), slice(0, 3), columns, found)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy")[:, columns], wanted)


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_a_broken_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    store = created(tmp_path / "c.npy", (4, 4), "float64", chunks_hint=(1, 1))

    def broken(*arguments: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, broken)
    with pytest.raises(StorageError, match=r"must reach the disk .*Input/output error.*check the disk"):
        store.write((), slice(0, 4), slice(0, 4), np.ones((4, 4)))
        store.flush()


def test_a_result_without_room_is_refused_at_the_start(tmp_path: Path) -> None:
    """A limit on the size of files acts like a full disk; nothing is left behind."""
    said = child(
        f"""
import resource
from tilewright.multiply.blocks.stores import created
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    created({str(tmp_path / "c.npy")!r}, (1000, 1000), "float64", chunks_hint=(1, 1))
except OSError as error:
    print(error)
"""
    )
    assert "7.6 MiB must find room (got: File too large" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opens", ["{path!r}", "np.load({path!r}, mmap_mode='r')"], ids=["path", "map"])
def test_a_panel_needs_the_memory_of_a_panel(tmp_path: Path, opens: str) -> None:
    """A file of 1 GiB is read with 64 MiB above the process's memory; the caller owns a map's addresses."""
    path = tmp_path / "x.npy"
    created(path, (16384, 16384), "float32", chunks_hint=(1, 1)).close()
    store = existing(path)
    store.write((), slice(9000, 9001), slice(5000, 5001), np.full((1, 1), 7, np.float32))
    store.close()
    said = child(
        f"""
import resource
from pathlib import Path
import numpy as np
from tilewright.multiply.blocks.stores import opened
value = {opens.format(path=str(path))}
store = opened(value, "a")
fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
for limit, field in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
    used = int(fields[field].split()[0]) << 10
    resource.setrlimit(limit, (used + (64 << 20),) * 2)
before = int(fields["VmHWM"].split()[0])
panel = np.zeros((8192, 1024), np.float32)
for first in range(0, 16384, 1024):
    store.read((), slice(8192, 16384), slice(first, first + 1024), panel)
    if panel.any():
        print(first, panel[808].max())
fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print((int(fields["VmHWM"].split()[0]) - before) >> 10)
"""
    ).split()
    assert said[:2] == ["4096", "7.0"]
    assert 32 <= int(said[2]) <= 40


def child(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_error_is_also_an_oserror() -> None:
    error = StorageError("x: must be", errno.ENOSPC)
    assert isinstance(error, OSError) and isinstance(error, TilewrightError)
    assert (str(error), error.errno) == ("x: must be", errno.ENOSPC)

"""The journal of a product larger than memory: it can be read after a crash, and another product's is refused."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.multiply.blocks.journal import Journal

PRODUCT = {"a": {"path": "a.npy", "shape": (3, 4)}, "dtype": "float32"}


def started(path: Path, **more: object) -> Journal:
    """A journal that a process only opened."""
    with Journal.opened(path, {**PRODUCT, **more}) as journal:
        return journal


def test_done_tiles_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "c.journal"
    journal = started(path)
    journal.add(3, 17)
    journal.add(1, 18)
    assert started(path).done == {3: 17, 1: 18}


def test_any_torn_end_loses_at_most_its_line(tmp_path: Path) -> None:
    path = tmp_path / "c.journal"
    journal = started(path)
    for tile in range(3):
        journal.add(tile, 1000 + tile)
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        again = started(path)
        assert len(again.done) == max(0, whole[:length].count(b"\n") - 1)
        again.add(7, 5)
        assert started(path).done == {**again.done, 7: 5}


def test_another_product_is_refused_by_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "c.journal"
    started(path)
    with pytest.raises(ArgumentValueError, match=r"in `dtype`; .*start again with `overwrite=True`"):
        started(path, dtype="float64")


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b'{"tile": 1}\n', b"\xff\xfe\n"])
def test_reading_stops_at_foreign_lines(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "c.journal"
    started(path).add(0, 1)
    path.write_bytes(path.read_bytes() + line + b'{"crc32": 9, "tile": 9}\n')
    again = started(path)
    assert again.done == {0: 1}
    again.add(2, 3)
    assert started(path).done == {0: 1, 2: 3}


@pytest.mark.parametrize(
    "line", [b"[" * 100_000, b'{"a":' * 100_000, b'{"tile": %s}' % (b"9" * 5000), b'"\\ud800"', b'{"tile": [1e999, 3]}']
)
def test_a_first_line_that_no_parser_takes_is_no_journal(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "c.journal"
    path.write_bytes(line + b"\n")
    assert Journal.tile_of(path) is None
    with Journal.opened(path, PRODUCT, force=True) as journal:
        assert journal.done == {}
        journal.add(0, 1)
    assert started(path).done == {0: 1}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("times", [1, 3])
def test_a_journal_that_is_removed_before_it_is_locked(
    tmp_path: Path, times: int, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finishes then, and a third one may begin: what is locked is the file at the path, or nothing."""
    path, real, left = tmp_path / "c.journal", fcntl.flock, [None] * times

    def late(file: IO[bytes], how: int) -> None:
        if left:
            left.pop()
            path.unlink()
            if again:
                path.write_bytes(b"")
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with Journal.opened(path, PRODUCT) as journal:
        journal.add(0, 1)
        assert not left and path.exists()
        with pytest.raises(ArgumentValueError, match="only one process"), Journal.opened(path, PRODUCT):
            pass
    assert started(path).done == {0: 1}


def test_a_journal_that_is_always_removed_ends_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.journal"
    monkeypatch.setattr(fcntl, "flock", lambda *_: path.unlink())
    with pytest.raises(ArgumentValueError, match="only one process at a time"), Journal.opened(path, PRODUCT):
        pass


@pytest.mark.parametrize("tile", [4, -1, 10**30])
def test_reading_stops_at_a_tile_out_of_range(tmp_path: Path, tile: int) -> None:
    path = tmp_path / "c.journal"
    journal = started(path)
    for done in (3, tile, 0):
        journal.add(done, 1)
    whole = path.read_bytes()
    with pytest.raises(ArgumentValueError, match="in `dtype`; "), Journal.opened(path, {**PRODUCT, "dtype": ""}, 4):
        pass
    assert path.read_bytes() == whole  # another product's
    with Journal.opened(path, PRODUCT, 4) as journal:
        assert journal.done == {3: 1}
        journal.add(2, 3)
    with Journal.opened(path, PRODUCT, 4) as journal:
        assert journal.done == {3: 1, 2: 3}


def test_force_drops_another_product_s_journal(tmp_path: Path) -> None:
    path = tmp_path / "c.journal"
    started(path).add(0, 1)
    with Journal.opened(path, {"a": 2}, force=True) as journal:
        assert journal.done == {}
    with Journal.opened(path, {"a": 2}) as journal:
        journal.add(5, 6)
        journal.forget()
    with Journal.opened(path, {"a": 2}) as journal:
        assert journal.done == {}


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "c.journal"
    with Journal.opened(path, PRODUCT), pytest.raises(ArgumentValueError, match="another does"):
        started(path)
    started(path)


def test_the_tile_of_an_unfinished_product(tmp_path: Path) -> None:
    path = tmp_path / "c.journal"
    assert Journal.tile_of(path) is None
    started(path, tile=(3, 4))
    assert Journal.tile_of(path) == (3, 4)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "journal"
    make(path)
    assert Journal.tile_of(path) is None
    with pytest.raises(ArgumentValueError, match="must be a regular file"), Journal.opened(path, {"tile": [1, 1]}):
        pass

"""The cache's size on disk: old entries are removed, other files stay, and processes do not disturb each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.ground.native import eviction, secure_files, store

HOUR = 3600.0
Run = Callable[..., Any]


def key(number: int) -> str:
    return f"{number:064x}"


def fill(root: Path, folder: str, number: int, length: int, age_hours: float) -> Path:
    """Write an entry of this size, last used some hours ago."""
    path = root / folder / f"{key(number)}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(length))
    then = time.time() - age_hours * HOUR
    os.utime(path, (then, then))
    return path


def numbers(root: Path) -> set[int]:
    return {int(Path(entry.path).stem, 16) for entry in eviction.entries(root) if entry.finished}


def test_the_least_recently_used_entry_is_removed_first(tmp_path: Path) -> None:
    for number in range(10):
        fill(tmp_path, (secure_files.CPU, secure_files.TRANSLATIONS)[number % 2], number, 100, age_hours=10 - number)
    assert eviction.tidy(tmp_path, 1000) == 0
    assert eviction.tidy(tmp_path, 999) == 200  # down to nine tenths
    assert numbers(tmp_path) == set(range(2, 10))
    assert eviction.tidy(tmp_path, 0) == 800
    assert numbers(tmp_path) == set()


def test_a_used_entry_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    for number in (1, 2):
        store.write(tmp_path / secure_files.CPU, key(number), {}, bytes(1000))
        then = time.time() - (10 - number) * HOUR
        os.utime(tmp_path / secure_files.CPU / f"{key(number)}.bin", (then, then))
    assert store.read(tmp_path / secure_files.CPU, key(1), dict) is not None
    eviction.tidy(tmp_path, 1500)
    assert numbers(tmp_path) == {1}


def test_use_of_a_recent_entry_writes_nothing(tmp_path: Path) -> None:
    path = fill(tmp_path, secure_files.CPU, 1, 10, age_hours=0.5)
    before = path.stat().st_mtime_ns
    eviction.note_use(path)
    assert path.stat().st_mtime_ns == before
    eviction.note_use(tmp_path / "missing")


def test_only_the_caches_own_files_are_touched(tmp_path: Path) -> None:
    strangers = [
        tmp_path / f"{key(1)}.bin",
        tmp_path / secure_files.CPU / "firmware.bin",
        tmp_path / secure_files.CPU / f"{key(2)}.bin.bak",
        tmp_path / "photos" / f"{key(3)}.bin",
    ]
    for path in strangers:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
    target = tmp_path / "elsewhere"
    target.write_bytes(bytes(100))
    (tmp_path / secure_files.CPU / f"{key(4)}.bin").symlink_to(target)
    fill(tmp_path, secure_files.CPU, 5, 100, age_hours=1)
    assert eviction.clear(tmp_path) == 100
    eviction.tidy(tmp_path, 0)
    assert all(path.exists() for path in (*strangers, target))


def test_old_half_written_files_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / secure_files.TRANSLATIONS
    folder.mkdir()
    for name, age in ((".new-old", 2.0), (".new-young", 0.1)):
        (folder / name).write_bytes(bytes(10))
        then = time.time() - age * HOUR
        os.utime(folder / name, (then, then))
    assert eviction.tidy(tmp_path, 1 << 20) == 10
    assert [path.name for path in folder.iterdir()] == [".new-young"]


def test_writes_keep_within_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "50000")
    most = 0
    for number in range(400):
        store.write(tmp_path / secure_files.CPU, store.digest(str(number)), {}, bytes(1000))
        most = max(most, eviction.contents(tmp_path).bytes)
    assert 40_000 < most < 50_000 + 80 * 1100  # many digests without a check of the size are rare
    assert eviction.contents(tmp_path).bytes < most


def test_a_size_of_zero_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "0")
    store.write(tmp_path / secure_files.CPU, key(1), {}, b"code")
    assert store.read(tmp_path / secure_files.CPU, key(1), dict) is None


_WORKER = """
import os, sys, warnings
from pathlib import Path
from tilewright.ground.native import secure_files as private, store, eviction as upkeep
warnings.simplefilter("error")
folder = Path(os.environ["TILEWRIGHT_CACHE_DIR"]) / private.CPU
for turn in range(300):
    number = (turn * 7 + int(sys.argv[1])) % 40
    key = store.digest(str(number))
    kept = store.read(folder, key, dict)
    if kept is None:
        store.write(folder, key, {"number": number}, bytes([number]) * 2000)
    else:
        assert kept == ({"number": number}, bytes([number]) * 2000)
    if turn % 10 == 0:
        upkeep.tidy(folder.parent, 20_000)
"""


def test_several_processes_at_the_same_time(tmp_path: Path) -> None:
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path), "TILEWRIGHT_CACHE_BYTES": "20000"}
    crew = [
        subprocess.Popen([sys.executable, "-c", _WORKER, str(n)], env=environment, stderr=subprocess.PIPE, text=True)
        for n in range(3)
    ]
    assert [worker.communicate(timeout=120)[1] for worker in crew] == ["", "", ""]
    assert [worker.returncode for worker in crew] == [0, 0, 0]
    eviction.tidy(tmp_path, 20_000)
    assert 0 < eviction.contents(tmp_path).bytes <= 20_000
    assert not list(tmp_path.rglob(".new-*"))


def test_the_command_shows_and_clears(tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", str(3 << 20))
    empty = json.loads(tilewright("cache", "--json").out)
    assert empty == {
        "schema": "tilewright.cache",
        "version": 1,
        "folder": str(tmp_path / "kept"),
        "entries": 0,
        "bytes": 0,
        "removed_bytes": 0,
        "limit_bytes": 3 << 20,
        "unusable": "",
    }
    for number in range(2):
        fill(tmp_path / "kept", secure_files.CPU, number, 1024, age_hours=1)
    shown = tilewright("cache")
    assert shown.status == 0
    assert shown.out.splitlines() == [
        str(tmp_path / "kept"),
        "2 entries, 2 KiB of 3 MiB",
        "to empty it: tilewright cache --clear",
    ]
    cleared = tilewright("cache", "--clear")
    assert cleared.out.splitlines()[1:] == ["0 entries, 0 B of 3 MiB", "removed: 2 KiB"]
    assert json.loads(tilewright("cache", "--clear", "--json").out) == empty


def test_a_kernel_removed_meanwhile_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process has cleared the cache, a product compiles its kernel again."""
    import numpy as np

    from tilewright.multiply.backends.cpu import kernels
    from tilewright.multiply.engine.matmul import matmul

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    a = np.arange(12, dtype=np.int16).reshape(3, 4)
    for _ in range(2):
        kernels.kernel.cache_clear()
        assert (np.asarray(matmul(a, a.T)) == a @ a.T).all()
        eviction.clear(tmp_path)


def test_writes_keep_the_cache_within_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    tidy = eviction.tidy
    monkeypatch.setattr(eviction, "tidy", lambda root, most: (looks.append(most), tidy(root, most)))
    for number in range(300):
        monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "640000" if number < 200 else "20000")
        store.write(tmp_path / secure_files.CPU, store.digest(str(number)), {}, bytes(950))
    assert 5 <= looks.count(640_000) <= 50  # a tenth, as an entry is a tenth of a 64th
    assert looks.count(20_000) == 100
    assert eviction.contents(tmp_path).bytes <= 20_000

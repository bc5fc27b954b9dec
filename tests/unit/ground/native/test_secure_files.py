"""Machine code is loaded only from folders and files that no other user could have written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilewright.errors import TilewrightWarning
from tilewright.ground.native import eviction, secure_files, store

KEY = "0" * 63 + "1"
#: A number that no user of this system has.
STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not run: only root can give files to another user")


@pytest.fixture(autouse=True)
def _ordinary_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def kept(root: Path) -> object:
    folder = secure_files.folder(root, secure_files.CPU)
    return store.read(folder, KEY, dict)


def entry(root: Path) -> Path:
    """An entry as Tilewright writes it."""
    folder = secure_files.folder(root, secure_files.CPU)
    store.write(folder, KEY, {}, b"code")
    return folder / f"{KEY}.bin"


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077, 0o777])
def test_folders_and_files_are_the_users_alone_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    root = tmp_path / "caches" / "tilewright"
    os.umask(mask)
    path = entry(root)
    assert [mode(p) for p in (root.parent, root, path.parent, path)] == [0o700, 0o700, 0o700, 0o600]
    assert store.read(path.parent, KEY, dict) == ({}, b"code")


@pytest.mark.parametrize("was", [0o755, 0o770, 0o777, 0o1777])
def test_a_folder_of_ours_that_was_open_is_made_private(tmp_path: Path, was: int) -> None:
    path = entry(tmp_path / "kept")
    for folder in (path.parent, path.parent.parent):
        folder.chmod(was)
    assert kept(tmp_path / "kept") == ({}, b"code")
    assert mode(path.parent) == 0o700
    assert not mode(path.parent.parent) & 0o022 or was & stat.S_ISVTX


@pytest.mark.parametrize("bits", [0o620, 0o602, 0o666, 0o777])
def test_an_entry_that_others_could_write_is_made_again(tmp_path: Path, bits: int) -> None:
    path = entry(tmp_path)
    path.chmod(bits)
    with pytest.warns(TilewrightWarning, match="another user could have written"):
        assert kept(tmp_path) is None
    entry(tmp_path)
    assert kept(tmp_path) == ({}, b"code")


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _large(path: Path) -> None:
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize(
    ("plant", "said"),
    [(_link, "symbolic link"), (_pipe, "regular"), (_folder, "regular"), (_large, "has 1,099,511,627,776 bytes")],
)
def test_an_entry_that_is_no_file_of_ours_is_ignored(tmp_path: Path, plant: Callable[[Path], None], said: str) -> None:
    """Nothing waits for a pipe, and nothing reads a file that does not fit in memory."""
    plant(entry(tmp_path))
    with pytest.warns(TilewrightWarning, match=said):
        assert kept(tmp_path) is None


def test_a_folder_that_others_may_rename_in_is_refused(tmp_path: Path) -> None:
    """The folder has other files, so we may not restrict it. With the sticky bit, users rename only their own."""
    shared = tmp_path / "shared"
    entry(shared / "tilewright")
    shared.chmod(0o777)
    (shared / "other").mkdir()
    with pytest.raises(secure_files.ExposedError, match=r"other users may write to .*shared"):
        kept(shared / "tilewright")
    shared.chmod(0o1777)
    assert kept(shared / "tilewright") == ({}, b"code")
    shared.chmod(0o755)
    assert kept(shared / "tilewright") == ({}, b"code")


def test_a_folder_is_made_private_only_if_no_other_user_can_replace_it(tmp_path: Path) -> None:
    """`chmod` follows the name: below a folder that all may write, it could change another folder of ours."""
    shared = tmp_path / "shared"
    root = entry(shared / "tilewright").parents[1]
    (shared / "other").mkdir()
    root.chmod(0o777)
    shared.chmod(0o777)
    with pytest.raises(secure_files.ExposedError, match=r"other users may write to .*shared$"):
        kept(root)
    assert mode(root) == 0o777


@needs_root
def test_root_leaves_the_rights_of_another_user_s_folder_alone(tmp_path: Path) -> None:
    root = entry(tmp_path / "root").parents[1]
    root.chmod(0o777)
    os.chown(root, STRANGER, STRANGER)
    with pytest.raises(secure_files.ExposedError, match=str(STRANGER)):
        kept(root)
    assert mode(root) == 0o777


def test_a_private_group_has_no_other_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    entry(shared / "tilewright")
    shared.chmod(0o775)
    for alone in (True, False):
        monkeypatch.setattr(secure_files, "_of_user_alone", lambda group, alone=alone: alone)
        if alone:
            assert kept(shared / "tilewright")
        else:
            with pytest.raises(secure_files.ExposedError):
                kept(shared / "tilewright")


def test_links_of_the_users_own_are_followed(tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".cache").symlink_to("../large")
    entry(tmp_path / "home" / ".cache" / "tilewright")
    assert (tmp_path / "large" / "tilewright" / "cpu" / f"{KEY}.bin").is_file()
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(secure_files.ExposedError, match="round"):
        kept(tmp_path / "round")


def test_a_link_in_place_of_the_folder_itself_is_refused(tmp_path: Path) -> None:
    target = entry(tmp_path / "target").parent
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / secure_files.CPU).symlink_to(target)
    with pytest.raises(secure_files.ExposedError, match="not a folder"):
        kept(tmp_path / "root")
    assert eviction.clear(tmp_path / "root") == 0
    assert (target / f"{KEY}.bin").exists()


@needs_root
@pytest.mark.parametrize("part", ["root", "root/cpu", f"root/cpu/{KEY}.bin", "root-link", "."])
def test_no_file_of_another_user_is_read(tmp_path: Path, part: str) -> None:
    """The root folder, the folder, the entry, a link in the path, a folder above."""
    base = tmp_path / "base"
    entry(base / "root")
    root = base / "root"
    if part == "root-link":
        root = base / part
        root.symlink_to("root")
    os.chown(base / part, STRANGER, STRANGER, follow_symlinks=False)
    if part.endswith(".bin"):
        with pytest.warns(TilewrightWarning, match="another user could have written"):
            assert kept(root) is None
    else:
        with pytest.raises(secure_files.ExposedError, match=str(STRANGER)):
            kept(root)
        assert eviction.contents(root).entries == 0


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A process that has not made its temporary cache yet; yields the folder for temporary files."""
    store._stand_in.cache_clear()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path
    store._stand_in.cache_clear()


def _of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home, unknown to the system."""
    for name in ("TILEWRIGHT_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: (_ for _ in ()).throw(KeyError(number)))


def _of_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")


def _of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file"))


def _of_unknown_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "~nobody-of-this-name/cache")


def _of_a_shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "all" / "other").mkdir(parents=True)
    (tmp_path / "all").chmod(0o777)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "all" / "kept"))


def _of_a_pseudo_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", "/proc/self/tilewright")


def _of_a_long_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / ("x" * 300)))


UNUSABLE = [_of_none, _of_no_home, _of_a_file, _of_unknown_user, _of_a_shared_folder, _of_a_pseudo_file_system]
UNUSABLE += [_of_a_long_name]


@pytest.mark.parametrize("make", UNUSABLE, ids=lambda f: f.__name__)
def test_a_temporary_cache_replaces_it_with_one_warning(
    alone: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    make(alone, monkeypatch)
    with pytest.warns(TilewrightWarning, match="temporary folder.*set TILEWRIGHT_CACHE_DIR") as shown:
        rooms = [store.room(secure_files.CPU), store.room(secure_files.CPU), store.room(secure_files.TRANSLATIONS)]
    assert len(shown) == 1
    first = rooms[0]
    assert first is not None and rooms[1] == first and first.parent.parent == alone
    assert [mode(first), mode(first.parent)] == [0o700, 0o700]
    store.write(first, KEY, {}, b"code")
    assert store.read(first, KEY, dict) == ({}, b"code")


def test_without_room_for_temporary_files_nothing_is_kept(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _of_none(alone, monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(alone / "missing"))
    with pytest.warns(TilewrightWarning, match="kept in memory alone"):
        assert store.room(secure_files.CPU) is None
    store.write(None, KEY, {}, b"code")
    assert store.read(None, KEY, dict) is None
    assert not store.has(None, KEY)


def test_a_program_leaves_no_temporary_cache_behind(tmp_path: Path) -> None:
    """Nor does a process that it forks remove it."""
    code = """
import os, sys
import numpy as np
import tilewright as tw
a = np.arange(12, dtype=np.float32).reshape(3, 4)
assert (tw.matmul(a, a.T) == a @ a.T).all()
(made,) = os.listdir(os.environ["TMPDIR"])
if not (child := os.fork()):
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
assert os.listdir(os.environ["TMPDIR"]) == [made]
"""
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": "/dev/null/cache", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("TilewrightWarning: compiled kernels cannot be kept") == 1
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_user_unknown_to_the_system_multiplies() -> None:
    code = f"""
import os
import numpy as np
import tilewright as tw
a = np.arange(12, dtype=np.float32).reshape(3, 4)
os.environ["TILEWRIGHT_CACHE_BYTES"] = "0"
tw.matmul(a.astype(np.int16), a.T.astype(np.int16))  # the interpreter may be where only its owner can read
del os.environ["TILEWRIGHT_CACHE_BYTES"]
os.setuid({STRANGER})
assert (tw.matmul(a, a.T) == a @ a.T).all()
"""
    places = ("HOME", "TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in places}
    with tempfile.TemporaryDirectory() as folder:  # other users may not enter pytest's own
        os.chown(folder, STRANGER, STRANGER)
        environment["TMPDIR"] = folder
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert list(Path(folder).iterdir()) == []
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "this user has no home folder" in done.stderr

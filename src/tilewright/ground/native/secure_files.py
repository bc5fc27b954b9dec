"""Folders and files that belong to this user and that no one else may write. Machine code is loaded from nowhere else.

A user who can write to another user's cache of machine code, or replace its folder, can run code as that user. So every
folder of the path must belong to the user or to the system, and no one else may write there. A sticky folder such as
`/tmp` is allowed, because users cannot rename each other's files in it. The rule holds for symbolic links and for the
folders that they lead to. The last folder and its files must be the user's own. A file is opened once, without
following a link, and its owner is read from the descriptor, so nobody can replace the file in between.

Source: path_resolution(7), inode(7) and open(2) of the Linux manual; `StrictModes` of sshd_config(5) has the same rule.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tilewright.ground.native.interrupts import DeferredSigint

#: Folders of a cache.
TRANSLATIONS = "translations"  #: The simulated GPU's kernels.
CPU = "cpu"  #: The CPU engine's kernels.
RESOURCES = "resources"  #: The output of NVRTC and of the assembler.
POCL = "pocl"  #: PoCL manages its files itself.
PROGRAMS = "programs"  #: The library that CUDA programs run with.
WINNERS = "winners"  #: The best configurations that a tuner found.
#: A folder that has only these is a cache, and may be made private.
ROOMS = (TRANSLATIONS, CPU, RESOURCES, POCL, PROGRAMS, WINNERS)
#: The largest file that is read, in bytes; the largest kernels have a few million bytes.
_MOST = 1 << 28
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OWN = 0o700
#: Most symbolic links of a path. Source: path_resolution(7).
_LINKS = 40


class ExposedError(OSError):
    """A file or folder that another user could have written, or that is too large; the message says which, and why."""


def folder(root: Path, room: str, *, make: bool = True) -> Path:
    """A folder of the cache at `root`, with no links in its path; only the user may enter it.

    Raises ExposedError: another user could write there; OSError: it is missing, or cannot be made.
    """
    path = f"{_real(root.absolute(), make=make).rstrip('/')}/{room}"
    status = _status(path, make=make)
    if not stat.S_ISDIR(status.st_mode):
        raise ExposedError(f"{path} is not a folder")
    if status.st_uid != os.geteuid():
        raise ExposedError(f"{path} belongs to another user, user id {status.st_uid}")
    if status.st_mode & 0o077:
        Path(path).chmod(status.st_mode & _OWN)
    return Path(path)


def read(path: Path, most: int = _MOST) -> bytes:
    """The bytes of a file that has at most `most` bytes.

    Raises ExposedError: the file belongs to another user, others may write it, it is larger, or it is not a regular
    file; OSError: it is missing, or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ExposedError(f"{path.name} is a symbolic link") from error
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ExposedError(f"{path.name} is not a regular file")
        if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
            raise ExposedError(f"another user could have written {path.name}")
        if status.st_size > most:
            raise ExposedError(f"{path.name} has {status.st_size:,} bytes, more than the limit of {most:,}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def write(path: Path, data: bytes) -> None:
    """Write a file atomically, readable by the user alone whatever the umask is.

    Raises OSError: it cannot be written.
    """
    with DeferredSigint():  # no half-written file is left
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(handle, 0o600)
                file.write(data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def temporary_folder() -> Path:
    """Make a folder with an unpredictable name.

    Raises OSError: no temporary folder can be made.
    """
    made = Path(tempfile.mkdtemp(prefix="tilewright-"))
    made.chmod(_OWN)  # the umask may have removed even our own permissions
    return made


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """A temporary folder that is removed afterwards.

    Raises OSError: no temporary folder can be made.
    """
    made = None
    try:
        with DeferredSigint():
            made = temporary_folder()
        yield made
    finally:
        if made is not None:
            with DeferredSigint():
                shutil.rmtree(made, ignore_errors=True)


def _real(path: Path, *, make: bool) -> str:
    """The folder's path without links, after checking that nobody else can replace a part of it."""
    at, pending, links = "/", _parts(str(path)), 0
    _check("/", Path("/").lstat(), last=False)
    while pending:
        part = pending.pop(0)
        if part == "..":
            at = os.path.dirname(at)  # noqa: PTH120
            continue
        below = f"{at.rstrip('/')}/{part}"
        status = _status(below, make=make)
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _LINKS:
                raise ExposedError(f"{path} has a cycle of symbolic links")
            if status.st_uid not in _trusted():
                raise ExposedError(f"{below} is a symbolic link of another user, user id {status.st_uid}")
            target = os.readlink(below)  # noqa: PTH115
            at = "/" if target.startswith("/") else at
            pending[:0] = _parts(target)
        else:
            _check(below, status, last=not pending)
            at = below
    return at


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _status(path: str, *, make: bool) -> os.stat_result:
    """The status of a path; with `make`, a missing folder is made first."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        if not make:
            raise
    with contextlib.suppress(FileExistsError):  # another process was quicker
        os.mkdir(path, _OWN)  # noqa: PTH102
        os.chmod(path, _OWN)  # noqa: PTH101 - the umask may have taken even our own rights
    return os.lstat(path)


def _check(path: str, status: os.stat_result, *, last: bool) -> None:
    """Refuse a folder of the path whose entries another user can replace.

    If others may write to the cache's own folder, the last one, it is made private: files that another user put there
    are refused when they are read. The permissions of a folder with other entries are not changed.
    """
    if not stat.S_ISDIR(status.st_mode):
        raise ExposedError(f"{path} is not a folder")
    if status.st_uid not in _trusted():
        raise ExposedError(f"{path} belongs to another user, user id {status.st_uid}")
    writers = status.st_mode & _OTHERS_WRITE
    if not writers or status.st_mode & stat.S_ISVTX:
        return
    if last and status.st_uid == os.geteuid() and set(os.listdir(path)) <= set(ROOMS):  # noqa: PTH208
        os.chmod(path, _OWN)  # noqa: PTH101
        return
    if writers == stat.S_IWGRP and _of_user_alone(status.st_gid):
        return
    raise ExposedError(f"other users may write to {path}")


def _trusted() -> tuple[int, int, int]:
    """Users who may own a folder of the path: this user, root, and the owner of the root folder (in a container)."""
    return os.geteuid(), 0, Path("/").stat().st_uid


def _of_user_alone(group: int) -> bool:
    """Whether a group has no member but the user: on many systems such a group may write to new files by default."""
    import grp
    import pwd

    try:
        found, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return found.gr_name == user.pw_name and found.gr_gid == user.pw_gid and set(found.gr_mem) <= {user.pw_name}

"""What nvcc made, on disk, under a key of all that it is made from.

nvcc lists the files that it read (`-MD`). An entry has their digests, and the names by which files in the program's own
folders might be read instead of them. Programs for which that does not tell everything are compiled each time.

Source: nvcc's documentation, "NVCC Environment Variables" and "Options for Specifying the Compilation Phase"; GCC's,
"Environment Variables Affecting GCC".
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tilewright.ground.native import secure_files, store

#: Variables that nvcc, the host's compiler or the linker read.
_READ = re.compile(
    r"(NVCC|NVVM|CUDA|CICC|PTXAS|GCC|LD)_\w+|\w*_INCLUDE_PATH|CPATH|COMPILER_PATH|LIBRARY_PATH|PATH|SOURCE_DATE_EPOCH"
    r"|DEPENDENCIES_OUTPUT|SUNPRO_DEPENDENCIES|LANG|LC_\w+|POSIXLY_CORRECT"
)
#: Variables that name folders of headers.
_FOLDERS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
#: Options in variables of nvcc that name no file but folders of headers.
_HARMLESS = re.compile(
    r"-[DUIO]\S.*|-[Gg]|-O\d|-std=\S+|-lineinfo|--?(use_fast_math|ftz|prec-div|prec-sqrt|fmad)(=\w+)?"
    r"|--?(expt-\w+-\w+|extended-lambda|maxrregcount=\d+|w|default-stream=[\w-]+)|-(isystem|include-path)=\S+"
)
#: What may make a program depend on more than the texts: files that are not there, and the time.
_ELUSIVE = re.compile(rb"__has_include|__has_embed|#[ \t]*(?:embed\b|include_next)|__DATE__|__TIME(?:STAMP)?__")
#: A path in a rule of make; a backslash keeps the next character.
_PATH = re.compile(r"(?:\\[^\n]|[^\\\s])+")
#: Where only installers write headers.
_SYSTEM = ("/usr/",)
#: The coarsest clock of file systems, in nanoseconds: a file that changed so shortly before may have changed after.
_TICK = 20_000_000


def kept(
    source: Path,
    command: Sequence[str],
    facts: Iterable[str],
    system: Sequence[str],
    make: Callable[[Path], bytes],
    options: Sequence[str] = (),
) -> bytes:
    """The bytes that `make` returns, or that it returned for the same program before.

    `command` names no temporary folder, and `facts` have whatever else the result depends on. `system` are further
    folders that only installers write to. `make` gets the file in which nvcc lists what it read. `options` are those
    words of the command that the user gave.
    """
    folders = _folders(source, options)
    if folders is None:
        return make(Path(os.devnull))
    variables = sorted(f"{name}={value}" for name, value in os.environ.items() if _READ.fullmatch(name))
    parts = [*command, str(len(command)), *facts, str(source.absolute()), str(Path.cwd()), *variables]
    key = store.digest("nvcc", *map(_shown, parts))
    room = store.room(secure_files.PROGRAMS)
    elsewhere = (*_SYSTEM, *system)
    found = store.read(room, key, lambda header: (list(map(str, header["files"])), str(header["state"])))
    if found is not None and _state(found[0][0], folders, elsewhere) == found[0][1]:
        return found[1]
    with secure_files.working_folder() as work:
        listed, start = work / "read", time.time_ns() - _TICK
        made = make(listed)
        files = [os.path.normpath(path) for path in _read(listed)]
    if files and not any(_is_elusive(path) for path in files if not path.startswith(elsewhere)):
        state = _state(files, folders, elsewhere)
        if state and all(_changed(path) < start for path in files):
            store.write(room, key, {"files": files, "state": state}, made)
    return made


def _folders(source: Path, options: Sequence[str]) -> list[str] | None:
    """The folders whose headers may be read in place of others; None if options name other files too."""
    folders = [str(source.absolute().parent)]
    for variable in _FOLDERS:
        folders += [path or "." for path in os.environ[variable].split(":")] if os.environ.get(variable) else []
    flags = [os.environ.get(variable, "") for variable in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")]
    for text in (*flags, shlex.join(options)):
        try:
            words = iter(shlex.split(text))
        except ValueError:
            return None
        for word in words:
            if word in ("-I", "-isystem", "--include-path"):
                folders.append(next(words, "."))
            elif word.startswith("-I"):
                folders.append(word[2:])
            elif word == "-D":
                next(words, None)
            elif not _HARMLESS.fullmatch(word):
                return None
            else:
                folders += [word.partition("=")[2]] if "=" in word and word.startswith("-i") else []
    return folders


def _state(files: Sequence[str], folders: Sequence[str], elsewhere: tuple[str, ...]) -> str:
    """A digest of files, and of the names by which other files could be read; "" if one is missing.

    Those could be in the folders, or beside a file that includes them and is not `elsewhere`.
    """
    parts = []
    beside = sorted({str(Path(path).parent) for path in files if not path.startswith(elsewhere)})
    try:
        for path in files:
            parts.append(hashlib.sha256(Path(path).read_bytes()).hexdigest())
    except OSError:
        return ""
    for folder in dict.fromkeys([*folders, *beside]):
        parts += ["", *sorted(_others(folder, files))]
    return store.digest(*parts)


def _others(folder: str, files: Sequence[str]) -> Iterator[str]:
    """The names in a folder by which an `#include` could mean the last parts of one of the paths."""
    try:
        there = {entry.name for entry in os.scandir(folder or ".")}
    except OSError:
        return
    for path in files:
        parts = path.split("/")
        for count in range(1, len(parts)):
            name = "/".join(parts[-count:])
            if parts[-count] in there and Path(folder, name).is_file():
                yield _shown(name)


def _read(listed: Path) -> list[str]:
    """The files that a rule of make lists; none if there is no rule."""
    try:
        text = os.fsdecode(listed.read_bytes()).replace("\\\n", " ")
    except OSError:
        return []
    return [re.sub(r"\\(.)", r"\1", one).replace("$$", "$") for one in _PATH.findall(text.partition(" : ")[2])]


def _is_elusive(path: str) -> bool:
    try:
        return bool(_ELUSIVE.search(Path(path).read_bytes()))
    except OSError:
        return True


def _changed(path: str) -> int:
    return Path(path).stat().st_ctime_ns


def _shown(text: str) -> str:
    """Text of the system, which may be a path, as text that has an encoding."""
    return os.fsencode(text).decode("latin-1")

"""NVRTC's PTX on disk, under a key of all that a program is made from.

NVRTC lists no header that it reads. So the key has every file that an `#include` of the source, or of such a file,
might mean in any folder that NVRTC searches, on both sides of each condition. CUDA's own folders count as a whole, by
the names, sizes and times of their files: an installer writes them all. Programs for which that does not tell
everything are compiled each time.
"""

from __future__ import annotations

import functools
import os
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.ground.native import secure_files, store

_INCLUDE = re.compile(r'#[ \t\f\v]*include\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)?')
#: What may make PTX depend on more than the texts: other spellings of `#include`, files in other ways, and the time.
_ELUSIVE = re.compile(
    r"__has_include|__has_embed|#[ \t\f\v]*(?:embed\b|include_next|\w*[\\/])|__DATE__|__TIME__|__TIMESTAMP__|%:|\?\?="
)
#: Options that name a folder of headers, and all that name files: programs with others of these are not cached.
_FOLDER = re.compile(r"(?:-I|--include-path=)([^\s=](?:.*\S)?)")
_NAMES_FILES = re.compile(r"^-I|include|pch|optf|options-file|-time|trace")


def kept(
    source: str,
    path: str,
    flags: Sequence[str],
    folders: Sequence[str],
    facts: Sequence[str],
    make: Callable[[], tuple[str, str]],
) -> tuple[str, str]:
    """The PTX and the entry's name that `make` returns, or what it returned for the same program before.

    `flags` are NVRTC's options but for `folders`, which have CUDA's own headers; `facts` are whatever else the result
    depends on.
    """
    texts = _texts(source, path, flags)
    if texts is None:
        return make()
    own = [f"{folder} {contents(folder)}" for folder in folders]
    key = store.digest("nvrtc", *facts, *flags, str(len(flags)), *own, *texts)
    room = store.room(secure_files.RESOURCES)
    found = store.read(room, key, lambda header: str(header["entry"]))
    if found:
        return zlib.decompress(found[1]).decode(), found[0]
    ptx, entry = make()
    if _texts(source, path, flags) != texts:  # NVRTC may have read a header that was written meanwhile
        return ptx, entry
    store.write(room, key, {"entry": entry}, zlib.compress(ptx.encode()))
    return ptx, entry


def _texts(source: str, path: str, flags: Sequence[str]) -> list[str] | None:
    """The source and each header that it may include, with their paths; None if these cannot be known."""
    given = [match[1] for flag in flags if (match := _FOLDER.fullmatch(flag))]
    if sum(bool(_NAMES_FILES.search(flag)) for flag in flags) > len(given):
        return None
    try:
        main = Path(path).absolute()
        headers = _headers(source, (main.parent, Path.cwd(), *map(Path, given)))
    except (OSError, ValueError):  # a name that is too long, or an unreadable header: NVRTC explains it
        return None
    if headers is None:
        return None
    return [source, _name(main), *(part for place in sorted(headers) for part in (_name(place), headers[place]))]


def _name(place: Path) -> str:
    """A path as text that has an encoding, also where the path has none."""
    return os.fsencode(place).decode("latin-1")


def _headers(source: str, folders: Sequence[Path]) -> dict[Path, str] | None:
    """The headers that a source in the first of these folders may include; None if these cannot be known."""
    texts: dict[Path, str] = {}
    ahead = [(folders[0], source)]
    while ahead:
        own, text = ahead.pop()
        if _ELUSIVE.search(text):
            return None
        for match in _INCLUDE.finditer(text):
            name = match[1] or match[2]
            if name is None:
                return None
            for folder in (own, *folders):
                # One path a header, else two that include each other through `..` have ever longer ones.
                found = Path(os.path.realpath((folder / name).parent), Path(name).name)
                if found not in texts and found.is_file():
                    texts[found] = found.read_bytes().decode("latin-1")
                    ahead.append((found.parent, texts[found]))
    return texts


@functools.lru_cache(maxsize=8)
def contents(folder: str) -> str:
    """A digest of the names, sizes and times of a folder's files and of those one folder below."""
    below = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
    files = [entry for each in (folder, *below) for entry in os.scandir(each) if entry.is_file()]
    kept = ((os.path.relpath(file.path, folder), file.stat()) for file in files)
    return store.digest(*sorted(f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in kept))

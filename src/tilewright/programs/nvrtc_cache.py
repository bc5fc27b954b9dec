"""NVRTC's PTX on disk, under a key of all that a program is made from.

NVRTC lists no header that it reads. So the key has every file that an `#include` of the source, or of such a file,
might mean in any folder that NVRTC searches, on both sides of each condition. CUDA's own folders count as a whole, by
the names and sizes of their files. Programs for which that does not tell everything are compiled each time.
"""

from __future__ import annotations

import functools
import os
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.native import store, upkeep

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)?', re.MULTILINE)
#: What may make PTX depend on more than the texts: other spellings of `#include`, files in other ways, and the time.
_ELUSIVE = re.compile(r"__has_include|__has_embed|#[ \t]*embed\b|__DATE__|__TIME__|__TIMESTAMP__|%:|\?\?=|#[ \t]*[\\/]")
#: Options that name a folder of headers, and all that name files: programs with others of these are not cached.
_FOLDER = re.compile(r"(?:-I|--include-path=)(.+)")
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
    own = [f"{folder} {_listing(folder)}" for folder in folders]
    key = store.digest("nvrtc", *facts, *flags, str(len(flags)), *own, *texts)
    room = store.room(upkeep.RESOURCES)
    found = store.read(room, key, lambda header: str(header["entry"]))
    if found:
        return zlib.decompress(found[1]).decode(), found[0]
    ptx, entry = make()
    store.write(room, key, {"entry": entry}, zlib.compress(ptx.encode()))
    return ptx, entry


def _texts(source: str, path: str, flags: Sequence[str]) -> list[str] | None:
    """The source and each header that it may include, with their paths; None if these cannot be known."""
    given = [match[1] for flag in flags if (match := _FOLDER.fullmatch(flag))]
    if sum(bool(_NAMES_FILES.search(flag)) for flag in flags) > len(given):
        return None
    main = Path(path).absolute()
    texts = {main: source}
    ahead = [main]
    while ahead:
        place = ahead.pop()
        if _ELUSIVE.search(texts[place]):
            return None
        for match in _INCLUDE.finditer(texts[place]):
            name = match[1] or match[2]
            if name is None:
                return None
            for folder in (place.parent, main.parent, Path.cwd(), *map(Path, given)):
                found = (folder / name).absolute()
                if found not in texts and found.is_file():
                    texts[found] = found.read_bytes().decode("latin-1")
                    ahead.append(found)
    return [part for place in sorted(texts) for part in (str(place), texts[place])]


@functools.lru_cache(maxsize=8)
def _listing(folder: str) -> str:
    """A digest of the names and sizes of a folder's files and of those one folder below."""
    below = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
    files = [entry for each in (folder, *below) for entry in os.scandir(each) if entry.is_file()]
    return store.digest(*sorted(f"{os.path.relpath(file.path, folder)} {file.stat().st_size}" for file in files))

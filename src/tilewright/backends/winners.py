"""Times of kernels from a tuner, kept on disk: a JSON file for each kind of product, extents and device.

A file holds its key, and the time and extents of each kernel. The folder is part of the disk cache: only files that no
other user can have written are read, writes are atomic, and old files are removed with the rest. A writer locks the
folder, so that concurrent tuners lose no times. A file that fails its check is ignored with one warning. Times change
which of the allowed kernels multiplies, never which ones are allowed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.backends import ranking
from tilewright.errors import DeviceError, warn
from tilewright.machine import Gpu
from tilewright.machine.timing import timing
from tilewright.native import private, upkeep
from tilewright.native.store import digest, fingerprint
from tilewright.problem.kind import Kind
from tilewright.settings import Settings

#: A digest of the sources that a time depends on besides the key.
_SOURCES = ("kernels", "prediction")


Extents = tuple[int, int, int]  #: m, n and k.


class Key(NamedTuple):
    """The key of a file of times."""

    device: str  #: The device's name, and a digest of its record.
    kind: str  #: Dtypes of A, B, C and the sums, and the order of summation.
    extents: Extents  #: m, n and k, each the largest extent of its class.
    version: str  #: The version of the sources that made the times.


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of a kernel."""

    kernel: str  #: The kernel's name in the catalogue; for the CPU, its block sizes.
    seconds: float
    limiter: str  #: The unit that limits the time.
    extents: Extents  #: m, n and k.


def extent_class(extent: int) -> int:
    """The largest extent of the same class; there are four classes for each doubling.

    >>> [extent_class(extent) for extent in (1, 8, 9, 2048, 2049, 4096)]
    [1, 8, 10, 2048, 2560, 4096]
    """
    unit = 1 << max(0, (extent - 1).bit_length() - 3)
    return -(-extent // unit) * unit


def dtypes_of(kind: Kind) -> str:
    """Dtypes and order of a kind, for a key."""
    return " ".join((kind.a, kind.b, kind.out, kind.accumulator, kind.order))


@functools.lru_cache(maxsize=1024)
def key(kind: Kind, m: int, n: int, k: int, gpu: Gpu) -> Key | None:
    """The key of a product on a simulated GPU; None for algebras and epilogues, which tuners do not time."""
    if kind.algebra is not None or kind.finish is not None:
        return None
    device = f"simulated {gpu.name} {digest(repr(gpu), repr(timing(gpu)))[:16]}"
    dtypes = dtypes_of(kind)
    m, n, k = (extent_class(extent) for extent in (m, n, k))
    return Key(device, dtypes, (m, n, k), fingerprint(*_SOURCES)[:16])


def first(found: ranking.Choice, asked: Key | None, m: int, n: int, k: int, gpu: Gpu) -> ranking.Choice:
    """A ranking with the kernels that a tuner timed first, the fastest first, before the others.

    A time for other extents of the class is scaled by the ratio of the estimates.
    """
    times = {} if asked is None else kept(asked, Settings.from_environ().cache_dir)
    timed, others = [], []
    for one, estimate in zip(found.candidates, found.ranking, strict=True):
        if (time := times.get(estimate.name)) is None:
            others.append((one, estimate))
            continue
        scale = ranking.estimate(one, m, n, k, gpu).seconds / ranking.estimate(one, *time.extents, gpu).seconds
        timed.append((one, replace(estimate, seconds=time.seconds * scale, limiter=time.limiter, source="tuned")))
    if not timed:
        return found
    timed.sort(key=lambda each: each[1].seconds)
    candidates, told_of = zip(*timed, *others, strict=True)
    return ranking.Choice(candidates, told_of)


@functools.lru_cache(maxsize=1024)
def kept(asked: Key, root: Path | None) -> Mapping[str, Timed]:
    """The times of a key by kernel name; times that another process adds later are not seen."""
    if root is None:
        return {}
    try:
        return _read(_path(private.folder(root, upkeep.WINNERS, make=False), asked), asked)
    except private.ExposedError as error:
        _warn_of(error)
    except OSError:
        pass  # nothing was kept
    return {}


def _warn_of(error: private.ExposedError) -> None:
    warn(
        f"the times of tuned kernels cannot be read: {error}; remove it, or set TILEWRIGHT_CACHE_DIR to a folder that "
        "nobody else may write"
    )


def keep(asked: Key, found: Timed) -> None:
    """Add a kernel's time to those of a key, or replace it.

    Raises DeviceError: the settings disable the cache; OSError: the file cannot be written; the old one stays.
    """
    folder = room()
    path = _path(folder, asked)
    with _alone(folder):
        times = _read(path, asked) | {found.kernel: found}
        entry = {"key": asked._asdict(), "times": [asdict(one) for one in times.values()]}
        private.write(path, json.dumps(entry, indent=1).encode())
    kept.cache_clear()


def room() -> Path:
    """The folder that times are kept in.

    Raises DeviceError: the settings disable the cache; OSError: the folder cannot be made, or others can write it.
    """
    settings = Settings.from_environ()
    if settings.cache_dir is None or not settings.cache_bytes:
        missing = "there is no home folder" if settings.cache_dir is None else "TILEWRIGHT_CACHE_BYTES is 0"
        raise DeviceError(
            f"a tuner's times must be kept on disk, but the cache is off ({missing}); set "
            f"TILEWRIGHT_CACHE_DIR or "
            "TILEWRIGHT_CACHE_BYTES"
        )
    return private.folder(settings.cache_dir, upkeep.WINNERS)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder against other tuners; the system releases the lock of a killed process."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _path(folder: Path, asked: Key) -> Path:
    return folder / f"{digest(*map(str, asked))}.json"


def _read(path: Path, asked: Key) -> dict[str, Timed]:
    """The times of a file; none, with a warning, if it fails its check."""
    try:
        found = _decoded(json.loads(private.read(path)), asked)
    except FileNotFoundError:
        return {}
    except private.ExposedError as error:
        _warn_of(error)
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        warn(
            f"times of tuned kernels in {path.name} are damaged or have another key; they are ignored until "
            f"`tilewright tune` runs again"
        )
        return {}
    upkeep.note_use(path)
    return found


def _decoded(entry: Any, asked: Key) -> dict[str, Timed]:
    """The times of an entry.

    Raises ValueError, KeyError, TypeError, AttributeError: the entry is damaged, or has another key.
    """
    if entry["key"] != {**asked._asdict(), "extents": list(asked.extents)}:
        raise ValueError("another's")
    found = {}
    for fields in entry["times"]:
        one = Timed(**{**fields, "extents": tuple(fields["extents"])})
        whole = all(type(extent) is int and extent >= 1 for extent in one.extents)
        if not whole or tuple(extent_class(extent) for extent in one.extents) != asked.extents:
            raise ValueError("extents of another class")
        if not isinstance(one.kernel, str) or not isinstance(one.limiter, str):
            raise TypeError("names are text")
        if not isinstance(one.seconds, float) or not 0 < one.seconds < math.inf:
            raise ValueError("no time")
        found[one.kernel] = one
    return found

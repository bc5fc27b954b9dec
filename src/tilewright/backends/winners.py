"""Times of kernels that a tuner found, kept on disk: a JSON file for each kind of product, extents and device.

A file says its own key, and for each kernel how long it took for which extents. It is a room of the cache on disk: only
what the user alone can have written is read, a file is written whole or not at all, and old ones are removed with the
rest. Who adds a time holds a lock on the folder, so that tuners at once lose none of each other's. A file that does not
check is ignored with one warning. Times change which kernel multiplies, never which ones may.
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

#: What a time may depend on beside the key: other sources, other times.
_SOURCES = ("kernels", "prediction")


Extents = tuple[int, int, int]  #: m, n and k.


class Key(NamedTuple):
    """What times are kept for."""

    device: str  #: Its name, and a digest of its record.
    kind: str  #: Dtypes of A, B, C and the sums, and the order of these.
    extents: Extents  #: m, n and k, each the largest of its class.
    version: str  #: Of what made the times.


@dataclass(frozen=True, slots=True)
class Timed:
    """How long a kernel takes."""

    kernel: str  #: Its name in the catalogue; of the CPU, its blocks.
    seconds: float
    limiter: str  #: What the time goes to.
    extents: Extents  #: m, n and k.


def extent_class(extent: int) -> int:
    """The largest extent that has the same class: four classes for each doubling.

    >>> [extent_class(extent) for extent in (1, 8, 9, 2048, 2049, 4096)]
    [1, 8, 10, 2048, 2560, 4096]
    """
    unit = 1 << max(0, (extent - 1).bit_length() - 3)
    return -(-extent // unit) * unit


def dtypes_of(kind: Kind) -> str:
    """Dtypes and order, as a key has them."""
    return " ".join((kind.a, kind.b, kind.out, kind.accumulator, kind.order))


@functools.lru_cache(maxsize=1024)
def key(kind: Kind, m: int, n: int, k: int, gpu: Gpu) -> Key | None:
    """The key of a product on a simulated GPU; None of an algebra and of an epilogue, which no tuner times."""
    if kind.algebra is not None or kind.finish is not None:
        return None
    device = f"simulated {gpu.name} {digest(repr(gpu), repr(timing(gpu)))[:16]}"
    dtypes = dtypes_of(kind)
    m, n, k = (extent_class(extent) for extent in (m, n, k))
    return Key(device, dtypes, (m, n, k), fingerprint(*_SOURCES)[:16])


def first(found: ranking.Choice, asked: Key | None, m: int, n: int, k: int, gpu: Gpu) -> ranking.Choice:
    """A ranking with the kernels that a tuner timed before the others, the quickest first.

    A time for other extents of the class is scaled as the estimates of both are.
    """
    times = {} if asked is None else kept(asked, Settings.from_environ().cache_dir)
    timed, others = [], []
    for one, told in zip(found.candidates, found.ranking, strict=True):
        if (time := times.get(told.name)) is None:
            others.append((one, told))
            continue
        scale = ranking.estimate(one, m, n, k, gpu).seconds / ranking.estimate(one, *time.extents, gpu).seconds
        timed.append((one, replace(told, seconds=time.seconds * scale, limiter=time.limiter, source="tuned")))
    if not timed:
        return found
    timed.sort(key=lambda each: each[1].seconds)
    candidates, told_of = zip(*timed, *others, strict=True)
    return ranking.Choice(candidates, told_of)


@functools.lru_cache(maxsize=1024)
def kept(asked: Key, root: Path | None) -> Mapping[str, Timed]:
    """The times of a key by their kernels' names; what another process adds later is not seen."""
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
        f"kernels that were tuned are not known: {error}; remove it, or set TILEWRIGHT_CACHE_DIR to a folder that "
        "nobody else may write"
    )


def keep(asked: Key, found: Timed) -> None:
    """Add a kernel's time to those of a key, or replace it.

    Raises DeviceError: settings let nothing be kept; OSError: it cannot be written, and what was kept before stays.
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

    Raises DeviceError: settings let nothing be kept; OSError: the folder cannot be made, or is not the user's alone.
    """
    settings = Settings.from_environ()
    if settings.cache_dir is None or not settings.cache_bytes:
        missing = "there is no home folder" if settings.cache_dir is None else "TILEWRIGHT_CACHE_BYTES is 0"
        raise DeviceError(
            f"what a tuner finds must be kept on disk, and nothing is ({missing}); set TILEWRIGHT_CACHE_DIR or "
            "TILEWRIGHT_CACHE_BYTES"
        )
    return private.folder(settings.cache_dir, upkeep.WINNERS)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other tuner writes; the system ends the lock of one that was killed."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _path(folder: Path, asked: Key) -> Path:
    return folder / f"{digest(*map(str, asked))}.json"


def _read(path: Path, asked: Key) -> dict[str, Timed]:
    """The times of a file; none, with a warning, where it does not check."""
    try:
        found = _decoded(json.loads(private.read(path)), asked)
    except FileNotFoundError:
        return {}
    except private.ExposedError as error:
        _warn_of(error)
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        warn(
            f"tuned kernels in {path.name} are damaged or foreign; they are ignored until `tilewright tune` runs again"
        )
        return {}
    upkeep.note_use(path)
    return found


def _decoded(entry: Any, asked: Key) -> dict[str, Timed]:
    """The times of an entry.

    Raises ValueError, KeyError, TypeError, AttributeError: it is not one of this key.
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

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tilewright.errors import DeviceError, warn
from tilewright.ground.native import eviction, secure_files
from tilewright.ground.native.store import digest, fingerprint
from tilewright.ground.settings import Settings
from tilewright.multiply.backends import estimates, ranking
from tilewright.multiply.backends.ranked import Ranked
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind
from tilewright.simulate.machine import Gpu
from tilewright.simulate.machine.timing import timing

#: Rooms whose sources the times of GPUs depend on.
_SOURCES = ("multiply/kernels", "observe/prediction")
#: Most bytes of a file; one time has about 200.
_MOST = 1 << 20
_T = TypeVar("_T")


Extents = tuple[int, int, int]  #: m, n and k.


class Key(NamedTuple):
    """The key of a file of times."""

    device: str  #: The device's name, with a digest of its record or its driver's version.
    kind: str  #: Dtypes of A, B, C and the sums, the order of summation, and the algebra.
    extents: Extents  #: m, n and k, each the largest extent of its class.
    version: str  #: The version of the sources that made the times.


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of a kernel."""

    kernel: str  #: The kernel's name in the catalogue; its tile for OpenCL, its block sizes for the CPU.
    seconds: float
    limiter: str  #: The unit that limits the time.
    extents: Extents  #: m, n and k.
    spread: float = 0.0  #: Distance of the quartiles, relative to the time; 0 for a prediction.


def extent_class(extent: int) -> int:
    """The largest extent of the same class; there are four classes for each doubling.

    >>> [extent_class(extent) for extent in (1, 8, 9, 2048, 2049, 4096)]
    [1, 8, 10, 2048, 2560, 4096]
    """
    unit = 1 << max(0, (extent - 1).bit_length() - 3)
    return -(-extent // unit) * unit


def kind_key(kind: Kind) -> str:
    """Dtypes, order and algebra of a kind, for a key.

    An epilogue is left out: it runs once for each element of C, not at each step of k, so its product has the times of
    the product without it, if both have sums of the same dtype. An algebra changes each step, so it has its own key.
    """
    out = kind.out if kind.finish is None or kind.a != kind.b else element(kind.a).product
    steps = () if kind.algebra is None else (f"algebra {digest(repr(kind.algebra))[:16]}",)
    return " ".join((kind.a, kind.b, out, kind.accumulator, kind.order, *steps))


@functools.lru_cache(maxsize=1024)
def key(device: str, kind: Kind, m: int, n: int, k: int, *rooms: str) -> Key:
    """The key of a product on a device; `rooms` have the sources that its times depend on."""
    m, n, k = (extent_class(extent) for extent in (m, n, k))
    return Key(device, kind_key(kind), (m, n, k), fingerprint(*(rooms or _SOURCES))[:16])


@functools.lru_cache(maxsize=64)
def simulated(gpu: Gpu) -> str:
    """A simulated GPU, for a key."""
    return f"simulated {gpu.name} {digest(repr(gpu), repr(timing(gpu)))[:16]}"


def first(
    found: Sequence[tuple[_T, Ranked]], asked: Key, scale: Callable[[_T, Extents], float], shared: bool = False
) -> tuple[tuple[_T, Ranked], ...]:
    """A ranking with the choices that a tuner timed first, the fastest first, before the others.

    A time for other extents of the class is multiplied by `scale(choice, its extents)`. `shared` says that the times
    are those of another kind of product, some of whose choices are not here: they count only if the first by estimate
    has one.
    """
    times = kept(asked, Settings.from_environ().cache_dir)
    if not times or (shared and found[0][1].name not in times):
        return tuple(found)
    timed, others = [], []
    for one, estimate in found:
        if (time := times.get(estimate.name)) is None:
            others.append((one, estimate))
            continue
        seconds = time.seconds * scale(one, time.extents)
        timed.append((one, replace(estimate, seconds=seconds, limiter=time.limiter, source="tuned")))
    return (*sorted(timed, key=lambda each: each[1].seconds), *others)


def first_of_gpu(
    found: ranking.Choice, device: str, kind: Kind, m: int, n: int, k: int, gpu: Gpu, batch: int = 1
) -> ranking.Choice:
    """The kernels of a GPU with those that a tuner timed first, by :func:`first`; a batch is not timed."""
    if batch > 1:
        return found

    def scale(one: estimates.Candidate, extents: Extents) -> float:
        return estimates.estimate(one, m, n, k, gpu).seconds / estimates.estimate(one, *extents, gpu).seconds

    pairs = list(zip(found.candidates, found.ranking, strict=True))
    candidates, told_of = zip(
        *first(pairs, key(device, kind, m, n, k), scale, shared=kind.finish is not None), strict=True
    )
    return ranking.Choice(candidates, told_of)


@functools.lru_cache(maxsize=1024)
def kept(asked: Key, root: Path | None) -> Mapping[str, Timed]:
    """The times of a key by kernel name; times that another process adds later are not seen."""
    if root is None:
        return {}
    try:
        return _read(_path(secure_files.folder(root, secure_files.WINNERS, make=False), asked), asked)
    except secure_files.ExposedError as error:
        _warn_of(error)
    except OSError:
        pass  # nothing was kept
    return {}


def _warn_of(error: secure_files.ExposedError) -> None:
    warn(
        f"the times of tuned kernels cannot be read: {error}; remove it, or set TILEWRIGHT_CACHE_DIR to a folder that "
        "nobody else may write"
    )


def keep(asked: Key, found: Timed) -> None:
    """Add a kernel's time to those of a key, or replace it.

    Raises DeviceError: as :func:`room`; OSError: the file cannot be written; the old one stays.
    """
    folder = room()
    path = _path(folder, asked)
    with _alone(folder):
        times = _read(path, asked) | {found.kernel: found}
        entry = {"key": asked._asdict(), "times": [asdict(one) for one in times.values()]}
        secure_files.write(path, json.dumps(entry, indent=1).encode())
    kept.cache_clear()


def room() -> Path:
    """The folder that times are kept in.

    Raises DeviceError: the settings disable the cache, the folder cannot be made, or others can write it.
    """
    settings = Settings.from_environ()
    if settings.cache_dir is None or not settings.cache_bytes:
        missing = "there is no home folder" if settings.cache_dir is None else "TILEWRIGHT_CACHE_BYTES is 0"
        raise DeviceError(
            f"a tuner's times must be kept on disk, but the cache is off ({missing}); set TILEWRIGHT_CACHE_DIR or "
            "TILEWRIGHT_CACHE_BYTES"
        )
    try:
        return secure_files.folder(settings.cache_dir, secure_files.WINNERS)
    except OSError as error:
        raise DeviceError(
            f"a tuner's times must be kept on disk, but the cache {settings.cache_dir} cannot be used "
            f"({error.strerror or error}); set TILEWRIGHT_CACHE_DIR to a folder that only you can write"
        ) from error


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
        found = _decoded(json.loads(secure_files.read(path, _MOST)), asked)
    except FileNotFoundError:
        return {}
    except secure_files.ExposedError as error:
        _warn_of(error)
        return {}
    except (ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        warn(
            f"times of tuned kernels in {path.name} are damaged or have another key; they are ignored until "
            f"`tilewright tune` runs again"
        )
        return {}
    eviction.note_use(path)
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
        if not isinstance(one.seconds, float) or not 0 < one.seconds < math.inf or not 0 <= one.spread < math.inf:
            raise ValueError("no time")
        found[one.kernel] = one
    return found

"""Sweeps in files: JSON lines, a header and then a line for each rate, written when it is known.

The file of a stopped sweep is a prefix of the complete one, so the sweep can resume at its end. `docs/design/rates.md`
describes the format.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO, Any

from tilewright.errors import ArgumentValueError, MissingFileError, TilewrightWarning
from tilewright.show.rates.record import CACHES, KINDS, MOST_TEXT, Point, Rate, Sweep

FORMAT, VERSION = "tilewright-rates", 1
#: Conditions that must be the same for all rates of a file.
SAME = ("processor", "cores", "threads", "python", "versions")

#: Limits of numbers and times: beyond them rates and charts would overflow.
_MOST, _SECONDS = 2**63 - 1, (1e-15, 1e60)
_TIMES = ("seconds", "least_seconds", "most_seconds")


def read(path: Path) -> Sweep:
    """Read a sweep, complete or stopped.

    Raises ArgumentValueError: there is no such file, or it has another format; the message names the line.
    """
    text, _ = _text(path)
    return _parsed(path, text)


class Kept:
    """A file to which rates are added: a new one, or one of the same plan."""

    def __init__(self, path: Path, file: IO[bytes], sweep: Sweep) -> None:
        self.path = path
        self.sweep = sweep  #: Its rates when it was opened.
        self._file = file

    def add(self, rates: Sequence[Rate]) -> None:
        """Write a group of rates in one piece."""
        self._file.write(b"".join(_line(document(rate)) for rate in rates))
        self._file.flush()
        os.fsync(self._file.fileno())


@contextlib.contextmanager
def kept(
    path: Path, plan: Mapping[str, Any], conditions: Mapping[str, Any], whole: Callable[[Sequence[Rate]], int] = len
) -> Iterator[Kept]:
    """The file of a plan, open for its rates.

    `path`: a new file, or one with the same plan and conditions (`SAME`), which is continued. `plan`, `conditions`: the
    fields of :class:`Sweep`. `whole`: function of the file's rates: how many of them to keep. Later ones are removed,
    since their group is incomplete.

    Raises ArgumentValueError: the file has another format, plan or conditions, or another process writes it.
    """
    try:
        _require_file(path)
        with path.open("a+b") as file:
            _lock(path, file)
            if not path.stat().st_size:
                file.write(_line({"format": FORMAT, "version": VERSION, "plan": plan, "conditions": conditions}))
                file.flush()
            text, size = _text(path)
            sweep = _parsed(path, text)
            _refuse_another(path, sweep, plan, conditions)
            rates = sweep.rates[: whole(sweep.rates)]
            lines = text.split("\n")[: 1 + len(rates)]
            if (length := sum(len(line.encode()) + 1 for line in lines)) < size:
                file.truncate(length)
            yield Kept(path, file, Sweep(sweep.plan, sweep.conditions, rates))
    except OSError as error:
        raise ArgumentValueError(
            f"{path}: rates must go to a file that can be written (got: {error.strerror})"
        ) from None


def document(rate: Rate) -> dict[str, Any]:
    """A rate as a line of the file; times of a failed one are null."""
    values = asdict(rate)
    if rate.failed:
        values |= dict.fromkeys(_TIMES)
    return {**values.pop("point"), "operations": rate.point.operations, **values}


def _line(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _lock(path: Path, file: IO[bytes]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ArgumentValueError(
            f"{path}: rates must go to a file that nobody else writes (got one that another `tilewright bench` has "
            f"open); name another, or wait for its end"
        ) from None


def _text(path: Path) -> tuple[str, int]:
    """The file's complete lines, and their bytes; an incomplete last line is dropped."""
    try:
        _require_file(path)
        data = path.read_bytes()
        text = data.decode()
    except UnicodeDecodeError:
        raise _foreign(path, 1, "bytes that are no text") from None
    except FileNotFoundError:
        raise MissingFileError.of(path) from None
    except OSError as error:
        raise ArgumentValueError(
            f"{path}: must be a file of rates (got: {error.strerror}); make one with `tilewright bench --output`"
        ) from None
    whole, _, torn = text.rpartition("\n")
    if torn and whole:
        warnings.warn(f"{path}: the last line is not whole, and is left out", TilewrightWarning, stacklevel=2)
    return (whole + "\n" if whole else text), len(data)


def _require_file(path: Path) -> None:
    """Raise ArgumentValueError unless it is a file: reading a pipe would block."""
    if path.exists() and not path.is_file():
        raise ArgumentValueError(f"{path}: must be a file of rates (got a folder, device or pipe); name a file")


def _foreign(path: Path, number: int, got: str) -> ArgumentValueError:
    return ArgumentValueError(
        f"{path}:{number}: must be a line of a file by `tilewright bench --output` (got {got}); name another file"
    )


def _parsed(path: Path, text: str) -> Sweep:
    lines = text.removesuffix("\n").split("\n")
    header = _object(path, 1, lines[0])
    if header.get("format") != FORMAT:
        raise _foreign(path, 1, "no header of one")
    if header.get("version") != VERSION:
        raise ArgumentValueError(
            f"{path}: this Tilewright reads version {VERSION} of the format (got {header.get('version')!r}); read it "
            f"with the one that wrote it"
        )
    plan, conditions = header.get("plan"), header.get("conditions")
    if not isinstance(plan, dict) or not isinstance(conditions, dict):
        raise _foreign(path, 1, "a header without plan and conditions")
    for name, fits in _CONDITIONS.items():
        if name in conditions and not fits(conditions[name]):
            raise _foreign(path, 1, f"a wrong {name!r}: {conditions[name]!r:.60}")
    rates = tuple(_rate(path, number, _object(path, number, line)) for number, line in enumerate(lines[1:], 2))
    return Sweep(plan, conditions, rates)


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise _foreign(path, number, "no JSON object")
    return values


def _rate(path: Path, number: int, values: Mapping[str, Any]) -> Rate:
    """The rate of a line, whose fields are all present and valid."""
    given = {"failed": "", **values}
    given.pop("operations", None)
    wanted = {**_FITS, **_FAILED} if given["failed"] else _FITS
    wrong = [name for name, fits in wanted.items() if name not in given or not fits(given[name])]
    wrong += [name for name in given if name not in _FITS]
    if wrong:
        raise _foreign(path, number, f"a wrong {wrong[0]!r}: {given.get(wrong[0], 'nothing')!r:.60}")
    point = Point(**{field.name: given.pop(field.name) for field in fields(Point)})
    samples, flags = tuple(given.pop("samples")), tuple(given.pop("flags"))
    if given["failed"]:
        return Rate(point, samples=samples, flags=flags, **{**given, **dict.fromkeys(_TIMES, math.nan)})
    if bool(samples) != (given["kind"] == "measured"):
        raise _foreign(path, number, f"{len(samples)} samples of what is {given['kind']}")
    if not given["least_seconds"] <= given["seconds"] <= given["most_seconds"]:
        raise _foreign(path, number, "seconds that are not between the least and the most")
    return Rate(point, samples=samples, flags=flags, **given)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _is_extent(value: object) -> bool:
    return type(value) is int and 1 <= value <= _MOST


def _is_number(value: object) -> bool:
    return isinstance(value, float | int) and 0 <= value <= _MOST


def _is_time(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and _SECONDS[0] <= value <= _SECONDS[1]


def _is_text(value: object) -> bool:
    """Whether it is one line of printable text."""
    return isinstance(value, str) and value.isprintable() and len(value) <= MOST_TEXT


def _are_versions(value: object) -> bool:
    return isinstance(value, dict) and all(_is_text(text) for one in value.items() for text in one)


def _all(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


#: Name of a field -> a test of its value.
_FITS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("contender", "device", "dtype", "verified", "limiter", "failed"), _is_text),
    **dict.fromkeys(("m", "n", "k"), _is_extent),
    **dict.fromkeys(("block", "results", "mhz"), _is_count),
    **dict.fromkeys(_TIMES, _is_time),
    "caches": lambda value: value in CACHES,
    "kind": lambda value: value in KINDS,
    "samples": _all(_is_time),
    "flags": _all(_is_text),
    "stolen": lambda value: isinstance(value, float | int) and 0 <= value <= 1,
}
#: The same for a failed rate.
_FAILED: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(_TIMES, lambda value: value is None),
    "samples": lambda value: value == [],
}
#: The same for the header's conditions, if present.
_CONDITIONS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("date", "processor", "python"), _is_text),
    **dict.fromkeys(("cores", "threads", "mhz"), _is_count),
    "load": _is_number,
    "versions": _are_versions,
}


def _refuse_another(path: Path, sweep: Sweep, plan: Mapping[str, Any], conditions: Mapping[str, Any]) -> None:
    """Raise ArgumentValueError if the file has another plan, or is from another machine."""
    for what, old, new in (
        ("plan", sweep.plan, plan),
        ("host", _only(sweep.conditions, SAME), _only(conditions, SAME)),
    ):
        differs = list(_differing(old, json.loads(json.dumps(new))))
        if differs:
            raise ArgumentValueError(
                f"{path}: must be a new file, or one of the same {what} ({'; '.join(differs)}); name another `output`, "
                f"or go on as it began"
            )


def _only(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name)} there, {new.get(name)} now"

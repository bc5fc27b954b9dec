"""Records of GPUs by name, and as JSON files, which users write."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewright.errors import ArgumentValueError, MissingFileError, near
from tilewright.ground.lazy_exports import public
from tilewright.ground.settings import gpu_name
from tilewright.simulate.machine.gpu import Gpu, gpus, launch_limits, named

#: The suffix by which a file is distinguished from the name of a GPU.
SUFFIX = ".json"
#: Fields that are not in a file: the key, and the limits that all GPUs share.
_FIXED = ("key", "launch")
#: The field with the name of a similar GPU, whose record gives all missing fields.
_LIKE = "like"
#: The largest number of a field, far from what would not fit a C integer or a product of two floats.
_MOST = 10**15
_COUNTS, _RATES = ("int", "int | None"), ("float", "float | None")


@public
def gpu(name: str) -> Gpu:
    """The record of a GPU.

    Parameters
    ----------
    name : str
        A key such as "h100" or "rtx4090", or the product's full name; case, spaces and hyphens do not matter. Or a file
        with a user's record, `NAME.json`.

    Raises
    ------
    ArgumentValueError
        There is no such record; the message names similar ones.

    Examples
    --------
    >>> gpu("RTX 4090").multiprocessors
    128
    """
    return read(Path(name)) if name.endswith(SUFFIX) else named(name)


def chosen(name: str | None = None) -> Gpu:
    """The record of a GPU; without a name that of `TILEWRIGHT_GPU`, by default the H100."""
    return gpu(name or gpu_name())


def document(record: Gpu) -> dict[str, Any]:
    """A record's data, as in a file.

    >>> document(gpu("t4"))["compute_capability"]
    '7.5'
    """
    found = {one.name: getattr(record, one.name) for one in fields(Gpu) if one.name not in _FIXED}
    found["compute_capability"] = ".".join(map(str, record.compute_capability))
    return found | {"tensor_per_clock": dict(record.tensor_per_clock), "shared_steps_kib": [*record.shared_steps_kib]}


def read(path: Path) -> Gpu:
    """The record in a file, whose key is the file's whole path.

    Raises ArgumentValueError: the file cannot be read, or is not a record; the message names the field.
    """
    try:
        return _read(path.resolve(), path.stat().st_mtime_ns)
    except ArgumentValueError:
        raise
    except FileNotFoundError:
        raise MissingFileError.of(path) from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise ArgumentValueError(f"{path} must be a file that can be read ({said}); mend its name") from None


@functools.lru_cache(maxsize=64)
def _read(path: Path, _changed: int) -> Gpu:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ArgumentValueError(f"{path} must be JSON ({error}); `tilewright gpus a100 --json` prints one") from None
    if not isinstance(data, dict):
        raise ArgumentValueError(
            f"{path} must have one record, an object (got {type(data).__name__}); see `tilewright gpus a100 --json`"
        )
    if isinstance(data.get("gpus"), list) and len(data["gpus"]) == 1 and isinstance(data["gpus"][0], dict):
        data = data["gpus"][0]  # as `tilewright gpus a100 --json` prints it
    data.pop("key", None)
    like = data.pop(_LIKE, None)
    if like is not None and (not isinstance(like, str) or like.endswith(SUFFIX)):
        raise ArgumentValueError(f"{path}: {_LIKE!r} must name a GPU of `tilewright gpus` (got {like!r})")
    try:
        whole = (document(gpu(like)) if like is not None else {}) | data
    except ArgumentValueError as error:
        raise ArgumentValueError(f"{path}: {_LIKE!r}: {error}") from None
    _refuse_names(path, whole)
    values = {one.name: _value(path, one.name, str(one.type), whole[one.name]) for one in _asked(whole)}
    return Gpu(key=str(path), launch=launch_limits(), **values)


def _asked(given: Mapping[str, Any]) -> Iterator[Any]:
    return (one for one in fields(Gpu) if one.name in given)


def _refuse_names(path: Path, given: Mapping[str, Any]) -> None:
    known = {one.name for one in fields(Gpu)} - set(_FIXED)
    optional = {one.name for one in fields(Gpu) if "None" in str(one.type)} | {"tensor_float32_share"}
    for name in given:
        if name not in known:
            meant = near(name, known, "leave it out")
            raise ArgumentValueError(f"{path}: a record has no field {name!r}; {meant}")
    missing = sorted(known - optional - set(given))
    if missing:
        raise ArgumentValueError(
            f"{path} must state every field (without {', '.join(missing)}); add them, or {_LIKE!r} with the GPU that "
            'it is like, such as {"like": "h100", "name": "mine", "multiprocessors": 114}'
        )


def _value(path: Path, name: str, kind: str, value: Any) -> Any:
    """A field's value, converted to the record's type."""

    def wrong(rule: str) -> ArgumentValueError:
        return ArgumentValueError(f"{path}: {name!r} must be {rule} (got {value!r:.200})")

    if value is None and "None" in kind:
        return None
    if name == "compute_capability":
        known = {".".join(map(str, one.compute_capability)): one.compute_capability for one in gpus().values()}
        if not isinstance(value, str) or value not in known:
            raise wrong(f"one of {', '.join(map(repr, known))}, as text")
        return known[value]
    if kind == "str":
        if not isinstance(value, str) or not value or not value.isprintable():
            raise wrong("printable text")
        return value
    if kind in _COUNTS:
        if not _is_count(value) or (value == 0 and name != "shared_reserved_bytes"):
            raise wrong("a whole number from 1 to 1e15")
        return value
    if kind in _RATES:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST:
            raise wrong("a number above 0, at most 1e15")
        return value
    if name == "shared_steps_kib":
        if not isinstance(value, list) or not value or not all(map(_is_count, value)) or value != sorted(value):
            raise wrong("a list of whole numbers, the least first")
        return tuple(value)
    if not isinstance(value, dict) or not all(isinstance(x, str) and _is_count(y) for x, y in value.items()):
        raise wrong("an object of formats and their multiply-adds a clock")
    return MappingProxyType(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST

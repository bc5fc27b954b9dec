"""A project's settings for all its runs: the table `[tool.tilewright]` of its `pyproject.toml`.

```toml
[tool.tilewright]
gpu = "a100"
limit = 60
ignore = ["TW601"]
strict = true
fail-on = "error"
format = ["text", "sarif=findings.sarif"]
```

An option of the command line overrides the environment, and that overrides the file.

Source: PyPA specifications, "pyproject.toml", the `[tool]` table.
"""

from __future__ import annotations

import os
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tilewright.errors import ArgumentValueError, TilewrightWarning

FILE, TABLE = "pyproject.toml", "[tool.tilewright]"
#: The least severity that makes a finding a failure.
FailOn = Literal["error", "warning", "never"]
FAIL_ON: tuple[FailOn, ...] = get_args(FailOn)
#: The severities that fail under each.
FAILURES: dict[FailOn, tuple[str, ...]] = {"error": ("error",), "warning": ("error", "warning"), "never": ()}


@dataclass(frozen=True, slots=True)
class Project:
    """The table's values; None or empty for keys that it does not have."""

    gpu: str | None = None  #: The GPU whose limits apply.
    seed: int | None = None  #: Seed of the order of blocks and warps.
    limit: float | None = None  #: Seconds after which a launch is stopped.
    ignore: tuple[str, ...] = ()  #: Codes of findings to leave out.
    strict: bool = False  #: Whether races that are right on today's GPUs, or meant, are findings too.
    schedules: int | None = None  #: More orders in which a launch runs, if its findings can depend on the order.
    fail_on: FailOn | None = None  #: The least severity that makes a finding a failure.
    format: tuple[str, ...] = ()  #: Formats of the report, as `--format` takes them.
    file: Path | None = None  #: The file they come from.


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_texts(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, list) and all(map(_is_text, value)))


#: Key -> a test of its value, and the rule in words.
_KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "gpu": (_is_text, 'the name of a GPU, such as "a100"'),
    "seed": (lambda value: type(value) is int and value >= 0, "a whole number of at least 0"),
    "limit": (lambda value: type(value) in (int, float) and value > 0, "seconds, more than 0"),
    "ignore": (_is_texts, 'a list of codes, such as ["TW601"]'),
    "strict": (lambda value: type(value) is bool, "true or false"),
    "schedules": (lambda value: type(value) is int and value >= 0, "a whole number of at least 0"),
    "fail-on": (lambda value: value in FAIL_ON, f"one of {', '.join(FAIL_ON)}"),
    "format": (_is_texts, 'a form of the report, or a list, such as ["text", "sarif=findings.sarif"]'),
}


def of(*folders: Path) -> Project:
    r"""The nearest table in a folder or the folders above it; an empty one where there is none.

    Raises ArgumentValueError: the file is not TOML, or the table has an unknown key or a wrong value.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "pyproject.toml").write_text('[tool.tilewright]\ngpu = "a100"\nfail-on = "error"')
    >>> of(folder).gpu, of(folder).fail_on, of(folder).limit
    ('a100', 'error', None)
    """
    for folder in folders:
        trusted = {0, os.geteuid(), _owner(folder)}  # a checkout often belongs to another user than a container's
        for at in (folder.absolute(), *folder.absolute().parents):
            table = _table(at / FILE)
            if table is not None and _owner(at / FILE) not in trusted:
                warnings.warn(
                    f"{at / FILE} is not read: it belongs to another user, of number {_owner(at / FILE)}, who does not "
                    f"own {folder} either",
                    TilewrightWarning,
                    stacklevel=2,
                )
            elif table is not None:
                return _checked(table, at / FILE)
    return Project()


def _owner(path: Path) -> int | None:
    """The number of the user who owns a path; None if there is no such path."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _table(file: Path) -> dict[str, Any] | None:
    """The table of a file; None if the file cannot be read or has no such table."""
    try:
        text = file.read_bytes()
    except OSError:
        return None
    try:
        tool = tomllib.loads(text.decode()).get("tool", {})
    except (ValueError, RecursionError) as error:
        raise ArgumentValueError(f"{file}: must be TOML in UTF-8 (got: {error}); mend it, or take it away") from error
    table = tool.get("tilewright") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise ArgumentValueError(f"{file}: {TABLE} must be a table (got {table!r}); write its keys below {TABLE}")
    return table


def _checked(table: dict[str, Any], file: Path) -> Project:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise ArgumentValueError(f"{file}: {TABLE} must have known keys (got {key!r}); they are {', '.join(_KEYS)}")
        right, rule = _KEYS[key]
        if not right(value):
            raise ArgumentValueError(f"{file}: {TABLE} {key} must be {rule} (got {value!r})")
        many = key in ("ignore", "format")
        values[key.replace("-", "_")] = ((value,) if isinstance(value, str) else tuple(value)) if many else value
    return Project(**values, file=file)

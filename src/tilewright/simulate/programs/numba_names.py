"""Replaces names of numba-cuda for a time, and lists the replacements that every compilation needs.

A row has a module of numba-cuda, a name in it (dotted for an attribute of a class), and the replacement.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.simulate.programs.numba_lines import def_location, set_module_flags

Row = tuple[str, str, Any]

#: numba-cuda's module that calls the driver.
DRIVER = "numba.cuda.cudadrv.driver"

#: Marks an attribute that a class inherits and does not define.
_INHERITED = object()
#: The functions with which numba-cuda reads new registrations.
_REFRESHING = (("numba.cuda.core.base", "BaseContext.refresh"), ("numba.cuda.typing.context", "BaseContext.refresh"))


def compiler_rows() -> Sequence[Row]:
    """The replacements for every compilation."""
    return (
        ("numba.cuda.lowering", "BaseLower._compute_def_location", def_location()),
        ("numba.cuda.debuginfo", "DIBuilder._set_module_flags", set_module_flags),
        *((module, name, _whole(module, name)) for module, name in _REFRESHING),
    )


def _whole(module: str, name: str) -> Callable[[Any], None]:
    """Delay Ctrl-C until a context is up to date.

    Registries are read by generators that resume where they stopped. An interrupted generator is finished for good, and
    no kernel would compile in this process any more.
    """
    owner, last = owner_of(module, name)
    original = vars(owner)[last]

    @functools.wraps(original)
    def refresh(context: Any) -> None:
        with DeferredSigint():
            original(context)

    return refresh


def owner_of(module: str, name: str) -> tuple[Any, str]:
    """The module or class that contains a row's name, and the last part of the name.

    Raises AttributeError: this numba-cuda has no such name.
    """
    owner: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    getattr(owner, last)
    return owner, last


@contextmanager
def replaced(rows: Iterable[Row]) -> Iterator[None]:
    """Replace the names of rows in the body of `with`."""
    before: list[tuple[Any, str, Any]] = []
    try:
        with DeferredSigint():
            put(rows, before)
        yield
    finally:
        with DeferredSigint():
            put_back(before)


def put(rows: Iterable[Row], before: list[tuple[Any, str, Any]]) -> None:
    """Replace the names of rows; append the old values to `before`."""
    for module, name, replacement in rows:
        owner, last = owner_of(module, name)
        before.append((owner, last, vars(owner).get(last, _INHERITED)))
        setattr(owner, last, replacement)


def put_back(before: list[tuple[Any, str, Any]]) -> None:
    """Undo `put` in reverse order, because a name may be replaced twice."""
    while before:
        owner, last, original = before.pop()
        if original is _INHERITED:
            delattr(owner, last)
        else:
            setattr(owner, last, original)

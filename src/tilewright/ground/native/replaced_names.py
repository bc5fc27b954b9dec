"""Replaces names in other packages for a time.

A row has a module, a name in it (dotted for an attribute of a class), and the replacement.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.ground.native.interrupts import DeferredSigint

Row = tuple[str, str, Any]

#: Marks an attribute that a class inherits and does not define.
_INHERITED = object()


def owner_of(module: str, name: str) -> tuple[Any, str]:
    """The module or class that contains a row's name, and the last part of the name.

    Raises AttributeError: the installed release of the package has no such name.
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

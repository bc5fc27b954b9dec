"""Names of numba-cuda that others stand for: how they are replaced for a while, and those that every compilation needs.

A row has a module of numba-cuda, a name in it (with dots for a name in a class), and what replaces it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.native.interrupts import HeldBack
from tilewright.programs.numba_lines import def_location, set_module_flags

Row = tuple[str, str, Any]

#: Stands for what a class has from its base, and not of its own.
_INHERITED = object()
#: Where numba-cuda takes up what was registered since it last looked.
_REFRESHING = (("numba.cuda.core.base", "BaseContext.refresh"), ("numba.cuda.typing.context", "BaseContext.refresh"))


def compiler_rows() -> Sequence[Row]:
    """What every compilation replaces."""
    return (
        ("numba.cuda.lowering", "BaseLower._compute_def_location", def_location()),
        ("numba.cuda.debuginfo", "DIBuilder._set_module_flags", set_module_flags),
        *((module, name, _whole(module, name)) for module, name in _REFRESHING),
    )


def _whole(module: str, name: str) -> Callable[[Any], None]:
    """Let Ctrl-C wait until a context is up to date.

    Registries are read by generators that go on where they stopped. One that an interrupt ends is at its end for good:
    no kernel would compile in this process any more.
    """
    owner, last = owner_of(module, name)
    original = vars(owner)[last]

    @functools.wraps(original)
    def refresh(context: Any) -> None:
        with HeldBack():
            original(context)

    return refresh


def owner_of(module: str, name: str) -> tuple[Any, str]:
    """The module or class that a row's name is in, and the name's last part.

    Raises AttributeError: numba-cuda has no such name any more.
    """
    owner: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    getattr(owner, last)
    return owner, last


@contextmanager
def replaced(rows: Iterable[Row]) -> Iterator[None]:
    """Replace what rows name meanwhile."""
    before: list[tuple[Any, str, Any]] = []
    try:
        with HeldBack():
            put(rows, before)
        yield
    finally:
        with HeldBack():
            put_back(before)


def put(rows: Iterable[Row], before: list[tuple[Any, str, Any]]) -> None:
    """Replace what rows name; `before` gets what was there."""
    for module, name, replacement in rows:
        owner, last = owner_of(module, name)
        before.append((owner, last, vars(owner).get(last, _INHERITED)))
        setattr(owner, last, replacement)


def put_back(before: list[tuple[Any, str, Any]]) -> None:
    """Undo `put`, the latest first, as one name may be replaced twice."""
    while before:
        owner, last, original = before.pop()
        if original is _INHERITED:
            delattr(owner, last)
        else:
            setattr(owner, last, original)

"""Settings for the body of a `with`, of which the innermost counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Nested(Generic[_T]):
    """Values of nested `with` blocks.

    >>> units = Nested[str]()
    >>> with units.within("ms"):
    ...     with units.within("us"):
    ...         units.innermost
    'us'
    >>> units.innermost is None
    True
    """

    def __init__(self) -> None:
        self._held: list[_T] = []

    @contextmanager
    def within(self, value: _T) -> Iterator[None]:
        """Let a value count in the body of `with`."""
        self._held.append(value)
        try:
            yield
        finally:
            # Blocks of two threads may end in another order than they began, and equal values are different ones.
            del self._held[next(at for at, one in enumerate(self._held) if one is value)]

    @property
    def innermost(self) -> _T | None:
        """The value that counts; None outside of all."""
        held = self._held
        return held[-1] if held else None

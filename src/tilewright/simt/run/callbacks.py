"""Functions of Python's that a kernel's machine code calls.

ctypes gives an error in such a function to nobody: it prints it and returns anything. So what it raises is kept here,
the launch is stopped, and raises it itself. An interrupt could strike before the first line that would keep it; so a
launch that calls back does not run on the main thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


class Callbacks:
    """Those of one launch.

    `failed` gets what a function raised; it stops the launch.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._kept: list[Any] = []

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return bool(self._kept)

    def address(self, function: Callable[..., int], arguments: int, otherwise: int) -> int:
        """Host address of a C function that calls a Python function; see `Facts.callback`."""

        def call(*values: int) -> int:
            try:
                return function(*values)
            except BaseException as error:
                self._failed(error)
                return otherwise

        made = ctypes.CFUNCTYPE(ctypes.c_int32, *(ctypes.c_int64,) * arguments)(call)
        self._kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

"""Arithmetic that workers of a cluster import: all record their process, some die or fail."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import numpy as np
from fake_stores import Array, Sums

from tilewright.errors import StorageError
from tilewright.multiply.blocks.stores import Store, existing, opened


class Recorded(Sums):
    """Leaves a file named for the process and a number, for each tile."""

    def __init__(self, folder: str, threads: int) -> None:
        self.folder = Path(folder)

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        super().add(a, b, sums, first=first)
        if first:
            (self.folder / f"{os.getpid()}.{len(list(self.folder.iterdir()))}").touch()


class Slow(Recorded):
    """Every tile takes a moment."""

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        super().add(a, b, sums, first=first)
        time.sleep(0.1)


class Dying(Recorded):
    """A tile after the first ends its process, once; two processes may both count more than two at the same time."""

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        super().add(a, b, sums, first=first)
        if len(list(self.folder.iterdir())) >= 2:
            with contextlib.suppress(FileExistsError):
                (self.folder / "died").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)


class Deadly(Recorded):
    """Every tile ends its process."""

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Failing(Recorded):
    """Every tile finds the disk full."""

    def add(self, a: Array, b: Array, sums: Array, *, first: bool) -> None:
        super().add(a, b, sums, first=first)
        raise StorageError("disk: must find room; make room", 28)


def stores(folder: str) -> tuple[Store, Store, Store]:
    """The stores in a folder."""
    return opened(f"{folder}/a.npy", "a"), opened(f"{folder}/b.npy", "b"), existing(f"{folder}/c.npy")


def saved(folder: Path) -> tuple[Array, Array]:
    """Operands in a folder, and room for the result."""
    random = np.random.default_rng(7)
    a, b = random.integers(-9, 9, (400, 90)), random.integers(-9, 9, (90, 300))
    for name, array in {"a": a, "b": b, "c": np.zeros((400, 300), np.int64)}.items():
        np.save(folder / f"{name}.npy", array)
    return a, b

"""Kernels ready to run: made for a key, kept in memory and on disk."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.cpu.contexts import KernelKey
from tilewright.cpu.loops import kernel_text
from tilewright.native import store
from tilewright.native.compiler import Library, compiler
from tilewright.settings import Settings

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Kernel:
    """Machine code of one key; call it with the address of an argument record. It holds no interpreter lock."""

    def __init__(self, key: KernelKey, library: Library) -> None:
        self.key = key
        call: Any = _KERNEL(library.addresses["kernel"])
        call.library = library  # whoever holds the function keeps its code loaded
        self.call: Callable[[int], None] = call

    def __call__(self, arguments: int) -> None:
        """Run with the argument record at a host address."""
        self.call(arguments)


@functools.lru_cache(maxsize=1024)
def kernel(key: KernelKey) -> Kernel:
    """The kernel of a key: from disk, or compiled now."""
    return Kernel(key, compiled(repr(key), lambda: kernel_text(key)))


def compiled(name: str, text: Callable[[], str]) -> Library:
    """Machine code that exports `kernel`, kept under a name; its text is made only when it must be."""
    folder = Settings.from_environ().cache_dir / "cpu"
    entry = store.digest(_fingerprint(), compiler().identity, name)
    kept = store.read(folder, entry, lambda header: None)
    if kept is None:
        code = compiler().compile(text(), level=3, passes=2)
        store.write(folder, entry, {}, code)
    else:
        code = kept[1]
    return compiler().link(code, ("kernel",))


@functools.cache
def _fingerprint() -> str:
    return store.fingerprint(os.fspath(Path(__file__).parent))

"""Kernels ready to run: made for a key, kept in memory and on disk."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ground.native import secure_files, store
from tilewright.ground.native.compiler import Library, Source, compiler
from tilewright.ground.native.memo import bounded, memo
from tilewright.multiply.backends.cpu.amx_loops import amx_kernel_text
from tilewright.multiply.backends.cpu.contexts import KernelKey
from tilewright.multiply.backends.cpu.lanes import lanes_text
from tilewright.multiply.backends.cpu.loops import SIGNATURE, kernel_text

__all__ = ["SIGNATURE", "Kernel", "compiled", "kernel"]

_KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)


class Kernel:
    """Machine code, called without the interpreter lock."""

    def __init__(self, library: Library) -> None:
        #: Of `void kernel(ptr record, ptr scratch, ptr a, ptr b, ptr out, ptr more)`.
        self.address = library.addresses["kernel"]
        call: Any = _KERNEL(self.address)
        call.library = library  # a reference to the function keeps its code loaded
        #: The same from Python: host addresses of an argument record, of the buffers' addresses, of three arrays and of
        #: a table of further ones (or 0).
        self.call: Callable[[int, int, int, int, int, int], None] = call


@bounded(1024)
def kernel(key: KernelKey) -> Kernel:
    """The kernel of a key: from disk, or compiled now."""
    text = {"amx": amx_kernel_text, "lanes": lanes_text}.get(key.family, kernel_text)
    return Kernel(compiled(repr(key), lambda: text(key)))


def compiled(
    name: str,
    text: Callable[[], str],
    exports: tuple[str, ...] = ("kernel",),
    imports: dict[str, int] | None = None,
    parts: Sequence[Source] = (),
) -> Library:
    """Machine code from disk by its name, else compiled; `text` is called only then."""
    folder = store.room(secure_files.CPU)
    entry = store.digest(_fingerprint(), compiler().identity, name)
    kept = store.read(folder, entry, lambda header: None)
    if kept is None:
        code = compiler().compile(text(), parts, exports=exports)
        store.write(folder, entry, {}, code)
    else:
        code = kept[1]
    return compiler().link(code, exports, imports)


def is_kept(name: str) -> bool:
    """Whether machine code of that name is on disk."""
    return store.has(store.room(secure_files.CPU), store.digest(_fingerprint(), compiler().identity, name))


@memo
def _fingerprint() -> str:
    """A digest of all modules that write or compile kernels' text."""
    return store.fingerprint("multiply/backends/cpu", "ground/native", "multiply/problem")

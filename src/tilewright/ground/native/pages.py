"""Host memory that the system maps, address space at once and pages when they are touched; and threads' stacks."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.ground.native.memo import memo

#: Whether MADV_DONTNEED makes private pages zero. Elsewhere it is advice, and pages keep what they have.
#: Source: madvise(2) of the Linux manual; madvise(2) of macOS.
DISCARDS = sys.platform == "linux"
_NORESERVE = 0x4000 if DISCARDS else 0  # MAP_NORESERVE on Linux
_FIXED_NOREPLACE = 0x100000  # MAP_FIXED_NOREPLACE on Linux, since 4.17: at this address or not at all
_FIXED = 0x10  # MAP_FIXED on Linux: in place of what is mapped there
#: Bytes of one mapping of filled pages. A process may have 65,530 mappings (Linux kernel documentation,
#: admin-guide/sysctl/vm.rst, "max_map_count"), which is 2 TiB of these.
_FILLED_BYTES = 32 << 20
#: Source: Linux manual, proc_pid_smaps(5).
_MAPPINGS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"(?P<start>[0-9a-f]+)-(?P<stop>[0-9a-f]+) (?P<access>\S+) \S+ \S+ \d+ *(?P<path>.*)")
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE


def reserved(size_bytes: int) -> mmap.mmap:
    """Zeroed memory at any address, released when nothing refers to it."""
    return mmap.mmap(-1, size_bytes, flags=_FLAGS)


def reserved_at(address: int, size_bytes: int) -> Any:
    """Zeroed memory at a given address, as a `ctypes` array. It is never released.

    Raises OSError: the address is in use.
    """
    found = _libc().mmap(address, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE, _FLAGS | _FIXED_NOREPLACE, -1, 0)
    if found != address:  # an old kernel takes the address as a hint
        raise OSError(ctypes.get_errno(), f"address {address:#x} is taken")
    return (ctypes.c_char * size_bytes).from_address(address)


def reserved_for_sharing(size_bytes: int) -> tuple[mmap.mmap, int]:
    """Zeroed memory that other processes may map, and its descriptor. It has no name, so it ends with its processes.

    Raises OSError: the host does not offer it.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError("memory without a name, which Linux alone has")
    descriptor = os.memfd_create("tilewright", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size_bytes)
        return mmap.mmap(descriptor, size_bytes, flags=mmap.MAP_SHARED | _NORESERVE), descriptor
    except BaseException:
        os.close(descriptor)
        raise


def zero(address: int, size_bytes: int, *, shared: bool = False) -> None:
    """Make whole pages zero, on Linux by giving them back to the host; shared pages become zero in every process."""
    if not DISCARDS or _libc().madvise(address, size_bytes, mmap.MADV_REMOVE if shared else mmap.MADV_DONTNEED):
        ctypes.memset(address, 0, size_bytes)


def fill(address: int, size_bytes: int, value: int) -> None:
    """Set private bytes of a mapping to a value; on Linux whole pages take memory only when they are written.

    They show the same few pages until then, so `madvise` does not make them zero.
    """
    page = mmap.PAGESIZE
    start, stop = -(-address // page) * page, (address + size_bytes) // page * page
    source = _filled(value) if stop - start > _FILLED_BYTES else None
    if source is None:
        ctypes.memset(address, value, size_bytes)
        return
    ctypes.memset(address, value, start - address)
    ctypes.memset(stop, value, address + size_bytes - stop)
    flags, access = mmap.MAP_PRIVATE | _NORESERVE | _FIXED, mmap.PROT_READ | mmap.PROT_WRITE
    for at in range(start, stop, _FILLED_BYTES):
        size = min(_FILLED_BYTES, stop - at)
        if _libc().mmap(at, size, access, flags, source, 0) != at:
            ctypes.memset(at, value, size)


@memo
def _filled(value: int) -> int | None:
    """A descriptor of memory without a name that is full of a value; None if the host does not offer it."""
    try:
        memory, descriptor = reserved_for_sharing(_FILLED_BYTES)
    except OSError:
        return None
    with memory:
        memory.write(bytes([value]) * _FILLED_BYTES)
    return descriptor


def resident_pages() -> Callable[[int, int], bytearray]:
    """Make a function that returns, for each page from an address on, 1 if it is in memory, else 0 (all 0: unknown).

    It reads no global, so it works while the interpreter shuts down.
    """
    mincore, page, array = _libc().mincore, mmap.PAGESIZE, ctypes.c_char

    def resident(address: int, size_bytes: int) -> bytearray:
        pages = bytearray(size_bytes // page)
        if mincore(address, size_bytes, (array * len(pages)).from_buffer(pages)):
            return bytearray(size_bytes // page)
        return pages

    return resident


def give_back(library: str) -> None:
    """Let the host reclaim the pages of a loaded library; it reads again what is needed.

    Loading a library reads far more of it than calls do: 35 MB of LLVM, mostly for addresses that are set once. Written
    pages are kept. Does nothing on a host that does not report its pages.
    """
    if not _MAPPINGS.exists():
        return
    start = stop = 0
    for line in _MAPPINGS.read_text("utf-8", "surrogateescape").splitlines():
        if found := _MAPPING.match(line):
            is_it = library in Path(found["path"]).name and "w" not in found["access"]
            start, stop = (int(found["start"], 16), int(found["stop"], 16)) if is_it else (0, 0)
        elif stop and line.split() == ["Anonymous:", "0", "kB"]:
            _libc().madvise(start, stop - start, mmap.MADV_DONTNEED)


@memo
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return libc


#: Room for a `pthread_attr_t`. Source: glibc and musl, `bits/pthreadtypes*.h` (56 and 64 bytes at most).
_ATTRIBUTES_BYTES = 256


@memo
def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def stack_bytes() -> int:
    """Size of the calling thread's stack in bytes; 0 if unknown.

    Source: pthread_getattr_np(3) and getrlimit(2), whose `RLIMIT_STACK` bounds the main thread's; macOS,
    `pthread_get_stacksize_np`.

    >>> stack_bytes() > 0
    True
    """
    if threading.current_thread() is threading.main_thread():
        limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
        return sys.maxsize if limit == resource.RLIM_INFINITY else limit
    return _stack()[1]


def stack_end() -> int:
    """Lowest address of the stack of the calling thread, which is not the main one; 0 if unknown."""
    return _stack()[0]


def _stack() -> tuple[int, int]:
    """Lowest address and bytes of the calling thread's stack; zeros if unknown."""
    thread, process = ctypes.c_void_p(threading.get_ident()), _process()
    try:
        if sys.platform == "darwin":
            size, top = process.pthread_get_stacksize_np, process.pthread_get_stackaddr_np
            size.restype, top.restype = ctypes.c_size_t, ctypes.c_size_t
            return int(top(thread)) - int(size(thread)), int(size(thread))
        attributes = ctypes.create_string_buffer(_ATTRIBUTES_BYTES)
        address, found = ctypes.c_void_p(), ctypes.c_size_t()
        if process.pthread_getattr_np(thread, attributes):
            return 0, 0
        wrong = process.pthread_attr_getstack(attributes, ctypes.byref(address), ctypes.byref(found))
        process.pthread_attr_destroy(attributes)
        return (0, 0) if wrong else (address.value or 0, found.value)
    except AttributeError:  # the C library lacks these functions
        return 0, 0

"""How much stack the calling thread has."""

from __future__ import annotations

import ctypes
import resource
import sys
import threading

from tilewright.ground.native.memo import memo

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

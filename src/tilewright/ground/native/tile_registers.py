"""Permission to use AMX tile registers, which a process must request from Linux.

Source: the Linux kernel's Documentation/arch/x86/xstate.rst, "Using dynamically enabled XSTATE features in user space
applications": ARCH_REQ_XCOMP_PERM, state component 18 (XTILEDATA). The permission holds for every thread of the
process, present and future, and for children after a fork.
"""

from __future__ import annotations

import ctypes
import platform
import sys

from tilewright.ground.native.memo import memo
from tilewright.ground.settings import Settings

_ARCH_PRCTL = 158  # of x86-64
_ARCH_REQ_XCOMP_PERM = 0x1023
_XTILEDATA = 18


@memo
def tile_registers_granted() -> bool:
    """Whether this process may use tile registers; requests permission once.

    False where TILEWRIGHT_AMX forbids it, on other systems than Linux on x86-64, on processors without AMX, and where
    the kernel refuses, for example because a thread has an alternate signal stack too small for the larger state.
    """
    if not Settings.from_environ().amx or sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long] * 3
    return int(call(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA)) == 0

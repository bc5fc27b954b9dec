"""PoCL: which processor it compiles for, and how its wheel learns a newer one.

PoCL hands the processor that its LLVM recognizes to its compiler. The LLVM 14 of the wheel knows no AMD processor
newer than Zen 3. It calls a Zen 5 `generic`, which clang refuses for x86 ("unknown target CPU 'generic'"), so that
nothing compiles. Newer releases take a name from the environment (`POCL_LLVM_CPU_NAME`), but have no wheel. The name is
a text in PoCL's record of the device; `processor` replaces it there.

Source: PoCL, issues 512 and 1049; `lib/CL/pocl_llvm_utils.cc` and `lib/CL/pocl_cl.h`.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.ground.forking import wait_for

#: The library of the wheel pocl-binary-distribution 3.0, whose name has a hash of its content, and the place of
#: `llvm_cpu` in its `struct _cl_device_id`, as its debug information has it.
_WHEEL, _NAME_BYTE = "libpocl-21062cec.so", 640
_UNKNOWN = "generic"
#: Processors by what they need of a host, the best first: those that the wheel's libraries of built-in functions are
#: compiled for, so that kernels and these functions pass vectors in the same registers.
_PROCESSORS = (
    ("skylake-avx512", ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
    ("haswell", ("avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt")),
    ("sandybridge", ("avx", "popcnt", "cx16")),
    ("x86-64", ()),
)
#: Processors of x86 without AVX-512, as LLVM 14 has them.
_NARROW = re.compile(r"znver[123]|haswell|sandybridge|x86-64")
_LOCK = threading.Lock()
wait_for(_LOCK)


def is_pocl(platform: str) -> bool:
    """Whether a platform's name is PoCL's.

    >>> is_pocl("Portable Computing Language")
    True
    """
    return platform.startswith("Portable Computing Language")


def named(version: str) -> str:
    """The processor that a version text of PoCL ends with; "" if PoCL cannot compile for it.

    >>> named("OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-znver3")
    'znver3'
    >>> named("OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic")
    ''
    >>> named("OpenCL 3.0 PoCL HSTR: pthread-aarch64-unknown-linux-gnu-generic")
    'generic'
    """
    target = version.rpartition(" ")[2]
    return "" if re.search(rf"-x86_64-.*-{_UNKNOWN}$", target) else target.partition("-gnu-")[2] or target


def nearest(features: Mapping[str, bool]) -> str:
    """The best processor that LLVM 14 knows and that has nothing that a host lacks, by LLVM's names of features.

    >>> nearest({"avx": True, "popcnt": True, "cx16": True, "avx2": False})
    'sandybridge'
    """
    return next(name for name, needed in _PROCESSORS if all(features.get(feature) for feature in needed))


def processor(handle: Any) -> str:
    """The processor that PoCL compiles for on a `pyopencl.Device`; "" if it can compile nothing for it.

    The wheel's PoCL gets the nearest one that it knows in place of one that it does not.
    """
    if _library(handle) != _WHEEL:
        return named(handle.version)
    place = ctypes.c_void_p.from_address(handle.int_ptr + _NAME_BYTE)
    with _LOCK:
        if _text(place) == _UNKNOWN:
            place.value = _copied(host_processor())
        return _text(place)


def host_processor() -> str:
    """The nearest processor to this host that the wheel's LLVM knows."""
    import llvmlite.binding as llvm

    return nearest(llvm.get_host_cpu_features())


def vector_bytes(name: str, reported: int) -> int:
    """Bytes of the vectors that PoCL computes with, by the processor that it compiles for.

    PoCL reports the host's own vectors. A Zen 4 has registers of 64 bytes; LLVM 14 takes it for a `znver3`, with 32,
    and ends the process at some vectors of 64 ("Do not know how to scalarize this operator's operand!").

    Source: LLVM 14, `llvm/lib/Target/X86/X86.td`.

    >>> vector_bytes("znver3", 64), vector_bytes("sapphirerapids", 64)
    (32, 64)
    """
    return min(reported, 32) if _NARROW.fullmatch(name) else reported


class _Place(ctypes.Structure):
    """`Dl_info` of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _library(handle: Any) -> str:
    """The name of the file that a driver's functions come from; "" if the system cannot say."""
    if sys.platform != "linux":
        return ""
    functions, place = ctypes.c_void_p.from_address(handle.int_ptr), _Place()
    found = ctypes.CDLL(None).dladdr(functions, ctypes.byref(place))
    return Path((place.file or b"").decode()).name if found else ""


def _text(place: ctypes.c_void_p) -> str:
    return ctypes.string_at(place.value or 0).decode()


def _copied(text: str) -> int:
    """The address of a text in memory of the C library, which a driver may free."""
    copy = ctypes.CDLL(None).strdup
    copy.restype = ctypes.c_void_p
    address: int = copy(text.encode())
    return address

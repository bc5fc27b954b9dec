"""Hosts with narrower vectors than this one's, for launches in this process, by benchmarks and by tests."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from tilewright.ground.native import secure_files
from tilewright.ground.native.compiler import compiler
from tilewright.ground.native.store import room
from tilewright.simulate.run import execution, job, kernels
from tilewright.simulate.run.compiler import Host, host

#: What a host must not have, by its name. Source: x86-64 psABI, "Micro-Architecture Levels" (v3 and v2).
WITHOUT = {
    "own": None,
    "avx2": r"avx512|avx10|avxvnni|avxifma|avxne|amx|evex|apx",
    "sse": r"avx|fma|f16c|amx|vaes|vpclmulqdq|gfni|xop|bmi|evex|apx",
}


def features(name: str) -> str:
    """LLVM's feature string of one of these hosts, on this processor."""
    own = compiler().features
    pattern = WITHOUT[name]
    return own if pattern is None else ",".join("-" + x[1:] if re.match(pattern, x[1:]) else x for x in own.split(","))


@functools.cache
def _made(name: str) -> tuple[Callable[[], Host], Callable[[], kernels.KernelStore]]:
    if name == "own":
        return host, kernels.kernel_store
    narrow, store = Host(features(name), folder=room(secure_files.TRANSLATIONS)), kernels.KernelStore()
    return lambda: narrow, lambda: store


def use_host(set_attribute: Callable[[object, str, object], None], name: str) -> None:
    """Let launches from now on translate, compile and run for a host, by `setattr` or a monkeypatch's."""
    compiler_of_host, store_of_host = _made(name)
    set_attribute(kernels, "host", compiler_of_host)
    set_attribute(execution, "host", compiler_of_host)
    set_attribute(job, "kernel_store", store_of_host)

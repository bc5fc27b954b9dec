"""LLVM text of small kernels, as translated for hosts with and without mask registers."""

from __future__ import annotations

import platform
import re

from narrow_hosts import WITHOUT
from ptx_kernels import kernel

from tilewright.simulate.hosts import HostVectors
from tilewright.simulate.ptx.parser import parse
from tilewright.simulate.translate.analysis.special import LaunchClass
from tilewright.simulate.translate.translation import translate

#: The hosts that this processor can stand for.
HOSTS = [*WITHOUT] if platform.machine() in ("x86_64", "AMD64") else ["own"]
WIDE, NARROW = HostVectors(True), HostVectors(False)


def emitted(body: str, block=(32, 1, 1), host: HostVectors = WIDE, pointers: int = 2) -> str:
    """LLVM text of a kernel, from its first block on; %r30 is the thread's x, %d30 the address of its word of `out`."""
    program = kernel(f"mov.u32 %r30, %tid.x; mad.wide.u32 %d30, %r30, 4, %out; {body}", pointers, prelude=False)
    launch = LaunchClass.of(block, (1, 1, 1))
    ir = translate(parse(program.ptx), "k", launch, (), host).ir
    return ir[ir.index("B0:") : ir.index("\n}")]


def calls(text: str, name: str) -> int:
    """How often masked loads and stores of a kind are called."""
    return len(re.findall(rf"call [^\n]*@llvm\.masked\.{name}\.", text))

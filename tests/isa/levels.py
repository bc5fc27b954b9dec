"""The level of code and the host of tests: LLVM's faults depend on both.

`tests/isa` tests rows alone in quick code and kernels in optimised code, so each row is tested at both levels. With
`ISA_LEVELS=swapped` it is the other way round, and with `ISA_HOST=avx2` or `sse` on this processor without AVX-512, or
without AVX; `make volume` runs them all.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import narrow_hosts

from tilewright.ground.native.compiler import Compiler, Effort
from tilewright.simulate.run import kernels

SWAPPED = os.environ.get("ISA_LEVELS") == "swapped"
HOST = os.environ.get("ISA_HOST", "own")
#: `make volume` names the levels, and runs each form on all of its values.
WHOLE = "ISA_LEVELS" in os.environ
#: LLVM's passes for single rows.
EFFORT = Effort.WRITTEN if SWAPPED else Effort.QUICK


def share(count: int) -> int:
    """How many of a form's values are tested: all by `make volume`, half by `make test`."""
    return count if WHOLE else count // 2


@functools.cache
def compiler_of_rows() -> Compiler:
    """The compiler of single rows."""
    return Compiler(None if HOST == "own" else narrow_hosts.features(HOST))


@contextlib.contextmanager
def launches(*, optimised: bool) -> Iterator[None]:
    """Launches inside without instruments wait for optimised code, or all stay in quick code, as in other tests."""
    first = kernels.KernelStore.first

    def chosen(self: kernels.KernelStore, *launch: Any, name: str = "") -> Any:
        plain = optimised and not launch[-1]
        return (self.get(*launch), None) if plain else (first(self, *launch, name=name)[0], None)

    with mock.patch.object(kernels.KernelStore, "first", chosen):
        yield

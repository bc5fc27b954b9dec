"""Calls whose implementation and prototypes are those for libraries in this process (`frontends/libcuda`).

They reach the program through `gpu.host`, which is the caller during its call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tilewright.frontends.libcuda import runtime
from tilewright.frontends.libcuda.driver_calls import PROTOTYPES
from tilewright.frontends.libcuda.prototypes import Prototype, prototype
from tilewright.frontends.libcuda.runtime_calls import OF_KERNELS, ROWS
from tilewright.frontends.libcuda.served import ANSWERS, KERNELS
from tilewright.frontends.programs.protocol import Caller

#: Calls without effect here: caches and banks have no settings, the only device accesses everything, graphs keep no
#: memory, and captures are always in the strictest mode.
_NOTHING = frozenset(
    """
cudaDeviceSetCacheConfig cudaDeviceSetSharedMemConfig
cudaCtxResetPersistingL2Cache cudaMemPoolSetAccess cudaStreamAttachMemAsync cudaDeviceGraphMemTrim
cudaThreadExchangeStreamCaptureMode
""".split()
)


def _nothing(caller: Caller, *words: int) -> None:
    """Change nothing."""


def _answer(wanted: Prototype, answer: Callable[..., Any]) -> Callable[..., None]:
    """A function that takes the words of a call, and writes the results to the addresses in them."""
    gives = [(at, parameter.given) for at, parameter in enumerate(wanted.parameters) if parameter.given]
    takes = [(at, p.type in KERNELS) for at, p in enumerate(wanted.parameters) if not p.given]

    def call(caller: Caller, *words: int) -> None:
        taken = [caller.kernel(words[at]) if kernel else words[at] for at, kernel in takes]
        found = answer(caller.gpu, *taken)
        values = found if isinstance(found, tuple) else (found,) * len(gives)
        for (at, kind), value in zip(gives, values, strict=True):
            caller.write(words[at], bytes(kind(value if kind is ctypes.c_float else int(value))))

    return call


def _answers() -> Iterator[tuple[str, Callable[..., None]]]:
    for text in reversed(PROTOTYPES):  # versions are in order, and the headers have the first
        one = prototype(text)
        plain = one.name.partition("_v")[0]
        if plain in ANSWERS:
            yield plain, _answer(one, ANSWERS[plain])
    for text, driver in (*ROWS, *OF_KERNELS):
        one = prototype(text)
        answer = ANSWERS[driver] if driver else getattr(runtime, one.name, None)
        if answer is not None:
            yield one.name, _answer(one, answer)


#: Name -> implementation.
ANSWERED: Mapping[str, Callable[..., None]] = MappingProxyType(dict(_answers()) | dict.fromkeys(_NOTHING, _nothing))

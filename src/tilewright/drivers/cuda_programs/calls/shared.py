"""Calls that have the answers which libraries in a process get too (`drivers/libcuda`), by the same prototypes.

They reach the program through `gpu.host`, which is the caller while its call is answered.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tilewright.drivers.cuda_programs.protocol import Caller
from tilewright.drivers.libcuda import runtime
from tilewright.drivers.libcuda.driver_calls import PROTOTYPES
from tilewright.drivers.libcuda.prototypes import Prototype, prototype
from tilewright.drivers.libcuda.runtime_calls import OF_KERNELS, ROWS
from tilewright.drivers.libcuda.served import ANSWERS, KERNELS

#: Calls that change nothing here: caches and banks have no settings, one device reaches all, graphs keep no memory, and
#: captures are as strict as can be.
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
    """An answer that takes a call's words and writes what it gives to where they say."""
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
    for text in reversed(PROTOTYPES):  # versions stand in their order, and the first is the headers'
        one = prototype(text)
        plain = one.name.partition("_v")[0]
        if plain in ANSWERS:
            yield plain, _answer(one, ANSWERS[plain])
    for text, driver in (*ROWS, *OF_KERNELS):
        one = prototype(text)
        answer = ANSWERS[driver] if driver else getattr(runtime, one.name, None)
        if answer is not None:
            yield one.name, _answer(one, answer)


#: Name -> what answers it.
ANSWERED: Mapping[str, Callable[..., None]] = MappingProxyType(dict(_answers()) | dict.fromkeys(_NOTHING, _nothing))

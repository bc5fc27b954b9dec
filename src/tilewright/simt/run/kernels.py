"""Kernels ready to run: translated, compiled, linked; kept in memory and on disk."""

from __future__ import annotations

import functools
import inspect
import os
import pickle
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.native import store, upkeep
from tilewright.native.compiler import Library
from tilewright.native.once import Once, once
from tilewright.simt.events import Instrument
from tilewright.simt.ptx.parser import parse
from tilewright.simt.ptx.tree import Module
from tilewright.simt.run import cache, device_runtime, tiers
from tilewright.simt.run.compiler import host
from tilewright.simt.run.tiers import Improvement
from tilewright.simt.translate.special import LaunchClass
from tilewright.simt.translate.translation import Translation, translate


@dataclass(frozen=True)
class ReadyKernel:
    """A kernel as machine code in this process."""

    translation: Translation
    library: Library
    cached: bool
    seconds: float

    @property
    def address(self) -> int:
        """Host address of the warp function."""
        return self.library.addresses[self.translation.symbol]


class KernelStore:
    """Ready kernels by what they depend on; the oldest are dropped."""

    def __init__(self, capacity: int = 256) -> None:
        self._ready = Once[ReadyKernel](capacity)
        self._capacity = capacity
        self._lock = threading.Lock()
        self._spent_seconds: dict[str, float] = {}  # in code that was quickly made, by the key of the better

    def first(
        self, ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument]
    ) -> tuple[ReadyKernel, Improvement | None]:
        """What a launch begins with: with instruments quickly made code, until better is there or worth making.

        With it comes what makes the better, and is told when the launch is over.
        """
        if not instruments:
            return self.get(ptx, entry, launch, instruments), None
        best = _key(ptx, entry, launch, instruments, optimise=True)
        spent = self._spent_seconds.get(best, 0.0)
        if spent >= tiers.WORTH_SECONDS or store.has(store.room(upkeep.TRANSLATIONS), best):
            return self.get(ptx, entry, launch, instruments), None
        quick = self.get(ptx, entry, launch, instruments, optimise=False)

        def over(seconds: float) -> None:
            with self._lock:
                self._spent_seconds[best] = self._spent_seconds.pop(best, 0.0) + seconds
                while len(self._spent_seconds) > self._capacity:
                    del self._spent_seconds[next(iter(self._spent_seconds))]

        return quick, Improvement(quick, spent, lambda: self.get(ptx, entry, launch, instruments), over)

    def get(
        self, ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument], *, optimise: bool = True
    ) -> ReadyKernel:
        """A ready kernel: from memory, from disk, or made now."""
        start = time.perf_counter()
        key = _key(ptx, entry, launch, instruments, optimise)
        made: list[ReadyKernel] = []

        def make() -> ReadyKernel:
            folder = store.room(upkeep.TRANSLATIONS)
            kept = cache.load(folder, key)
            translation, code = kept or _make(ptx, entry, launch, instruments, optimise)
            if kept is None:
                cache.store(folder, key, translation, code)
            library = host().link_kernel(code, translation.symbol)
            made.append(ReadyKernel(translation, library, kept is not None, time.perf_counter() - start))
            return made[0]

        found = self._ready.get(key, make)
        return found if made else replace(found, cached=True, seconds=time.perf_counter() - start)


def _make(
    ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument], optimise: bool
) -> tuple[Translation, bytes]:
    translation = translate(parsed(ptx), entry, launch, instruments)
    translation.digest = store.digest(translation.ir)
    optimise = optimise or translation.layout.calls  # whose depth the host's stack bounds, so frames shall be small
    return translation, host().compile_kernel(translation.ir, translation.handlers, optimise=optimise)


@once
def kernel_store() -> KernelStore:
    """The process's store."""
    return KernelStore()


@functools.lru_cache(maxsize=64)
def parsed(ptx: str) -> Module:
    """The syntax tree of a PTX text, with what it declares of the device runtime."""
    return device_runtime.link(parse(ptx), ptx.count("\n") + 1)


def _key(ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument], optimise: bool) -> str:
    observers = [_describe(i) for i in instruments]
    shape = (launch.block, launch.grid_small, sorted(launch.small_params))
    return store.digest(cache.fingerprint(), host().identity, ptx, entry, repr(shape), str(optimise), *observers)


def _describe(instrument: Instrument) -> str:
    """What the code made for an instrument depends on: its class's text, and the state that `handler` may ask."""
    classes = [c for c in type(instrument).__mro__ if c not in (Instrument, object)]
    try:
        texts = [_text_of(c) for c in classes]
        state = pickle.dumps(instrument.key()).hex()
    except (OSError, TypeError, pickle.PicklingError, AttributeError):  # cannot be compared with another process's
        return uuid.uuid4().hex
    return f"{instrument.name}/{[c.__qualname__ for c in classes]}/{texts}/{state}"


@functools.lru_cache(maxsize=64)
def _text_of(kind: type) -> str:
    """Changes with the file that defines a class; in this package, with any file of its folder."""
    path = Path(inspect.getfile(kind))
    if kind.__module__.startswith(f"{__name__.split('.', maxsplit=1)[0]}."):
        return store.fingerprint(os.fspath(path.parent))
    return store.digest(path.read_text("utf-8"))

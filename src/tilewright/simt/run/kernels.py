"""Kernels ready to run: translated, compiled, linked; kept in memory and on disk."""

from __future__ import annotations

import contextlib
import functools
import inspect
import pickle
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tilewright.native import store, upkeep
from tilewright.native.compiler import Library
from tilewright.native.once import Once, bounded, once
from tilewright.programs.listing import parsed
from tilewright.simt.events import Instrument
from tilewright.simt.run import cache, tiers
from tilewright.simt.run.compiler import host
from tilewright.simt.run.tiers import Improvement
from tilewright.simt.translate.hosts import HostVectors
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
        self._begun: set[str] = set()  # keys of better code that other threads make

    def first(
        self, ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument]
    ) -> tuple[ReadyKernel, Improvement | None]:
        """What a launch begins with: with instruments quickly made code, until better is there.

        With it comes what has the better code made where that is worth it, and hears when the launch is over.
        """
        if not instruments:
            return self.get(ptx, entry, launch, instruments), None
        best = _key(ptx, entry, launch, instruments, optimise=True)
        spent = self._spent_seconds.get(best, 0.0)
        at_once = tiers.WORTH_SECONDS == 0 or self._ready.peek(best) is not None
        if at_once or store.has(store.room(upkeep.TRANSLATIONS), best):
            return self.get(ptx, entry, launch, instruments), None
        quick = self.get(ptx, entry, launch, instruments, optimise=False)

        def over(seconds: float) -> None:
            with self._lock:
                self._spent_seconds[best] = self._spent_seconds.pop(best, 0.0) + seconds
                while len(self._spent_seconds) > self._capacity:
                    del self._spent_seconds[next(iter(self._spent_seconds))]

        def make() -> None:
            try:
                with contextlib.suppress(Exception):  # launches go on as they are
                    self.get(ptx, entry, launch, instruments)
            finally:
                with self._lock:
                    self._begun.discard(best)

        def begin() -> None:
            with self._lock:
                if best in self._begun:
                    return
                self._begun.add(best)
            threading.Thread(target=make, name="tilewright-tier", daemon=True).start()

        return quick, Improvement(quick, spent, begin, lambda: self._ready.peek(best), over)

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
    start = time.perf_counter()
    translation = translate(parsed(ptx), entry, launch, instruments, HostVectors.of(host().features))
    translation.digest = store.digest(translation.ir)
    optimise = optimise or translation.layout.calls  # whose depth the host's stack bounds, so frames shall be small
    code = host().compile_kernel(translation.ir, translation.handlers, translation.symbol, optimise=optimise)
    translation.making_seconds = time.perf_counter() - start
    return translation, code


@once
def kernel_store() -> KernelStore:
    """The process's store."""
    return KernelStore()


def _key(ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument], optimise: bool) -> str:
    observers = [_describe(i) for i in instruments]
    facts = (getattr(launch, field.name) for field in fields(launch))
    shape = [sorted(fact) if isinstance(fact, frozenset) else fact for fact in facts]
    return store.digest(cache.fingerprint(), host().identity, ptx, entry, repr(shape), str(optimise), *observers)


def _describe(instrument: Instrument) -> str:
    """What the code made for an instrument depends on: its class's text, and the state that `handler` may ask."""
    classes = [c for c in type(instrument).__mro__ if c not in (Instrument, object)]
    state = instrument.key()
    fields = state.items() if isinstance(state, dict) else [("", state)]
    texts = [_text_or_name(c) for c in classes] + [f"{name}={_value_or_name(value)}" for name, value in fields]
    return f"{instrument.name}/{[c.__qualname__ for c in classes]}/{texts}"


class _Same:
    """An object as a key that no other equals, however alike."""

    def __init__(self, value: object) -> None:
        self.value = value  # kept, so that its identity is not given again

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


@bounded(256)
def _name(value: _Same) -> str:
    """A name of an object that nothing describes in another process, such as a lock or a local function."""
    return uuid.uuid4().hex


def _value_or_name(value: object) -> str:
    try:
        return pickle.dumps(value).hex()
    except (TypeError, pickle.PicklingError, AttributeError):
        return _name(_Same(value))


def _text_or_name(kind: type) -> str:
    try:
        return _text_of(kind)
    except (OSError, TypeError):  # a class typed at the prompt
        return _name(_Same(kind))


@functools.lru_cache(maxsize=64)
def _text_of(kind: type) -> str:
    """Changes with a class's file and bitcode beside it; in this package, with any file of its folder."""
    path = Path(inspect.getfile(kind))
    if kind.__module__.startswith(f"{__name__.split('.', maxsplit=1)[0]}."):
        return store.fingerprint("/".join(kind.__module__.split(".")[1:-1]))
    return store.digest(
        path.read_text("utf-8"), *(part.read_bytes().hex() for part in sorted(path.parent.glob("*.bc")))
    )

"""Kernels ready to run: translated, compiled, linked; kept in memory and on disk.

Launches start in unoptimised code, and change to optimised code when it is ready. Unoptimised code takes half to two
thirds of the time to compile, or an eighth with instruments. It runs one and a half to three times as long, or hardly
longer with instruments (`benchmarks/waiting.py`). Most launches end before optimised code would be ready. So a
background thread compiles it only when the kernel's launches have run for long enough, and no launch waits for it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tilewright.ground.native import secure_files, store
from tilewright.ground.native.compiler import Library
from tilewright.ground.native.memo import Memo, bounded, memo
from tilewright.ground.progress import announced
from tilewright.ground.settings import quick_code
from tilewright.simulate.events import Instrument
from tilewright.simulate.hosts import HostVectors
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.run import cache
from tilewright.simulate.run.compiler import Host, host
from tilewright.simulate.translate.analysis.special import LaunchClass
from tilewright.simulate.translate.translation import Translation, translate


@dataclass(frozen=True)
class ReadyKernel:
    """A kernel as machine code in this process."""

    translation: Translation
    library: Library
    cached: bool
    seconds: float

    @functools.cached_property
    def address(self) -> int:
        """Host address of the warp function."""
        return self.library.addresses[self.translation.symbol]

    @functools.cached_property
    def plans(self) -> dict[Any, Any]:
        """What executions keep for later ones, by the shape of the launch."""
        return {}

    @functools.cached_property
    def calls(self) -> bool:
        """Whether some functions are not inlined."""
        return self.translation.layout.calls


#: What launches of a kernel may take together before its code is optimised: so long, and so many times what the quick
#: code took to make.
WORTH_SECONDS = 0.5
WORTH_TIMES = 4.0


class CompileQueue:
    """Where a process's better code is made, one kernel at a time; a kernel is known by the key of its better code.

    A process that was forked has none of its parent's threads, so it has a queue of its own.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._spent_seconds: dict[str, float] = {}  # in quick code
        self._making: set[str] = set()

    def spent_seconds(self, key: str) -> float:
        """How long launches of a kernel have run in quick code."""
        return self._spent_seconds.get(key, 0.0)

    def spend(self, key: str, seconds: float) -> float:
        """Note how long one more ran; returns the sum."""
        with self._lock:
            self._spent_seconds[key] = self._spent_seconds.pop(key, 0.0) + seconds
            while len(self._spent_seconds) > self._capacity:
                del self._spent_seconds[next(iter(self._spent_seconds))]
            return self.spent_seconds(key)

    def begin(self, key: str, make: Callable[[], None]) -> None:
        """Have a thread make a kernel's better code, unless one does."""
        with self._lock:
            if key in self._making:
                return
            self._making.add(key)
        try:
            threading.Thread(target=self._make, args=(key, make), name="tilewright-tier", daemon=True).start()
        except RuntimeError:  # the host has no room for one, or the process ends
            self._making.discard(key)

    def _make(self, key: str, make: Callable[[], None]) -> None:
        try:
            with self._turn, contextlib.suppress(Exception):  # launches go on as they are
                make()
        finally:
            with self._lock:
                self._making.discard(key)
                self._spent_seconds.pop(key, None)  # what could not be made is tried again, in due time


class TierUp:
    """Better code for a launch's kernel, made once quickly made code has run for long.

    `quick` is what runs, and `key` that of the better, which `make` makes and `look` gives once it is there. `queue`
    gives the queue of the process.
    """

    def __init__(
        self,
        key: str,
        quick: ReadyKernel,
        queue: Callable[[], CompileQueue],
        make: Callable[[], None],
        look: Callable[[], ReadyKernel | None],
    ) -> None:
        self._key, self._quick, self._queue, self._make, self.made = key, quick, queue, make, look
        self._worth_seconds = max(WORTH_SECONDS, WORTH_TIMES * quick.translation.making_seconds)
        self._started = False

    def found(self, seconds: float) -> ReadyKernel | None:
        """The better code, once it is there, for a launch that has run for so long; once that is worth it, it is made.

        To be called from time to time while a launch runs. Both codes come from one text for LLVM, so a warp that has
        left one goes on in the other.
        """
        if not self._started and self._queue().spent_seconds(self._key) + seconds >= self._worth_seconds:
            self._started = True
            self._queue().begin(self._key, self._make)
        better = self.made()
        return better if better and better.translation.digest == self._quick.translation.digest else None

    def over(self, seconds: float) -> None:
        """The launch has ended, and ran for so long; many short ones earn better code too."""
        self._started = False
        if self._queue().spend(self._key, seconds) >= self._worth_seconds and self.made() is None:
            self._queue().begin(self._key, self._make)


class KernelStore:
    """Ready kernels by what they depend on; the oldest are dropped."""

    def __init__(self, capacity: int = 256) -> None:
        self._ready = Memo[ReadyKernel](capacity)
        self._capacity = capacity
        self._queues = Memo[CompileQueue](1)

    def first(
        self, ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument], *, name: str = ""
    ) -> tuple[ReadyKernel, TierUp | None]:
        """What a launch begins with: quickly made code, where no better is there yet.

        With it comes what has the better code made where that is worth it, and hears when the launch is over. The
        kernel's name in the source is for watchers.
        """
        compiler, (key, quick_key) = host(), self._keys(ptx, entry, launch, instruments)
        better, quick = self._ready.peek(key), self._ready.peek(quick_key)
        if better is not None:
            return better, None
        text = functools.partial(_translated, compiler, ptx, entry, launch, instruments)
        if quick is None or not quick_code():
            with announced("translating", name or entry):
                if self._is_optimised(key, quick_key):
                    return self._kept(key, text, optimise=True), None
                quick = self._kept(quick_key, text, optimise=False)
        if quick.calls:  # and so optimised
            return quick, None

        def make() -> None:
            translation = quick.translation if quick.translation.ir else text()
            code = compiler.compile_kernel_apart(translation.ir, translation.handlers, translation.symbol)
            cache.store(store.room(secure_files.TRANSLATIONS), key, translation, code)
            library = compiler.link_kernel(code, translation.symbol)
            self._ready.get(key, lambda: ReadyKernel(translation, library, cached=True, seconds=0.0))

        return quick, TierUp(key, quick, self._queue, make, lambda: self._ready.peek(key))

    def _queue(self) -> CompileQueue:
        return self._queues.get(os.getpid(), lambda: CompileQueue(self._capacity))

    def _keys(self, ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument]) -> tuple[str, str]:
        """The keys of optimised code, and of quick code."""
        observers = tuple([_describe(instrument) for instrument in instruments]) if instruments else ()
        return _digests(*self._made_with, ptx, entry, launch, observers)

    @functools.cached_property
    def _made_with(self) -> tuple[str, str]:
        """What all code depends on: our files, and the compiler with the processor."""
        return cache.fingerprint(), host().identity

    def _is_optimised(self, key: str, quick_key: str) -> bool:
        """Whether a launch begins in optimised code: it is in memory or on disk, or quick code is not wanted."""
        if self._ready.peek(key) is not None or not quick_code():
            return True
        return self._ready.peek(quick_key) is None and store.has(store.room(secure_files.TRANSLATIONS), key)

    def get(
        self, ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument], *, optimise: bool = True
    ) -> ReadyKernel:
        """A ready kernel: from memory, from disk, or made now."""
        key, quick_key = self._keys(ptx, entry, launch, instruments)
        text = functools.partial(_translated, host(), ptx, entry, launch, instruments)
        return self._kept(key if optimise else quick_key, text, optimise=optimise)

    def _kept(self, key: str, text: Callable[[], Translation], *, optimise: bool) -> ReadyKernel:
        start = time.perf_counter()
        made: list[ReadyKernel] = []

        def make() -> ReadyKernel:
            folder, compiler = store.room(secure_files.TRANSLATIONS), host()
            kept = cache.load(folder, key)
            parts = None if kept is None else compiler.parts.found(kept[0].parts)
            if kept is None or parts is None:
                kept = None
                translation, code, parts = _compiled(text, optimise=optimise)
                cache.store(folder, key, translation, code)
            else:
                translation, code = kept
            library = compiler.link_kernel(code, translation.symbol, parts)
            made.append(ReadyKernel(translation, library, kept is not None, time.perf_counter() - start))
            return replace(made[0], cached=True, seconds=0.0)  # as later launches find it

        found = self._ready.get(key, make)
        return made[0] if made else found


def _translated(
    compiler: Host, ptx: str, entry: str, launch: LaunchClass, instruments: Sequence[Instrument]
) -> Translation:
    translation = translate(parsed(ptx), entry, launch, instruments, HostVectors.of(compiler.features))
    translation.digest = store.digest(translation.ir)
    return translation


def _compiled(text: Callable[[], Translation], *, optimise: bool) -> tuple[Translation, bytes, tuple[Library, ...]]:
    """A kernel's translation, its code, and the libraries that its code calls."""
    start = time.perf_counter()
    translation = text()
    optimise = optimise or translation.layout.calls  # whose depth the host's stack bounds, so frames shall be small
    code = host().compile_kernel(translation.ir, translation.handlers, translation.symbol, optimise=optimise)
    translation.parts, parts = ([], ()) if optimise else host().parts.made(translation.handlers)
    translation.making_seconds = time.perf_counter() - start
    return translation, code, parts


@memo
def kernel_store() -> KernelStore:
    """The process's store."""
    return KernelStore()


@functools.lru_cache(maxsize=512)
def _digests(
    sources: str, compiler: str, ptx: str, entry: str, launch: LaunchClass, observers: tuple[str, ...]
) -> tuple[str, str]:
    """The keys, from all that they depend on; memoised, because digesting a long text takes as long as a launch."""
    facts = (getattr(launch, field.name) for field in fields(launch))
    shape = [sorted(fact) if isinstance(fact, frozenset) else fact for fact in facts]
    key = store.digest(sources, compiler, ptx, entry, repr(shape), *observers)
    return key, store.digest(key, "quick")


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

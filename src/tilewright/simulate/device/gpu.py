"""The state of one simulated GPU while a program runs: memory, contexts, streams, events, loaded modules."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tilewright.errors import DeviceError, LaunchError, OutOfMemoryError
from tilewright.ground.native.interrupts import DeferredSigint
from tilewright.simulate import machine
from tilewright.simulate.device import driver_errors
from tilewright.simulate.device.caller import Host, Registered
from tilewright.simulate.device.deferred_launches import LeftOut
from tilewright.simulate.device.device_addresses import FIRST_HANDLE, DeviceAddresses, device_addresses
from tilewright.simulate.device.graphs import Capture, Graphs
from tilewright.simulate.device.internal_code import source_line
from tilewright.simulate.device.pending_work import Outstanding
from tilewright.simulate.launch_request import Limits
from tilewright.simulate.machine.sizes import size_text
from tilewright.simulate.observer import Observer
from tilewright.simulate.state import GLOBAL_BASE

#: Recently freed memory of this size is not reused, if observers look for accesses to freed memory.
QUARANTINE_BYTES = 256 << 20
#: Handles of the default streams. Source: cuda.h, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
DEFAULT_STREAMS = frozenset({0, 1, 2})
#: The default pool's handle; later ones count up from it.
POOL = 0xB001
#: Errors after which a device does no work until it is reset.
STICKY = frozenset(
    "CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_ASSERT CUDA_ERROR_LAUNCH_TIMEOUT CUDA_ERROR_LAUNCH_FAILED "
    "CUDA_ERROR_ILLEGAL_INSTRUCTION CUDA_ERROR_MISALIGNED_ADDRESS".split()
)
_Thing = TypeVar("_Thing")
DriverError = driver_errors.DriverError
EndedError = driver_errors.EndedError


class BrokenError(DriverError):
    """An earlier launch failed with an error that stays."""

    def __init__(self, code: str) -> None:
        advice = "an earlier launch failed, and nothing runs on a GPU after that; run the program again, or start a new"
        super().__init__(code, f"{code}: {advice} simulated GPU")


@dataclass(slots=True)
class Stream:
    """A stream: everything runs at once, except that callbacks have a thread of their own."""

    callbacks: list[Future[None]] = field(default_factory=list)
    independent: bool = False  #: Whether it does not synchronise with the default stream.
    priority: int = 0


@dataclass(slots=True)
class Event:
    """An event: the time of its record, in seconds."""

    timing: bool
    recorded: float | None = None
    captured: bool = False  #: Whether it was last recorded in a stream that was captured.


class _Contexts(threading.local):
    """Each thread's stack of contexts."""

    def __init__(self) -> None:
        self.contexts: list[int] = []


class _Call:
    """The body of driver calls; a class, because a generator takes several times as long."""

    __slots__ = ("_gpu",)

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu = gpu

    def __enter__(self) -> None:
        self._gpu.lock.acquire()
        self._gpu._called += 1

    def __exit__(self, *_: object) -> None:
        gpu = self._gpu
        try:
            gpu._called -= 1
            if gpu._given_up and not gpu._called:
                gpu._free_given_up()
        finally:
            gpu.lock.release()


class SimulatedGpu:
    """One simulated GPU.

    Parameters
    ----------
    name, observers, seed, limits
        As for :func:`tilewright.simulated_gpu`.
    addresses : DeviceAddresses, optional
        Where its memory is; by default the addresses of all simulated GPUs of this process.

    Attributes
    ----------
    record : tilewright.machine.Gpu
    memory : Memory
    lock : threading.RLock
        Held during every driver call: one at a time.
    launches : int
        Number of launches so far.
    process : int or None
        The process that initialised the driver.
    closed : bool
        Whether its program has ended.
    started_by : object
        The session that installed it until `stop()`; None for a `with` block.
    """

    def __init__(
        self,
        host: Host,
        name: str = "h100",
        observers: Sequence[Observer] = (),
        seed: int | None = None,
        limits: Limits | None = None,
        addresses: DeviceAddresses | None = None,
    ) -> None:
        self.record = machine.gpu(name)
        self.own_hash = int.from_bytes(os.urandom(7))  #: No other GPU has it, not even a later one at the same place.
        self.addresses = addresses or device_addresses()
        self.observers: tuple[Observer, ...] = ()
        self.started_by: object = None
        self.line: Callable[[], str] = source_line  # the line of the program that calls; "" if none is known
        self.seed = seed
        self.limits = limits
        self.with_arrays: Any = None  # compiles a kernel by its name in PTX, with its local arrays in memory
        self.memory = self.addresses.memory(self.record.memory_bytes)
        for observer in observers:
            observer.started(self.memory.limit_bytes)
        self._observed_by(tuple(observers))
        self.lock = threading.RLock()
        self.launches = self.primary_retained = 0
        self.closed = False
        self.broken = ""  # the code of the error that stays until a reset
        self.process: int | None = None
        self.streams: dict[int, Stream] = {number: Stream() for number in DEFAULT_STREAMS}
        self.events: dict[int, Event] = {}
        self.libraries: dict[int, Any] = {}  # the `Library` of each module
        self.library_handles: dict[int, Any] = {}  # objects of libraries that are served, such as those of cuBLAS
        self.host = host  # the maker of the current call
        self.host_visible: dict[int, int] = {}  # address -> size of pinned and managed memory
        self.pinned: dict[int, int] = {}  # address of pinned memory -> flags
        self.pool = POOL  # the pool for new memory
        self.pools: dict[tuple[int, int], int] = {}  # (pool, attribute) -> value that was set
        self.arrays: dict[int, Any] = {}  # the `Elements` of each array
        self.textures: dict[int, tuple[Any, Any]] = {}  # what textures and surfaces read, and how
        self.tensors: set[int] = set()  # addresses of tensors that have a tensor map
        self.outstanding = Outstanding()
        self.left_out = LeftOut()
        self.said: set[str] = set()  # keys of the messages about times that were shown
        self.kernel_limits: dict[tuple[int, str], int] = {}  # most dynamic shared memory, if it was set
        self.graphs = Graphs(self.new_handle, self.free)
        self.large_clusters: set[tuple[int, str]] = set()  # kernels that allow clusters of non-portable size
        self.set_limits: dict[int, int] = {}  # CUlimit -> value
        self.accepted: dict[Any, Any] = {}  # by kernel and configuration, launches that a later one may repeat
        self.kernels: set[str] = set()  # names of launched kernels
        self._users: dict[int, set[str]] = {}  # for each allocation, the kernels that got it
        self._handles_from = self.new_handle()
        self._given_up: deque[int] = deque()  # addresses to free
        self._called = 0  # how often the thread that holds the lock may be using the lists of allocations
        self._call = _Call(self)
        self._thread = _Contexts()
        self._callback_thread: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        """A description for the notebook cell that makes it."""
        return f"<{self.record.name}, simulated{', ended' if self.closed else ''}>"

    def stop(self) -> None:
        """End it if :meth:`simulated_gpu.start` installed it; do nothing if it has ended.

        Raises DeviceError: it belongs to a `with` block, and ends with it.
        """
        if self.closed:
            return
        session: Any = self.started_by
        if session is None:
            raise DeviceError("`stop()` is for a simulated GPU from `start()` (got one of a `with` block); leave it")
        session.stop()

    def check_process(self) -> None:
        """Reject calls of a process that was forked after the driver was initialised, as a driver does."""
        if self.process not in (None, os.getpid()):
            raise DriverError("CUDA_ERROR_NOT_INITIALIZED")

    def new_handle(self) -> int:
        """A number that no other stream, event or library of this process has."""
        return next(self.addresses.handles)

    def numbered(
        self, kernel: str, line: Callable[[], str] | None = None, addresses: Iterable[int] = ()
    ) -> tuple[int, str]:
        """The number of a new launch, and the program's line that makes it; `addresses` are those of its arguments."""
        with self.lock:
            self.kernels.add(kernel)
            self.launches += 1
            for address in addresses:
                self.note_user(kernel, address)
            return self.launches - 1, (line or self.line)()

    def note_user(self, kernel: str, address: int) -> bool:
        """Note that a kernel gets an address; False if it is in no allocation."""
        found = self.memory.extent(address)
        if found is not None:
            self._users.setdefault(found[0], set()).add(kernel)
        return found is not None

    @contextmanager
    def observing(self, observer: Observer) -> Iterator[None]:
        """Add an observer for a time; for it, the host wrote all existing memory.

        Observers of its kind, which must not change how memory is allocated, are left out for that time.
        """
        before = self.observers
        kept = tuple(one for one in before if not one.kind or one.kind != observer.kind)
        with self.lock:
            self.observers = kept
            self.observe(observer)
        try:
            yield
        finally:
            with self.lock:
                self._observed_by(before)

    def observe(self, observer: Observer) -> None:
        """Add an observer from now on; for it, the host wrote all existing memory."""
        with self.lock:
            there = self.memory.allocations()
            users = ((address, size, frozenset(self._users.get(address, ()))) for address, size in there)
            observer.started(self.memory.limit_bytes, [one for one in users if one[2]])
            self._observed_by((*self.observers, observer))
            for address, size in there:
                observer.allocated(address, size)
                observer.host_wrote(address, size)

    def _observed_by(self, observers: tuple[Observer, ...]) -> None:
        """Make these the observers, and leave unused bytes after allocations from now on if one of them wants that."""
        self.observers = observers
        self.memory.red_zones = any(observer.red_zones for observer in observers)
        self.memory.quarantine_bytes = QUARANTINE_BYTES if self.memory.red_zones else 0

    @property
    def host_races(self) -> bool:
        """Whether an observer requests them."""
        return any(observer.host_races for observer in self.observers)

    @property
    def concurrent_streams(self) -> bool:
        """Whether some streams do not wait for each other."""
        made = [stream for handle, stream in self.streams.items() if handle not in DEFAULT_STREAMS]
        return len(made) > 1 or any(stream.independent for stream in made)

    @property
    def contexts(self) -> list[int]:
        """The current thread's stack of contexts."""
        return self._thread.contexts

    def require_working(self) -> None:
        """Reject work after a launch that broke the device."""
        if self.broken:
            raise BrokenError(self.broken)

    def require_context(self) -> None:
        """Reject a call of a thread that has no current context."""
        if not self.contexts:
            raise DriverError("CUDA_ERROR_INVALID_CONTEXT")

    # -- memory -------------------------------------------------------------------------------------------------

    def allocate(self, size_bytes: int, *, host_visible: bool = False) -> int:
        """Reserve device memory, and report it to observers."""
        self.require_context()
        if size_bytes <= 0:
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
        if self._given_up:
            self._free_given_up()
        address = 0
        try:
            address = self.memory.allocate(size_bytes)
            for observer in self.observers:
                observer.allocated(address, size_bytes)
        except (LaunchError, OutOfMemoryError) as error:
            if address:
                self.memory.free(address)
            raise DriverError("CUDA_ERROR_OUT_OF_MEMORY", str(error)) from error
        if host_visible:
            self.host_visible[address] = size_bytes
        return address

    def free(self, address: int) -> None:
        """Free device memory now, or at the end of the current driver call; never wait.

        Python may collect an array at any point of any thread, so the check is a single, atomic step in Python.
        """
        waits = self._called or self._given_up or self.observers or self.left_out
        if not waits and self.lock.acquire(blocking=False):
            try:
                size_bytes = self.memory.spared(address)
                if size_bytes is not None:
                    self._forget(address, size_bytes)
                    return
            finally:
                self.lock.release()
        if not self.memory.begins(address) or self._given_up.count(address):
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
        self._given_up.append(address)
        if not self._called and self.lock.acquire(blocking=False):
            try:
                if not self._called:
                    self._free_given_up()
            finally:
                self.lock.release()

    def call(self) -> _Call:
        """Make a driver call in the body under the lock; no memory is freed before its end."""
        return self._call

    def _free_given_up(self) -> None:
        """Free the memory in the queue, under the lock, and report it to observers."""
        if not self._given_up:
            return
        self._called += 1
        try:
            # Without observers an interrupt leaves at most memory that nobody frees; the lock does nothing here.
            with DeferredSigint() if self.observers or self.left_out else self.lock:
                while self._given_up:
                    self._free_now(self._given_up.popleft())
        finally:
            self._called -= 1

    def _free_now(self, address: int) -> None:
        if not self.memory.begins(address) or (self.left_out and self.left_out.keeps(address)):
            return  # the context was reset, or a launch still needs it
        size_bytes = self.memory.free(address)
        self._forget(address, size_bytes)
        for observer in self.observers:
            observer.freed(address, size_bytes)
        if self.left_out:
            self._given_up.extend(self.left_out.freed(address))

    def _forget(self, address: int, size_bytes: int) -> None:
        """Forget what is known of memory that was freed."""
        self.host_visible.pop(address, None)
        self.pinned.pop(address, None)
        self._users.pop(address, None)
        self.outstanding.freed(address, size_bytes)

    def used(self, addresses: Iterable[int]) -> None:
        """Run launches that benchmarks left out, if the program uses addresses that they write."""
        if self.left_out and self.left_out.writes(self.allocations_at(addresses)):
            self.complete()

    def changes(self, addresses: Iterable[int]) -> None:
        """Run launches that benchmarks left out, if the program is about to change what they read."""
        if self.left_out and self.left_out.reads(self.allocations_at(addresses)):
            self.complete()

    def repeated(self, kernel: str, values: Sequence[bytes]) -> None:
        """A launch is made: an equal one (kernel and parameter bytes) that was left out need not run."""
        if self.left_out:
            self._given_up.extend(self.left_out.repeated(kernel, values))

    def complete(self) -> None:
        """Run all launches that benchmarks left out."""
        with self.call():
            observers, self.observers = self.observers, tuple(one for one in self.observers if not one.leaves_out)
            try:
                self._given_up.extend(self.left_out.complete())
            finally:
                self.observers = observers

    def allocations_at(self, addresses: Iterable[int]) -> frozenset[int]:
        """The addresses of the allocations that contain these addresses."""
        extents = [self.memory.extent(address) for address in addresses]
        return frozenset(extent[0] for extent in extents if extent is not None)

    def refuse_ended(self, *addresses: int) -> None:
        """Reject memory of another GPU, or from before a reset."""
        for address in addresses:
            given = 0 <= address - GLOBAL_BASE < self.addresses.addresses.end
            if given and self.memory.extent(address) is None and not self.memory.has_given(address):
                raise EndedError(f"memory at address {address:#x}")

    @property
    def registered(self) -> dict[int, Registered]:
        """Registered host memory, by host address."""
        return self.host.registered

    def check_range(self, address: int, size_bytes: int, what: str = "memory") -> None:
        """Reject a range that is not inside one allocation."""
        self.refuse_ended(address)
        extent = self.memory.extent(address)
        if not size_bytes:
            return
        if extent is None:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", f"{what} must be device memory (got address {address:#x})")
        if address + size_bytes > sum(extent):
            raise DriverError(
                "CUDA_ERROR_INVALID_VALUE",
                f"{what} must be in one allocation (got {size_text(size_bytes)} from byte {address - extent[0]:,} on, "
                f"of one of {size_text(extent[1])})",
            )

    def wrote(self, address: int, size_bytes: int) -> None:
        """Report to observers that the host wrote device memory."""
        for observer in self.observers:
            observer.host_wrote(address, size_bytes)

    def reset(self) -> None:
        """Destroy the primary context: its memory, streams, events and modules."""
        self.wait()
        self.outstanding.all_done()
        self.left_out = LeftOut()
        for address, _ in self.memory.allocations():
            self._free_now(address)
        self.memory.retire()
        self.libraries.clear()
        self.library_handles.clear()
        self.accepted.clear()
        self.registered.clear()
        self.events.clear()
        self.streams = {number: Stream() for number in DEFAULT_STREAMS}
        self.broken = ""
        self.graphs.reset()
        self.arrays.clear()
        self.textures.clear()
        self.primary_retained = 0
        self._handles_from = self.new_handle()

    @property
    def capturing(self) -> Capture | None:
        """The capture of a stream in progress."""
        return self.graphs.capturing

    # -- streams and events ---------------------------------------------------------------------------------------

    def stream(self, handle: Any) -> Stream:
        """A stream by its handle."""
        return self._found(self.streams, int(handle), "a stream")

    def working_stream(self, handle: int) -> Stream:
        """A stream by its handle, if no launch has broken the device."""
        found = self.stream(handle)
        self.require_working()
        return found

    def event(self, handle: Any) -> Event:
        """An event by its handle."""
        return self._found(self.events, int(handle), "an event")

    def _found(self, known: dict[int, _Thing], handle: int, subject: str) -> _Thing:
        if handle not in known:
            if FIRST_HANDLE <= handle < self._handles_from:
                raise EndedError(subject)
            raise DriverError("CUDA_ERROR_INVALID_HANDLE")
        return known[handle]

    def call_back(self, stream: Stream, work: Callable[[], None]) -> None:
        """Do work on the driver's thread, after all earlier work there."""
        if self._callback_thread is None:
            self._callback_thread = ThreadPoolExecutor(1, "tilewright-driver")
        stream.callbacks = [future for future in stream.callbacks if not future.done()]
        stream.callbacks.append(self._callback_thread.submit(work))

    def wait(self, stream: Stream | None = None) -> None:
        """Wait for callbacks, of one stream or of all; other threads may make driver calls meanwhile."""
        for found in [stream] if stream else list(self.streams.values()):
            for future in list(found.callbacks):
                future.result()

    def close(self) -> None:
        """End everything; pinned and managed memory that host arrays may still use stays."""
        if self._callback_thread is not None:
            self._callback_thread.shutdown()
        self.closed = True
        self.graphs.reset()
        ours = {library.base for library in self.libraries.values()} | {r.allocation for r in self.registered.values()}
        with self.call(), DeferredSigint():
            self._free_given_up()
            for address, _ in self.memory.allocations():
                if address in ours or address not in self.host_visible:
                    self.memory.free(address)
            self.memory.retire()

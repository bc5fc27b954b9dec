"""The interface through which driver calls reach the program that makes them: its memory, functions and loaded code.

`ThisProcess` in `this_process.py` implements it for calls from the simulated GPU's own process, and `Caller` in
`frontends/programs/protocol.py` for calls from a program in another process.
"""

from __future__ import annotations

import ctypes
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.simulate.device.driver_errors import DriverError


@dataclass(slots=True)
class Registered:
    """Host memory that was registered."""

    size_bytes: int
    address: int  #: Its device address; 0 if it is not mapped.
    allocation: int  #: The device memory that it uses; 0 for none.
    is_copy: bool = True  #: Whether the device has a copy, which is synchronised before and after each use.


class Host(ABC):
    """A maker of calls; memory and functions are those of the simulated GPU's own process.

    `gpu` is the `SimulatedGpu`, which has a host, so that this file does not import it.
    """

    #: Whether its copies to the host are known by addresses alone: no front end tells observers which array is read.
    copies_bytes = False

    def __init__(self) -> None:
        self.registered: dict[int, Registered] = {}  #: By host address.
        self.device_flags = 0  #: What `cudaSetDeviceFlags` was given.

    @property
    @abstractmethod
    def loaded(self) -> Any:
        """The code that the process loaded: a `Loaded`."""

    @property
    def passed(self) -> Any:
        """The arguments of this thread's next launch, a `PassedArguments`; None if only addresses are known."""
        return None

    @property
    def code_gpu(self) -> Any:
        """The GPU that its code is loaded on; None for the one installed at the time of use."""
        return None

    # -- memory -------------------------------------------------------------------------------------------------

    def read(self, address: int, size_bytes: int) -> bytes:
        """Bytes at an address."""
        return ctypes.string_at(address, size_bytes)

    def read_all(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes at several addresses."""
        return [self.read(address, size) for address, size in ranges]

    def unpacked(self, form: str, address: int) -> Any:
        """Values at an address, in a format of `struct`; a single value if there is one."""
        found = struct.unpack(f"<{form}", self.read(address, struct.calcsize(f"<{form}")))
        return found[0] if len(found) == 1 else found

    def words(self, count: int, address: int) -> tuple[int, ...]:
        """`count` words of 8 bytes at an address."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count)) if count else ()

    def text(self, address: int) -> str:
        """The text at an address; "" for address 0."""
        return ctypes.string_at(address).decode("utf-8", "surrogateescape") if address else ""

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to an address; no effect for address 0."""
        if address:
            ctypes.memmove(address, data, len(data))

    def pack(self, form: str, address: int, *values: Any) -> None:
        """Write values to an address, in a format of `struct`."""
        self.write(address, struct.pack(f"<{form}", *values))

    def move(self, target: int, source: int, size_bytes: int) -> None:
        """Copy bytes between host or device addresses; the device's copy of mapped memory gets them too."""
        ctypes.memmove(target, source, size_bytes)
        for at, found in self._mapped():
            start, end = max(at, target), min(at + found.size_bytes, target + size_bytes)
            if start < end:
                ctypes.memmove(found.address + start - at, start, end - start)

    def move_rows(self, target: int, target_step: int, source: int, source_step: int, width: int, rows: int) -> None:
        """Copy rows of bytes."""
        for row in range(rows):
            self.move(target + row * target_step, source + row * source_step, width)

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        """Set bytes."""
        ctypes.memset(address, value & 0xFF, size_bytes)

    def kept(self, gpu: Any, data: bytes) -> int:
        """The address of a copy of these bytes, which lives as long as the host may read it."""
        return int(self.loaded.kept(data))

    def register(self, gpu: Any, start: int, size_bytes: int, *, mapped: bool) -> None:
        """Register host memory."""
        address = gpu.allocate(size_bytes, host_visible=True) if mapped else 0
        self.registered[start] = Registered(size_bytes, address, address)

    def unregister(self, start: int) -> Registered | None:
        """Remove a registration; None if there is none."""
        return self.registered.pop(start, None)

    def in_step(self) -> AbstractContextManager[object]:
        """Device memory is used in the body: mapped memory and its copy are synchronised before and after."""
        mapped = self._mapped()
        return _synchronised(mapped) if mapped else nullcontext()

    def _mapped(self) -> list[tuple[int, Registered]]:
        """The registered memory of which the device has a copy, with its addresses."""
        if not self.registered:
            return []
        return [(at, found) for at, found in self.registered.copy().items() if found.address and found.is_copy]

    # -- files, code, functions ---------------------------------------------------------------------------------

    def path(self, text: str) -> Path:
        """A file by the host's name for it."""
        return Path(text)

    def kernel(self, handle: int) -> Any:
        """A kernel by its handle.

        Raises DriverError: there is no such kernel.
        """
        return self.loaded.kernel(handle)

    def variable(self, address: int) -> tuple[int, int]:
        """Device address and size of a variable of a program, by its address there.

        Raises DriverError: there is no such variable.
        """
        raise DriverError("cudaErrorInvalidSymbol")

    def invoke(self, function: int, *words: int) -> int:
        """Call a function of the host."""
        kind = ctypes.CFUNCTYPE(ctypes.c_size_t, *[ctypes.c_size_t] * len(words))
        return int(kind(function)(*words) or 0)

    def call_back(self, gpu: Any, stream: int, function: int, *words: int) -> None:
        """Call a function of the host when a stream's work is done."""
        found, before = gpu.stream(stream), gpu.outstanding.before(stream)

        def work() -> None:
            gpu.outstanding.known_done(before)
            self.invoke(function, *words)

        gpu.call_back(found, work)

    @abstractmethod
    def launch(
        self, gpu: Any, stream: int, config: Any, kernel: Any, values: Sequence[bytes], passed: Any = None
    ) -> None:
        """Run a kernel with the bytes of its parameters, as a `LaunchConfig` says; `passed` as in `Launch`."""


@contextmanager
def _synchronised(mapped: list[tuple[int, Registered]]) -> Iterator[None]:
    for at, found in mapped:
        ctypes.memmove(found.address, at, found.size_bytes)
    try:
        yield
    finally:
        for at, found in mapped:
            ctypes.memmove(at, found.address, found.size_bytes)

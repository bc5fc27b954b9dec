"""Calls of a program: one connection per thread; a call arrives as words, and requests and a result go back.

`client.hpp` is the program's side, and `messages.h` has the numbers of both. During a call, the program's memory is
read and written through its connection: while it waits for the result, it serves requests. Requests without an answer
are sent together with the result.
"""

from __future__ import annotations

import functools
import mmap
import select
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tilewright.frontends.programs.runtime import Runtime
from tilewright.ground.native.header import header
from tilewright.simulate.device.caller import Host, Registered
from tilewright.simulate.device.gpu import STICKY, DriverError, SimulatedGpu
from tilewright.simulate.device.launching import LaunchConfig, Launcher, facts, launch_key
from tilewright.simulate.observer import PassedArguments
from tilewright.simulate.state import GLOBAL_BASE, SLACK_BYTES

if TYPE_CHECKING:
    from tilewright.frontends.libcuda.loading import Loaded
    from tilewright.simulate.device.modules import Kernel

_NUMBERS = header(Path(__file__).with_name("messages.h")).numbers
_CALLED, _ANSWERED, _LAUNCHED, _MOST_WORDS, _MOST_TICKETS = (
    _NUMBERS[f"TW_{name}"] for name in ("CALLED", "ANSWERED", "LAUNCHED", "MOST_WORDS", "MOST_TICKETS")
)
#: Bytes that are received at once: many launches, which come without waiting for each other.
_MOST_RECEIVED = 1 << 16
#: Requests that have no answer are sent at the latest when they are so many bytes.
_MOST_WAITING = 1 << 20
#: The most that a call reads of the program's memory: a fat binary is not larger.
_MOST_READ = 1 << 30
_HEAD = struct.Struct("<6Q")
_MESSAGE = struct.Struct("<2I")


class EndedConnection(Exception):  # noqa: N818  # no error: a thread of the program has ended
    """The program's side of the connection is closed; or a text says what it sent that `client.hpp` does not send."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """An accepted launch. Launches that differ from it only in the values of parameters need no answer."""

    stream: int
    config: LaunchConfig
    kernel: Kernel
    size_bytes: int  #: Of the packed parameters.


class Answering(Protocol):
    """Performs a program's calls."""

    def __call__(self, caller: Caller, number: int, words: bytes) -> int:
        """The result of a call, by its number and words."""

    def launched(self, caller: Caller, launches: Iterable[tuple[Ticket, bytes]]) -> None:
        """Make launches that have no answer, with packed parameters: an error waits for a later call."""


class Caller(Host):
    """One thread of a program; `answer` performs its calls."""

    copies_bytes = True

    def __init__(self, channel: socket.socket, runtime: Runtime, answer: Answering) -> None:
        super().__init__()
        self.channel = channel
        self.runtime = runtime  #: State of its process on the simulated GPU.
        self.registered = runtime.registered
        self.last_error = 0  #: The error that `cudaGetLastError` returns next; 0 for none.
        self._answer = answer
        self._out = bytearray()
        self._come = b""  # received and not yet read, from `_at` on
        self._at = 0
        self._made: tuple[int, LaunchConfig, Kernel] | None = None  # the launch of the present call
        self._tickets: list[Ticket] = []

    @functools.cached_property
    def _launcher(self) -> Launcher:
        return self.runtime.launcher(self.show)

    @property
    def gpu(self) -> SimulatedGpu:
        """The simulated GPU."""
        return self.runtime.gpu

    @property
    def code_gpu(self) -> SimulatedGpu:
        """The GPU that its code is loaded on."""
        return self.runtime.gpu

    @property
    def loaded(self) -> Loaded:
        """The code loaded by its driver calls."""
        return self.runtime.loaded

    def serve(self) -> None:
        """Answer the calls that have come.

        Raises EndedConnection: the thread has ended, or what came is no call.
        """
        while True:
            message, words = self._message(socket.MSG_DONTWAIT)
            if message == _LAUNCHED:
                self._answer.launched(self, self._launches(words))
            elif message == _CALLED:
                self._call(words)
            else:
                raise EndedConnection("an answer to no question")
            if self._at == len(self._come):
                return

    def _launches(self, words: bytes) -> Iterator[tuple[Ticket, bytes]]:
        """A launch that has a ticket, and those that have come after it, with their packed parameters."""
        while True:
            number = int.from_bytes(words[:8], "little")
            ticket = self._tickets[number] if number < len(self._tickets) else None
            if ticket is None or len(words) != 8 + -(-ticket.size_bytes // 8) * 8:
                raise EndedConnection("a launch without a ticket")
            yield ticket, words[8 : 8 + ticket.size_bytes]
            if not self._is_whole() or _MESSAGE.unpack_from(self._come, self._at)[0] != _LAUNCHED:
                return
            words = self._message(0)[1]

    def launch_again(self, ticket: Ticket, params: bytes) -> None:
        """Make a launch that has a ticket; as :meth:`launch`."""
        try:
            if self._launcher.repeat(launch_key(ticket.config, ticket.kernel), ticket.stream, params):
                return
        except DriverError as error:
            self._note(error)
            return
        program = ticket.kernel.program
        values = [params[at : at + one.bytes] for at, one in zip(program.offsets, program.parameters, strict=True)]
        self.launch(self.gpu, ticket.stream, ticket.config, ticket.kernel, values)

    def give_ticket(self) -> None:
        """Let the program make more launches like the one that it has just made, without waiting for an answer."""
        made, self._made = self._made, None
        if made is None:
            return
        stream, config, kernel = made
        program = kernel.program
        places = [(at, one.bytes) for at, one in zip(program.offsets, program.parameters, strict=True)]
        size_bytes = sum(places[-1]) if places else 0
        if size_bytes > 8 * (_MOST_WORDS - 1) or len(places) > _MOST_WORDS:
            return
        if program.prints or program.launches_kernels:  # their output comes with an answer
            return
        if len(self._tickets) >= _MOST_TICKETS:
            return
        self._tickets.append(Ticket(stream, config, kernel, size_bytes))
        self._ask("TICKET", len(self._tickets) - 1, len(places))
        for place in places:
            self._out += struct.pack("<2I", *place)

    def end_tickets(self) -> None:
        """Take all tickets back, as the program does before a call that may change what a launch means."""
        self._tickets.clear()

    def _call(self, words: bytes) -> None:
        self._made = None
        result = self._answer(self, int.from_bytes(words[:8], "little"), words[8:])
        self._ask("RETURN", result)
        self._flush()

    # -- the program's memory -----------------------------------------------------------------------------------

    def read(self, address: int, size_bytes: int) -> bytes:
        """Bytes of the program's memory."""
        return self.read_all([(address, size_bytes)])[0]

    def read_all(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes at several addresses, in one request."""
        size_bytes = sum(size for _, size in ranges)
        if size_bytes > _MOST_READ:
            raise DriverError("CUDA_ERROR_INVALID_VALUE")
        for address, size in ranges:
            if size:
                self._ask("READ", address, size)
        whole = self._given(size_bytes) if size_bytes else b""
        at, parts = 0, []
        for _, size in ranges:
            parts.append(whole[at : at + size])
            at += size
        return parts

    def text(self, address: int) -> str:
        """The text at an address; "" for address 0."""
        if not address:
            return ""
        self._ask("TEXT", address)
        size_bytes = int.from_bytes(self._given(8), "little")
        if size_bytes > _MOST_READ:
            raise EndedConnection(f"a text of {size_bytes:,} bytes")
        return self._given(size_bytes).decode("utf-8", "surrogateescape")

    def write(self, address: int, data: bytes) -> None:
        """Write bytes to the program's memory; no effect for address 0."""
        if address and data:
            self._ask("WRITE", address, len(data))
            self._out += data

    def move(self, target: int, source: int, size_bytes: int) -> None:
        """Copy bytes between addresses of the program, also in device memory."""
        if size_bytes:
            self._ask("MOVE", target, source, size_bytes)

    def move_rows(self, target: int, target_step: int, source: int, source_step: int, width: int, rows: int) -> None:
        """Copy rows of bytes."""
        steps = struct.pack("<2Q", target_step, source_step)
        self._ask("ROWS", target, source, width, rows)
        self._out += steps

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        """Set bytes."""
        if size_bytes:
            self._ask("SET", address, value & 0xFF, size_bytes)

    def kept(self, gpu: SimulatedGpu, data: bytes) -> int:
        """The address of a copy of these bytes that the program can read, in shared memory."""
        known = self.runtime.kept
        if data not in known or gpu.memory.extent(known[data]) is None:
            known[data] = gpu.allocate(len(data), host_visible=True)
            self.write(known[data], data)
        return known[data]

    def register(self, gpu: SimulatedGpu, start: int, size_bytes: int, *, mapped: bool) -> None:
        """Turn whole pages of the program into device memory, with their contents."""
        first, end = start // mmap.PAGESIZE, -(-(start + size_bytes) // mmap.PAGESIZE)
        whole = (end - first) * mmap.PAGESIZE
        allocation = gpu.allocate(whole + mmap.PAGESIZE, host_visible=True)
        address = -(-allocation // mmap.PAGESIZE) * mmap.PAGESIZE
        self._ask("SHARE", first * mmap.PAGESIZE, address - GLOBAL_BASE + SLACK_BYTES, whole)
        self.registered[start] = Registered(size_bytes, address + start % mmap.PAGESIZE, allocation, is_copy=False)

    def unregister(self, start: int) -> Registered | None:
        """Undo a registration."""
        found = super().unregister(start)
        if found is not None:
            first, end = start // mmap.PAGESIZE, -(-(start + found.size_bytes) // mmap.PAGESIZE)
            self._ask("UNSHARE", first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE)
            self.read(GLOBAL_BASE, 8)  # it must finish before the memory is freed
        return found

    # -- files, code, functions ---------------------------------------------------------------------------------

    def path(self, text: str) -> Path:
        """A file by the program's name for it."""
        return Path(f"/proc/{self.runtime.process}/cwd", text)

    def kernel(self, handle: int) -> Kernel:
        """A kernel by its function in the program, or by its handle."""
        return self.runtime.kernel(handle)

    def variable(self, address: int) -> tuple[int, int]:
        """Device address and size of a variable of the program."""
        return self.runtime.variable(address)

    def show(self, text: str, descriptor: int = 1) -> None:
        """Print a kernel's output, after what the program printed before."""
        data = text.encode("utf-8", "surrogateescape")
        self._ask("PRINT", descriptor, len(data))
        self._out += data

    def invoke(self, function: int, *words: int) -> int:
        """Call a function of the program, which may make calls of its own."""
        self._ask("INVOKE", function, *words)
        self._flush()
        while True:
            message, given = self._message(0)
            if message == _ANSWERED:
                return int.from_bytes(given[:8], "little")
            if message == _LAUNCHED:
                self._answer.launched(self, self._launches(given))
            else:
                self._call(given)

    def call_back(self, gpu: SimulatedGpu, stream: int, function: int, *words: int) -> None:
        """Call a function of the program: the earlier work of its stream is done."""
        gpu.stream(stream)
        self.invoke(function, *words)

    def launch(
        self,
        gpu: SimulatedGpu,
        stream: int,
        config: LaunchConfig,
        kernel: Kernel,
        values: Sequence[bytes],
        passed: PassedArguments | None = None,
    ) -> None:
        """Run a kernel; the next call reports its failure.

        Raises DriverError: the launch is rejected.
        """
        if self._out:  # a graph may have copied before this
            self.read(GLOBAL_BASE, 8)
        self._launcher.note(lambda given: facts(gpu, given))
        try:
            self._launcher.launch(stream, config, kernel, *values)
        except DriverError as error:
            self._note(error)
        else:
            self._made = stream, config, kernel

    def _note(self, error: DriverError) -> None:
        """Keep the failure of a launch for the next call; raises the error of one that was rejected."""
        if error.code not in STICKY:
            raise error
        self.runtime.failed(error)

    # -- bytes --------------------------------------------------------------------------------------------------

    def _ask(self, request: str, *words: int) -> None:
        """Send a request of `messages.h`, by its name without the prefix."""
        if len(self._out) > _MOST_WAITING:
            self._flush()
        given = [word & (1 << 64) - 1 for word in words]
        self._out += _HEAD.pack(_NUMBERS[f"TW_{request}"], *given, *[0] * (5 - len(words)))

    def _flush(self) -> None:
        try:
            self.channel.sendall(self._out)
        except OSError as error:
            raise EndedConnection from error
        finally:
            self._out.clear()

    def _given(self, size_bytes: int) -> bytes:
        if self._out:
            self._flush()
        return self._received(size_bytes)

    def _received(self, size_bytes: int) -> bytes:
        held = self._come[self._at : self._at + size_bytes]
        self._at += len(held)
        if len(held) == size_bytes:
            return held
        data = bytearray(held.ljust(size_bytes, b"\0"))
        view, at = memoryview(data), len(held)
        while at < size_bytes:
            try:
                got = self.channel.recv_into(view[at:])
            except OSError as error:
                raise EndedConnection from error
            if not got:
                raise EndedConnection
            at += got
        return bytes(data)

    def _message(self, flags: int) -> tuple[int, bytes]:
        """A message, which its sender sent at once; without the flag `MSG_DONTWAIT` it may still come."""
        if self._at == len(self._come):
            self._receive(flags)
        elif not self._is_whole():  # the rest of what its sender sent is there
            self._receive(socket.MSG_DONTWAIT)
        if not self._is_whole():
            raise EndedConnection("a message that is none")
        message, count = _MESSAGE.unpack_from(self._come, self._at)
        return message, self._received(_MESSAGE.size + 8 * count)[_MESSAGE.size :]

    def _receive(self, flags: int) -> None:
        """Receive what has come, behind what is not yet read."""
        try:
            packet = self.channel.recv(_MOST_RECEIVED, flags)
        except OSError as error:
            raise EndedConnection from error
        if not packet:
            raise EndedConnection
        self._come, self._at = self._come[self._at :] + packet, 0

    def has_come(self) -> bool:
        """Whether something has come, or the connection has ended."""
        ready = select.poll()
        ready.register(self.channel, select.POLLIN)
        return bool(ready.poll(0))

    def _is_whole(self) -> bool:
        """Whether a whole message is there."""
        there = len(self._come) - self._at
        if there < _MESSAGE.size:
            return False
        message, count = _MESSAGE.unpack_from(self._come, self._at)
        if not (_CALLED <= message <= _LAUNCHED and 0 < count <= _MOST_WORDS):
            return False
        return there >= _MESSAGE.size + 8 * int(count)

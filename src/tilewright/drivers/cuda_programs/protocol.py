"""Calls of a program as they come: one connection a thread, words in, requests and a result out.

`client.hpp` has the other side. While a call is answered, the program's own memory is read and written through its
connection: it waits for the result, and does meanwhile what is asked. What needs no answer is sent together with the
result.
"""

from __future__ import annotations

import enum
import socket
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.simt.translate.state import GLOBAL_BASE

if TYPE_CHECKING:
    from tilewright.drivers.cuda_programs.runtime import Runtime
    from tilewright.drivers.gpu import SimulatedGpu

_CALLED, _ANSWERED = 1, 2
_HEAD = struct.Struct("<6Q")
_MESSAGE = struct.Struct("<2I")


class Request(enum.IntEnum):
    """What the program's side does, by `client.hpp`."""

    RETURN = 0
    READ = 1
    WRITE = 2
    MOVE = 3
    SET = 4
    INVOKE = 5
    PRINT = 6
    SHARE = 7
    UNSHARE = 8
    TEXT = 9
    ROWS = 10


class EndedConnection(Exception):  # noqa: N818  # no error: a thread of the program has ended
    """The program's side is gone."""


class Caller:
    """One thread of a program; `answer` gives the result of a call by its number and words.

    Attributes
    ----------
    runtime : Runtime
        What its process has on the simulated GPU.
    last_error : int
        The error that `cudaGetLastError` gives next; 0 for none.
    """

    def __init__(self, channel: socket.socket, runtime: Runtime, answer: Callable[[Caller, int, bytes], int]) -> None:
        self.channel = channel
        self.runtime = runtime
        self.last_error = 0
        self._answer = answer
        self._out = bytearray()

    @property
    def gpu(self) -> SimulatedGpu:
        """The simulated GPU."""
        return self.runtime.gpu

    def serve(self) -> None:
        """Answer one call.

        Raises EndedConnection: there is none any more.
        """
        message, words = self._message()
        if message == _CALLED:
            self._call(words)

    def _call(self, words: bytes) -> None:
        result = self._answer(self, int.from_bytes(words[:8], "little"), words[8:])
        self._ask(Request.RETURN, result)
        self._flush()

    # -- the program's memory -----------------------------------------------------------------------------------

    def read(self, address: int, size_bytes: int) -> bytes:
        """Bytes of the program's memory."""
        if not size_bytes:
            return b""
        self._ask(Request.READ, address, size_bytes)
        return self._given(size_bytes)

    def read_all(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes at several addresses, asked for together."""
        for address, size in ranges:
            self._ask(Request.READ, address, size)
        whole = self._given(sum(size for _, size in ranges))
        at, parts = 0, []
        for _, size in ranges:
            parts.append(whole[at : at + size])
            at += size
        return parts

    def unpacked(self, form: str, address: int) -> Any:
        """Values at an address, by a format of `struct`; the one, where it is one."""
        found = struct.unpack(f"<{form}", self.read(address, struct.calcsize(f"<{form}")))
        return found[0] if len(found) == 1 else found

    def text(self, address: int) -> str:
        """A text at an address; "" at none."""
        if not address:
            return ""
        self._ask(Request.TEXT, address)
        return self._given(int.from_bytes(self._given(8), "little")).decode("utf-8", "surrogateescape")

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the program's memory; nothing at no address."""
        if address and data:
            self._ask(Request.WRITE, address, len(data))
            self._out += data

    def pack(self, form: str, address: int, *values: Any) -> None:
        """Put values at an address, by a format of `struct`."""
        self.write(address, struct.pack(f"<{form}", *values))

    def move(self, target: int, source: int, size_bytes: int) -> None:
        """Copy bytes between addresses of the program, device memory included."""
        if size_bytes:
            self._ask(Request.MOVE, target, source, size_bytes)

    def move_rows(self, target: int, target_step: int, source: int, source_step: int, width: int, rows: int) -> None:
        """Copy rows of bytes."""
        self._ask(Request.ROWS, target, source, width, rows)
        self._out += struct.pack("<2Q", target_step, source_step)

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        """Set bytes."""
        if size_bytes:
            self._ask(Request.SET, address, value & 0xFF, size_bytes)

    def share(self, address: int, offset: int, size_bytes: int) -> None:
        """Let whole pages of the program's memory be those of device memory at an offset, with what they hold."""
        self._ask(Request.SHARE, address, offset, size_bytes)

    def unshare(self, address: int, size_bytes: int) -> None:
        """Undo that."""
        self._ask(Request.UNSHARE, address, size_bytes)

    def show(self, text: str, descriptor: int = 1) -> None:
        """Print what a kernel did, behind what the program printed before."""
        data = text.encode("utf-8", "surrogateescape")
        self._ask(Request.PRINT, descriptor, len(data))
        self._out += data

    def invoke(self, function: int, *words: int) -> int:
        """Call a function of the program, which may make calls of its own."""
        self._ask(Request.INVOKE, function, *words)
        self._flush()
        while True:
            message, given = self._message()
            if message == _ANSWERED:
                return int.from_bytes(given[:8], "little")
            self._call(given)

    def settle(self) -> None:
        """Have everything done that was asked for, before a kernel uses memory."""
        if self._out:
            self.read(GLOBAL_BASE, 8)

    # -- bytes --------------------------------------------------------------------------------------------------

    def _ask(self, request: Request, *words: int) -> None:
        self._out += _HEAD.pack(request, *[word & (1 << 64) - 1 for word in words], *[0] * (5 - len(words)))

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
        data = bytearray(size_bytes)
        view, at = memoryview(data), 0
        while at < size_bytes:
            try:
                got = self.channel.recv_into(view[at:])
            except OSError as error:
                raise EndedConnection from error
            if not got:
                raise EndedConnection
            at += got
        return bytes(data)

    def _message(self) -> tuple[int, bytes]:
        message, count = _MESSAGE.unpack(self._received(_MESSAGE.size))
        return message, self._received(8 * count)

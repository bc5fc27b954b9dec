"""What a program sends that its library would not: an error for values out of range, and the end of its connection."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright.frontends import programs
from tilewright.frontends.libcuda import errors
from tilewright.frontends.libcuda.structures import Block, Side
from tilewright.frontends.libcuda.transfers import copy_block
from tilewright.frontends.programs import process
from tilewright.frontends.programs.answers import CALLS, Answers
from tilewright.frontends.programs.headers import Function
from tilewright.frontends.programs.library import answered
from tilewright.frontends.programs.process import Served
from tilewright.frontends.programs.protocol import Caller, EndedConnection
from tilewright.frontends.programs.runtime import Runtime
from tilewright.frontends.this_process import ThisProcess
from tilewright.ground.native.header import header
from tilewright.simulate.device.gpu import SimulatedGpu

pytest.importorskip("nvidia")
HEAD, INVALID = struct.Struct("<6Q"), 1
REQUESTS = header(Path(programs.__file__).with_name("messages.h")).numbers
#: What calls are given: small numbers, signs, and the ends of types.
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    64,
    255,
    1 << 16,
    1 << 20,
    1 << 31,
    (1 << 31) - 1,
    (1 << 32) - 1,
    1 << 40,
    1 << 63,
    (1 << 64) - 1,
)


Functions = tuple[Function, ...]


class Program:
    """A thread of a program: it serves requests as `client.hpp` does, of memory that is small numbers everywhere."""

    def __init__(self, gpu: SimulatedGpu, functions: Functions, seed: int = 0) -> None:
        ours, self.channel = socket.socketpair()
        self.random = random.Random(seed)
        self.numbers = {function.name: number for number, function in enumerate(functions)}
        self.caller = Caller(ours, Runtime(gpu, os.getpid(), report=lambda text: None), Answers(functions))
        self.result: int | None = None
        self.answered = threading.Semaphore(0)
        self.handles: list[int] = []  #: What calls wrote: handles and addresses.
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def call(self, name: str, words: bytes) -> int:
        """The result of one call."""
        self.result = None
        packet = struct.pack("<2IQ", 1, 1 + len(words) // 8, self.numbers[name]) + words
        self.channel.sendall(packet)
        self.caller.serve()
        self.answered.acquire(timeout=10)
        assert self.result is not None, name
        return self.result

    def _serve(self) -> None:
        with self.channel, contextlib.suppress(OSError, EOFError):
            while True:
                self._answer(*HEAD.unpack(self._received(HEAD.size)))

    def _answer(self, request: int, a: int, b: int, c: int, *_: int) -> None:
        if request == REQUESTS["TW_RETURN"]:
            self.result = a
            self.answered.release()
        elif request == REQUESTS["TW_READ"]:
            if b > 1 << 20:
                raise EOFError  # no such memory
            pattern: bytes = self.random.choice((b"\0", b"\1", b"\xff", b"\1\0\0\0\0\0\0\0"))
            self.channel.sendall((pattern * b)[:b])
        elif request == REQUESTS["TW_TEXT"]:
            self.channel.sendall(struct.pack("<Q", 3) + b"abc")
        elif request in (REQUESTS["TW_WRITE"], REQUESTS["TW_PRINT"]):
            data = self._received(b)
            if b == 8:
                self.handles.append(int.from_bytes(data, "little"))
        elif request == REQUESTS["TW_ROWS"]:
            self._received(16)
        elif request == REQUESTS["TW_INVOKE"]:
            self.channel.sendall(struct.pack("<2IQ", 2, 1, 0))

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.channel.recv(size - len(data)) or self._end()
        return data

    def _end(self) -> bytes:
        raise EOFError


@pytest.fixture(scope="module")
def functions() -> Functions:
    return answered(tuple(CALLS))


@pytest.fixture
def gpu() -> Iterator[SimulatedGpu]:
    made = SimulatedGpu(ThisProcess(), "h100", addresses=process.shared_addresses())
    yield made
    made.close()
    made.addresses.addresses.arena.close()


@pytest.fixture
def program(gpu: SimulatedGpu, functions: Functions) -> Iterator[Program]:
    made = Program(gpu, functions)
    yield made
    made.caller.channel.close()


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *(value % (1 << 64) for value in values))


@pytest.mark.parametrize("seed", range(4))
def test_calls_with_any_values_are_answered(gpu: SimulatedGpu, functions: Functions, seed: int) -> None:
    """300 calls: each gets a result, or ends its own connection, and the next program is served."""
    random_, program, ended = random.Random(seed), Program(gpu, functions, seed), 0
    for function in random_.choices(functions, k=300):
        given = words(*(random_.choice((*NUMBERS, *program.handles[-12:])) for _ in range(function.layout.size // 8)))
        program.caller.gpu.broken = ""
        try:
            program.call(function.name, given)
        except EndedConnection:
            ended += 1
            program.caller.channel.close()
            program = Program(gpu, functions, seed)
    assert ended < 30
    assert program.call("cudaGetDeviceCount", words(64)) == 0
    program.caller.channel.close()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("cudaDeviceGetAttribute", (8, 9999, 0)), ("cudaDeviceGetAttribute", (8, 0, 0)),
        ("cuDeviceGetAttribute", (8, -1, 0)), ("cuDeviceGetAttribute", (8, 1 << 31, 0)),
        ("cuPointerGetAttributes", ((1 << 31) - 1, 8, 8, 8)), ("cuPointerGetAttributes", ((1 << 32) - 1, 8, 8, 8)),
        ("cuPointerGetAttributes", (64, 8, 8, 8)), ("cuLinkAddData", (1, 1, 8, 1 << 50, 8, 0, 0, 0)),
        ("cudaGraphAddEmptyNode", (8, 1, 8, 1 << 40)), ("cudaStreamCreateWithFlags", (8, 0xFF)),
        ("cudaEventCreateWithFlags", (8, 0xFFFF)), ("cudaHostAlloc", (8, 16, 0xFF)),
    ],
)  # fmt: skip
def test_values_that_no_call_has(program: Program, name: str, given: tuple[int, ...]) -> None:
    assert program.call("cudaFree", words(0)) == 0
    assert program.call(name, words(*given)) in (INVALID, errors.code_of("CUDA_ERROR_INVALID_HANDLE"))
    assert program.call("cuDeviceGetAttribute", words(8, 1, 0)) == 0


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("cudaMemset2D", (0, 0, 0, 0, 1 << 40)), ("cudaMemset2D", (0, 0, 0, 1 << 40, 0)),
        ("cudaMemset2D", (8, 1 << 40, 0, 0, 1 << 63)), ("cudaMemset2DAsync", (0, 0, 0, 0, 1 << 40, 0)),
        ("cudaMemset3D", (0, 0, 0, 0, 0, 0, 1 << 40, 1 << 40)), ("cudaMemset3D", (0, 0, 0, 0, 0, 8, 0, 1 << 40)),
        ("cudaMemcpy2D", (0, 0, 0, 0, 0, 1 << 40, 1)), ("cudaMemcpy2D", (0, 8, 0, 8, 8, 0, 1)),
        ("cudaMemcpy2DAsync", (0, 0, 0, 0, 0, 1 << 40, 1, 0)),
    ],
)  # fmt: skip
def test_copies_and_sets_of_nothing_end_at_once(program: Program, name: str, given: tuple[int, ...]) -> None:
    assert program.call(name, words(*given)) == 0


@pytest.mark.parametrize("extent", [(0, 1 << 40, 1 << 40), (1 << 40, 0, 1 << 40), (1 << 40, 1 << 40, 0)])
def test_copies_of_planes_of_nothing_end_at_once(gpu: SimulatedGpu, extent: tuple[int, int, int]) -> None:
    copy_block(gpu, Block(Side(0, 0, 0), Side(0, 0, 0), *extent, 4))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("cudaMemset2D", (0, 0, 1, 1 << 40)), ("cudaMemset2D", (4, 0, 8, 2)), ("cudaMemset2D", (8, 0, 8, 1 << 40)),
        ("cudaMemset3D", (0, 8, 1, 0, 8, 1, 1 << 40)),
        ("cudaMemset3D", (8, 8, 0, 0, 8, 1, 1 << 40)), ("cudaMemset3D", (8, 8, 1, 0, 8, 2, 1 << 40)),
    ],
)  # fmt: skip
def test_sets_that_would_never_end_are_refused(program: Program, name: str, given: tuple[int, ...]) -> None:
    """Rows or planes that lie on each other, or outside the memory."""
    assert program.call("cudaMalloc", words(8, 64)) == 0
    assert program.call(name, words(program.handles[-1], *given)) == INVALID
    assert program.call("cudaMemset2D", words(program.handles[-1], 8, 0, 8, 8)) == 0


NO_MESSAGE, NO_CALL, NO_QUESTION = "a message that is none", "bytes, which is none", "an answer to no question"
NO_TICKET = "a launch without a ticket"
#: What is sent, and what is said of it.
MESSAGES = {
    "of an unknown kind": (struct.pack("<2IQ", 4, 1, 0), NO_MESSAGE),
    "a launch without a ticket": (struct.pack("<2IQ", 3, 1, 0), NO_TICKET),
    "an answer to no question": (struct.pack("<2IQ", 2, 1, 0), NO_QUESTION),
    "without words": (struct.pack("<2I", 1, 0), NO_MESSAGE),
    "of more words than come": (struct.pack("<2I4Q", 1, 30, 0, 0, 0, 0), NO_MESSAGE),
    "of more words than any": (struct.pack("<2I", 1, (1 << 32) - 1) + bytes(4096), NO_MESSAGE),
    "less than a head": (b"\1\0\0", NO_MESSAGE),
    "no such call": (struct.pack("<2IQ", 1, 1, 1_000_000), NO_CALL),
    "a negative call": (struct.pack("<2Iq", 1, 1, -1), NO_CALL),
    "too many arguments": (struct.pack("<2I", 1, 40) + bytes(320), NO_CALL),
    "too few arguments": (struct.pack("<2IQ", 1, 1, 0), NO_CALL),
}


@pytest.mark.parametrize(("message", "said"), MESSAGES.values(), ids=MESSAGES.keys())
def test_messages_that_are_none_end_the_connection(program: Program, message: bytes, said: str) -> None:
    program.channel.sendall(message)
    with pytest.raises(EndedConnection, match=said):
        program.caller.serve()


def connections(served: Served) -> list[Caller]:
    return [key.data for key in served._selector.get_map().values() if isinstance(key.data, Caller)]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def of_kind(kind: str, held: contextlib.ExitStack) -> int:
    """A descriptor that is no connection of the library."""
    if kind == "file":
        return held.enter_context(Path(__file__).open()).fileno()
    if kind == "inet":
        return held.enter_context(socket.socket()).fileno()
    one, other = socket.socketpair(type=socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
    held.enter_context(one)
    held.enter_context(other)
    if kind == "closed":
        other.close()
    return one.fileno()


@pytest.mark.parametrize("kind", ["file", "inet", "datagram", "closed", "nothing"])
def test_descriptors_that_are_no_connections(gpu: SimulatedGpu, functions: Functions, kind: str) -> None:
    """They are closed, and the next connection is made."""
    gc.collect()  # descriptors that earlier tests left open would be closed meanwhile
    served, before = Served(gpu, Answers(functions)), open_descriptors()
    with contextlib.ExitStack() as held:
        if kind == "nothing":
            served.theirs.send(b"x")
        else:
            socket.send_fds(served.theirs, [b"x"], [of_kind(kind, held)])
        served._connect()
    assert not connections(served) and open_descriptors() == before
    one, other = socket.socketpair()
    with one, other:
        socket.send_fds(served.theirs, [b"x"], [one.fileno()])
        served._connect()
        assert len(connections(served)) == 1
    served.close()

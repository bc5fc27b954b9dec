"""Runs a program in its own process, and answers its calls until it ends.

The program inherits one end of a socket pair, through which its threads request connections; it shares the anonymous
device memory. Neither has a name, so nothing remains when the processes end, however they end.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tilewright.frontends.programs.answers import CALLS, Answers
from tilewright.frontends.programs.library import NAMES, Library, built
from tilewright.frontends.programs.protocol import Caller, EndedConnection
from tilewright.frontends.programs.runtime import Runtime
from tilewright.frontends.script import INTERRUPTED, Ended
from tilewright.ground.native import secure_files
from tilewright.simulate.device.device_addresses import DeviceAddresses, largest
from tilewright.simulate.device.gpu import SimulatedGpu
from tilewright.simulate.run.allocations import Arena
from tilewright.simulate.state import GLOBAL_BASE, SLACK_BYTES

#: As in `client.hpp`.
_DESCRIPTOR = "TILEWRIGHT_PROGRAM"
_ARENA = struct.Struct("<2Q")
#: Seconds in which a program must end after Ctrl-C.
_GRACE_SECONDS = 2.0
#: Most packets of each thread that are answered before another thread connects.
_MOST_BEFORE = 16


def library() -> Library:
    """The library for programs, with all implemented functions."""
    return built(tuple(CALLS))


def shared_addresses() -> DeviceAddresses:
    """Device addresses that a program can map."""
    return DeviceAddresses(largest(lambda size: Arena(size, shared=True)))


class Served:
    """A running program, with its threads' connections."""

    def __init__(self, gpu: SimulatedGpu, answers: Answers) -> None:
        self._gpu = gpu
        self._answers = answers
        self._runtimes: dict[int, Runtime] = {}
        self._selector = selectors.DefaultSelector()
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._selector.register(self._ours, selectors.EVENT_READ)

    def close(self) -> None:
        """End all connections."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, Caller):
                key.data.channel.close()
        self._selector.close()
        self._ours.close()
        self.theirs.close()

    def until_end(self, process: subprocess.Popen[bytes]) -> int:
        """Answer calls until the program ends; return its status."""
        watch = os.pidfd_open(process.pid)
        self._selector.register(watch, selectors.EVENT_READ)
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._ours:
                        self._connect()
                    elif isinstance(key.data, Caller):
                        self._answer(key.data)
                    elif process.poll() is not None:
                        if not process.returncode:
                            self._finish()
                        return process.returncode
        finally:
            self._selector.unregister(watch)
            os.close(watch)

    def _callers(self) -> list[Caller]:
        return [key.data for key in self._selector.get_map().values() if isinstance(key.data, Caller)]

    def _finish(self) -> None:
        """Make the launches that a program did not wait for."""
        for caller in self._callers():
            while self._answer(caller):
                pass

    def _connect(self) -> None:
        """Connect a thread of the program, and send it the device memory.

        What other threads have sent comes first: it may be launches that this thread knows of.
        """
        for caller in self._callers():
            for _ in range(_MOST_BEFORE):
                if not self._answer(caller):
                    break
        _, descriptors, _, _ = socket.recv_fds(self._ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
        for descriptor in descriptors:
            try:
                channel = socket.socket(fileno=descriptor)
            except OSError:  # no socket
                os.close(descriptor)
                continue
            try:
                if (channel.family, channel.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
                    raise OSError("no connection of Tilewright's library")
                channel.setblocking(True)
                arena = self._gpu.addresses.addresses.arena
                total = arena.size_bytes + 2 * SLACK_BYTES
                socket.send_fds(channel, [_ARENA.pack(GLOBAL_BASE - SLACK_BYTES, total)], [arena.descriptor or 0])
                caller = Caller(channel, self._runtime(channel), self._answers)
                self._selector.register(channel, selectors.EVENT_READ, caller)
            except OSError:
                channel.close()

    def _runtime(self, channel: socket.socket) -> Runtime:
        credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        process = struct.unpack("3i", credentials)[0]
        if process not in self._runtimes:
            self._runtimes[process] = Runtime(self._gpu, process, report=report)
        return self._runtimes[process]

    def _answer(self, caller: Caller) -> bool:
        """Answer the calls that have come; False if there were none or the connection has ended.

        `_connect` may have answered a caller, or ended its connection, since it was found ready.
        """
        if caller.channel.fileno() < 0 or not caller.has_come():
            return False
        try:
            caller.serve()
            return True
        except EndedConnection as ended:
            if str(ended):
                report(f"a connection of the program is closed, which sent {ended}")
            self._selector.unregister(caller.channel)
            caller.channel.close()
            return False


def report(text: str) -> None:
    """Print a line of ours on standard error."""
    print(f"tilewright: {text}", file=sys.stderr, flush=True)


def run(made: Library, program: Path, argv: Sequence[str], gpu: SimulatedGpu, name: str) -> Ended:
    """Run a program with its arguments, and wait for it.

    `name` is its `argv[0]`.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(secure_files.working_folder())
        made.placed(folder)
        served = Served(gpu, Answers(made.functions))
        stack.callback(served.close)
        descriptor = served.theirs.fileno()
        sys.stdout.flush()
        process = subprocess.Popen(
            [name, *argv], executable=program.absolute(), pass_fds=[descriptor], env=_environment(folder, descriptor)
        )
        stack.callback(_end, process)
        try:
            status = served.until_end(process)
        except KeyboardInterrupt as error:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_SECONDS)
            return Ended(INTERRUPTED, error)
    return Ended(status) if status >= 0 else _by_signal(-status)


def _environment(folder: Path, descriptor: int) -> Mapping[str, str]:
    """The program's environment: ours, with the library first in the search path."""
    before = os.environ
    preload = [str(folder / NAMES[0]), before.get("LD_PRELOAD", "")]
    path = [str(folder), before.get("LD_LIBRARY_PATH", "")]
    return {
        **before,
        _DESCRIPTOR: str(descriptor),
        "LD_PRELOAD": ":".join(filter(None, preload)),
        "LD_LIBRARY_PATH": ":".join(filter(None, path)),
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _by_signal(number: int) -> Ended:
    """The result for a program that a signal ended, as in a shell; prints a line about it."""
    if number == signal.SIGINT:
        return Ended(INTERRUPTED, KeyboardInterrupt())
    print(f"tilewright: the program was ended by {signal.Signals(number).name}", file=sys.stderr, flush=True)
    return Ended(128 + number)

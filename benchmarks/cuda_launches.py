"""Measures what launches of a CUDA program leave in the process that has the simulated GPU.

    python benchmarks/cuda_launches.py [--launches 10000] [--warm 1000]

`cuda_launches.cu` makes a stream, an event and memory for each launch, and frees them. The script prints how much the
resident memory of the simulated GPU's process grows between the first launches and the last. Then two programs run at
the same time, and one is killed: neither a process nor anything in shared memory may be left. The status is 1 if
something is left.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".cu")
_LANES = 32


class Program:
    """The running program, which waits at its marks."""

    def __init__(self, warm: int, launches: int, folder: Path) -> None:
        self.counts = warm, launches
        command = [sys.executable, "-m", "tilewright", "run", str(_SOURCE), str(warm), str(launches)]
        environment = {**os.environ, "TMPDIR": str(folder)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def reached(self, text: str, launches: int) -> int:
        """Wait for a mark; gives the resident bytes of the simulated GPU's process there."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line != f"{text} {_LANES * launches}\n":
            raise SystemExit(f"the program must say '{text} {_LANES * launches}' (got {line!r})")
        status = Path(f"/proc/{self.process.pid}/status").read_text("utf-8")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) << 10

    def go_on(self) -> None:
        """Let it continue."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ended(self) -> int:
        """Its status."""
        self.process.communicate(timeout=600)
        return self.process.returncode


def grown(program: Program) -> int:
    """By how many bytes the process grows from the first mark to the second."""
    warm, launches = program.counts
    before = program.reached("warm", warm)
    program.go_on()
    after = program.reached("done", warm + launches)
    program.go_on()
    if program.ended():
        raise SystemExit("the program must end well")
    return after - before


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text("utf-8").split()]


def left_by_a_killed_program(folder: Path) -> list[str]:
    """Remains of a killed program: processes, shared memory, files."""
    before = _names(Path("/dev/shm"))
    program = Program(10, 10, folder)
    program.reached("warm", 10)
    (child,) = children(program.process.pid)
    os.kill(child, signal.SIGKILL)
    status = program.ended()
    left = [f"status {status}"] if status != 128 + signal.SIGKILL else []
    time.sleep(0.1)
    left += [f"process {child}"] if Path(f"/proc/{child}").exists() else []
    return left + sorted(_names(Path("/dev/shm")) - before | _names(folder))


def _names(folder: Path) -> set[str]:
    """The files in shared memory, except Python's semaphores, which other processes of the host make and remove."""
    return {path.name for path in folder.iterdir() if not path.name.startswith("sem.mp-")}


def main() -> None:
    """Measure and print; 1 if something is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--warm", type=int, default=1000)
    parser.add_argument("--slack", type=int, default=1 << 20, help="bytes of growth that are the allocator's, no leak")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        both = [Program(options.warm, options.launches, folder) for _ in range(2)]
        sizes = [grown(one) for one in both]
        print(f"{options.launches:,} launches of two programs at once: grown by {sizes[0]:,} and {sizes[1]:,} bytes")
        left = left_by_a_killed_program(folder)
        print(f"left by a program that is killed: {', '.join(left) or 'nothing'}")
    sys.exit(bool(left) or max(sizes) > options.slack)


if __name__ == "__main__":
    main()

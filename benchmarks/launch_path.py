"""The way of a warm launch through the source: modules, Python calls, crossings between modules, kernel executions.

    python benchmarks/launch_path.py [--times]

Each kind of launch runs until nothing is left to compile, and then once more under `sys.setprofile`. A call counts if
the called function is in the package; a crossing is a call from a function of one of its modules to one of another.
Threads that a launch starts do not count. These are counts, so a busy host does not change them.

`--times` measures microseconds of processor time instead, of all threads and processes. Run it with two commits in
turns. CuPy is measured if it is installed. A CUDA program's launches are the difference between many of them and few,
in a process of their own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numba import cuda

import tilewright as tw
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.observe.profiling import Profiles
from tilewright.simulate.run.execution import Execution

_ROOT = str(Path(tw.__file__).parent)
#: Launches before the counted one: code is made, compiled better and taken over in the first ones.
_WARM = 6


@dataclass(frozen=True, slots=True)
class Way:
    """What one warm launch takes."""

    modules: int  #: Modules of the package whose functions it calls.
    calls: int  #: Calls of Python functions of the package.
    crossings: int  #: Those from a function of another module of the package.
    executions: int  #: Times that the machine runs the kernel.


def way(launch: Callable[[], Any]) -> Way:
    """Count a warm launch."""
    for _ in range(_WARM):
        launch()
    modules: set[str] = set()
    calls = crossings = executions = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls, crossings, executions
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(_ROOT):
            return
        calls += 1
        modules.add(file)
        executions += frame.f_code is Execution.run.__code__
        caller = frame.f_back
        crossings += (
            caller is not None and caller.f_code.co_filename.startswith(_ROOT) and (caller.f_code.co_filename != file)
        )

    sys.setprofile(count)
    try:
        launch()
    finally:
        sys.setprofile(None)
    return Way(len(modules), calls, crossings, executions)


TEXT = """extern "C" __global__ void double_it(const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i];
}"""


@cuda.jit
def double(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i]


def ways() -> dict[str, Way]:
    """Each kind of launch of one small kernel."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    program = tw.programs.Program.from_cuda(TEXT, "double_it")
    request: Any = (program, 2, 32, (x, y))
    found = {
        "simt.launch": way(lambda: tw.simt.launch(*request)),
        "check": way(lambda: tw.check(*request)),
        "profile": way(lambda: tw.profile(*request)),
    }
    with tw.simulated_gpu():
        on_gpu = cuda.to_device(x), cuda.to_device(y)
        found["numba"] = way(lambda: double[2, 32](*on_gpu))
    with tw.simulated_gpu(check=True):
        found["simt.launch, checked"] = way(lambda: tw.simt.launch(*request))
        on_gpu = cuda.to_device(x), cuda.to_device(y)
        found["numba, checked"] = way(lambda: double[2, 32](*on_gpu))
    with tw.simulated_gpu(check=True, observers=[Profiles()]):
        found["simt.launch, checked and profiled"] = way(lambda: tw.simt.launch(*request))
    return found


#: A CUDA program of as many launches as its argument says.
_PROGRAM = """#include <cstdlib>
__global__ void step(float *x, int i) { x[threadIdx.x] += i; }
int main(int, char **words) {
  float *x;
  cudaMalloc(&x, 128);
  for (int i = atoi(words[1]); i; i--) step<<<1, 32>>>(x, i);
  return cudaDeviceSynchronize();
}"""
_FEW, _MANY = 100, 2100


def least_us(launch: Callable[[], Any], launches: int = 60, rounds: int = 15) -> float:
    """Microseconds of processor time of a warm launch, in the quickest round, because others use this machine too."""
    for _ in range(_WARM):
        launch()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(launches):
            launch()
        found.append(time.process_time() - start)
    return 1e6 * min(found) / launches


def tiled() -> Callable[[], Any]:
    """A launch of the ladder's tiled kernel at 64^3, with its arrays copied in and back."""
    record = catalogue.find("tiled")
    a, b = operands(64, 64, 64, "float32")
    arguments = record.arguments(a, b, np.zeros((64, 64), np.float32))
    program, shape = record.program("float32"), record.launch_rule(64, 64, 64)
    return lambda: tw.simt.launch(program, shape.grid, shape.block, arguments)


def program_us(rounds: int = 3) -> float:
    """The same of a launch of a CUDA program."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "step.cu"
        source.write_text(_PROGRAM)

        def seconds(launches: int) -> float:
            before = os.times()
            subprocess.run([sys.executable, "-m", "tilewright", "run", source, str(launches)], check=True)
            after = os.times()
            return after.children_user + after.children_system - before.children_user - before.children_system

        seconds(_FEW)
        few, many = (min(seconds(count) for _ in range(rounds)) for count in (_FEW, _MANY))
    return 1e6 * (many - few) / (_MANY - _FEW)


def times() -> dict[str, float]:
    """Microseconds of processor time of each kind of launch."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    program = tw.programs.Program.from_cuda(TEXT, "double_it")
    found = {
        "simt.launch": least_us(lambda: tw.simt.launch(program, 2, 32, (x, y))),
        "simt.launch, tiled 64^3": least_us(tiled()),
    }
    with tw.simulated_gpu():
        on_gpu = cuda.to_device(x), cuda.to_device(y)
        found["numba"] = least_us(lambda: double[2, 32](*on_gpu))
        if find_spec("cupy"):
            cupy = importlib.import_module("cupy")
            kernel, arrays = cupy.RawKernel(TEXT, "double_it"), (cupy.asarray(x), cupy.asarray(y))
            found["CuPy"] = least_us(lambda: kernel((2,), (32,), arrays))
    found["a CUDA program"] = program_us()
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", action="store_true")
    if parser.parse_args().times:
        for kind, us in times().items():
            print(f"{kind:36}{us:9,.0f} us", flush=True)
        return
    print(f"{'':36}{'modules':>9}{'calls':>9}{'crossings':>11}{'executions':>12}")
    for name, one in ways().items():
        print(f"{name:36}{one.modules:9,}{one.calls:9,}{one.crossings:11,}{one.executions:12,}")


if __name__ == "__main__":
    main()

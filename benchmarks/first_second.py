"""From the key press to the end of a small program: processor seconds of a fresh process and its children.

Each program runs with empty caches (cold), and again (warm). The floor is a process that only imports what the program
imports. With `--against`, another checkout takes turns with this one. Programs whose packages are missing are left out.

    python benchmarks/first_second.py [--rounds 3] [--against CHECKOUT] [--only NAME] [--json]
"""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measuring

TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

x = torch.arange(10_000, dtype=torch.float32, device="cuda")
y = torch.ones(10_000, device="cuda")
out = torch.empty_like(x)
add[(10,)](x, y, out, 10_000, BLOCK=1024)
assert torch.equal(out.cpu(), torch.arange(10_000) + 1.0)
"""
TUNED = """
import torch
import triton
import triton.language as tl

@triton.autotune([triton.Config({"M": m, "N": n}, num_warps=w) for m, n in [(64, 64), (64, 128), (128, 128)]
                  for w in (4, 8)], key=["size"])
@triton.jit
def matmul(a, b, c, size, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    k = tl.arange(0, 32)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, size, 32):
        left = tl.load(a + rows[:, None] * size + start + k[None, :])
        total = tl.dot(left, tl.load(b + (start + k[:, None]) * size + columns[None, :]), total)
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(tl.float16))

a = torch.ones(512, 512, device="cuda", dtype=torch.float16)
c = torch.empty_like(a)
matmul[lambda meta: (512 // meta["M"], 512 // meta["N"])](a, a, c, 512)
assert torch.all(c == 512)
"""
NUMBA = """
import numpy as np
from numba import cuda

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

x = np.arange(1000, dtype=np.float32)
double[8, 128](x)
assert x[3] == 6
"""
CUDA = """
#include <cstdio>
#include <vector>
__global__ void twice(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
int main() {
    std::vector<float> x(1000, 2.0f);
    float *on_gpu;
    cudaMalloc(&on_gpu, 4000);
    cudaMemcpy(on_gpu, x.data(), 4000, cudaMemcpyHostToDevice);
    twice<<<8, 128>>>(on_gpu, 1000);
    cudaMemcpy(x.data(), on_gpu, 4000, cudaMemcpyDeviceToHost);
    return x[7] != 4.0f;
}
"""
HERE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and how a user starts it."""

    name: str
    command: str
    file: str
    text: str
    needs: tuple[str, ...]  #: Packages that it imports.

    @property
    def here(self) -> bool:
        """Whether what it needs is installed."""
        found = all(importlib.util.find_spec(name.split(".")[0]) for name in self.needs)
        return found and (not self.file.endswith(".cu") or shutil.which("g++") is not None)


PROGRAMS = (
    Program("Triton", "run", "add.py", TRITON, ("torch", "triton.language")),
    Program("Triton, six configurations", "run", "tuned.py", TUNED, ("torch", "triton.language")),
    Program("numba-cuda", "run", "double.py", NUMBA, ("numba.cuda",)),
    Program("numba-cuda", "check", "double.py", NUMBA, ("numba.cuda",)),
    Program("CUDA C++", "run", "twice.cu", CUDA, ()),
)


def main() -> None:
    parser = measuring.arguments(__doc__, optimised=False)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--only", default="", help="programs and commands whose name has this")
    options = parser.parse_args()
    checkouts = {"this": HERE} | ({"other": options.against.absolute()} if options.against else {})
    with tempfile.TemporaryDirectory() as folder:
        wanted = [one for one in PROGRAMS if one.here and options.only in f"{one.name} {one.command}"]
        found = [measured(one, checkouts, Path(folder), options.rounds) for one in wanted]
    columns = ("program", "command", "checkout", "floor, s", "cold, s", "warm, s")
    rows = [
        (row["name"], row["command"], checkout, row["floor"].text(), f"{times['cold']:.2f}", times["warm"].text())
        for row in found
        for checkout, times in row["checkouts"].items()
    ]
    table = measuring.table("Processor time of whole programs: median (least - most)", columns, rows)
    measuring.publish({"programs": found}, [table], as_json=options.json, packages=("torch", "triton", "numba-cuda"))


def measured(program: Program, checkouts: dict[str, Path], folder: Path, rounds: int) -> dict[str, Any]:
    """The times of one program in each checkout, in turns."""
    path = folder / program.file
    path.write_text(program.text, encoding="utf-8")
    words = {name: ["-m", "tilewright", program.command, str(path)] for name in checkouts}
    caches = {name: folder / f"{path.stem}-{program.command}-{name}" for name in checkouts}
    taken: dict[str, list[float]] = {name: [] for name in checkouts}
    floors = []
    for name, checkout in checkouts.items():  # compile the modules of the checkout
        seconds(["-c", "import tilewright.cli.app, tilewright.frontends.following"], checkout, folder)
        taken[name].append(seconds(words[name], checkout, caches[name]))
    for _ in range(rounds):
        floors.append(seconds(["-c", f"import {', '.join(program.needs or ('sys',))}"], HERE, folder))
        for name, checkout in checkouts.items():
            taken[name].append(seconds(words[name], checkout, caches[name]))
    return {
        "name": program.name,
        "command": program.command,
        "floor": measuring.Spread.of(floors),
        "checkouts": {
            name: {"cold": times[0], "warm": measuring.Spread.of(times[1:])} for name, times in taken.items()
        },
    }


def seconds(words: list[str], checkout: Path, cache: Path) -> float:
    """Processor seconds of a fresh process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    given = {"PYTHONPATH": str(checkout / "src"), "TILEWRIGHT_CACHE_DIR": str(cache / "ours")}
    environment = {**os.environ, **given, "TRITON_CACHE_DIR": str(cache / "triton")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have their modules compiled
    subprocess.run([sys.executable, "-W", "ignore", *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()

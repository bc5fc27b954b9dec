"""The time to the first result of long kernels made by compilers: libdevice's `jn`, complex powers, Triton's tiles.

Each launch is a fresh process with an empty cache; times are processor time of the launch alone, from PTX to results.
Results are compared with NumPy's. Rows of Triton's kernels need `triton`, which compiles without a GPU.
`triton_corpus.py` says how many kernels of a larger corpus run, are right and have no findings under `check`.

    python benchmarks/compiled_kernels.py [--rounds 1] [--hosts own,avx2] [--kernels jn] [--commands run,check] [--json]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import measuring
import numpy as np

COMMANDS = ("run", "check")


@dataclass(frozen=True)
class Case:
    """A launch, the array it fills, the expected contents, and the allowed absolute and relative errors."""

    kernel: Any
    grid: tuple[int, ...]
    block: int
    args: tuple[Any, ...]
    result: np.ndarray
    expected: np.ndarray
    tolerance: float
    shared_bytes: int = 0


# -- Numba ------------------------------------------------------------------------------------------------------------


def jn() -> Case:
    """Bessel functions of orders 0 to 31, against the integral that defines them."""
    from numba import cuda
    from numba.cuda import libdevice

    @cuda.jit
    def kernel(x, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            out[i] = libdevice.jn(i % 32, x[i])

    x = np.random.default_rng(0).uniform(0, 60, 256)
    orders = np.arange(256) % 32
    # The trapezoid rule is exact to rounding here: the integrand is smooth and has the period of the interval.
    angles = (np.arange(1024) + 0.5) * np.pi / 1024
    expected = np.cos(orders[:, None] * angles - x[:, None] * np.sin(angles)).mean(axis=1)
    out = np.zeros(256)
    return Case(kernel, (2,), 128, (x, out), out, expected, 2e-12)


def complex_power() -> Case:
    """Numba's complex128 ** complex128."""
    from numba import cuda

    @cuda.jit
    def kernel(x, y, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            out[i] = x[i] ** y[i]

    rng = np.random.default_rng(1)
    x, y = (rng.uniform(-3, 3, (256, 2)).view(np.complex128)[:, 0] for _ in range(2))
    x[:3], y[:4] = [0, 1, 2], [2, 0, 3, 0]
    out = np.zeros(256, np.complex128)
    return Case(kernel, (2,), 128, (x, y, out), out, x**y, 1e-12)


# -- Triton -----------------------------------------------------------------------------------------------------------


def triton_case(name: str, types: dict[str, str], constants: dict[str, int], *, aligned: bool) -> tuple[Any, int, int]:
    """The program of a kernel of `triton_kernels`, its shared memory and its threads."""
    from speed_kernels import triton_kernels

    from tilewright.programs import Program

    ptx, shared_bytes, threads = triton_kernels.compiled(
        getattr(triton_kernels, name), types, constants, aligned=tuple(types) if aligned else ()
    )
    return Program.from_ptx(ptx), shared_bytes, threads


def matmul(*tile: int, aligned: bool = False) -> Case:
    """A product of two blocks each way; the last ones are partial unless arguments are multiples of 16."""
    rows, columns, inner = tile
    m, n, k = (2 * size - (0 if aligned else 5) for size in tile)
    types = dict.fromkeys("abc", "*fp32") | dict.fromkeys("mnk", "i32")
    program, shared_bytes, threads = triton_case(
        "matmul", types, {"M": rows, "N": columns, "K": inner}, aligned=aligned
    )
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    c = np.zeros((m, n), np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return Case(program, (2, 2), threads, (a, b, c, m, n, k, None, None), c, expected, 1e-4, shared_bytes)


def softmax(columns: int) -> Case:
    """Three rows, shorter than a block."""
    types = {"x": "*fp32", "y": "*fp32", "columns": "i32"}
    program, shared_bytes, threads = triton_case("softmax", types, {"N": columns}, aligned=False)
    used = columns - 24
    x = np.random.default_rng(3).normal(size=(3, used)).astype(np.float32)
    y = np.zeros_like(x)
    powers = np.exp(x.astype(np.float64))
    expected = powers / powers.sum(axis=1, keepdims=True)
    return Case(program, (3,), threads, (x, y, used, None, None), y, expected, 1e-6, shared_bytes)


def attention(size: int, *, aligned: bool = False) -> Case:
    """Two blocks of queries; the last one is partial unless arguments are multiples of 16."""
    types = dict.fromkeys(("q", "k", "v", "out"), "*fp32") | {"n": "i32", "scale": "fp32"}
    constants = dict.fromkeys("MND", size)
    program, shared_bytes, threads = triton_case("attention", types, constants, aligned=aligned)
    n, scale = 2 * size - (0 if aligned else 5), size**-0.5
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=(n, size)).astype(np.float32) for _ in range(3))
    out = np.zeros_like(q)
    weights = np.exp(q.astype(np.float64) @ k.T.astype(np.float64) * scale)
    expected = weights / weights.sum(axis=1, keepdims=True) @ v
    return Case(program, (2,), threads, (q, k, v, out, n, scale, None, None), out, expected, 1e-5, shared_bytes)


NUMBA: dict[str, Callable[[], Case]] = {"jn": jn, "complex power": complex_power}
TRITON: dict[str, Callable[[], Case]] = {
    "softmax 1024": lambda: softmax(1024),
    "attention 32": lambda: attention(32),
    "attention 64, aligned": lambda: attention(64, aligned=True),
    "matmul 32 x 32 x 32": lambda: matmul(32, 32, 32),
    "matmul 64 x 64 x 32, aligned": lambda: matmul(64, 64, 32, aligned=True),
    "matmul 128 x 128 x 32, aligned": lambda: matmul(128, 128, 32, aligned=True),
    "matmul 128 x 128 x 64, aligned": lambda: matmul(128, 128, 64, aligned=True),
}


# -- measuring --------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = measuring.arguments(__doc__, optimised=False)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--hosts", default="own", help="own, avx2 or sse, separated by commas")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="run, check or profile, separated by commas")
    parser.add_argument("--kernels", default="", help="kernels whose names begin so, separated by commas")
    parser.add_argument("--launch", nargs=3, metavar=("KERNEL", "COMMAND", "HOST"), help="one launch, in JSON")
    options = parser.parse_args()
    if options.launch:
        print(json.dumps(launched(*options.launch)))
        return
    names = [*NUMBA, *TRITON] if find_spec("triton") else [*NUMBA]
    chosen = [name for name in names if name.startswith(tuple(options.kernels.split(",")))]
    found = [
        measured(name, command, host, options.rounds)
        for host in options.hosts.split(",")
        for name in chosen
        for command in options.commands.split(",")
    ]
    columns = ("kernel", "instructions", "command", "host", "s (least - most)", "verified")
    cells = [
        (row["kernel"], f"{row['instructions']:,}", row["command"], row["host"], row["seconds"].text(), row["verified"])
        for row in found
    ]
    caption = "" if find_spec("triton") else "`triton` cannot be imported: its kernels are left out"
    title = "First results of compilers' long kernels: processor time"
    table = measuring.table(title, columns, cells, caption)
    measuring.publish({"kernels": found}, [table], as_json=options.json, packages=("triton",))


def measured(name: str, command: str, host: str, rounds: int) -> dict[str, Any]:
    """A kernel's row, from launches with empty caches."""
    runs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            words = [sys.executable, __file__, "--launch", name, command, host]
            environment = os.environ | {"TILEWRIGHT_CACHE_DIR": cache}
            done = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        runs.append(json.loads(done.stdout))
    row = runs[0] | {"kernel": name, "command": command, "host": host}
    row["seconds"] = measuring.Spread.of([run["seconds"] for run in runs])
    row["verified"] = "yes" if all(run["verified"] for run in runs) else "NO"
    print(f"{name}, {command}, {host}: {row['seconds'].text()} s, {row['verified']}", file=sys.stderr)
    return row


def launched(name: str, command: str, host: str) -> dict[str, Any]:
    """Processor time of a kernel's first launch, after one of a small kernel; whether its results are right."""
    from narrow_hosts import use_host

    import tilewright as tw
    from tilewright.programs import Program

    use_host(setattr, host)
    case = (NUMBA | TRITON)[name]()
    first = Program.from_ptx(".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry first() { ret; }")
    start = {"run": tw.simt.launch, "check": tw.check, "profile": tw.profile}[command]
    start(first, 1, 32, ())
    before = time.process_time()
    answer = start(case.kernel, case.grid, case.block, case.args, shared_bytes=case.shared_bytes)
    seconds = time.process_time() - before
    verified = np.allclose(case.result, case.expected, case.tolerance, case.tolerance)
    if command == "check" and answer:
        print(*answer, sep="\n", file=sys.stderr)
        verified = False
    program = case.kernel
    if not isinstance(program, Program):
        program = tw.simt.launch(program, case.grid, case.block, case.args).program
    return {"seconds": seconds, "verified": bool(verified), "instructions": program.ptx.count(";")}


if __name__ == "__main__":
    main()

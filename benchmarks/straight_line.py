"""How the time to a long kernel's first result grows with its length: straight lines of fma, loads and stores, scans.

Each launch is a fresh process with an empty cache; times are processor time of the launch alone, from PTX to results,
so that other loads of the host count little. `growth` is the time's growth divided by the length's, from the row above.

    python benchmarks/straight_line.py [--rounds 3] [--features avx512,avx2] [--json]
"""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import tempfile
from typing import Any

import measuring
import numpy as np

#: Kernel, sizes, commands.
LINES = [
    ("fma, 64 registers", (1000, 4000, 16_000), ("run",)),
    ("fma, 256 registers", (2500, 10_000), ("run",)),
    ("fma, 64 registers", (1000, 4000), ("check", "profile")),
    ("loads and stores", (250, 1000), ("run", "check")),
    ("loads and stores at vectors of addresses", (50, 200), ("run", "check")),
    ("scan by shuffles", (50, 200), ("run", "check")),
]
HEAD = """.version 8.0
.target sm_75
.address_size 64
.visible .entry line(.param .u64 p) {
.reg .f32 %f<256>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; and.b32 %r4, %r1, 31; mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
"""


def main() -> None:
    parser = measuring.arguments(__doc__, optimised=False)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--features", default="host", help="host, avx512 or avx2, separated by commas")
    parser.add_argument(
        "--launch", nargs=4, metavar=("KIND", "SIZE", "COMMAND", "FEATURES"), help="one launch, in JSON"
    )
    options = parser.parse_args()
    if options.launch:
        kind, size, command, features = options.launch
        print(json.dumps(launched(kind, int(size), command, features)))
        return
    found: list[dict[str, Any]] = []
    for features in options.features.split(","):
        for kind, sizes, commands in LINES:
            for command in commands:
                found += rows(kind, sizes, command, features, options.rounds)
    columns = ("kernel", "instructions", "command", "features", "s (least - most)", "growth")
    cells = [
        (r["kernel"], f"{r['instructions']:,}", r["command"], r["features"], r["seconds"].text(), r["growth"])
        for r in found
    ]
    table = measuring.table("First results of long kernels: processor time", columns, cells)
    measuring.publish({"lines": found}, [table], as_json=options.json)


def rows(kind: str, sizes: tuple[int, ...], command: str, features: str, rounds: int) -> list[dict[str, Any]]:
    """One row a size."""
    found: list[dict[str, Any]] = []
    for size in sizes:
        runs = [in_a_process(kind, size, command, features) for _ in range(rounds)]
        row = {"kernel": kind, "command": command, "features": features, "instructions": runs[0]["instructions"]}
        row["seconds"] = measuring.Spread.of([run["seconds"] for run in runs])
        before = found[-1] if found else None
        row["growth"] = ""
        if before is not None:
            time_ratio = row["seconds"].median / before["seconds"].median
            row["growth"] = f"{time_ratio / (row['instructions'] / before['instructions']):.2f}"
        found.append(row)
    return found


def in_a_process(kind: str, size: int, command: str, features: str) -> dict[str, Any]:
    """A launch with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        words = [sys.executable, __file__, "--launch", kind, str(size), command, features]
        environment = os.environ | {"TILEWRIGHT_CACHE_DIR": cache}
        done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def launched(kind: str, size: int, command: str, features: str) -> dict[str, Any]:
    """Processor time of a kernel's first launch, after one of a small kernel."""
    import tilewright as tw
    from tilewright.simulate.run import compiler

    if features != "host":
        compiler.Host = functools.partial(compiler.Host, feature_text(features))
    run = {"run": tw.simt.launch, "check": tw.check, "profile": tw.profile}[command]
    first, text = program(kind, 2), program(kind, size)
    array = np.zeros(1 << 15, np.float32)
    run(first, (1, 1, 1), (32, 1, 1), [array])
    before = measuring.processor_seconds()
    run(text, (1, 1, 1), (32, 1, 1), [array])
    return {"seconds": measuring.processor_seconds() - before, "instructions": text.ptx.count(";")}


def feature_text(features: str) -> str:
    """The host's features for LLVM, without AVX-512 and matrix tiles for "avx2"."""
    import llvmlite.binding as llvm

    wide = features != "avx2"
    known = sorted(llvm.get_host_cpu_features().items())
    return ",".join(
        f"{'+' if on and (wide or not name.startswith(('avx512', 'amx'))) else '-'}{name}" for name, on in known
    )


def program(kind: str, size: int) -> Any:
    """A kernel whose instructions all follow one another."""
    from tilewright.programs import Program

    if kind.startswith("fma"):
        body = fma(size, int(kind.split()[1]))
    elif kind == "loads and stores":
        step = "st.global.u32 [%rd3+{0}], %r2; ld.global.u32 %r2, [%rd3+{1}];\n"
        body = "mov.u32 %r2, 1;" + "".join(step.format(128 * (i % 7), 128 * (i * 5 % 7)) for i in range(size))
    elif kind == "loads and stores at vectors of addresses":
        step = """mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r2, [%rd5]; and.b32 %r2, %r2, 127;
        st.global.u32 [%rd5], %r2;\n"""
        body = "mov.u32 %r2, %r1;" + step * size
    else:
        step = """shfl.sync.up.b32 %f2|%p1, %f1, {0}, 0, -1; setp.ge.u32 %p2, %r4, {0};
        @%p2 add.f32 %f1, %f1, %f2;\n"""
        body = "ld.global.f32 %f1, [%rd3];" + "".join(step.format(1 << i % 5) for i in range(size))
        body += "st.global.f32 [%rd3], %f1;"
    return Program.from_ptx(f"{HEAD}{body}\nret; }}")


def fma(size: int, live: int) -> str:
    """Each step depends on any three of the live registers, all of which are loaded before and stored after."""
    rng = random.Random(0)
    load = "".join(f"ld.global.f32 %f{i}, [%rd3+{128 * i}];\n" for i in range(live))
    pick = [[rng.randrange(live) for _ in range(3)] for _ in range(size)]
    steps = "".join(f"fma.rn.f32 %f{i % live}, %f{a}, %f{b}, %f{c};\n" for i, (a, b, c) in enumerate(pick))
    return load + steps + "".join(f"st.global.f32 [%rd3+{128 * i}], %f{i};\n" for i in range(live))


if __name__ == "__main__":
    main()

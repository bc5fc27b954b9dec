"""Products larger than memory: Tilewright beside NumPy's mapped files, dask.array and Cubed, in as much memory each.

    python blocks.py --side 12288 --memory 450MB --cgroup /sys/fs/cgroup/memory/some-group

Each runs in a process of its own. Operands lie in .npy files, for Cubed in zarr, as it reads nothing else. The memory
is held by a control group of version 1 that this script may write to, which counts the system's cache of files too;
without one by RLIMIT_DATA, which does not. Caches of files are dropped before each run where that is allowed. Peers are
left out where they are not installed. Of a process that fails or is ended the table has what it said. Rates are of
whole runs, without the start of Python and imports.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from measuring import Spread, arguments, publish, table

from tilewright.machine.sizes import size_bytes, size_text

_HEAD = """
import json, os, pathlib, resource, sys, time
a, b, c, memory, group = *sys.argv[1:4], int(sys.argv[4]), sys.argv[5]
if group:
    (pathlib.Path(group) / "tasks").write_text(str(os.getpid()))
else:
    resource.setrlimit(resource.RLIMIT_DATA, (memory,) * 2)
import numpy as np
def done():
    print(json.dumps(time.perf_counter() - began), flush=True)
"""
_MAPS = """
began = time.perf_counter()
left, right = np.load(a, mmap_mode="r"), np.load(b, mmap_mode="r")
out = np.lib.format.open_memmap(c, "w+", left.dtype, (left.shape[0], right.shape[1]))
"""
#: What each runs; `began` is set when all is imported.
CONTENDERS = {
    "tilewright": (
        ".npy",
        """
import tilewright as tw
began = time.perf_counter()
tw.matmul(a, b, c, memory=memory)
done()
""",
    ),
    "numpy": (
        ".npy",
        _MAPS
        + """
np.matmul(left, right, out=out)
out.flush()
done()
""",
    ),
    "dask": (
        ".npy",
        "import dask, dask.array as da\n"
        + _MAPS
        + """
side = int((memory / 16 / left.itemsize) ** 0.5)
x, y = (da.from_array(z, chunks=(side, side)) for z in (left, right))
with dask.config.set(scheduler="threads"):
    da.store(da.matmul(x, y), out)
out.flush()
done()
""",
    ),
    "cubed": (
        ".zarr",
        """
import cubed, cubed.array_api as xp
began = time.perf_counter()
spec = cubed.Spec(work_dir=c + ".work", allowed_mem=memory // 2, reserved_mem=0)
x, y = cubed.from_zarr(a, spec=spec), cubed.from_zarr(b, spec=spec)
cubed.to_zarr(xp.matmul(x, y), c)
done()
""",
    ),
}


@dataclass(frozen=True)
class Outcome:
    """What one run took."""

    seconds: float
    anonymous_bytes: int  #: Most memory of its own, sampled.
    read_bytes: int  #: From the disk.
    written_bytes: int
    said: str  #: Why it did not end well; "" where it did.


def limited(folder: str | None, memory: int) -> str:
    """The control group at a folder, made and limited; "" for none."""
    if folder is None:
        return ""
    Path(folder).mkdir(exist_ok=True)
    (Path(folder) / "memory.limit_in_bytes").write_text(str(memory))
    return folder


def run(name: str, paths: list[Path], memory: int, group: str) -> Outcome:
    """One run of a contender."""
    _remove(paths[2])
    _drop_caches()
    command = [sys.executable, "-c", _HEAD + CONTENDERS[name][1], *map(str, paths), str(memory), group]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = _Watch(child.pid)
    out, said = child.communicate()
    watch.over.set()
    watch.join()
    seconds = json.loads(out.splitlines()[-1]) if child.returncode == 0 else float("nan")
    why = "" if child.returncode == 0 else (said.strip().splitlines() or [f"ended by signal {-child.returncode}"])[-1]
    return Outcome(seconds, watch.anonymous, watch.read, watch.written, why[:60])


class _Watch(threading.Thread):
    """Samples what a process has taken and moved."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.over = Path(f"/proc/{pid}"), threading.Event()
        self.anonymous = self.read = self.written = 0
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.02):
            try:
                status = dict(x.split(":", 1) for x in (self.folder / "status").read_text().splitlines())
                moved = dict(x.split(": ") for x in (self.folder / "io").read_text().splitlines())
            except (OSError, ValueError):
                return
            if "RssAnon" in status:
                self.anonymous = max(self.anonymous, 1024 * int(status["RssAnon"].split()[0]))
            self.read, self.written = int(moved["read_bytes"]), int(moved["write_bytes"])


def _drop_caches() -> None:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return


def _remove(path: Path) -> None:
    for one in (path, Path(f"{path}.work")):
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)


def prepared(folder: Path, side: int, chunk: int) -> dict[str, list[Path]]:
    """Operands by format."""
    random = np.random.default_rng(1)
    paths = {x: [folder / f"{name}{x}" for name in "abc"] for x in (".npy", ".zarr")}
    for place in range(2):
        array = random.standard_normal((side, side), np.float32)
        np.save(paths[".npy"][place], array)
        if find_spec("cubed"):
            import zarr

            made = zarr.open_array(
                str(paths[".zarr"][place]), mode="w", shape=array.shape, chunks=(chunk,) * 2, dtype=array.dtype
            )
            made[...] = array
    return paths


def in_memory(paths: list[Path], rounds: int) -> Spread:
    """GFLOPS of the product of the same operands in memory."""
    import tilewright as tw

    a, b = (np.load(path) for path in paths[:2])
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    tw.matmul(a[:600], b[:, :600])
    rates = []
    for _ in range(rounds):
        began = time.perf_counter()
        tw.matmul(a, b, out)
        rates.append(2 * a.shape[0] * a.shape[1] * b.shape[1] / (time.perf_counter() - began) / 1e9)
    return Spread.of(rates)


def _row(name: str, runs: list[Outcome], flops: int) -> list[str]:
    good = [x.seconds for x in runs if not x.said]
    figures = [Spread.of(good).text(), Spread.of([flops / x / 1e9 for x in good]).text()] if good else ["-", "-"]
    most = [max(getattr(x, field) for x in runs) for field in ("anonymous_bytes", "read_bytes", "written_bytes")]
    return [name, *figures, *map(size_text, most), next((x.said for x in runs if x.said), "")]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--memory", default="200MB")
    parser.add_argument("--cgroup", help="folder of a memory control group of version 1, made if it is missing")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    given = parser.parse_args()
    memory = size_bytes("--memory", given.memory)
    names = [x for x in given.contenders.split(",") if x in ("tilewright", "numpy") or find_spec(x)]
    group, flops = limited(given.cgroup, memory), 2 * given.side**3
    found: dict[str, list[Outcome]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        paths = prepared(Path(folder), given.side, int((memory / 96) ** 0.5))
        whole = in_memory(paths[".npy"], given.rounds)
        for _ in range(given.rounds):
            for name in names:
                found[name].append(run(name, paths[CONTENDERS[name][0]], memory, group))
                print(name, found[name][-1], file=sys.stderr, flush=True)
    title = (
        f"{given.side:,}^3 float32 within {size_text(memory)}; the arrays take {size_text(12 * given.side**2)}; "
        f"in memory {whole.text()} GFLOPS"
    )
    columns = ("contender", "s", "GFLOPS", "own memory", "read", "written", "said")
    shown = table(title, columns, [_row(name, runs, flops) for name, runs in found.items()])
    results = {"in_memory_gflops": whole, "contenders": found}
    publish(results, [shown], as_json=given.json, packages=("dask", "cubed", "zarr"))


if __name__ == "__main__":
    main()

"""Products larger than memory: Tilewright beside NumPy's mapped files, dask.array and Cubed, in as much memory each.

    python blocks.py --side 12288 --memory 450MB --cgroup /sys/fs/cgroup/memory/some-group

Each contender runs in its own process, in turn. Operands are .npy files; for Cubed they are zarr, the only format that
it reads. A control group of version 1, which this script must be able to write, limits the memory and counts the
system's cache of files too. Without one, RLIMIT_DATA limits it, which does not count that cache. "in memory" is
Tilewright's product of the same operands, loaded before and without the limit; "of it" is its seconds over a
contender's, turn by turn. Caches of files are dropped before each run if the system allows it. Peers that are not
installed are left out. "small" ones have one thread, and Dask's chunks a sixteenth of the bytes; "less" gets half of
the memory as its limit, as Cubed does. For a process that fails or is killed, the table has its message. "own" memory
is the peak of the process's private memory, "resident" also counts pages of mapped files. Seconds are of whole runs,
without the start of Python and imports.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from measuring import Spread, arguments, publish, table

from tilewright.simulate.machine.sizes import size_bytes, size_text

_HEAD = """
import json, os, pathlib, resource, sys, time
a, b, c, memory, group = *sys.argv[1:4], int(sys.argv[4]), sys.argv[5]
if group == "none":
    pass
elif group:
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
_DASK = """
side = int((memory / {part} / left.itemsize) ** 0.5)
x, y = (da.from_array(z, chunks=(side, side)) for z in (left, right))
with dask.config.set(scheduler="{scheduler}"):
    da.store(da.matmul(x, y), out)
out.flush()
done()
"""
_CUBED = """
import cubed, cubed.array_api as xp
began = time.perf_counter()
spec = cubed.Spec(work_dir=c + ".work", allowed_mem=memory // {part}, reserved_mem=0, executor_name="{executor}")
x, y = cubed.from_zarr(a, spec=spec), cubed.from_zarr(b, spec=spec)
cubed.to_zarr(xp.matmul(x, y), c)
done()
"""
_TILEWRIGHT = """
import tilewright as tw
began = time.perf_counter()
tw.matmul(a, b, c, memory={part})
done()
"""
#: The product in memory, without a limit.
_WHOLE = "in memory"
#: The code that each runs; `began` is set when all is imported.
CONTENDERS = {
    _WHOLE: (
        ".npy",
        """
import tilewright as tw
left, right = np.load(a), np.load(b)
out = np.empty((left.shape[0], right.shape[1]), left.dtype)
tw.matmul(left[:600], right[:, :600])
began = time.perf_counter()
tw.matmul(left, right, out)
done()
""",
    ),
    "tilewright": (".npy", _TILEWRIGHT.format(part="memory")),
    "tilewright less": (".npy", _TILEWRIGHT.format(part="memory // 2")),
    "numpy": (
        ".npy",
        _MAPS
        + """
np.matmul(left, right, out=out)
out.flush()
done()
""",
    ),
    "dask": (".npy", "import dask, dask.array as da\n" + _MAPS + _DASK.format(part=16, scheduler="threads")),
    "dask small": (".npy", "import dask, dask.array as da\n" + _MAPS + _DASK.format(part=256, scheduler="sync")),
    "cubed": (".zarr", _CUBED.format(part=2, executor="threads")),
    "cubed small": (".zarr", _CUBED.format(part=2, executor="single-threaded")),
}


@dataclass(frozen=True)
class Outcome:
    """Time and memory of one run."""

    seconds: float
    own_bytes: int  #: Most memory of its own, sampled.
    resident_bytes: int  #: The most with pages of mapped files.
    read_bytes: int  #: Bytes from the disk.
    written_bytes: int
    said: str  #: Why it failed; "" if it did not.


def limited(folder: str | None, memory: int) -> str:
    """Make and limit the control group at a folder; "" for none."""
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
    return Outcome(seconds, watch.own, watch.resident, watch.read, watch.written, why[:60])


class _Watch(threading.Thread):
    """Samples a process's memory and transfers."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.over = Path(f"/proc/{pid}"), threading.Event()
        self.own = self.resident = self.read = self.written = 0
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.02):
            try:
                status = dict(x.split(":", 1) for x in (self.folder / "status").read_text().splitlines())
                moved = dict(x.split(": ") for x in (self.folder / "io").read_text().splitlines())
            except (OSError, ValueError):
                return
            if "RssAnon" in status:
                self.own = max(self.own, 1024 * int(status["RssAnon"].split()[0]))
                self.resident = 1024 * int(status["VmHWM"].split()[0])
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
    """Operands by format; in zarr too if a chunk's edge is given."""
    random = np.random.default_rng(1)
    paths = {x: [folder / f"{name}{x}" for name in "abc"] for x in (".npy", ".zarr")}
    for place in range(2):
        array = random.standard_normal((side, side), np.float32)
        np.save(paths[".npy"][place], array)
        if chunk:
            import zarr

            made = zarr.open_array(
                str(paths[".zarr"][place]), mode="w", shape=array.shape, chunks=(chunk,) * 2, dtype=array.dtype
            )
            made[...] = array
    return paths


def _row(name: str, runs: list[Outcome], whole: list[Outcome], flops: int) -> list[str]:
    good = [(x.seconds, y.seconds) for x, y in zip(runs, whole, strict=False) if not x.said]
    figures = ["-"] * 3
    if good:
        seconds = [x for x, _ in good]
        of_it = Spread.of([y / x for x, y in good]).text(100) + " %"
        figures = [Spread.of(seconds).text(), Spread.of([flops / x / 1e9 for x in seconds]).text(), of_it]
    fields = ("own_bytes", "resident_bytes", "read_bytes", "written_bytes")
    most = [max(getattr(x, field) for x in runs) for field in fields]
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
    asked = [x for x in CONTENDERS if x in given.contenders.split(",") and x != _WHOLE]
    names = [_WHOLE, *(x for x in asked if find_spec(x.split()[0]))]
    group, flops = limited(given.cgroup, memory), 2 * given.side**3
    found: dict[str, list[Outcome]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        zarr_chunk = int((memory / 384) ** 0.5) if any(x.startswith("cubed") for x in names) else 0
        paths = prepared(Path(folder), given.side, zarr_chunk)
        for _ in range(given.rounds):
            for name in names:
                limits = "none" if name == _WHOLE else group
                found[name].append(run(name, paths[CONTENDERS[name][0]], memory, limits))
                print(name, found[name][-1], file=sys.stderr, flush=True)
    title = f"{given.side:,}^3 float32 within {size_text(memory)}; the arrays take {size_text(12 * given.side**2)}"
    columns = ("contender", "s", "GFLOPS", "of it", "own", "resident", "read", "written", "said")
    rows = [_row(name, runs, found[_WHOLE], flops) for name, runs in found.items()]
    shown = table(title, columns, rows)
    results = {"contenders": found}
    publish(results, [shown], as_json=given.json, packages=("dask", "cubed", "zarr"))


if __name__ == "__main__":
    main()

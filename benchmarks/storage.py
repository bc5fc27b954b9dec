"""Rates at which arrays outside memory are read and written, by kind, and the processor time of that.

Each cell moves one square float32 matrix: in panels of 1,024 whole rows, in panels of 4,096 columns, in tiles of 4,096
x 4,096 that are written and flushed to the disk. Kinds take turns. Before each reading, the system's cache drops all
files; a second reading finds them there. "map" is NumPy's slicing of np.memmap, the yardstick.  The second table moves
the .npy file's bytes in pieces of 1 MiB, in three ways: through the system's cache, the same with each piece dropped
afterwards, and without the cache (O_DIRECT). The last includes a copy of the elements, because they are not aligned to
the disk's blocks.

    python benchmarks/storage.py [--megabytes 1024] [--turns 3] [--folder FOLDER] [--json]
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import measuring
import numpy as np

from tilewright.multiply.blocks.stores import created, existing, opened

PANEL_ROWS, PANEL_COLUMNS, TILE = 1024, 4096, 4096
PIECE = 1 << 20
#: Kind -> its file; "map" is read from the .npy file.
KINDS = {"npy": "a.npy", "map": "a.npy", "zarr": "a.zarr", "HDF5": "a.h5", "HDF5, chunks": "chunks.h5"}
CASES = {"rows": (PANEL_ROWS, None), "columns": (None, PANEL_COLUMNS)}


def main() -> None:
    parser = measuring.arguments(__doc__)
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the matrix")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="on the disk to be measured; else the system's for temporary files")
    options = parser.parse_args()
    edge = int((options.megabytes * (1 << 18)) ** 0.5) // TILE * TILE
    if not edge:
        parser.error("--megabytes must be at least 64: one tile")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        make(Path(folder), edge)
        seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(options.turns):
            for key, (seconds, processor_s) in turn(Path(folder), edge):
                seen.setdefault(key, []).append(
                    (4 * edge * edge / seconds / 1e9, processor_s / (4 * edge * edge) * 1e9)
                )
    rows = [
        {"what": what, "how": how, "gb_s": measuring.Spread.of([r for r, _ in values]),
         "processor_s_gb": measuring.Spread.of([c for _, c in values])}
        for (what, how), values in seen.items()
    ]  # fmt: skip
    cells = [(row["what"], row["how"], row["gb_s"].text(), row["processor_s_gb"].text()) for row in rows]
    columns = ("kind or way", "what", "GB/s", "processor s a GB")
    title = f"A float32 matrix of {edge:,} x {edge:,}"
    tables = [
        measuring.table(f"{title}: stores", columns, [c for c in cells if c[1] != "bytes"]),
        measuring.table(f"{title}: its bytes from the disk", columns, [c for c in cells if c[1] == "bytes"]),
    ]
    measuring.publish({"edge": edge, "rows": rows}, tables, as_json=options.json, packages=("zarr", "h5py"))


def make(folder: Path, edge: int) -> None:
    """The matrix in every kind."""
    rng = np.random.default_rng(0)
    with h5py.File(folder / "chunks.h5", "w") as file:
        file.create_dataset("a", (edge, edge), "f4", chunks=(1024, 1024))
    targets = [
        *(created(folder / name, (edge, edge), "f4", chunks_hint=(TILE, TILE)) for name in ("a.npy", "a.zarr", "a.h5")),
        existing(folder / "chunks.h5"),
    ]
    for first in range(0, edge, TILE):
        panel = rng.random((TILE, edge), dtype=np.float32)
        for target in targets:
            target.write((), slice(first, first + TILE), slice(0, edge), panel)
    for target in targets:
        target.flush()
        target.close()


def turn(folder: Path, edge: int) -> Iterator[tuple[tuple[str, str], tuple[float, float]]]:
    """((kind, what), (seconds, processor's seconds)) of every cell, once."""
    for what, (rows, columns) in CASES.items():
        for kind, name in KINDS.items():
            leave_cache(folder / name)
            for warmth in ("from the disk", "from the cache"):
                yield (kind, f"{what} {warmth}"), timed(lambda: read(folder / name, kind, edge, rows, columns))  # noqa: B023
    for kind, name in KINDS.items():
        yield (kind, "tiles to the disk"), timed(lambda: write(folder / name, kind, edge))  # noqa: B023
    for way, flags, drop in (("cache", 0, False), ("cache, dropped", 0, True), ("past the cache", os.O_DIRECT, False)):
        leave_cache(folder / "a.npy")
        yield (way, "bytes"), timed(lambda: pieces(folder / "a.npy", flags, drop))  # noqa: B023


def timed(work: Callable[[], None]) -> tuple[float, float]:
    began, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - processor


def leave_cache(path: Path) -> None:
    """Write what is unwritten, and drop a file's pages, or those of a folder's files."""
    for file in path.rglob("*") if path.is_dir() else (path,):
        if file.is_file():
            with file.open("rb") as opened_file:
                os.fsync(opened_file.fileno())
                os.posix_fadvise(opened_file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path: Path, kind: str, edge: int, rows: int | None, columns: int | None) -> None:
    """Read the matrix panel by panel, into an existing one."""
    rows, columns = rows or edge, columns or edge
    panel = np.empty((rows, columns), np.float32)
    whole: Any = np.load(path, mmap_mode="r") if kind == "map" else opened(path, "a")
    for top in range(0, edge, rows):
        for left in range(0, edge, columns):
            place = slice(top, top + rows), slice(left, left + columns)
            if kind == "map":
                panel[: edge - top, : edge - left] = whole[place]
            else:
                whole.read((), *place, panel)
    if kind != "map":
        whole.close()


def write(path: Path, kind: str, edge: int) -> None:
    """Write the matrix tile by tile, each flushed."""
    tile = np.ones((TILE, TILE), np.float32)
    whole: Any = np.load(path, mmap_mode="r+") if kind == "map" else existing(path)
    for top in range(0, edge, TILE):
        for left in range(0, edge, TILE):
            place = slice(top, top + TILE), slice(left, left + TILE)
            if kind == "map":
                whole[place] = tile
            else:
                whole.write((), *place, tile)
            whole.flush()
    if kind != "map":
        whole.close()


def pieces(path: Path, flags: int, drop: bool) -> None:
    """Move a file's bytes; their offsets within a page differ between memory and file."""
    file = os.open(path, os.O_RDONLY | flags)
    room, wanted = memoryview(mmap.mmap(-1, PIECE)), memoryview(bytearray(16 * PIECE))
    for i in range(os.fstat(file).st_size // PIECE):
        place = wanted[i % 16 * PIECE :][:PIECE]
        if flags:
            os.preadv(file, [room], i * PIECE)
            place[:] = room
        else:
            os.preadv(file, [place], i * PIECE)
        if drop:
            os.posix_fadvise(file, i * PIECE, PIECE, os.POSIX_FADV_DONTNEED)
    os.close(file)


if __name__ == "__main__":
    main()

"""Products larger than memory that are killed at random moments: run again, they continue to the right bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw

Array = np.ndarray[Any, Any]
SHAPES = (900, 700), (700, 800)
#: A line for each tile that is finished, then the end's; small strips and a slow finish make many moments.
CHILD = """
import sys
import tilewright as tw
from tilewright.multiply.blocks import planning
from tilewright.multiply.engine import outside
from tilewright.multiply.blocks.planning import Sizes, plan

planning.STRIP_BYTES = 1 << 14
outside.plan = lambda sizes, memory, rates, *rest, **more: plan(sizes, 64 << 20, rates, (128, 160))
print("begun", flush=True)
tw.matmul(*sys.argv[1:4])
print("done", flush=True)
"""


def run(paths: list[Path], seconds: float | None) -> float:
    """Run a product, killed after this many seconds; returns how long it ran."""
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, "-c", CHILD, *map(str, paths)], stdout=subprocess.PIPE, text=True)
    try:
        child.communicate(timeout=seconds)
        assert child.returncode == 0
    except subprocess.TimeoutExpired:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    return time.monotonic() - began


def tiles(journal: Path) -> list[int]:
    """The tiles that a journal lists as done."""
    lines = journal.read_bytes().split(b"\n")[1:-1] if journal.exists() else []
    return [json.loads(line)["tile"] for line in lines]


def kills(count: int, folder: Path, suffix: str) -> None:
    random = np.random.default_rng(count)
    arrays = [random.standard_normal(shape, np.float32) for shape in SHAPES]
    expected = tw.matmul(*arrays)
    paths = [folder / "a.npy", folder / "b.npy", folder / f"c{suffix}"]
    for path, array in zip(paths, arrays, strict=False):
        np.save(path, array)
    whole = run(paths, None)
    left, journal = count, folder / f"c{suffix}.part.journal"
    while left:
        _remove(paths[2])
        before: list[int] = []
        while left and not paths[2].exists():
            run(paths, float(random.uniform(0.3, 1.0)) * whole)
            left -= 1
            if not paths[2].exists():
                now = tiles(journal)
                assert now[: len(before)] == before and len(set(now)) == len(now)  # no tile is made again
                before = now
        if not paths[2].exists() or journal.exists():  # killed between the move to its place and the journal's end
            run(paths, None)
        assert np.array_equal(_loaded(paths[2]), expected)
        assert not journal.exists()
        assert not list(folder.glob("*.part*"))


def _loaded(path: Path) -> Array:
    if path.suffix == ".npy":
        found: Array = np.load(path)
        return found
    zarr = pytest.importorskip("zarr", reason="not run: zarr is not installed")
    return np.asarray(zarr.open_array(str(path), mode="r")[...])


def _remove(path: Path) -> None:
    import shutil

    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("suffix", [".npy", pytest.param(".zarr", marks=pytest.mark.volume)])
def test_a_few_kills(tmp_path: Path, suffix: str) -> None:
    kills(4, tmp_path, suffix)


@pytest.mark.volume
@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_kills_at_a_hundred_moments(tmp_path: Path, suffix: str) -> None:
    kills(100, tmp_path, suffix)

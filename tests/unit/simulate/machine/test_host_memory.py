"""Results too large for memory: the error says what would fit, before the system ends the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import OutOfMemoryError
from tilewright.simulate.machine import host_memory

GIB = 1 << 30


def meminfo(folder: Path, *, available_kib: int, swap_kib: int) -> str:
    path = folder / "meminfo"
    path.write_text(f"MemTotal: 9 kB\nMemAvailable:  {available_kib} kB\nSwapFree: {swap_kib} kB\nHugePages_Total: 0\n")
    return str(path)


def test_free_memory_is_read_from_the_system_and_its_groups(tmp_path: Path) -> None:
    info = meminfo(tmp_path, available_kib=3 << 20, swap_kib=1 << 20)
    assert host_memory.available_bytes(info, ()) == 4 * GIB
    limit = tmp_path / "memory.max"
    limit.write_text("max\n")
    assert host_memory.available_bytes(info, (str(limit), "/nowhere")) == 4 * GIB
    limit.write_text(f"{GIB}\n")
    assert host_memory.available_bytes(info, (str(limit),)) == GIB
    assert host_memory.available_bytes("/nowhere", ()) is None
    limit.write_text("MemAvailable: much\n")
    assert host_memory.available_bytes(str(limit), ()) is None


def test_what_the_process_has_counts_against_the_limit_of_its_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 64 * GIB)
    monkeypatch.setattr(host_memory, "resident_bytes", lambda: GIB)
    monkeypatch.setattr(host_memory, "_limits", lambda: [3 * GIB])
    assert host_memory.left_bytes() == 2 * GIB
    assert host_memory.refused(GIB) == "" and "2 GiB" in host_memory.refused(2 * GIB)  # some is left to others
    monkeypatch.setattr(host_memory, "_limits", list)
    assert host_memory.left_bytes() == 64 * GIB and not host_memory.refused(63 * GIB)


def test_this_host_has_free_memory() -> None:
    found = host_memory.available_bytes()
    assert found is None or found > 1 << 20


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ((20_000, 1), (1, 20_000), r"\(20000, 20000\) of float32 take 1.5 GiB .*have 1 GiB.* rows of `a`.*13,421 at"),
        ((40, 4000, 1), (1, 4000), r"some matrices at a time \(16 at a time fit\).*numpy.memmap"),
        ((1, 1), (1, 500_000_000), r"rows of `a` at a time, or give"),
        ((1,), (1, 500_000_000), r"columns of `b` at a time \(268,435,456 at a time fit\)"),
    ],
)
def test_a_product_says_what_would_fit(
    monkeypatch: pytest.MonkeyPatch, a: tuple[int, ...], b: tuple[int, ...], says: str
) -> None:
    monkeypatch.setattr(host_memory, "available_bytes", lambda: GIB)
    left, right = (np.broadcast_to(np.float32(1), shape) for shape in (a, b))
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match=says) as caught:
            tw.matmul(left, right)
    assert isinstance(caught.value, MemoryError)


def test_an_array_that_numpy_cannot_make_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "available_bytes", lambda: None)
    left, right = np.broadcast_to(1.0, (1 << 30, 1)), np.broadcast_to(1.0, (1, 1 << 30))
    with pytest.raises(OutOfMemoryError, match=r"take 8,?192 PiB|take 8\.0 EiB|can have less"):
        tw.matmul(left, right)
    with pytest.raises(OutOfMemoryError, match="can have less"):
        tw.matmul(np.broadcast_to(1.0 + 0j, (1 << 31, 1)), np.broadcast_to(1.0 + 0j, (1, 1 << 31)), alpha=2)


def test_a_result_in_a_file_needs_no_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host_memory, "LARGE_BYTES", 1)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 0)
    a = np.random.default_rng(0).random((30, 20), np.float32)
    with pytest.raises(OutOfMemoryError):
        tw.matmul(a, a.T)
    out = np.memmap(tmp_path / "c.bin", np.float32, "w+", 0, (30, 30))
    assert tw.matmul(a, a.T, out=out) is out
    monkeypatch.undo()
    assert np.array_equal(np.fromfile(tmp_path / "c.bin", np.float32).reshape(30, 30), tw.matmul(a, a.T))

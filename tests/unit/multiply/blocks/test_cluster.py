"""Tiles made by a Dask cluster: workers that die, join or fail change no bit, and the journal stays correct."""

from __future__ import annotations

import dataclasses
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cluster_works
import numpy as np
import pytest
from fake_stores import CountingStore, Sums

from tilewright.errors import ArgumentTypeError, ArgumentValueError, DeviceError, StorageError
from tilewright.multiply.blocks import cluster
from tilewright.multiply.blocks.cluster import Cluster, check_writers
from tilewright.multiply.blocks.planning import Sizes, plan
from tilewright.multiply.blocks.running import Run
from tilewright.multiply.blocks.tile_maker import TileMaker

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
TILES = 16


class Notes:
    """A journal in memory."""

    def __init__(self) -> None:
        self.done: dict[int, int] = {}

    def add(self, tile: int, crc32: int) -> None:
        assert tile not in self.done
        self.done[tile] = crc32


@pytest.fixture
def client(local_cluster: Any) -> Iterator[Any]:
    with distributed.Client(local_cluster, set_as_default=False) as found:
        found.wait_for_workers(2)
        yield found


def shared(folder: Path, kind: Any = cluster_works.Recorded) -> tuple[TileMaker, np.ndarray[Any, Any]]:
    """A product of 16 tiles, and the same in memory; processes that make tiles leave their names in `made`."""
    a, b = cluster_works.saved(folder)
    (folder / "made").mkdir()
    found = plan(Sizes((400, 300, 90), (8, 8), 8, 8), 1 << 22, least_tiles=TILES)
    assert found.tiles >= TILES
    opening = functools.partial(cluster_works.stores, str(folder))
    work = functools.partial(kind, str(folder / "made"))
    return TileMaker(found, opening, work, Run(found, opening(), work(1)).identities), a @ b


def processes(folder: Path) -> set[str]:
    return {path.name.partition(".")[0] for path in (folder / "made").iterdir()}


def test_every_worker_makes_tiles_and_their_checksums_are_true(client: Any, tmp_path: Path) -> None:
    share, expected = shared(tmp_path)
    notes = Notes()
    Cluster(client).make(share, notes)
    assert np.array_equal(np.load(tmp_path / "c.npy"), expected)
    assert len(processes(tmp_path)) == 2 and len(list((tmp_path / "made").iterdir())) == share.plan.tiles
    assert Run(share.plan, share.stores(), share.work(1), journal=notes).damaged() == []
    assert sorted(notes.done) == list(range(share.plan.tiles)) and not client.futures


def test_a_worker_killed_in_the_middle_changes_no_bit(client: Any, tmp_path: Path) -> None:
    share, expected = shared(tmp_path, cluster_works.Dying)
    Cluster(client).make(share, Notes())
    assert (tmp_path / "made" / "died").exists()
    assert np.array_equal(np.load(tmp_path / "c.npy"), expected)


def test_a_tile_lost_before_its_checksum_was_read_is_made_again(client: Any, tmp_path: Path) -> None:
    share, expected = shared(tmp_path, cluster_works.Slow)

    class Behind(Notes):
        def add(self, tile: int, crc32: int) -> None:
            super().add(tile, crc32)
            if len(self.done) == 1:  # others are made meanwhile, and lost with their worker before they are noted
                time.sleep(0.6)
                os.kill(int(min(processes(tmp_path))), signal.SIGKILL)
                time.sleep(0.1)

    notes = Behind()
    Cluster(client).make(share, notes)
    assert sorted(notes.done) == list(range(share.plan.tiles))
    assert np.array_equal(np.load(tmp_path / "c.npy"), expected)


def test_a_worker_that_joins_gets_tiles(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_LOOK_SECONDS", 0.05)
    share, expected = shared(tmp_path)
    names = list(client.nthreads())
    gone = names[1:]

    class Joined(Notes):
        def add(self, tile: int, crc32: int) -> None:
            super().add(tile, crc32)
            gone.clear()  # from now on there is a second worker

    everyone = client.nthreads
    monkeypatch.setattr(client, "nthreads", lambda: {x: n for x, n in everyone().items() if x not in gone})
    found = Cluster(client)
    found.workers = {x: seen for x, seen in found.workers.items() if x not in gone}
    found.make(share, Joined())
    assert len(processes(tmp_path)) == 2
    assert np.array_equal(np.load(tmp_path / "c.npy"), expected)


def test_an_error_of_a_worker_is_raised(client: Any, tmp_path: Path) -> None:
    share, _ = shared(tmp_path, cluster_works.Failing)
    with pytest.raises(StorageError, match="make room") as raised:
        Cluster(client).make(share, Notes())
    assert raised.value.errno == 28 and not client.futures


def test_ctrl_c_leaves_the_journal(client: Any, tmp_path: Path) -> None:
    share, expected = shared(tmp_path)

    class Interrupted(Notes):
        def add(self, tile: int, crc32: int) -> None:
            super().add(tile, crc32)
            if len(self.done) == 3:
                raise KeyboardInterrupt

    notes = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        Cluster(client).make(share, notes)
    assert len(notes.done) == 3 and not client.futures
    Cluster(client).make(share, notes)
    assert np.array_equal(np.load(tmp_path / "c.npy"), expected)


def test_workers_that_see_other_files_are_refused(client: Any, tmp_path: Path) -> None:
    share, _ = shared(tmp_path)
    share.identities[0]["mtime_ns"] -= 1
    with pytest.raises(StorageError, match=r"a\.npy, .*b\.npy: must be the same files for every worker"):
        Cluster(client).make(share, Notes())


@pytest.mark.volume
def test_a_tile_that_ends_every_worker_is_reported(client: Any, tmp_path: Path) -> None:
    share, _ = shared(tmp_path, cluster_works.Deadly)
    with pytest.raises(DeviceError, match="allow less memory, and run again: finished tiles are kept"):
        Cluster(client).make(share, Notes())


def test_a_worker_makes_one_tile_at_a_time(tmp_path: Path) -> None:
    at_once: list[int] = []
    inside: list[int] = []

    class Slow(cluster_works.Recorded):
        def add(self, *panels: Any, first: bool) -> None:
            inside.append(1)
            time.sleep(0.02)
            super().add(*panels, first=first)
            at_once.append(len(inside))
            inside.pop()

    share, _ = shared(tmp_path, Slow)
    for made in [share.asked(tile, 1) for tile in range(4)]:
        made.result()
    assert at_once and set(at_once) == {1}


def test_a_tile_requested_at_the_end_of_the_last_finds_one_thread(tmp_path: Path) -> None:
    share, expected = shared(tmp_path)
    ended, lock = threading.Event(), threading.Lock()

    class Suspended:
        """A lock whose holder pauses after the release, as the interpreter may make it."""

        def __enter__(self) -> None:
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()
            if threading.current_thread().name == "tilewright-tiles":
                ended.set()
                time.sleep(0.1)

    share._promises._lock = Suspended()  # type: ignore[assignment]
    order = list(share.plan.order())
    promised = {order[0]: share.asked(order[0], 1)}
    promised[order[0]].result(10)
    assert ended.wait(10)
    promised |= {tile: share.asked(tile, 1) for tile in order[1:5]}
    for tile, made in promised.items():
        rows, columns = (share.plan.part(axis, share.plan.place(tile)[1 + axis]) for axis in (0, 1))
        assert made.result(10) == zlib.crc32(np.ascontiguousarray(expected[rows, columns]))


def test_a_worker_keeps_nothing_of_a_finished_product(tmp_path: Path) -> None:
    share, _ = shared(tmp_path)
    share.asked(0, 1).result(10)
    kept = weakref.ref(share)
    gc.disable()  # it runs at any time, and tiles would be kept until then
    try:
        del share
        until = time.monotonic() + 10
        while kept() is not None and time.monotonic() < until:
            time.sleep(0.01)  # the thread that makes tiles ends
        assert kept() is None
    finally:
        gc.enable()


def test_the_next_tile_is_read_while_one_is_made(tmp_path: Path) -> None:
    found, asked, read = plan(Sizes((300, 300, 90), (8, 8), 8, 8), 1 << 20), threading.Event(), threading.Semaphore(0)
    a, b = cluster_works.saved(tmp_path)
    a = a[:300]

    class Told(CountingStore):
        def read(self, *place: Any) -> None:
            super().read(*place)
            read.release()

    class Waiting(Sums):
        def add(self, *panels: Any, first: bool) -> None:
            super().add(*panels, first=first)
            # Panels of A and B: of the first tile and of the second, then of the third.
            summed.append(all(read.acquire(timeout=10) for _ in range((4, 2, 0)[len(summed)])))

    found = dataclasses.replace(found, rows=100, columns=100, depth=90)
    summed: list[bool] = []
    opened = Told(a), Told(b), CountingStore(np.zeros((300, 300), np.int64))

    def stores() -> Any:
        assert asked.wait(10)  # a tile that is not requested yet cannot be read ahead
        return opened

    share = TileMaker(found, stores, lambda threads: Waiting(), Run(found, opened, Waiting()).identities)
    diagonal = (0, 4, 8)  # no two have a panel in common
    promised = [share.asked(tile, 1) for tile in diagonal]
    assert share.asked(8, 1) is promised[2]  # Dask may request a tile again that it believed lost
    asked.set()
    for made, i in zip(promised, range(0, 300, 100), strict=True):
        assert made.result() == zlib.crc32(np.ascontiguousarray((a @ b)[i : i + 100, i : i + 100]))
    assert all(summed) and not read.acquire(blocking=False)


def test_only_synchronous_clients_are_accepted() -> None:
    with pytest.raises(ArgumentTypeError, match=r"`client` must be a distributed\.Client .*got str"):
        Cluster("tcp://127.0.0.1:8786")


def test_a_missing_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.2)
    with (
        pytest.raises(DeviceError, match=r"must be the address of a Dask scheduler, .*\(got tcp://127\.0\.0\.1:1: "),
        cluster.connected("tcp://127.0.0.1:1"),
    ):
        pass


WRONG_ADDRESSES = """
import socket, threading
from tilewright.multiply.blocks import cluster
from tilewright.errors import DeviceError

server = socket.create_server(("127.0.0.1", 0))
kept = []

def serve():
    while True:
        kept.append(server.accept()[0])
        kept[-1].sendall(b"HTTP/1.1 400 Bad Request\\r\\n\\r\\n")

threading.Thread(target=serve, daemon=True).start()
for address in ("nonsense", f"tcp://127.0.0.1:{server.getsockname()[1]}"):
    try:
        with cluster.connected(address):
            pass
    except DeviceError as error:
        print(error)
"""


def test_only_addresses_without_a_scheduler_are_reported() -> None:
    done = subprocess.run([sys.executable, "-c", WRONG_ADDRESSES], capture_output=True, text=True, check=False)
    assert done.stderr == "" and done.stdout.count("must be the address of a Dask scheduler") == 2


def test_two_workers_never_write_one_chunk() -> None:
    found = plan(Sizes((400, 300, 90), (8, 8), 8, 8), 1 << 22, least_tiles=TILES)

    class Chunked:
        name, write_chunks = "c.zarr", (found.rows, found.columns)

    check_writers(found, Chunked())  # type: ignore[arg-type]
    Chunked.write_chunks = (found.rows, found.columns + 1)
    with pytest.raises(ArgumentValueError, match=r"c\.zarr: must have chunks that divide tiles"):
        check_writers(found, Chunked())  # type: ignore[arg-type]


def test_memory_is_the_least_of_all_workers() -> None:
    found = object.__new__(Cluster)
    seen = functools.partial(cluster.Seen, "1", 1)
    found.workers = {
        "tcp://a:1": seen(100, 1000, 10_000), "tcp://a:2": seen(200, 1000, 10_000), "tcp://b:1": seen(0, None, 10_000),
    }  # fmt: skip
    assert found.room(None) == 600 - 200
    assert found.room(900) == 900 - 200
    with pytest.raises(ArgumentValueError, match="`memory` must be at most what Dask lets each worker take, 1,000 B"):
        found.room(5000)
    found.workers["tcp://a:1"] = seen(0, None, 1000)
    assert found.room(None) == 1000 // 2 // 2

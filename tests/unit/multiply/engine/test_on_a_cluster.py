"""`matmul` with a client of Dask's: the bits of a product in memory, continuation after any end, early refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as dask_array
import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.engine import outside
from tilewright.multiply.engine.request import Request

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")

#: A driver that ends as by kill -9 once it has noted two tiles.
KILLED = """
import os, signal, sys
import distributed
import tilewright as tw
from tilewright.multiply.blocks.journal import Journal

note = Journal.add
def add(self, tile, crc32):
    note(self, tile, crc32)
    if len(self.done) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
Journal.add = add
tw.matmul(*sys.argv[2:5], client=distributed.Client(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def client(local_cluster: Any) -> Iterator[Any]:
    with distributed.Client(local_cluster, set_as_default=False) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(3)
    np.save(tmp_path / "a.npy", random.standard_normal((700, 300), np.float32))
    np.save(tmp_path / "b.npy", random.standard_normal((300, 500), np.float32))
    return tmp_path


def operands(folder: Path) -> tuple[Any, Any]:
    return np.load(folder / "a.npy"), np.load(folder / "b.npy")


def test_bits_are_those_of_a_product_in_memory(client: Any, folder: Path) -> None:
    bias = np.arange(500, dtype=np.float32)
    more: dict[str, Any] = {"epilogue": lambda total, bias: tw.relu(2 * total + bias), "epilogue_args": [bias]}
    expected = tw.matmul(*operands(folder), **more)
    here = os.path.relpath(folder / "a.npy")  # workers may have another current folder
    found = tw.matmul(here, folder / "b.npy", folder / "c.npy", client=client, **more)
    assert found == folder / "c.npy" and np.array_equal(np.load(found), expected)
    zarr = pytest.importorskip("zarr", reason="the extra `blocks` is not installed")
    found = tw.matmul(folder / "a.npy", folder / "b.npy", folder / "c.zarr", client=client, **more)
    assert np.array_equal(zarr.open(found, mode="r")[:], expected)
    assert sorted(x.name for x in folder.iterdir()) == ["a.npy", "b.npy", "c.npy", "c.zarr"]


def test_workers_multiply_on_their_gpus(client: Any, folder: Path) -> None:
    a, b = (x[:64, :64] for x in operands(folder))
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", b)
    found = tw.matmul(folder / "a.npy", folder / "b.npy", folder / "c.npy", client=client, device="simulated")
    assert np.array_equal(np.load(found), tw.matmul(a, b))


def test_products_of_dask_arrays_are_computed_by_its_workers(client: Any) -> None:
    x = np.random.default_rng(4).random((30, 20))
    lazy = dask_array.from_array(x, chunks=7).map_blocks(np.copy), dask_array.random.random((20, 25), chunks=6)
    options: dict[str, Any] = {"epilogue": lambda total, x: tw.relu(total - x), "epilogue_args": [np.arange(25.0)]}
    expected = tw.matmul(x, lazy[1].compute(scheduler="synchronous"), **options)
    with dask.config.set({"array.chunk-size": "4kB"}):  # chains of steps
        found = tw.matmul(*lazy, **options)
        assert len(found.dask) > 2 * found.npartitions
        assert np.array_equal(client.compute(found).result(), expected)
        held = client.persist(lazy[0])
        assert np.array_equal(client.compute(tw.matmul(held, lazy[1], **options)).result(), expected)


def test_workers_open_the_files_of_maps_and_results_of_two_bytes(client: Any, folder: Path) -> None:
    """A file need not say that it holds bfloat16: the map says so, and the plan knows the result's dtype."""
    a, b = (x[:70, :90].astype(ml_dtypes.bfloat16) for x in operands(folder))
    b = b[:60].T.copy()
    a.tofile(folder / "a.bin")
    b[:, ::-1].T.tofile(folder / "b.bin")
    mapped = np.memmap(folder / "a.bin", a.dtype, "r", 2 * 90, (69, 90))  # from the second row on
    turned = np.memmap(folder / "b.bin", b.dtype, "r", 0, (60, 90)).T  # columns are neighbours
    tw.matmul(mapped, turned, folder / "c.npy", client=client)
    found = np.load(folder / "c.npy").view(a.dtype)
    assert np.array_equal(found, tw.matmul(a[1:], b[:, ::-1]))


def test_a_vector_is_an_operand(client: Any, folder: Path) -> None:
    b = np.linspace(0, 1, 300, dtype=np.float32)
    np.save(folder / "v.npy", b)
    found = tw.matmul(folder / "a.npy", folder / "v.npy", folder / "c.npy", client=client)
    assert np.array_equal(np.load(found), tw.matmul(operands(folder)[0], b))


def test_another_driver_continues_where_one_was_killed(client: Any, folder: Path) -> None:
    paths = [str(folder / f"{name}.npy") for name in "abc"]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, client.scheduler.address, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stderr
    a, b, c = paths
    with outside.planned(a, b, c, Request(), None, client=client) as product:
        product.run()
        assert product.kept == 2 and product.plan is not None and product.plan.tiles >= 8
    assert np.array_equal(np.load(c), tw.matmul(*operands(folder)))


def test_the_command_takes_a_schedulers_address(tilewright: Callable[..., Any], client: Any, folder: Path) -> None:
    given = "matmul", folder / "a.npy", folder / "b.npy", "-o", folder / "c.npy", "--dask", client.scheduler.address
    done = tilewright(*given)
    assert done.status == 0 and "700 x 500 float32 in " in done.out and "\nworkers  2\n" in done.out
    assert np.array_equal(np.load(folder / "c.npy"), tw.matmul(*operands(folder)))


@pytest.mark.parametrize(
    ("a", "out", "error", "words"),
    [
        (np.ones((700, 300), np.float32), "c.npy", ArgumentTypeError, "`a` must be a path that every worker .*save"),
        (dask_array.ones((700, 300)), "c.npy", ArgumentTypeError, r"got Array.*client\.compute"),
        ("a.npy", None, ArgumentTypeError, "`out` must be a path"),
        ("a.npy", np.ones((700, 500)), ArgumentTypeError, "`out` must be a path"),
        ("a.npy", "c.h5", ArgumentValueError, r"several processes can write .*HDF5.*\.npy or \.zarr"),
    ],
    ids=["operand in memory", "Dask array", "no result", "result in memory", "hdf5"],
)
def test_arrays_that_workers_cannot_share_are_refused(
    client: Any, folder: Path, a: Any, out: Any, error: type[Exception], words: str
) -> None:
    given = [folder / x if isinstance(x, str) else x for x in (a, "b.npy", out)]
    with pytest.raises(error, match=words):
        tw.matmul(*given, client=client)
    assert sorted(x.name for x in folder.iterdir()) == ["a.npy", "b.npy"]

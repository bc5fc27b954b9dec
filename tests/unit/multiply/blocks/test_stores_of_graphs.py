"""Arrays of Dask and xarray, which are computed when they are read."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import xarray

from tilewright.multiply.blocks.stores import opened

ROWS, COLUMNS = 4096, 2048


def block(block_info: dict[int, dict[str, list[tuple[int, int]]]]) -> np.ndarray:
    (top, bottom), (left, right) = block_info[0]["array-location"]
    return np.add.outer(np.arange(top, bottom) * COLUMNS, np.arange(left, right)).astype(np.float64)


def computed() -> da.Array:
    """64 MiB that are not in memory, in blocks of 512 KiB."""
    whole = da.empty((ROWS, COLUMNS), chunks=(256, 256))
    return da.map_blocks(lambda _, block_info=None: block(block_info), whole, dtype="f8", meta=np.empty((0, 0)))


@pytest.mark.parametrize("library", ["dask", "xarray"])
def test_a_panel_is_computed_and_nothing_else(library: str) -> None:
    array = computed() if library == "dask" else xarray.DataArray(computed(), dims=("i", "k"))
    store = opened(array, "a")
    assert (store.shape, store.chunks) == ((ROWS, COLUMNS), (256, 256))
    panel = np.zeros((ROWS - 100, 300))
    store.read((), slice(0, 1), slice(0, 1), np.zeros((1, 1)))  # Dask imports modules for the computation
    tracemalloc.start()
    store.read((), slice(50, ROWS - 50), slice(200, 500), panel)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    wanted = np.add.outer(np.arange(50, ROWS - 50) * COLUMNS, np.arange(200, 500))
    np.testing.assert_array_equal(panel, wanted)
    assert peak < 8 << 20  # the panel has 9 MiB, the array 64


def test_a_graph_is_identified_by_its_inputs() -> None:
    array = np.arange(12.0).reshape(3, 4)
    one, same = (opened(da.from_array(array, chunks=2) + 1, "a").identity() for _ in range(2))
    other = opened(da.from_array(array + 1, chunks=2) + 1, "a").identity()
    assert json.loads(json.dumps(one)) == same != other
    assert opened(xarray.DataArray(array), "a").identity() != opened(xarray.DataArray(array), "a").identity()


def test_an_array_of_xarray_over_a_file_is_not_loaded(tmp_path: Path) -> None:
    array = np.arange(12.0).reshape(3, 4)
    xarray.DataArray(array, dims=("i", "k"), name="a").to_dataset().to_zarr(tmp_path / "x.zarr", consolidated=False)
    with xarray.open_zarr(tmp_path / "x.zarr", chunks=None, consolidated=False) as dataset:
        store = opened(dataset["a"], "a")
        into = np.zeros((2, 4))
        store.read((), slice(1, 3), slice(0, 4), into)
        store.identity()
        np.testing.assert_array_equal(into, array[1:])
        assert not dataset["a"].variable._in_memory


def test_one_axis_and_batches_of_dask() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    into = np.zeros((2, 3))
    opened(da.from_array(array, chunks=(1, 2, 2)), "a").read((1,), slice(1, 3), slice(0, 3), into)
    np.testing.assert_array_equal(into, array[1, 1:3, :3])
    line = np.zeros((1, 2))
    opened(da.from_array(array[0, 0], chunks=2), "a").read((), slice(0, 1), slice(1, 3), line)
    np.testing.assert_array_equal(line, [[1, 2]])

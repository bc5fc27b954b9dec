"""Arrays of zarr and HDF5: new arrays, paths, and refused ones."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest
import zarr

from tilewright.errors import ArgumentTypeError, ArgumentValueError, MissingExtraError, StorageError, TilewrightError
from tilewright.multiply.blocks.stores import Store, created, existing, is_outside, opened

PATHS = ("c.zarr", "c.h5", "c.hdf5:/group/c", "c.zarr.part", "c.h5.part:/c")


def whole(store: Store) -> np.ndarray:
    into = np.zeros(store.shape[-2:], store.dtype)
    store.read((0,) * (len(store.shape) - 2), slice(0, into.shape[0]), slice(0, into.shape[1]), into)
    return into


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", ["float32", ">f8", "bool", "complex64", "float16", "uint64"])
def test_a_new_array_is_written_and_read_again(tmp_path: Path, path: str, dtype: str) -> None:
    array = (np.arange(35).reshape(5, 7) % 2).astype(dtype)
    store = created(f"{tmp_path}/{path}", (5, 7), dtype, chunks_hint=(2, 4))
    for row in range(0, 5, 2):
        store.write((), slice(row, min(row + 2, 5)), slice(0, 7), array[row : row + 2])
    store.flush()
    store.close()
    file = tmp_path / path.partition(":")[0]
    again = opened(f"{tmp_path}/{path}", "a")
    np.testing.assert_array_equal(whole(again), array)
    assert again.name == f"{tmp_path}/{path}"
    again.close()
    if ".zarr" in path:
        found: Any = zarr.open_array(file, mode="r")
        assert (found.metadata.zarr_format, found.compressors) == (3, ())
    else:
        found = h5py.File(file)[path.partition(":")[2] or "/array"]
        assert (found.dtype, found.chunks) == (np.dtype(dtype), None)
    np.testing.assert_array_equal(found[:], array)


@pytest.mark.parametrize("path", PATHS[:2])
def test_a_new_array_is_zero_and_has_batches(tmp_path: Path, path: str) -> None:
    store = created(tmp_path / path, (2, 3, 4), "float32", chunks_hint=(3, 4))
    store.write((1,), slice(0, 3), slice(1, 2), np.ones((3, 1), np.float32))
    store.close()
    again = existing(tmp_path / path)
    assert whole(again).sum() == 0
    into = np.zeros((3, 4), np.float32)
    again.read((1,), slice(0, 3), slice(0, 4), into)
    assert into[:, 1].all() and into.sum() == 3
    again.close()


@pytest.mark.parametrize("path", PATHS[:2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_dtypes_that_a_format_lacks(tmp_path: Path, path: str, dtype: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"must have a dtype (of zarr's|that HDF5 supports) .*got {dtype}"):
        created(tmp_path / path, (2, 2), getattr(ml_dtypes, dtype), chunks_hint=(1, 1))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", PATHS[:3])
def test_existing_arrays_are_left_alone(tmp_path: Path, path: str) -> None:
    created(f"{tmp_path}/{path}", (2, 2), "float32", chunks_hint=(1, 1)).close()
    with pytest.raises(ArgumentValueError, match="must be a new file"):
        created(f"{tmp_path}/{path}", (2, 2), "float32", chunks_hint=(1, 1))


@pytest.mark.parametrize("path", PATHS[:2])
def test_room_is_reserved_at_the_start(tmp_path: Path, path: str) -> None:
    with pytest.raises(StorageError, match=r"4 PiB must find room .*free"):
        created(tmp_path / path, (1 << 25, 1 << 25), "float32", chunks_hint=(4096, 4096))
    assert list(tmp_path.iterdir()) == []


def test_chunks_of_new_arrays_divide_tiles(tmp_path: Path) -> None:
    store = created(tmp_path / "c.zarr", (10000, 9000), "float32", chunks_hint=(4096, 3000))
    assert store.chunks == store.write_chunks == (256, 3000)  # a strip of them lies in memory while it is written
    wide = created(tmp_path / "e.zarr", (10000, 9000), "float32", chunks_hint=(300, 9000))
    assert wide.chunks == (300, 3000)
    small = created(tmp_path / "d.zarr", (3, 50, 60), "float32", chunks_hint=(64, 64))
    assert small.chunks == (1, 50, 60)


def test_shards_are_written_whole_and_read_in_chunks(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(64, 64), dtype="f4", chunks=(8, 16), shards=(32, 32))
    store = opened(array, "a")
    assert (store.chunks, store.write_chunks) == ((8, 16), (32, 32))


@pytest.mark.parametrize("shards", [None, (20, 20)], ids=["chunks", "shards"])
def test_threads_may_write_parts_of_one_chunk(tmp_path: Path, shards: tuple[int, int] | None) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(40, 40), dtype="f8", chunks=(10, 10), shards=shards)
    store = existing(array)
    wanted = np.arange(1600.0).reshape(40, 40)

    def write(i: int) -> None:
        store.write((), slice(i, i + 1), slice(0, 40), wanted[i : i + 1])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    store.flush()
    np.testing.assert_array_equal(whole(store), wanted)


@pytest.mark.parametrize("how", [{"compressors": None}, {}], ids=["plain", "compressed"])
def test_missing_chunks_have_the_fill_value(tmp_path: Path, how: dict[str, Any]) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", shape=(4, 4), dtype="f4", chunks=(2, 2), fill_value=3, **how)
    array[2:, :2] = 1
    np.testing.assert_array_equal(whole(opened(array, "a")), [[3] * 4] * 2 + [[1, 1, 3, 3]] * 2)


def test_plain_chunks_are_read_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", data=np.arange(12.0).reshape(3, 4), chunks=(2, 2), compressors=None)
    monkeypatch.setattr(zarr.Array, "get_basic_selection", None)
    np.testing.assert_array_equal(whole(opened(array, "a")), np.arange(12.0).reshape(3, 4))
    os.truncate(tmp_path / "a.zarr" / "c" / "1" / "0", 10)
    with pytest.raises(StorageError, match=r"\(got 10\): it was cut short"):
        whole(opened(array, "a"))


def test_chunks_of_zeros_are_written_too(tmp_path: Path) -> None:
    """A finished result then has every file."""
    store = created(tmp_path / "c.zarr", (4, 4), "float32", chunks_hint=(2, 2))
    store.write((), slice(0, 2), slice(0, 4), np.zeros((2, 4), np.float32))
    assert sorted(path.name for path in (tmp_path / "c.zarr" / "c" / "0").iterdir()) == ["0", "1"]


def test_flush_syncs_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = created(tmp_path / "c.zarr", (4, 4), "float32", chunks_hint=(2, 2))
    store.write((), slice(2, 4), slice(0, 4), np.ones((2, 4), np.float32))
    seen: list[str] = []
    sync = os.fsync

    def watched(file: int) -> None:
        seen.append(os.path.relpath(Path(f"/proc/self/fd/{file}").readlink(), tmp_path))
        sync(file)

    monkeypatch.setattr(os, "fsync", watched)
    store.flush()
    assert {"c.zarr/c/1/0", "c.zarr/c/1/1", "c.zarr/c/1", "c.zarr/c", "c.zarr"} == set(seen)
    seen.clear()
    store.flush()
    assert seen == []


class TestPaths:
    """Paths to arrays."""

    def test_an_array_in_a_group(self, tmp_path: Path) -> None:
        group = zarr.create_group(tmp_path / "x.zarr")
        group.create_array("a", shape=(2, 2), dtype="f4")
        assert opened(f"{tmp_path}/x.zarr", "a").shape == (2, 2)
        group.create_group("inner").create_array("b", shape=(3, 3), dtype="f4")
        assert opened(f"{tmp_path}/x.zarr/inner/b", "a").shape == (3, 3)
        group.create_array("c", shape=(2, 2), dtype="f4")
        with pytest.raises(ArgumentValueError, match=r"a group with 2: .*x\.zarr/a, .*x\.zarr/c\)"):
            opened(f"{tmp_path}/x.zarr", "a")

    def test_a_dataset_of_several(self, tmp_path: Path) -> None:
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["a"] = np.ones((2, 2))
            file["g/b"] = np.ones((3, 3))
        assert opened(f"{tmp_path}/x.h5:/g/b", "a").shape == (3, 3)
        for end in ("", ":/none", ":/g"):
            with pytest.raises(ArgumentValueError, match=r"must name one dataset .*/a, /g/b\); write .*x\.h5:/name"):
                opened(f"{tmp_path}/x.h5{end}", "a")

    def test_a_file_of_one_format_in_a_folder_of_another(self, tmp_path: Path) -> None:
        (tmp_path / "x.zarr").mkdir()
        for name in ("a.npy", "a.h5"):
            created(tmp_path / "x.zarr" / name, (2, 3), "float32", chunks_hint=(1, 1)).close()
            store = opened(tmp_path / "x.zarr" / name, "a")
            assert store.shape == (2, 3)
            store.close()

    @pytest.mark.parametrize("path", ["x.zarr", "x.h5", "x.zarr/a"])
    def test_nothing(self, tmp_path: Path, path: str) -> None:
        with pytest.raises(StorageError, match="no such file") as wrong:
            opened(tmp_path / path, "a")
        assert isinstance(wrong.value, FileNotFoundError)

    def test_a_folder_and_a_file_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "x.zarr").mkdir()
        with pytest.raises(StorageError, match="must be a whole array of zarr"):
            opened(tmp_path / "x.zarr", "a")
        (tmp_path / "x.h5").write_bytes(b"text")
        with pytest.raises(StorageError, match=r"must be readable .*file signature not found"):
            opened(tmp_path / "x.h5", "a")

    @pytest.mark.parametrize("dtype", ["S3", [("x", "f4")]], ids=str)
    def test_arrays_without_numbers(self, tmp_path: Path, dtype: Any) -> None:
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["a"] = np.zeros((2, 2), dtype)
        with pytest.raises(ArgumentTypeError, match="must hold numbers"):
            opened(tmp_path / "x.h5", "a")

    def test_bfloat16_in_a_dataset_is_named(self, tmp_path: Path) -> None:
        array = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["a"] = array
        np.testing.assert_array_equal(whole(opened(tmp_path / "x.h5", "a", ml_dtypes.bfloat16)), array)


def test_a_dataset_without_chunks_is_read_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(6.0).reshape(2, 3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = array
    monkeypatch.setattr(h5py.Dataset, "read_direct", None)
    np.testing.assert_array_equal(whole(opened(tmp_path / "x.h5", "a")), array)
    with h5py.File(tmp_path / "x.h5") as file:
        np.testing.assert_array_equal(whole(opened(file["a"], "a")), array)


def test_a_dataset_after_a_user_block(tmp_path: Path) -> None:
    array = np.arange(6.0).reshape(2, 3)
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=512) as file:
        file["a"] = array
    np.testing.assert_array_equal(whole(opened(tmp_path / "x.h5", "a")), array)


def test_arrays_open_to_be_read_are_no_results(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(2, 2), dtype="f4")
    with pytest.raises(ArgumentValueError, match=r"`out` must be writable .*zarr"):
        existing(zarr.open_array(tmp_path / "x.zarr", mode="r"))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = np.ones((2, 2))
    with (
        h5py.File(tmp_path / "x.h5") as file,
        pytest.raises(ArgumentValueError, match=r"`out` must be writable .*x\.h5:/a"),
    ):
        existing(file["a"])


def test_files_that_are_cut_short(tmp_path: Path) -> None:
    array = np.random.default_rng(0).random((64, 64))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = array
    os.truncate(tmp_path / "x.h5", 20000)
    with pytest.raises(StorageError, match="truncated file"):
        opened(tmp_path / "x.h5", "a")
    zarr.create_array(tmp_path / "x.zarr", data=array, chunks=(32, 32))
    os.truncate(tmp_path / "x.zarr" / "c" / "1" / "0", 100)
    with pytest.raises(StorageError, match=r"x\.zarr: must be a whole array of zarr .*copy or save it again"):
        whole(opened(tmp_path / "x.zarr", "a"))


def test_which_arrays_are_stores(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        assert is_outside(file.create_dataset("a", data=np.ones((2, 2))))
    assert is_outside(zarr.zeros((2, 2)))


@pytest.mark.parametrize(("path", "package"), [("x.zarr", "zarr"), ("x.h5", "h5py")])
def test_a_package_that_is_missing(path: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"need the package {package}.*pip install .*\[blocks\]'") as caught:
        opened(path, "a")
    assert caught.value.extra == "blocks"


def zarr_json(**given: Any) -> str:
    """Metadata of an array of format 3, with other values."""
    grid = {"name": "regular", "configuration": {"chunk_shape": given.pop("chunks", [16, 16])}}
    whole = {
        "zarr_format": 3, "node_type": "array", "shape": [40, 30], "data_type": "float32", "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0.0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "attributes": {},
    }  # fmt: skip
    return json.dumps(whole | given)


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "3", '"x"', "[" * 100_000, '{"a":' * 100_000, "9" * 5000, "\0",
        zarr_json(shape=[2**63, 30]), zarr_json(shape=[2**62, 2**62]), zarr_json(shape=[-1, 30]), zarr_json(shape=None),
        zarr_json(shape=[1e999, 1]), zarr_json(shape=["40", "30"]), zarr_json(shape=[40, None]), zarr_json(shape=40),
        zarr_json(chunks=[0, 16]), zarr_json(chunks=[-16, 16]), zarr_json(chunks=[2**62, 2**62]),
        zarr_json(chunks=[16]), zarr_json(chunks=None), zarr_json(chunks=[16, "x"]), zarr_json(codecs=None),
        zarr_json(codecs=[{"name": "nothing"}]), zarr_json(data_type=None), zarr_json(data_type={"name": []}),
        zarr_json(zarr_format=9), zarr_json(node_type="x"), zarr_json(fill_value=[]), zarr_json(chunk_grid=3),
        zarr_json(chunk_key_encoding=None),
    ],
)  # fmt: skip
def test_damaged_metadata_of_zarr(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "zarr.json").write_text(text)
    with pytest.raises(StorageError, match=r"x\.zarr: must "):
        opened(tmp_path / "x.zarr", "a")


def test_whole_metadata_of_zarr(tmp_path: Path) -> None:
    """The clean twin: the same metadata, undamaged, without a chunk."""
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "zarr.json").write_text(zarr_json())
    assert not whole(opened(tmp_path / "x.zarr", "a")).any()


@pytest.mark.parametrize(("at", "value"), [("chunks", [0, 16]), ("shape", [2**63, 3]), ("shape", None), ("order", 3)])
def test_damaged_metadata_of_zarr_2(tmp_path: Path, at: str, value: object) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(40, 30), chunks=(16, 16), dtype="f4", zarr_format=2)
    text = json.loads((tmp_path / "x.zarr" / ".zarray").read_text())
    (tmp_path / "x.zarr" / ".zarray").write_text(json.dumps(text | {at: value}))
    with pytest.raises(StorageError, match=r"x\.zarr: must "):
        opened(tmp_path / "x.zarr", "a")


def test_links_of_hdf5_that_lead_nowhere_or_in_a_circle(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["soft"] = h5py.SoftLink("/soft")
        file["self"] = h5py.ExternalLink("x.h5", "/self")
        file["gone"] = h5py.ExternalLink("none.h5", "/a")
        file["group/up"] = file["/"]
        file["empty"] = h5py.Empty("f4")
    for name in ("soft", "self", "gone", "none", "group", "group/up/group/up", "empty", "a\0"):
        with pytest.raises(TilewrightError, match=r"must "):
            opened(f"{tmp_path}/x.h5:/{name}", "a")
    with pytest.raises(TilewrightError, match=r"x\.h5: must "):
        opened(tmp_path / "x.h5", "a")


def test_damage_anywhere_in_a_file_of_hdf5(tmp_path: Path) -> None:
    """Whatever byte of the file's own is damaged: it is read, or refused with an error of ours."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", data=np.ones((40, 30), np.float32), chunks=(16, 16), compression="gzip")
    data, random, refused = (tmp_path / "x.h5").read_bytes(), np.random.default_rng(0), 0
    for place in random.integers(0, len(data), 300):
        damaged = bytearray(data)
        damaged[place : place + 8] = random.bytes(8)
        (tmp_path / "y.h5").write_bytes(damaged)
        try:
            with contextlib.closing(opened(tmp_path / "y.h5", "a")) as store:
                if store.shape == (40, 30):
                    whole(store)
        except TilewrightError:
            refused += 1
    assert refused > 50

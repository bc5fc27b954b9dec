"""Stores of files and arrays against NumPy's slices."""

from __future__ import annotations

import itertools
import json
import pickle
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest
import zarr
from hypothesis import given, settings, strategies as st

from tilewright.errors import ArgumentTypeError, ArgumentValueError, StorageError
from tilewright.multiply.blocks.stores import MemoryStore, as_column, as_row, created, existing, is_outside, opened

DTYPES = ("float32", ">f4", "float16", "float64", "complex64", ">c16", "bool", "int8", ">i8", "uint16")


class Duck:
    """An array with the least that a store needs."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.array[index]

    def __setitem__(self, index: Any, values: np.ndarray) -> None:
        self.array[index] = values


def saved(array: np.ndarray, folder: Path) -> Path:
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


def mapped(array: np.ndarray, folder: Path) -> np.memmap:
    return np.load(saved(array, folder), mmap_mode="r+")


def in_zarr(array: np.ndarray, folder: Path, **how: Any) -> zarr.Array:
    edges = tuple(-(-n // 3) for n in array.shape)
    made = zarr.create_array(folder / "x.zarr", shape=array.shape, dtype=array.dtype, **({"chunks": edges} | how))
    made[...] = array
    return made


def sharded(array: np.ndarray, folder: Path) -> Any:
    edges = tuple(-(-n // 4) for n in array.shape)
    return in_zarr(array, folder, chunks=edges, shards=tuple(2 * n for n in edges))


def in_hdf5(array: np.ndarray, folder: Path, **how: Any) -> str:
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("group/a", data=array, **how)
        file["other"] = 1.0
    return f"{folder}/x.h5:/group/a"


#: How an array becomes an operand or a result of each kind, and whether it is C-ordered.
KINDS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "npy": saved,
    "npy, Fortran": lambda array, folder: saved(np.asfortranarray(array), folder),
    "memmap": mapped,
    "memmap, transposed": lambda array, folder: mapped(np.ascontiguousarray(array.T), folder).T,
    "memmap, part": lambda array, folder: mapped(np.pad(array, 2), folder)[(slice(2, -2),) * array.ndim],
    "memmap, steps": lambda array, folder: mapped(np.repeat(array, 2, -1), folder)[..., ::2],
    "memmap, backwards": lambda array, folder: mapped(np.flip(array, 0), folder)[::-1],
    "ndarray": lambda array, folder: np.asfortranarray(array),
    "sliced": lambda array, folder: Duck(array.copy()),
    "zarr": in_zarr,
    "zarr, path": lambda array, folder: str(in_zarr(array, folder).store_path).removeprefix("file://"),
    "zarr 2": lambda array, folder: in_zarr(array, folder, zarr_format=2, order="F"),
    "zarr, plain": lambda array, folder: in_zarr(array, folder, compressors=None),
    "zarr 2, plain": lambda array, folder: in_zarr(array, folder, compressors=None, zarr_format=2, filters=None),
    "zarr, shards": sharded,
    "zarr, in memory": lambda array, folder: zarr.array(array, chunks=(7,) * array.ndim),
    "hdf5": in_hdf5,
    "hdf5, chunks": lambda array, folder: in_hdf5(
        array, folder, chunks=tuple(min(n, 7) for n in array.shape), compression="gzip"
    ),
    "hdf5, open": lambda array, folder: h5py.File(in_hdf5(array, folder).partition(":")[0], "r+")["group/a"],
}


def random(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(np.prod(shape, dtype=int))
    raw = rng.integers(0, 100, shape)
    return (raw % 2 if dtype == "bool" else raw + 1j * raw[::-1] if "c" in dtype else raw).astype(dtype)


@st.composite
def spans(draw: st.DrawFn, extent: int) -> slice:
    first = draw(st.integers(0, extent))
    return slice(first, draw(st.integers(first, extent)))


def rectangle(data: st.DataObject, shape: tuple[int, ...]) -> tuple[tuple[int, ...], slice, slice]:
    at = tuple(data.draw(st.integers(0, n - 1)) for n in shape[:-2])
    rows = data.draw(spans(shape[-2])) if len(shape) > 1 else slice(0, 1)
    return at, rows, data.draw(spans(shape[-1]))


def memory_of(data: st.DataObject, shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Memory for a rectangle, in one of the layouts that a caller may use."""
    order = data.draw(st.sampled_from("CFP"))
    if order == "P":  # rows with a gap after them
        return np.zeros((shape[0], shape[1] + 3), dtype)[:, : shape[1]]
    return np.zeros(shape, dtype, order)


def part_of(array: np.ndarray, at: tuple[int, ...], rows: slice, columns: slice) -> np.ndarray:
    return array[(*at, rows, columns)] if array.ndim > 1 else array[None, columns]


extents = st.lists(st.integers(1, 3), max_size=2).flatmap(
    lambda outer: st.lists(st.integers(1, 40), min_size=1 if not outer else 2, max_size=2).map(
        lambda inner: (*outer, *inner)
    )
)


def of_every_kind(test: Callable[..., None], examples: int) -> Any:
    """A property test over stores of each kind, shape and dtype."""
    drawn = given(data=st.data(), shape=extents, dtype=st.sampled_from(DTYPES))
    return pytest.mark.parametrize("kind", KINDS)(settings(max_examples=examples)(drawn(test)))


def check_reading(kind: str, data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    array = random(shape, dtype)
    with tempfile.TemporaryDirectory() as folder:
        store = opened(KINDS[kind](array, Path(folder)), "a")
        at, rows, columns = rectangle(data, shape)
        wanted = part_of(array, at, rows, columns)
        into = memory_of(data, wanted.shape, data.draw(st.sampled_from([dtype, array.dtype.newbyteorder("=")])))
        store.read(at, rows, columns, into)
        store.close()
    if kind == "zarr, path":  # only its codec knows the order of bytes
        array = array.astype(array.dtype.newbyteorder("="))
    assert (store.shape, store.dtype, store.resident) == (shape, array.dtype, kind == "ndarray")
    np.testing.assert_array_equal(into, wanted)


def check_writing(kind: str, data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    array = random(shape, dtype)
    with tempfile.TemporaryDirectory() as folder:
        result = KINDS[kind](array, Path(folder))
        store = existing(result)
        at, rows, columns = rectangle(data, shape)
        place = part_of(array, at, rows, columns)
        values = memory_of(data, place.shape, data.draw(st.sampled_from([dtype, array.dtype.newbyteorder("=")])))
        values[...] = random(place.shape, dtype)
        place[...] = values
        store.write(at, rows, columns, values)
        store.flush()
        again = opened(result, "a")
        for at in itertools.product(*map(range, shape[:-2])):
            whole = np.zeros(shape[-2:] if len(shape) > 1 else (1, *shape), array.dtype)
            again.read(at, slice(0, whole.shape[0]), slice(0, whole.shape[1]), whole)
            np.testing.assert_array_equal(whole, array[at] if len(shape) > 1 else array[None])
        store.close()
        again.close()


test_reading_is_slicing = of_every_kind(check_reading, 20)
test_writing_is_assigning = of_every_kind(check_writing, 20)
test_much_reading_is_slicing = pytest.mark.volume(of_every_kind(check_reading, 200))
test_much_writing_is_assigning = pytest.mark.volume(of_every_kind(check_writing, 200))


@pytest.mark.parametrize("columns", [3, 700, 1100, 400_000])
@pytest.mark.parametrize("into", ["float32", "float64"])
def test_pieces_of_long_lines_fit_together(tmp_path: Path, columns: int, into: str) -> None:
    """Lines near each other, far from each other, and longer than the buffer."""
    array = np.arange(9 * columns * 2, dtype=np.float32).reshape(9, -1)
    store = opened(saved(array, tmp_path), "a")
    found = np.zeros((7, columns), into)
    store.read((), slice(1, 8), slice(2, 2 + columns), found)
    np.testing.assert_array_equal(found, array[1:8, 2 : 2 + columns])
    store.close()


def test_elements_whose_file_states_only_their_width(tmp_path: Path) -> None:
    array = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    path = saved(array, tmp_path)
    with pytest.raises(ArgumentTypeError, match=r"must hold numbers \(got elements of \|V2\); if they are bfloat16 "):
        opened(path, "a")
    for store in (opened(path, "a", array.dtype), opened(np.load(path, mmap_mode="r").view(array.dtype), "a")):
        found = np.zeros((3, 2), np.float32)
        store.read((), slice(0, 3), slice(1, 3), found)
        np.testing.assert_array_equal(found, array[:, 1:3].astype(np.float32))
        assert json.loads(json.dumps(store.identity()))["offset"] == 128


@pytest.mark.parametrize(
    ("dtype", "says"),
    [("f4,i4", "elements of"), ("M8[s]", "elements of"), ("S3", "elements of"), ("V3", "convert them")],
)
def test_elements_that_are_no_numbers_are_refused(tmp_path: Path, dtype: str, says: str) -> None:
    with pytest.raises(ArgumentTypeError, match=says):
        opened(saved(np.zeros((2, 2), dtype), tmp_path), "a")
    with pytest.raises(ArgumentTypeError, match=says):
        opened(np.zeros((2, 2), dtype), "a")


def test_a_dtype_that_the_file_contradicts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match=r"must hold float32 \(got float64\)"):
        opened(saved(np.zeros((2, 2)), tmp_path), "a", "float32")


def test_a_cast_of_another_kind_is_refused(tmp_path: Path) -> None:
    store = opened(saved(np.zeros((2, 2)), tmp_path), "a")
    with pytest.raises(TypeError, match="same_kind"):
        store.read((), slice(0, 2), slice(0, 2), np.zeros((2, 2), np.int32))


@pytest.mark.parametrize("kind", ["npy", "memmap", "sliced", "npy, Fortran", "zarr", "zarr, plain", "hdf5, chunks"])
def test_threads_read_in_parallel(tmp_path: Path, kind: str) -> None:
    array = random((300, 200), "float32")
    store = opened(KINDS[kind](array, tmp_path), "a")

    def read(i: int) -> bool:
        rows, columns = slice(i, i + 50), slice(i // 2, i // 2 + 60)
        into = np.zeros((50, 60), ">f4" if i % 2 else "f4")
        store.read((), rows, columns, into)
        return bool((into == array[rows, columns]).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(200)))
    store.close()


def test_lines_become_rows_and_columns(tmp_path: Path) -> None:
    line = np.arange(10.0)
    path = saved(line, tmp_path)
    row, column = as_row(existing(path)), as_column(existing(path))
    assert (row.shape, column.shape, row.chunks, column.chunks) == ((1, 10), (10, 1), (1, 1), (1, 1))
    found, turned = np.zeros((1, 4)), np.zeros((4, 1))
    row.read((), slice(0, 1), slice(3, 7), found)
    column.read((), slice(3, 7), slice(0, 1), turned)
    np.testing.assert_array_equal(found, line[None, 3:7])
    np.testing.assert_array_equal(turned, line[3:7, None])
    column.write((), slice(0, 4), slice(0, 1), turned)
    row.write((), slice(0, 1), slice(8, 10), found[:, :2])
    assert np.load(path).tolist() == [3, 4, 5, 6, 4, 5, 6, 7, 3, 4]
    assert row.identity() == column.identity()
    row.flush()
    row.close()
    column.close()


def test_another_process_opens_the_file_itself(tmp_path: Path) -> None:
    store = existing(saved(np.zeros((3, 4)), tmp_path))
    sent = pickle.dumps(store)
    store.close()
    again = pickle.loads(sent)
    again.write((), slice(0, 1), slice(0, 4), np.ones((1, 4)))
    again.close()
    assert np.load(tmp_path / "x.npy").sum() == 4


class TestMaps:
    """The store reads a map's file, so the pages do not count as this process's memory."""

    def test_the_file_is_read_and_not_the_map(self, tmp_path: Path) -> None:
        array = mapped(random((20, 30), "float32"), tmp_path)
        assert opened(array[3:, 4:], "a").identity()["offset"] == 128 + 4 * (3 * 30 + 4)
        assert opened(array.T, "a").identity()["strides"] == [4, 120]
        assert not isinstance(opened(array[3:, 4:], "a"), MemoryStore)
        assert isinstance(opened(array[:, ::2], "a"), MemoryStore)

    def test_one_with_an_offset_beyond_a_page(self, tmp_path: Path) -> None:
        values = np.arange(5000, dtype=np.int16)
        (tmp_path / "raw").write_bytes(b"x" * 6002 + values.tobytes())
        store = opened(np.memmap(tmp_path / "raw", np.int16, "r", 6002, (50, 100)), "a")
        found = np.zeros((2, 100), np.int16)
        store.read((), slice(7, 9), slice(0, 100), found)
        assert (store.identity()["kind"], found.ravel().tolist()) == ("memmap", list(range(700, 900)))

    def test_writes_to_a_map_are_read(self, tmp_path: Path) -> None:
        array = mapped(np.zeros((4, 5)), tmp_path)
        array[2, 3] = 7
        found = np.zeros((4, 5))
        opened(array, "a").read((), slice(0, 4), slice(0, 5), found)
        assert found[2, 3] == 7 and found.sum() == 7

    @pytest.mark.parametrize("change", ["another file", "no file", "in memory alone", "arithmetic"])
    def test_a_map_that_is_not_its_file_is_read_itself(self, tmp_path: Path, change: str) -> None:
        path = saved(np.full((4, 5), 3.0), tmp_path)
        array = np.load(path, mmap_mode="c" if change == "in memory alone" else "r+")
        if change == "another file":
            np.save(tmp_path / "y.npy", np.zeros((4, 5)))
            (tmp_path / "y.npy").replace(path)
        elif change == "no file":
            path.unlink()
        elif change == "in memory alone":
            array += 1
        else:
            array = array + 1
        found = np.zeros((4, 5))
        store = opened(array, "a")
        store.read((), slice(0, 4), slice(0, 5), found)
        np.testing.assert_array_equal(found, array)
        assert found[0, 0] in (3, 4)
        assert "crc32" in store.identity()

    def test_a_map_to_read_is_no_result(self, tmp_path: Path) -> None:
        with pytest.raises(ArgumentValueError, match=r"read-only map of .*map it with r\+"):
            existing(np.load(saved(np.zeros((2, 2)), tmp_path), mmap_mode="r"))


def change_a_byte(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("kind", ["npy", "memmap", "memmap, steps", "zarr", "hdf5", "hdf5, chunks"])
def test_identity_changes_by_a_write_and_not_by_a_read(tmp_path: Path, kind: str) -> None:
    value = KINDS[kind](random((8, 9), "float32"), tmp_path)
    store = opened(value, "a")
    before = json.loads(json.dumps(store.identity()))
    store.read((), slice(0, 8), slice(0, 9), np.zeros((8, 9)))
    again = opened(value, "a")
    assert again.identity() == store.identity() == before
    again.close()
    store.close()
    change_a_byte(min(path for path in tmp_path.rglob("*") if path.is_file() and path.name != "zarr.json"))
    assert opened(value, "a").identity() != before


def test_identity_of_memory_is_its_content() -> None:
    array = random((700, 800), "float32")
    before = opened(array, "a").identity()
    assert opened(array.copy(order="F"), "a").identity() == before == json.loads(json.dumps(before))
    array[699, 799] += 1
    assert opened(array, "a").identity() != before


def test_identity_of_an_array_with_only_slices_is_its_own() -> None:
    duck = Duck(np.zeros((2, 2)))
    store = opened(duck, "a")
    assert store.identity() == store.identity() != opened(duck, "a").identity()


def test_an_array_with_another_librarys_dtype_is_refused_by_name() -> None:
    duck = Duck(np.zeros((2, 2)))
    duck.dtype = SimpleNamespace(name="torch.float32")
    with pytest.raises(ArgumentTypeError, match=r"^Duck: must have a dtype of NumPy's .*pass a NumPy array$"):
        opened(duck, "a")


class TestNewFiles:
    """Results of NumPy's format."""

    @pytest.mark.parametrize("dtype", ["float32", ">i2", "bool", "complex128"])
    @pytest.mark.parametrize("shape", [(5, 7), (3,), (2, 3, 4), (0, 4)], ids=str)
    def test_numpy_reads_them(self, tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
        array = random(shape, dtype)
        store = created(tmp_path / "c.npy", shape, dtype, chunks_hint=(2, 2))
        matrix = store if len(shape) > 1 else as_row(store)
        for at in itertools.product(*map(range, matrix.shape[:-2])):
            rows, columns = (slice(0, n) for n in matrix.shape[-2:])
            matrix.write(at, rows, columns, array.reshape(matrix.shape)[at])
        store.flush()
        store.close()
        found = np.load(tmp_path / "c.npy")
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, array)

    def test_room_is_reserved_at_the_start(self, tmp_path: Path) -> None:
        created(tmp_path / "c.npy.part", (1000, 1000), "float64", chunks_hint=(100, 100)).close()
        found = (tmp_path / "c.npy.part").stat()
        assert found.st_blocks * 512 >= found.st_size == 8_000_128
        assert np.load(tmp_path / "c.npy.part")[999, 999] == 0

    def test_bfloat16_is_as_numpy_saves_it(self, tmp_path: Path) -> None:
        store = created(tmp_path / "c.npy", (2, 3), ml_dtypes.bfloat16, chunks_hint=(1, 1))
        store.write((), slice(0, 2), slice(0, 3), np.full((2, 3), 1.5, np.float32))
        store.close()
        assert np.load(tmp_path / "c.npy").view(ml_dtypes.bfloat16).tolist() == [[1.5] * 3] * 2

    def test_a_file_that_exists_is_left_alone(self, tmp_path: Path) -> None:
        path = saved(np.ones(3), tmp_path)
        with pytest.raises(ArgumentValueError, match="must be a new file"):
            created(path, (2, 2), "float32", chunks_hint=(1, 1))
        assert np.load(path).tolist() == [1, 1, 1]

    def test_a_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match="No such file or directory"):
            created(tmp_path / "none" / "c.npy", (2, 2), "float32", chunks_hint=(1, 1))


class TestWhatIsOutside:
    """Which operands are stores."""

    @pytest.mark.parametrize(
        ("value", "outside"),
        [("a.npy", True), (Path("a"), True), (np.zeros(2), False), ([1.0], False), (2.0, False), (None, False)],
        ids=["text", "path", "array", "list", "number", "none"],
    )
    def test_paths_are(self, value: Any, outside: bool) -> None:
        assert is_outside(value) is outside

    def test_an_unknown_suffix(self) -> None:
        with pytest.raises(
            ArgumentValueError, match=r"`a` must name a file .*\.npy, \.h5, \.hdf5, \.zarr \(got 'x\.csv'\)"
        ):
            opened("x.csv", "a")

    @pytest.mark.parametrize("value", [3, [1, 2], None], ids=str)
    def test_an_operand_that_is_no_array(self, value: Any) -> None:
        with pytest.raises(ArgumentTypeError, match="`b` must be a path, or an array"):
            opened(value, "b")

    def test_a_single_number(self, tmp_path: Path) -> None:
        with pytest.raises(ArgumentValueError, match="at least one axis"):
            opened(saved(np.float32(3), tmp_path), "a")

    def test_a_mask(self) -> None:
        with pytest.raises(ArgumentTypeError, match="without a mask"):
            opened(np.ma.zeros((2, 2)), "a")

    def test_results_that_take_nothing(self) -> None:
        fixed = np.zeros((2, 2))
        fixed.flags.writeable = False
        with pytest.raises(ArgumentValueError, match="`out` must be writable"):
            existing(fixed)

        class Fixed:
            shape, dtype = (2, 2), np.dtype("f4")

            def __getitem__(self, index: Any) -> Any:
                return np.zeros((2, 2))[index]

        assert isinstance(opened(Fixed(), "a").shape, tuple)
        with pytest.raises(ArgumentTypeError, match="`out` must be an array that can be written"):
            existing(Fixed())

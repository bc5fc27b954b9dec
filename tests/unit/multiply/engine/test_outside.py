"""Products of arrays outside memory: the bits of those in memory, within the stated memory, and never incomplete."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import h5py
import ml_dtypes
import numpy as np
import pytest
import zarr

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError, StorageError, TilewrightWarning
from tilewright.multiply.blocks import planning, stores
from tilewright.multiply.blocks.journal import Journal
from tilewright.multiply.engine import outside
from tilewright.multiply.engine.request import Request

Array = np.ndarray[Any, Any]
MEMORY = "4GB"


@pytest.fixture
def arrays() -> tuple[Array, Array]:
    random = np.random.default_rng(5)
    return random.standard_normal((130, 90), np.float32), random.standard_normal((90, 70), np.float32)


def saved(folder: Path, name: str, array: Array) -> Path:
    np.save(folder / f"{name}.npy", array)
    return folder / f"{name}.npy"


def started(a: Any, b: Any, c: Path) -> None:
    """Make a product that is interrupted before its result gets its name."""

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("tilewright.multiply.engine.outside.move", interrupted)
        tw.matmul(a, b, c)


def test_paths_give_a_path_that_appears_whole(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    a, b = (saved(tmp_path, name, x) for name, x in zip("ab", arrays, strict=True))
    found = tw.matmul(a, str(b), tmp_path / "c.npy")
    assert found == tmp_path / "c.npy"
    assert np.array_equal(np.load(found), tw.matmul(*arrays))
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a.npy", "b.npy", "c.npy"]


def test_without_out_the_result_is_in_memory(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    a = saved(tmp_path, "a", arrays[0])
    assert np.array_equal(tw.matmul(a, arrays[1]), tw.matmul(*arrays))
    out = np.empty((130, 70))
    assert tw.matmul(a, arrays[1], out, alpha=2) is out
    assert np.array_equal(out, tw.matmul(*arrays, alpha=2).astype(np.float64))


def test_out_is_scaled_in_place(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    a = saved(tmp_path, "a", arrays[0])
    out = np.lib.format.open_memmap(tmp_path / "c.npy", "w+", np.float32, (130, 70))  # type: ignore[no-untyped-call]
    out[...] = 3
    tw.matmul(a, arrays[1], out, beta=0.5, memory=MEMORY)
    assert np.array_equal(out, tw.matmul(*arrays, out=np.full((130, 70), 3, np.float32), beta=0.5))


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float64"}, {"algebra": "min-plus"}, {"epilogue": tw.relu}, {"acc_dtype": "float64"},
    ],
)  # fmt: skip
def test_arguments_mean_what_they_mean_in_memory(
    tmp_path: Path, arrays: tuple[Array, Array], options: dict[str, Any]
) -> None:
    a, b = (saved(tmp_path, name, x) for name, x in zip("ab", arrays, strict=True))
    assert np.array_equal(tw.matmul(a, b, **options), tw.matmul(*arrays, **options))


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((5,), (5,)), ((5,), (5, 3)), ((4, 5), (5,)), ((2, 1, 4, 5), (3, 5, 6)), ((0, 5), (5, 3)), ((4, 0), (0, 3)),
        ((5,), (2, 5, 6)), ((2, 4, 5), (5,)), ((5,), (3, 2, 5, 6)), ((3, 2, 1, 5), (5,)), ((5,), (2, 5, 1)),
        ((0,), (0,)),
    ],
)  # fmt: skip
def test_shapes_follow_numpy(tmp_path: Path, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    arrays = random.integers(-9, 9, a_shape), random.integers(-9, 9, b_shape)
    a, b = (saved(tmp_path, name, x) for name, x in zip("ab", arrays, strict=True))
    found, expected = tw.matmul(a, b), np.matmul(*arrays)
    assert found.shape == expected.shape and np.array_equal(found, expected)
    written = np.load(tw.matmul(a, b, tmp_path / "c.npy", memory=MEMORY))
    assert written.shape == expected.shape and np.array_equal(written, expected)
    out = np.full(expected.shape, 7)
    if out.ndim:
        assert np.array_equal(tw.matmul(a, b, out), expected)
    for name in ("c.zarr", "c.h5") if expected.ndim and expected.size else ():
        assert np.array_equal(stores_of(tw.matmul(a, b, tmp_path / name)), expected)
    assert not list(tmp_path.glob("*.part*"))


def stores_of(path: Path) -> Array:
    """The contents of a file of any format."""
    if path.suffix == ".h5":
        with pytest.importorskip("h5py", reason="the extra `blocks` is not installed").File(path) as file:
            return np.asarray(file["array"])
    zarr = pytest.importorskip("zarr", reason="the extra `blocks` is not installed")
    return np.asarray(zarr.open(path, mode="r")[...])


@pytest.mark.parametrize("suffix", [".npy", ".zarr"])
def test_a_kill_after_the_move_leaves_a_complete_result(
    tmp_path: Path, arrays: tuple[Array, Array], suffix: str
) -> None:
    a, c = saved(tmp_path, "a", arrays[0]), tmp_path / f"c{suffix}"
    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Journal, "remove", Mock(side_effect=KeyboardInterrupt))
        tw.matmul(a, arrays[1], c)
    journal = tmp_path / f"c{suffix}.part.journal"
    left, when = journal.read_bytes(), c.stat().st_mtime_ns
    with pytest.raises(ArgumentValueError, match=r"unfinished product here differs from this one in "):
        tw.matmul(a, arrays[1] + 1, c)
    with outside.planned(a, arrays[1], c, Request(), MEMORY) as product:
        assert product.run() == c and product.kept == 1
    assert c.stat().st_mtime_ns == when and not journal.exists()
    journal.write_bytes(left)
    file = max(c.glob("c/*/*")) if c.is_dir() else c
    other = file.read_bytes()[:-4] + bytes(4)
    file.write_bytes(other)  # the user's own
    with pytest.raises(ArgumentValueError, match="must be a new file"):
        tw.matmul(a, arrays[1], c)
    assert file.read_bytes() == other


def test_a_single_number_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    a = saved(tmp_path, "a", np.ones(5))
    with pytest.raises(ArgumentValueError, match=r"must be a \.npy file.*single number \(got .*c\.zarr\)"):
        tw.matmul(a, a, tmp_path / "c.zarr")
    with pytest.MonkeyPatch.context() as patched, pytest.raises(StorageError, match=r"c\.npy: .* must find room"):
        patched.setattr(np, "save", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        tw.matmul(a, a, tmp_path / "c.npy")
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a.npy"]


@pytest.mark.parametrize("kind", ["npy", "plain zarr", "packed zarr", "one piece", "chunks", "slices"])
@pytest.mark.parametrize("algebra", ["plus-times", "min-plus"])
def test_empty_sums_are_the_algebras_zero(tmp_path: Path, kind: str, algebra: str) -> None:
    a, b = np.empty((4, 0), np.float32), np.empty((0, 3), np.float32)
    zarr.save_array(str(tmp_path / "packed.zarr"), b)
    zarr.create_array(str(tmp_path / "plain.zarr"), data=b, compressors=None)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["one"] = b
        file.create_dataset("more", data=b, chunks=(2, 3), maxshape=(None, 3))
    given = {
        "npy": saved(tmp_path, "b", b), "plain zarr": tmp_path / "plain.zarr", "packed zarr": tmp_path / "packed.zarr",
        "one piece": f"{tmp_path}/b.h5:/one", "chunks": f"{tmp_path}/b.h5:/more", "slices": Sliced(b),
    }  # fmt: skip
    path = saved(tmp_path, "a", a)
    expected = tw.matmul(a, b, algebra=algebra)
    assert np.array_equal(tw.matmul(path, given[kind], algebra=algebra), expected)
    assert np.array_equal(np.load(tw.matmul(path, given[kind], tmp_path / "c.npy", algebra=algebra)), expected)


class Sliced:
    """An array that gives only slices."""

    def __init__(self, array: Array) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, index: Any) -> Array:
        return self.array[index]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ("time", r"in time of change of `a`; .* start again with `overwrite=True`"),
        ("path", "in path of `a`; "),
        ("size", "in size of `a`"),
        ("dtype", "in `dtype` or `acc_dtype`; "),
        ("alpha", "in `alpha`, `beta`, `epilogue`, its arguments or `algebra`; "),
    ],
)
def test_differences_between_products_are_named(
    tmp_path: Path, arrays: tuple[Array, Array], changed: str, words: str
) -> None:
    a, c = saved(tmp_path, "a", arrays[0]), tmp_path / "c.npy"
    when = a.stat().st_mtime_ns
    started(a, arrays[1], c)
    if changed == "time":
        os.utime(a, ns=(when, when + 1))
    elif changed == "path":
        a = saved(tmp_path, "other", arrays[0])
    elif changed == "size":
        a.write_bytes(a.read_bytes() + b"more")
        os.utime(a, ns=(when, when))
    options: dict[str, Any] = {"dtype": {"dtype": "float64"}, "alpha": {"alpha": 2}}.get(changed, {})
    with pytest.raises(ArgumentValueError, match=words):
        tw.matmul(a, arrays[1], c, **options)


def test_the_returned_path_names_the_dataset(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    found = tw.matmul(saved(tmp_path, "a", arrays[0]), arrays[1], f"{tmp_path}/c.h5:/g/r")
    assert found == tmp_path / "c.h5:" / "g" / "r"
    assert np.array_equal(tw.matmul(found, np.eye(70, dtype=np.float32)), tw.matmul(*arrays))


def test_a_folder_without_write_permission_is_reported(
    tmp_path: Path, arrays: tuple[Array, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    a = saved(tmp_path, "a", arrays[0])
    monkeypatch.setattr(os, "access", lambda *given: False)  # root may write anywhere
    with pytest.raises(ArgumentValueError, match=r"/c\.npy: the output must be in a folder that may be written"):
        tw.matmul(a, arrays[1], tmp_path / "c.npy")


def test_an_existing_result_is_kept(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    c = saved(tmp_path, "c", np.ones(3))
    before = c.read_bytes()
    with pytest.raises(ArgumentValueError, match="must be a new file"):
        tw.matmul(saved(tmp_path, "a", arrays[0]), arrays[1], c)
    assert c.read_bytes() == before


def test_too_little_memory_is_reported_with_the_needed_amount(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    a = saved(tmp_path, "a", arrays[0])
    with pytest.raises(ArgumentValueError, match=r"the process itself takes, and .* panels .*\(got 1 MB\)") as told:
        tw.matmul(a, arrays[1], memory="1MB")
    enough = str(told.value).removeprefix("`memory` must be at least ").partition(":")[0]
    assert np.array_equal(tw.matmul(a, arrays[1], memory=enough.replace(",", "")), tw.matmul(*arrays))
    with pytest.raises(ArgumentValueError, match=r"`memory` must be a positive number of bytes .*try 2GB"):
        tw.matmul(arrays[0], arrays[1], memory="lots")


HELD = """
import resource, sys
import numpy as np
import tilewright as tw

resource.setrlimit(resource.RLIMIT_DATA, (700 << 20,) * 2)
a, b, c, memory, kind = sys.argv[1:]
if kind == "turned map":
    a, b = (np.load(x, mmap_mode="r")[:, ::-1] for x in (a, b))
tw.matmul(a, b, c, memory=int(memory))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Array, Array]:
    """A folder with two operands, as files of each kind, and the operands."""
    random, folder = np.random.default_rng(2), tmp_path_factory.mktemp("large")
    a, b = (random.integers(-8, 8, x, np.int8).astype(np.float32) for x in ((5000, 1500), (1500, 5000)))
    with h5py.File(folder / "x.h5", "w") as file:
        for name, x in (("a", a), ("b", b)):
            saved(folder, name, x)
            file.create_dataset(name, data=x, chunks=(333, 512), compression="gzip", compression_opts=1)
    return folder, a, b


@pytest.mark.parametrize("kind", ["npy", "packed chunks", "turned map", "zarr"])
def test_the_process_takes_no_more_than_stated(tmp_path: Path, large: tuple[Path, Array, Array], kind: str) -> None:
    folder, *arrays = large
    paths = [f"{folder}/x.h5:/{x}" if kind == "packed chunks" else f"{folder}/{x}.npy" for x in "ab"]
    total = sum(x.nbytes for x in arrays) + 5000 * 5000 * 4
    memory = {"npy": 250 << 20, "packed chunks": 230_000_000, "turned map": 215_000_000, "zarr": 215_000_000}[kind]
    c = tmp_path / ("c.zarr" if kind == "zarr" else "c.npy")
    command = [sys.executable, "-c", HELD, *paths, str(c), str(memory), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 1024 * int(done.stdout) <= memory
    assert total > 0.6 * memory
    a, b = (x[:, ::-1] if kind == "turned map" else x for x in arrays)
    found, some = zarr.open(c, mode="r")[:] if kind == "zarr" else np.load(c), slice(0, None, 61)  # of every tile
    assert np.array_equal(found[some], tw.matmul(a[some], b))


def test_another_unfinished_product_is_not_continued(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    a = saved(tmp_path, "a", arrays[0])
    (tmp_path / "c.npy.part.journal").write_text(json.dumps({"a": 1, "tile": [130, 70]}) + "\n")
    with pytest.raises(ArgumentValueError, match=r"the unfinished product here differs"):
        tw.matmul(a, arrays[1], tmp_path / "c.npy")


def test_a_truncated_operand_is_reported(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    a = saved(tmp_path, "a", arrays[0])
    a.write_bytes(a.read_bytes()[:-100])
    with pytest.raises(StorageError, match=r"a\.npy"):
        tw.matmul(a, arrays[1], tmp_path / "c.npy")
    assert not (tmp_path / "c.npy").exists()


def test_the_command_prints_plan_and_outcome(
    tilewright: Callable[..., Any], tmp_path: Path, arrays: tuple[Array, Array]
) -> None:
    a, b = (saved(tmp_path, name, x) for name, x in zip("ab", arrays, strict=True))
    given = "matmul", a, b, "-o", tmp_path / "c.npy", "--memory", MEMORY
    planned = tilewright(*given, "--plan")
    assert planned.status == 0 and "130 x 90 by 90 x 70" in planned.out and not (tmp_path / "c.npy").exists()
    done = tilewright(*given)
    assert done.status == 0 and "130 x 70 float32 in " in done.out and "reads    " in done.out
    assert np.array_equal(np.load(tmp_path / "c.npy"), tw.matmul(*arrays))
    assert tilewright(*given).status == 2
    told = json.loads(tilewright(*given, "--force", "--json").out)
    assert told["extents"] == [130, 70, 90] and told["plan"]["grid"] and told["seconds"] > 0


def test_a_user_s_file_is_not_taken_for_an_unfinished_result(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    (tmp_path / "c.npy.part").write_text("mine")
    a = saved(tmp_path, "a", arrays[0])
    for _ in range(2):
        with pytest.raises(ArgumentValueError, match="must be free for the unfinished result"):
            tw.matmul(a, arrays[1], tmp_path / "c.npy")
    assert (tmp_path / "c.npy.part").read_text() == "mine"


def test_plan_describes_what_matmul_does(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    a, b = (saved(tmp_path, name, x) for name, x in zip("ab", arrays, strict=True))
    found = tw.plan(a, b, memory=MEMORY)
    assert found.sizes.extents == (130, 70, 90) and found.tiles == 1
    assert str(found).startswith("product  130 x 90 by 90 x 70\n")


@pytest.mark.parametrize(
    ("suffix", "damage"), [(".npy", "flip"), (".zarr", "flip"), (".zarr", "cut"), (".zarr", "gone")]
)
def test_a_tile_that_another_wrote_to_is_made_again(
    tmp_path: Path, arrays: tuple[Array, Array], monkeypatch: pytest.MonkeyPatch, suffix: str, damage: str
) -> None:
    monkeypatch.setattr(outside, "plan", lambda *given, **named: planning.plan(*given[:3], (40, 70)))
    a, c, part = saved(tmp_path, "a", arrays[0]), tmp_path / f"c{suffix}", tmp_path / f"c{suffix}.part"
    started(a, arrays[1], c)
    file = max(part.glob("c/*/*")) if part.is_dir() else part  # of the last tile
    whole = file.read_bytes()
    flipped = bytearray(whole)
    flipped[0 if part.is_dir() else -1] ^= 1
    file.write_bytes(flipped)
    if damage == "cut":
        file.write_bytes(whole[:9])
    elif damage == "gone":
        file.unlink()
    with (
        pytest.warns(TilewrightWarning, match=r"part: rows 120 to 129, columns 0 to 69 do not match") as told,
        outside.planned(a, arrays[1], c, Request(), MEMORY) as product,
    ):
        product.run()
        assert product.kept == 3
    assert len(told) == 1
    assert np.array_equal(tw.matmul(c, np.eye(70, dtype=np.float32)), tw.matmul(*arrays))


@pytest.mark.parametrize("damage", ["gone", "short", "header", "shape"])
def test_an_unfinished_result_that_is_damaged_starts_again(
    tmp_path: Path, arrays: tuple[Array, Array], damage: str
) -> None:
    a, part = saved(tmp_path, "a", arrays[0]), tmp_path / "c.npy.part"
    started(a, arrays[1], tmp_path / "c.npy")
    whole = part.read_bytes()
    part.unlink()
    if damage == "shape":
        part.write_bytes(whole.replace(b"(130, 70)", b"(70, 130)"))
    elif damage != "gone":
        part.write_bytes(whole[:-9] if damage == "short" else b"x" * len(whole))
    with pytest.warns(TilewrightWarning, match=r"c\.npy\.part: the unfinished .* starts again from nothing") as told:
        found = np.load(tw.matmul(a, arrays[1], tmp_path / "c.npy"))
    assert len(told) == 1 and np.array_equal(found, tw.matmul(*arrays))
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a.npy", "c.npy"]


def test_a_result_that_cannot_be_made_leaves_nothing(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    a = saved(tmp_path, "a", arrays[0])
    with pytest.raises(ArgumentValueError, match=r"must be in a folder that exists"):
        tw.matmul(a, arrays[1], tmp_path / "none" / "c.npy")

    def full(*given: Any, **named: Any) -> None:
        raise StorageError("the disk is full")

    with pytest.MonkeyPatch.context() as patched, pytest.raises(StorageError):
        patched.setattr("tilewright.multiply.blocks.stores.created", full)
        tw.matmul(a, arrays[1], tmp_path / "c.npy")
    assert sorted(x.name for x in tmp_path.iterdir()) == ["a.npy"]


def test_a_result_of_bfloat16_is_as_numpy_saves_it(tmp_path: Path, arrays: tuple[Array, Array]) -> None:
    found = np.load(tw.matmul(saved(tmp_path, "a", arrays[0]), arrays[1], tmp_path / "c.npy", dtype="bfloat16"))
    assert found.tobytes() == tw.matmul(*arrays, dtype="bfloat16").tobytes()


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, with its bytes."""
    return {str(x.relative_to(folder)): x.read_bytes() for x in sorted(folder.rglob("*")) if x.is_file()}


def forced(a: Any, b: Any, c: Any) -> Any:
    with outside.planned(a, b, c, Request(), MEMORY, force=True) as product:
        return product.run()


class TestWhatIsReplaced:
    """Even with consent, a result replaces only the array of its name."""

    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ("/a", "c.h5:/c"), ("/group/a", "c.h5:/group/c"), ("/c/a", "c.h5:/c"), ("/a", "c.h5"), ("/cc", "c.h5:/c"),
        ],
    )  # fmt: skip
    def test_a_file_with_other_datasets_stays(
        self, tmp_path: Path, arrays: tuple[Array, Array], other: str, named: str
    ) -> None:
        with h5py.File(tmp_path / "c.h5", "w") as file:
            file[other] = np.ones(3)
            file["/other"] = np.ones(3)
        before = content(tmp_path)
        for act in (forced, tw.matmul):
            with pytest.raises(ArgumentValueError, match=r"c\.h5: .*also holds .*name another file$"):
                act(*arrays, f"{tmp_path}/{named}")
        assert content(tmp_path) == before

    @pytest.mark.parametrize("named", ["c.h5", "c.h5:/group/c", "c.zarr", "c.npy"])
    def test_the_array_itself_is_replaced(self, tmp_path: Path, arrays: tuple[Array, Array], named: str) -> None:
        tw.matmul(*arrays, f"{tmp_path}/{named}")
        with pytest.raises(ArgumentValueError, match="replace it with `overwrite=True`"):
            tw.matmul(arrays[0][:4], arrays[1], f"{tmp_path}/{named}")
        forced(arrays[0][:4], arrays[1], f"{tmp_path}/{named}")
        found = stores.opened(f"{tmp_path}/{named}", "c")
        assert found.shape == (4, 70)
        found.close()

    @pytest.mark.parametrize("kind", ["folder", "file"])
    def test_nothing_but_the_array_goes(self, tmp_path: Path, arrays: tuple[Array, Array], kind: str) -> None:
        (tmp_path / "c.zarr.replaced").write_text("mine")
        if kind == "folder":
            tw.matmul(*arrays, tmp_path / "c.zarr")
        else:
            (tmp_path / "c.zarr").write_text("an array of another kind")
        forced(*arrays, tmp_path / "c.zarr")
        assert sorted(x.name for x in tmp_path.iterdir()) == ["c.zarr", "c.zarr.replaced"]
        assert (tmp_path / "c.zarr.replaced").read_text() == "mine"
        assert np.array_equal(zarr.open(tmp_path / "c.zarr", mode="r")[:], tw.matmul(*arrays))

    @pytest.mark.parametrize("named", ["c.zarr", "c.npy", "c.h5"])
    def test_a_folder_that_is_no_array_stays(self, tmp_path: Path, arrays: tuple[Array, Array], named: str) -> None:
        group = zarr.open_group(str(tmp_path / named), mode="w")
        group.create_array("x", data=np.ones(3))
        before = content(tmp_path)
        with pytest.raises(ArgumentValueError, match=r"also holds .*x"):
            forced(*arrays, tmp_path / named)
        assert content(tmp_path) == before

    @pytest.mark.parametrize(
        ("a", "c"),
        [
            ("a.npy", "a.npy"), ("a.npy", "link.npy"), ("a.zarr", "a.zarr"), ("a.zarr", "link.zarr"),
            ("g.zarr/a.zarr", "g.zarr"), ("a.h5:/x/a", "a.h5:/x/a"), ("a.h5:/x/a", "link.h5:/x/a"),
            ("c.npy.part", "c.npy"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("act", [forced, tw.matmul], ids=["forced", "unforced"])
    def test_an_operand_stays(
        self, tmp_path: Path, arrays: tuple[Array, Array], a: str, c: str, act: Callable[..., Any]
    ) -> None:
        (tmp_path / "g.zarr").mkdir()
        store = stores.created(tmp_path / a, arrays[0].shape, np.float32, chunks_hint=(50, 50))
        store.write((), slice(0, 130), slice(0, 90), arrays[0])
        store.close()
        if c.startswith("link"):
            (tmp_path / c.partition(":")[0]).symlink_to(tmp_path / a.partition(":")[0])
        before = content(tmp_path)
        with pytest.raises(ArgumentValueError, match="must not be the file of an operand"):
            act(str(tmp_path / a), arrays[1], f"{tmp_path}/{c}")
        assert content(tmp_path) == before


class TestOverlap:
    """The result, written tile by tile, shares no byte with an operand that is read meanwhile."""

    @staticmethod
    def refused(a: Any, out: Any, side: int = 60) -> None:
        b = np.ones((side, side), np.float32)
        with pytest.raises(ArgumentValueError, match="`out` must not overlap `a`"):
            tw.matmul(a, b, out, memory=MEMORY)
        with pytest.raises(ArgumentValueError, match="`out` must not overlap `b`"):
            tw.matmul(b, a, out, memory=MEMORY)

    @pytest.fixture
    def values(self) -> Array:
        return np.random.default_rng(8).standard_normal((60, 60), np.float32)

    def test_maps(self, tmp_path: Path, values: Array) -> None:
        path = saved(tmp_path, "a", values)
        (tmp_path / "link.npy").symlink_to(path)
        before = path.read_bytes()
        out = np.load(path, mmap_mode="r+")
        for a in (path, tmp_path / "link.npy", np.load(path, mmap_mode="r"), out, out[::-1], out.T, np.asarray(out)):
            self.refused(a, out)
        self.refused(path, np.asarray(out))
        self.refused(path, out[:, ::-1])
        assert path.read_bytes() == before

    def test_disjoint_maps_of_a_file_do_not_overlap(self, tmp_path: Path, values: Array) -> None:
        path = saved(tmp_path, "a", np.concatenate([np.hstack([values, values]), np.zeros((60, 120), np.float32)]))
        whole = np.load(path, mmap_mode="r+")
        expected = tw.matmul(values, values)
        tw.matmul(whole[:60, :60], values, whole[:60, 60:], memory=MEMORY)
        tw.matmul(np.load(path, mmap_mode="r")[:60, :60], values, whole[60:, :60], memory=MEMORY)
        assert np.array_equal(whole[:60, 60:], expected) and np.array_equal(whole[60:, :60], expected)

    def test_memory(self, values: Array) -> None:
        before = values.copy()
        self.refused(values, values)
        self.refused(values.T, values)
        assert np.array_equal(values, before)
        assert np.array_equal(tw.matmul(values, before, values), tw.matmul(before, before))

    def test_zarr(self, tmp_path: Path, values: Array) -> None:
        group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w")
        out, other = (group.create_array(name, data=values, chunks=(20, 20)) for name in "ab")
        for a in (out, tmp_path / "g.zarr" / "a", zarr.open_array(str(tmp_path / "g.zarr/a"), mode="r")):
            self.refused(a, out)
        assert np.array_equal(out[:], values)
        tw.matmul(other, values, out)
        assert np.array_equal(out[:], tw.matmul(values, values))
        held = zarr.storage.MemoryStore()
        in_memory = zarr.create_array(held, name="x", data=values)
        self.refused(zarr.open_array(held, path="x", mode="r"), in_memory)

    @pytest.mark.parametrize("chunks", [None, (20, 20)])
    def test_datasets_of_hdf5(self, tmp_path: Path, values: Array, chunks: tuple[int, int] | None) -> None:
        with h5py.File(tmp_path / "x.h5", "w") as file:
            out = file.create_dataset("a", data=values, chunks=chunks)
            file["again"] = out
            other = file.create_dataset("b", data=values, chunks=(30, 30))
            for a in (out, file["a"], file["again"]):
                self.refused(a, out)
            assert np.array_equal(out[:], values)
            tw.matmul(other, values, out)
            assert np.array_equal(out[:], tw.matmul(values, values))
            assert np.array_equal(other[:], values)


def test_the_advice_for_float8_that_numpy_cannot_load_helps(tmp_path: Path) -> None:
    dtype = np.dtype(ml_dtypes.float8_e5m2)
    path = saved(tmp_path, "a", np.eye(3).astype(dtype))
    with pytest.raises(StorageError, match=r"pass a map of it, numpy\.memmap\(path, dtype, 'r', 128, shape\)"):
        tw.matmul(path, path)
    a = np.memmap(path, dtype, "r", 128, (3, 3))
    assert np.array_equal(tw.matmul(a, a, memory=MEMORY), np.eye(3))


def test_advice_for_small_elements_is_not_given_for_others(tmp_path: Path) -> None:
    path = saved(tmp_path, "a", np.zeros((3, 3), "V5"))
    with pytest.raises(ArgumentTypeError, match=r"convert them$"):
        tw.matmul(path, path)

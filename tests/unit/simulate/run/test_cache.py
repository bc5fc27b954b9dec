"""Kept translations: they are read as they were written, and damaged ones are made again."""

from pathlib import Path

import pytest

from tilewright.ground.native import store
from tilewright.simulate.events import EventKind, Site
from tilewright.simulate.run import cache
from tilewright.simulate.run.compiler import Host
from tilewright.simulate.translate.analysis.layout import Layout
from tilewright.simulate.translate.translation import Translation

KERNEL = Translation(
    ir="",
    symbol="tw.warp",
    warp_bytes=256,
    points=2,
    spins=True,
    waits_for_blocks=False,
    waits_in_calls=True,
    prints=False,
    addresses_params=True,
    slowness=7,
    sites=[Site(EventKind.ACCESS, 12, "kernel.cu:3", "ld.global.f32", 1, "global", "load", 4)],
    counter_rows=[[0], []],
    tallies=1,
    multiples=[[[0, 0, 1, 32]], []],
    layout=Layout(places={"x": ("param", 8)}, shared_bytes=64, functions=["f"]),
)


def test_a_translation_is_read_as_it_was_written(tmp_path: Path) -> None:
    cache.store(tmp_path / "made", "key", KERNEL, b"code")
    assert cache.load(tmp_path / "made", "key") == (KERNEL, b"code")


def test_a_missing_translation_is_none(tmp_path: Path) -> None:
    assert cache.load(tmp_path, "key") is None


@pytest.mark.parametrize("cut", [0, 10, 40, 60, -1])
def test_a_cut_entry_is_ignored_with_a_warning(tmp_path: Path, cut: int) -> None:
    cache.store(tmp_path, "key", KERNEL, b"code")
    path = tmp_path / "key.bin"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.warns(UserWarning, match=r"key\.bin is damaged or belongs to another key"):
        assert cache.load(tmp_path, "key") is None


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    store.write(tmp_path, "key", {}, b"machine code")
    path = tmp_path / "key.bin"
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(blob)
    with pytest.warns(UserWarning, match="damaged"):
        assert store.read(tmp_path, "key", dict) is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    cache.store(file / "folder", "key", KERNEL, b"code")
    assert cache.load(file / "folder", "key") is None


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Host, Path]:
    """A host that has compiled the runtime, and the folder where it is kept."""
    folder = tmp_path_factory.mktemp("runtime")
    return Host(folder=folder), folder


def test_the_runtime_is_compiled_once(first: tuple[Host, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    host, folder = first

    def compile_again(*_: object) -> bytes:
        raise AssertionError("the runtime was compiled although it was kept")

    monkeypatch.setattr(Host, "compile", compile_again)
    second = Host(folder=folder)
    assert second.identity == host.identity
    assert second.runtime.addresses["tw_run"] != host.runtime.addresses["tw_run"]


def test_other_processor_features_have_their_own_runtime(first: tuple[Host, Path]) -> None:
    kept = set(first[1].glob("*.bin"))
    Host("+sse4.2", folder=first[1])
    assert len(kept) == 1
    assert len(kept ^ set(first[1].glob("*.bin"))) == 1

"""Translations on disk: used by the next process, ignored when damaged, never an obstacle."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.errors import TilewrightWarning
from tilewright.ground.native import store
from tilewright.instruments import Coalescing, Mix
from tilewright.simulate.run import cache, kernels
from tilewright.simulate.run.compiler import host

BODY = "mad.lo.u32 %r1, %gid, 3, 1; st.global.u32 [%at], %r1;"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no kernels in memory."""
    host()  # code that all kernels share is kept elsewhere
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    kernels.kernel_store.cache_clear()
    yield tmp_path / "translations"
    kernels.kernel_store.cache_clear()


def result(body: str = BODY, block: int = 32, **options):
    """Run; the result is checked, the Run returned."""
    out = np.zeros(block, np.uint32)
    done = run(kernel(body), out, block=block, **options)
    assert out.tolist() == [3 * t + 1 for t in range(block)]
    return done


def forget() -> None:
    """Empty the memory's cache, as in a new process."""
    kernels.kernel_store.cache_clear()


def test_the_second_launch_is_cached_in_memory_and_then_on_disk(folder):
    assert not result().cached
    assert result().cached
    (entry,) = folder.iterdir()
    assert entry.suffix == ".bin" and entry.read_bytes().startswith(b"tilewright-")
    forget()
    assert result().cached


def test_a_new_process_takes_it_from_disk(folder):
    script = f"""import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})
import numpy as np
from ptx_kernels import kernel, run
out = np.zeros(32, np.uint32)
print(run(kernel({BODY!r}), out).cached, out.tolist() == [3 * t + 1 for t in range(32)])"""
    shown = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout for _ in "12"
    ]
    assert shown == ["False True\n", "True True\n"]


def test_each_input_of_a_translation_makes_another_entry(folder):
    """Text, block, instruments: each makes another entry; the grid's exact size and the arguments do not."""
    result()
    others = [
        lambda: result(BODY + " membar.gl;"),
        lambda: result(block=64),
        lambda: result(instruments=[Mix()]),
        lambda: result(instruments=[Coalescing()]),
        lambda: result(instruments=[Mix(), Coalescing()]),
    ]
    for other in others:
        before = len(list(folder.iterdir()))
        assert not other().cached
        assert len(list(folder.iterdir())) == before + 1
    assert run(kernel(BODY), np.zeros(96, np.uint32), grid=3).cached


def test_instruments_count_alike_from_the_cache(folder):
    first = result(instruments=[Mix(), Coalescing()])
    forget()
    second = result(instruments=[Mix(), Coalescing()])
    assert second.cached and not first.cached
    assert second.results == first.results
    assert second.results["coalescing"].total("store", "sectors") == 4


DAMAGE = {
    "empty": lambda blob: b"",
    "cut in the header": lambda blob: blob[:60],
    "cut at the end": lambda blob: blob[:-1],
    "one bit of the code": lambda blob: blob[:-100] + bytes([blob[-100] ^ 4]) + blob[-99:],
    "one bit of the header": lambda blob: blob[:70] + bytes([blob[70] ^ 1]) + blob[71:],
    "one bit of the checksum": lambda blob: blob[:30] + bytes([blob[30] ^ 128]) + blob[31:],
    "another version": lambda blob: blob.replace(b" 1\n", b" 0\n", 1),
    "something else": lambda blob: b"PK\x03\x04" + bytes(5000),
    "longer": lambda blob: blob + b"\0",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_a_damaged_entry_is_one_warning_and_is_replaced(folder, damage):
    result()
    (entry,) = folder.iterdir()
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    forget()
    with pytest.warns(UserWarning, match=r"cache entry .* is damaged .*; it is ignored and made again") as caught:
        assert not result().cached
    assert len(caught) == 1
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert result().cached


def test_an_entry_of_another_kernel_under_this_name(folder):
    """A valid file of another kernel, for example renamed by hand, must not run as this kernel."""
    result()
    (mine,) = folder.iterdir()
    run(kernel("st.global.u32 [%at], 99;"), np.zeros(32, np.uint32))
    (other,) = set(folder.iterdir()) - {mine}
    mine.write_bytes(other.read_bytes())
    forget()
    with pytest.warns(UserWarning, match="damaged or belongs to another key"):
        assert not result().cached


def test_a_folder_that_cannot_be_made_or_written_is_no_error(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(blocked))
    forget()
    store._stand_in.cache_clear()
    with pytest.warns(TilewrightWarning, match="file is not a folder.*temporary folder"):
        assert not result().cached
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert result().cached  # there, and without another warning
    forget()
    store._stand_in.cache_clear()


def test_an_entry_that_is_a_folder_is_no_error(folder):
    result()
    (entry,) = folder.iterdir()
    entry.unlink()
    entry.mkdir()
    forget()
    with pytest.warns(TilewrightWarning, match="not a regular file"):
        assert not result().cached


def test_parallel_writers_leave_one_complete_entry(folder):
    ready = kernels.kernel_store().get(kernel(BODY).ptx, "k", kernels.LaunchClass((32, 1, 1)), ())
    code = b"\x7fELF" + bytes(range(256)) * 400
    gate = threading.Barrier(4)

    def work() -> None:
        gate.wait()
        for _ in range(25):
            cache.store(folder, "same", ready.translation, code)
            kept = cache.load(folder, "same")
            seen.append(kept is not None and kept[1] == code)

    seen: list[bool] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crew = [threading.Thread(target=work) for _ in range(4)]
        for worker in crew:
            worker.start()
        for worker in crew:
            worker.join()
    assert len(seen) == 100 and all(seen)
    assert not [p for p in folder.iterdir() if p.name.startswith(".new-")]


def test_a_kept_entry_is_read_completely(folder):
    ready = kernels.kernel_store().get(kernel(BODY).ptx, "k", kernels.LaunchClass((32, 1, 1)), (Mix(),))
    cache.store(folder, "key", ready.translation, b"code")
    translation, code = cache.load(folder, "key")
    kept = ready.translation
    assert code == b"code"
    assert translation.sites == kept.sites and translation.sites
    assert translation.layout == kept.layout
    assert translation.counter_rows == kept.counter_rows
    assert (translation.tallies, translation.multiples) == (kept.tallies, kept.multiples)
    assert (translation.symbol, translation.points, translation.warp_bytes) == (
        kept.symbol,
        kept.points,
        kept.warp_bytes,
    )


class Locked(Mix):
    """An instrument with state that cannot be pickled."""

    def __init__(self, twice=False):
        super().__init__()
        self.twice, self.lock = twice, threading.Lock()


def test_an_instrument_that_cannot_be_pickled_is_compiled_for_once(folder):
    def cached(instrument):
        return run(kernel(BODY), np.zeros(32, np.uint32), instruments=(instrument,)).cached

    mine = Locked()
    assert [cached(mine), cached(mine), cached(mine)] == [False, True, True]
    mine.twice = True  # other state is still compared
    assert [cached(mine), cached(mine)] == [False, True]
    assert not cached(Locked()), "another's lock is another state"

"""Quick code first: launches with instruments begin in code that is quickly made, and go on in better if long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.instruments import Banks, Coalescing, Mix
from tilewright.simt.run import kernels, tiers
from tilewright.simt.run.compiler import Host
from tilewright.simt.run.execution import Execution
from tilewright.simt.translate.special import LaunchClass

#: Sums that depend on every step, in a loop long enough for better code to come while it runs.
LONG = """mov.u32 %r1, 0; mov.u32 %r2, 1;
    L: mad.lo.u32 %r2, %r2, 3, %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, COUNT; @%p1 bra L;
    st.global.u32 [%at], %r2;"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[bool]]:
    """Of each kernel compiled, whether it was optimised; nothing is kept from before."""
    found: list[bool] = []
    original: Callable[..., bytes] = Host.compile_kernel

    def compile_kernel(
        self: Host, ir: str, handlers: list[str | bytes], symbol: str, *, optimise: bool = True
    ) -> bytes:
        found.append(optimise)
        return original(self, ir, handlers, symbol, optimise=optimise)

    monkeypatch.setattr(Host, "compile_kernel", compile_kernel)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    kernels.kernel_store.cache_clear()
    yield found
    kernels.kernel_store.cache_clear()


def expected(count: int) -> int:
    value = 1
    for i in range(count):
        value = (3 * value + i) % 2**32
    return value


def launch(count: int, *instruments: object) -> tuple[np.ndarray, dict[str, object]]:
    out = np.zeros(1024, np.uint32)
    found = run(kernel(LONG.replace("COUNT", str(count))), out, grid=16, block=64, instruments=instruments)
    return out, found.results


def test_without_instruments_code_is_optimised_at_once(made: list[bool]) -> None:
    launch(5)
    assert made == [True]


def test_a_short_launch_with_instruments_runs_quick_code(made: list[bool]) -> None:
    out, _ = launch(5, Mix())
    assert (out == expected(5)).all()
    assert made == [False]


def test_code_is_optimised_at_once_where_that_is_asked_for(made: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    launch(5, Mix())
    monkeypatch.setattr(tiers, "WORTH_SECONDS", 0.0)
    launch(5, Mix())
    launch(5, Mix())
    assert made == [False, True]


def test_better_code_that_could_not_be_made_is_tried_again(made: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk or memory may have been the cause, which passes."""
    tried = threading.Semaphore(0)
    get = kernels.KernelStore.get

    def failing(self: kernels.KernelStore, *what: object, optimise: bool = True) -> kernels.ReadyKernel:
        if optimise:
            tried.release()
            raise MemoryError
        return get(self, *what, optimise=optimise)  # type: ignore[arg-type]

    monkeypatch.setattr(kernels.KernelStore, "get", failing)
    program = kernel(LONG.replace("COUNT", "5"))
    monkeypatch.setattr(tiers, "WORTH_SECONDS", 1e-9)
    monkeypatch.setattr(tiers, "WORTH_TIMES", 0.0)
    for _ in range(2):
        _, better = kernels.kernel_store().first(
            program.ptx, program.entry, LaunchClass.of((64, 1, 1), (1, 1, 1)), (Mix(),)
        )
        assert better is not None
        assert better.found() is None
        assert tried.acquire(timeout=30)
        for thread in threading.enumerate():
            if thread.name == "tilewright-tier":
                thread.join(30)


def test_no_launch_waits_for_better_code_and_one_thread_makes_it(
    made: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches of a kernel that has run long go on in quick code until the better is there, which is made once."""
    may_go_on, original = threading.Event(), Host.compile_kernel

    def held(self: Host, ir: str, handlers: list[str | bytes], symbol: str, *, optimise: bool = True) -> bytes:
        assert not optimise or may_go_on.wait(60)
        return original(self, ir, handlers, symbol, optimise=optimise)

    monkeypatch.setattr(Host, "compile_kernel", held)
    monkeypatch.setattr("tilewright.simt.run.execution._QUICK_INSTRUCTIONS", 0)
    monkeypatch.setattr("tilewright.simt.run.execution._POLL_SECONDS", 0.0005)
    monkeypatch.setattr(tiers, "WORTH_SECONDS", 1e-9)
    monkeypatch.setattr(tiers, "WORTH_TIMES", 0.0)
    for _ in range(3):
        launch(100_000, Mix())
    making = [thread for thread in threading.enumerate() if thread.name == "tilewright-tier"]
    assert made == [False]
    may_go_on.set()
    for thread in making:
        thread.join(60)
    launch(100_000, Mix())
    assert len(making) == 1
    assert made == [False, True]


def test_optimised_code_on_disk_is_taken(made: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "WORTH_SECONDS", 0.0)
    launch(5, Mix())
    monkeypatch.setattr(tiers, "WORTH_SECONDS", 60.0)
    kernels.kernel_store.cache_clear()
    launch(5, Mix())
    assert made == [True]


def test_a_long_launch_goes_on_in_better_code(made: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins in quick code, is switched while warps are half-way, and gives the same sums and counts."""
    count = 1_500_000  # several times what the better code takes to be made, on a busy host too
    instruments = Mix(), Coalescing(), Banks()
    plain, _ = launch(count)
    monkeypatch.setattr("tilewright.simt.run.execution._QUICK_INSTRUCTIONS", 1000)
    monkeypatch.setattr("tilewright.simt.run.execution._POLL_SECONDS", 0.0005)
    monkeypatch.setattr("tilewright.simt.run.execution.QUANTUM", 3000)
    monkeypatch.setattr(tiers, "WORTH_SECONDS", 0.0)
    _, before = launch(count, *instruments)  # in optimised code, which is kept on disk
    kernels.kernel_store.cache_clear()
    monkeypatch.setattr(tiers, "WORTH_SECONDS", 1e-9)
    monkeypatch.setattr(tiers, "WORTH_TIMES", 0.0)
    monkeypatch.setattr(kernels.store, "has", lambda folder, key: False)
    switches: list[int] = []
    improve = Execution._improve

    def watched(self: Execution) -> None:
        improve(self)
        if self._better is not None and not switches:
            switches.append(self.blocks - int(self._next[0]))

    monkeypatch.setattr(Execution, "_improve", watched)
    out, after = launch(count, *instruments)
    assert made == [True, True, False]
    assert len(switches) == 1
    assert switches[0] > 0  # blocks that had not begun
    assert (out == plain).all()
    assert out[0] == expected(count)
    assert repr(after) == repr(before)


def test_translating_again_gives_the_same_text(made: list[bool]) -> None:
    """So that code of both kinds fits the same warps."""
    store = kernels.kernel_store()
    program = kernel(LONG.replace("COUNT", "5"))
    from tilewright.simt.translate.special import LaunchClass

    kind = LaunchClass.of((64, 1, 1), (1, 1, 1))
    instruments = (Mix(), Coalescing(), Banks())
    quick = store.get(program.ptx, program.entry, kind, instruments, optimise=False)
    best = store.get(program.ptx, program.entry, kind, instruments)
    assert quick.translation.digest == best.translation.digest != ""
    assert quick.address != best.address

"""Quick code first: launches begin in code that compiles quickly; many or long ones continue in better code."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.instruments import Banks, Coalescing, Mix
from tilewright.programs import Program
from tilewright.simt import launch as launched
from tilewright.simulate.run import kernels
from tilewright.simulate.run.compiler import Host
from tilewright.simulate.run.execution import Execution
from tilewright.simulate.translate.analysis.special import LaunchClass

#: Sums that depend on every step, in a loop long enough for better code to come while it runs.
LONG = """mov.u32 %r1, 0; mov.u32 %r2, 1;
    L: mad.lo.u32 %r2, %r2, 3, %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, COUNT; @%p1 bra L;
    st.global.u32 [%at], %r2;"""
#: A factorial by recursion: its function stays a call.
CALLS = """.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 r) f(.param .b32 n) {
  .reg .pred %p; .reg .b32 %n, %m, %v;
  ld.param.u32 %n, [n]; mov.u32 %v, 1; setp.eq.u32 %p, %n, 0; @%p bra D;
  sub.u32 %m, %n, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %m; call.uni (b), f, (a); ld.param.b32 %v, [b]; }
  mul.lo.u32 %v, %v, %n;
  D: st.param.b32 [r], %v; ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b32 %v; .reg .b64 %o;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], 10; call.uni (b), f, (a); ld.param.b32 %v, [b]; }
  ld.param.u64 %o, [out]; st.global.u32 [%o], %v; ret;
}"""
INSTRUMENTS = pytest.mark.parametrize("instruments", [(), (Mix(), Coalescing(), Banks())], ids=["plain", "observed"])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """How each kernel was compiled: `quick`, `optimised`, or `apart` from launches; caches are empty."""
    found: list[str] = []
    here: Callable[..., bytes] = Host.compile_kernel
    apart: Callable[..., bytes] = Host.compile_kernel_apart

    def compile_kernel(
        self: Host, ir: str, handlers: list[str | bytes], symbol: str, *, optimise: bool = True
    ) -> bytes:
        found.append("optimised" if optimise else "quick")
        return here(self, ir, handlers, symbol, optimise=optimise)

    def compile_kernel_apart(self: Host, ir: str, handlers: list[str | bytes], symbol: str) -> bytes:
        found.append("apart")
        return apart(self, ir, handlers, symbol)

    monkeypatch.setattr(Host, "compile_kernel", compile_kernel)
    monkeypatch.setattr(Host, "compile_kernel_apart", compile_kernel_apart)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    kernels.kernel_store.cache_clear()
    yield found
    kernels.kernel_store.cache_clear()


@pytest.fixture
def earned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch that ends, or is examined, earns better code."""
    monkeypatch.setattr(kernels, "WORTH_SECONDS", 1e-9)
    monkeypatch.setattr(kernels, "WORTH_TIMES", 0.0)


def expected(count: int) -> int:
    value = 1
    for i in range(count):
        value = (3 * value + i) % 2**32
    return value


def launch(count: int, *instruments: object) -> tuple[np.ndarray, dict[str, object]]:
    out = np.zeros(1024, np.uint32)
    found = run(kernel(LONG.replace("COUNT", str(count))), out, grid=16, block=64, instruments=instruments)
    return out, found.results


def making() -> list[threading.Thread]:
    """Threads that wait for better code."""
    return [thread for thread in threading.enumerate() if thread.name == "tilewright-tier"]


def finish() -> None:
    """Wait until all better code in progress is done."""
    for thread in making():
        thread.join(60)
    assert not making()


@INSTRUMENTS
def test_a_short_launch_runs_quick_code(made: list[str], instruments: tuple[object, ...]) -> None:
    for _ in range(2):
        out, _ = launch(5, *instruments)
        assert (out == expected(5)).all()
    assert made == ["quick"]


@INSTRUMENTS
def test_launches_wait_for_optimised_code_on_request(
    made: list[str], monkeypatch: pytest.MonkeyPatch, instruments: tuple[object, ...]
) -> None:
    launch(5, *instruments)
    monkeypatch.setenv("TILEWRIGHT_QUICK_CODE", "0")
    launch(5, *instruments)
    launch(5, *instruments)
    assert made == ["quick", "optimised"]


def test_many_short_launches_earn_better_code(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is long enough to be examined while it runs."""
    monkeypatch.setattr("tilewright.simulate.run.execution._POLL_SECONDS", 60.0)
    monkeypatch.setattr(kernels, "WORTH_SECONDS", 0.02)
    monkeypatch.setattr(kernels, "WORTH_TIMES", 0.0)
    seconds: list[float] = []
    over = kernels.TierUp.over
    monkeypatch.setattr(kernels.TierUp, "over", lambda self, spent: (seconds.append(spent), over(self, spent)))
    while not making() and len(made) < 2:
        assert sum(seconds) < 0.02
        launch(2000)
    finish()
    assert len(seconds) > 1
    out, _ = launch(2000)
    assert (out == expected(2000)).all()
    assert made == ["quick", "apart"]
    assert kernels.kernel_store().first(*_asked(2000))[1] is None


def _asked(count: int) -> tuple[str, str, LaunchClass, tuple[object, ...]]:
    """The request of such a kernel's launch to the store."""
    program = kernel(LONG.replace("COUNT", str(count)))
    return program.ptx, program.entry, LaunchClass.of((64, 1, 1), (16, 1, 1)), ()


@pytest.mark.usefixtures("earned_at_once")
def test_better_code_that_could_not_be_made_is_tried_again(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause may be temporary, such as a full disk or memory; until then launches continue in quick code."""
    apart = Host.compile_kernel_apart

    def failing(self: Host, *what: object) -> bytes:
        made.append("failed")
        raise MemoryError

    monkeypatch.setattr(Host, "compile_kernel_apart", failing)
    for _ in range(2):
        out, _ = launch(5)
        finish()
        assert (out == expected(5)).all()
    monkeypatch.setattr(Host, "compile_kernel_apart", apart)
    launch(5)
    finish()
    launch(5)
    assert made == ["quick", "failed", "failed", "apart"]


@INSTRUMENTS
@pytest.mark.usefixtures("earned_at_once")
def test_no_launch_waits_for_better_code_and_one_thread_makes_it(
    made: list[str], monkeypatch: pytest.MonkeyPatch, instruments: tuple[object, ...]
) -> None:
    """Launches of a kernel that has run long continue in quick code until the better code is ready; it is made once."""
    may_go_on, apart = threading.Event(), Host.compile_kernel_apart

    def held(self: Host, *what: object) -> bytes:
        assert may_go_on.wait(60)
        return apart(self, *what)

    monkeypatch.setattr(Host, "compile_kernel_apart", held)
    for _ in range(3):
        launch(100, *instruments)
    assert len(making()) == 1
    assert made == ["quick"]
    may_go_on.set()
    finish()
    launch(100, *instruments)
    assert made == ["quick", "apart"]


def test_first_launches_on_many_threads_make_quick_code_once(made: list[str]) -> None:
    begin, wrong = threading.Barrier(16), []

    def work() -> None:
        begin.wait(60)
        if not (launch(5)[0] == expected(5)).all():
            wrong.append(1)

    crew = [threading.Thread(target=work) for _ in range(16)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join(60)
    assert not wrong
    assert made == ["quick"]


def test_optimised_code_on_disk_is_taken(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_QUICK_CODE", "0")
    launch(5)
    monkeypatch.delenv("TILEWRIGHT_QUICK_CODE")
    kernels.kernel_store.cache_clear()
    launch(5)
    assert made == ["optimised"]


@pytest.mark.usefixtures("earned_at_once")
def test_better_code_is_kept_on_disk(made: list[str]) -> None:
    launch(5)
    finish()
    kernels.kernel_store.cache_clear()
    launch(5)
    assert made == ["quick", "apart"]
    assert kernels.kernel_store().first(*_asked(5))[1] is None


@INSTRUMENTS
def test_a_long_launch_continues_in_better_code(
    made: list[str], monkeypatch: pytest.MonkeyPatch, instruments: tuple[object, ...]
) -> None:
    """It begins in quick code, switches while warps are half-way, and gives the same sums and counts."""
    count = 1_500_000  # several times what the better code takes to be made here, on a busy host too
    monkeypatch.setattr(Host, "compile_kernel_apart", Host.compile_kernel)
    monkeypatch.setattr("tilewright.simulate.run.execution._QUICK_INSTRUCTIONS", 1000)
    monkeypatch.setattr("tilewright.simulate.run.execution._POLL_SECONDS", 0.0005)
    monkeypatch.setattr("tilewright.simulate.run.execution.QUANTUM", 3000)
    monkeypatch.setenv("TILEWRIGHT_QUICK_CODE", "0")
    plain, before = launch(count, *instruments)  # in optimised code, which is kept on disk
    kernels.kernel_store.cache_clear()
    monkeypatch.delenv("TILEWRIGHT_QUICK_CODE")
    monkeypatch.setattr(kernels, "WORTH_SECONDS", 1e-9)
    monkeypatch.setattr(kernels, "WORTH_TIMES", 0.0)
    monkeypatch.setattr(kernels.store, "has", lambda folder, key: False)
    switches: list[int] = []
    improve = Execution._improve

    def watched(self: Execution) -> None:
        improve(self)
        if self._better is not None and not switches:
            switches.append(self.plan.blocks - self._next.value)

    monkeypatch.setattr(Execution, "_improve", watched)
    out, after = launch(count, *instruments)
    assert made == ["optimised", "quick", "optimised"]
    assert len(switches) == 1
    assert switches[0] > 0  # blocks that had not started
    assert (out == plain).all()
    assert out[0] == expected(count)
    assert repr(after) == repr(before)


@pytest.mark.usefixtures("earned_at_once")
def test_kernels_whose_functions_stay_calls_are_optimised_immediately(made: list[str]) -> None:
    """Frames of quick code are large, and the host's stack bounds how deep calls go."""
    out = np.zeros(1, np.uint32)
    for _ in range(2):
        launched(Program.from_ptx(CALLS, "k"), 1, 1, (out,))
        finish()
    assert out[0] == 3628800
    assert made == ["optimised"]


@pytest.mark.usefixtures("earned_at_once")
def test_a_forked_process_makes_better_code_itself(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It lacks the parent's thread that makes better code, and no thread waits for that one."""
    may_go_on, apart, parent = threading.Event(), Host.compile_kernel_apart, os.getpid()

    def held(self: Host, *what: object) -> bytes:
        assert os.getpid() != parent or may_go_on.wait(60)
        return apart(self, *what)

    monkeypatch.setattr(Host, "compile_kernel_apart", held)
    launch(5)
    assert len(making()) == 1
    child = os.fork()
    if child == 0:
        status = 1
        try:
            launch(5)
            finish()
            status = 0 if made == ["quick", "apart"] and kernels.kernel_store().first(*_asked(5))[1] is None else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    may_go_on.set()
    finish()
    assert os.waitstatus_to_exitcode(status) == 0


def test_translating_again_gives_the_same_text(made: list[str]) -> None:
    """Code of both kinds must fit the same warps."""
    store = kernels.kernel_store()
    program = kernel(LONG.replace("COUNT", "5"))
    kind = LaunchClass.of((64, 1, 1), (1, 1, 1))
    instruments = (Mix(), Coalescing(), Banks())
    quick = store.get(program.ptx, program.entry, kind, instruments, optimise=False)
    best = store.get(program.ptx, program.entry, kind, instruments)
    assert quick.translation.digest == best.translation.digest != ""
    assert quick.address != best.address
    assert made == ["quick", "optimised"]

"""Limits of a run, interruption, threads, and results that do not depend on order."""

from __future__ import annotations

import itertools
import os
import threading
import time

import numpy as np
import pytest
from interrupted_launches import ends_at_ctrl_c
from ptx_kernels import kernel, run

from tilewright.errors import KernelError, LimitError
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.programs import Program
from tilewright.simt import Limits, launch
from tilewright.simulate.run import turns

#: Loops that never end, each in another way: plain, of one lane, with a barrier, waiting for memory, in other blocks.
ENDLESS = {
    "uniform": "L: add.u32 %r1, %r1, 1; bra L;",
    "one lane": "setp.ne.u32 %p1, %tid, 9; @%p1 bra END; L: add.u32 %r1, %r1, 1; bra L; END:",
    "some lanes leave": "L: add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, %tid; @%p1 bra L; M: bra M;",
    "barrier": "L: bar.sync 0; bra L;",
    "waits for memory": "L: ld.volatile.global.u32 %r1, [%at]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;",
    "one block": "setp.ne.u32 %p1, %block, 3; @%p1 exit; L: bra L;",
    "atomics": "L: atom.global.add.u32 %r1, [%at], 1; bra L;",
    "warps in turn": "setp.lt.u32 %p1, %tid, 32; @%p1 bra L; M: nanosleep.u32 5; bra M; L: bra L;",
}


@pytest.mark.parametrize("body", ENDLESS.values(), ids=list(ENDLESS))
def test_seconds(body):
    out = np.zeros(5 * 64, np.uint32)
    start = time.monotonic()
    with pytest.raises(
        LimitError, match=r"k: passed its limit of 0\.2 seconds in block .*a loop may never end"
    ) as raised:
        run(kernel(body), out, grid=5, block=64, limits=Limits(seconds=0.2))
    assert time.monotonic() - start < 5
    assert raised.value.kernel == "k" and raised.value.block is not None
    assert not out.any()


@pytest.mark.parametrize("grid", [1, 4])
def test_seconds_of_slow_instructions(grid):
    """A turn of two million of them would take more than a minute."""
    name = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale.f32.e5m2.e2m1.f32.ue8m0"
    operands = "{%f1, %f1, %f1, %f1}, {%r1, %r1, %r1, %r1}, {%r1, %r1, %r1, %r1}, {%f1, %f1, %f1, %f1}, %r1, 0"
    text = f"""
.version 9.1 .target sm_120 .address_size 64
.visible .entry k(.param .u64 out) {{
.reg .b32 %r1; .reg .f32 %f1; .reg .b16 %h;
mov.u32 %r1, %tid.x; mov.f32 %f1, 0f3F800000; mov.u16 %h, 0;
L: {name} {operands}, {{%r1}}, {{3, 1}}, {{%r1}}, {{2, 3}};
bra L;
}}
"""
    start = time.process_time()
    with pytest.raises(LimitError, match=r"k: passed its limit of 0\.1 seconds"):
        launch(Program.from_ptx(text), grid, 64, (np.zeros(1, np.uint32),), limits=Limits(seconds=0.1))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("body", ENDLESS.values(), ids=list(ENDLESS))
def test_instructions(body):
    out = np.zeros(5 * 64, np.uint32)
    start = time.monotonic()
    with pytest.raises(LimitError, match=r"k: passed its limit of 100,000 warp instructions in block"):
        run(kernel(body), out, grid=5, block=64, limits=Limits(instructions=100_000))
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("limits", [Limits(seconds=0.2), Limits(instructions=100_000)])
@pytest.mark.parametrize("body", ENDLESS.values(), ids=list(ENDLESS))
def test_a_limit_names_the_loop_and_a_thread_in_it(body, limits):
    program = kernel(body)
    with pytest.raises(LimitError) as raised:
        run(program, np.zeros(5 * 64, np.uint32), grid=5, block=64, limits=limits)
    line = int(raised.value.line.removeprefix("PTX line "))
    place = program.ptx.splitlines()[line - 1]
    assert any(loop in place for loop in ("bra L", "bra M", "bar.sync"))
    thread = raised.value.thread[0]
    assert thread == 9 if "%tid, 9" in body else 0 <= thread < 64
    assert f"thread {raised.value.thread}, at PTX line {line}; a loop may never end" in str(raised.value)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_instructions_are_counted_over_the_whole_launch(threads):
    """A limit slightly above a run's instructions is enough; one far below them is not."""
    program = kernel("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3000; @%p1 bra L;")
    out = np.zeros(64 * 32, np.uint32)
    used = run(program, out, grid=64, limits=Limits(threads=threads)).warp_instructions
    assert run(program, out, grid=64, limits=Limits(threads=threads, instructions=used)).warp_instructions == used
    with pytest.raises(LimitError):
        run(program, out, grid=64, limits=Limits(threads=threads, instructions=used * 3 // 4))


def test_a_run_within_its_limits_ends_well():
    out = np.zeros(32, np.uint32)
    run(kernel("st.global.u32 [%at], 1;"), out, limits=Limits(instructions=10_000, seconds=60))
    assert out.all()


def test_trap_names_line_block_and_thread():
    program = kernel("setp.ne.u32 %p1, %gid, 75; @%p1 bra FINE;\ntrap;\nFINE: st.global.u32 [%at], 1;")
    with pytest.raises(
        KernelError, match=r"k: `trap` in block \(2, 0, 0\), thread \(11, 0, 0\), at PTX line"
    ) as raised:
        run(program, np.zeros(128, np.uint32), grid=4)
    line = next(n for n, text in enumerate(program.ptx.splitlines(), 1) if text == "trap;")
    assert raised.value.line == f"PTX line {line}"


def test_interruption_ends_an_endless_kernel_immediately():
    ends_at_ctrl_c(".reg .b32 %r<3>; L: add.u32 %r1, %r1, 1; bra L;")


def test_launches_from_two_threads_at_the_same_time():
    """The threads share one store of kernels and one JIT; both translate a kernel at the same time."""
    failures: list[BaseException] = []
    gate = threading.Barrier(3)

    def work(number: int) -> None:
        try:
            gate.wait()
            for round_ in range(6):
                out = np.zeros(4 * 64, np.uint32)
                program = kernel(
                    f"mad.lo.u32 %r1, %gid, {round_ + 2}, {round_ * 1000}; bar.sync 0; st.global.u32 [%at], %r1;"
                )
                run(program, out, grid=4, block=64, seed=number)
                assert out.tolist() == [g * (round_ + 2) + round_ * 1000 for g in range(256)]
        except BaseException as error:
            failures.append(error)

    crew = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()
    assert not failures, failures[0]


def test_a_limit_of_one_launch_does_not_stop_another():
    done: list[np.ndarray] = []

    def patient() -> None:
        out = np.zeros(32, np.uint32)
        run(kernel("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 20000000; @%p1 bra L;"
                   "st.global.u32 [%at], %r1;"), out)  # fmt: skip
        done.append(out)

    worker = threading.Thread(target=patient)
    worker.start()
    with pytest.raises(LimitError):
        run(kernel(ENDLESS["uniform"]), np.zeros(32, np.uint32), limits=Limits(seconds=0.05))
    worker.join()
    assert done[0].tolist() == [20_000_000] * 32


@pytest.mark.parametrize("threads", [1, 3])
def test_seeds_change_the_order_and_not_the_result(threads):
    program = kernel(
        """mad.lo.u32 %r1, %gid, 7, 3; red.global.add.u32 [%a1], %r1; atom.global.add.u32 %r2, [%a2], 1;
        st.global.u32 [%at], %r1; mad.wide.u32 %d1, %gid, 4, %a3; st.global.u32 [%d1], %r2;""",
        4,
    )
    orders = set()
    for seed in (None, 0, 1, 3, 4):
        out, order = np.zeros(640, np.uint32), np.zeros(640, np.uint32)
        total = np.zeros(1, np.uint32)
        run(
            program,
            out,
            total,
            np.zeros(1, np.uint32),
            order,
            grid=10,
            block=64,
            seed=seed,
            limits=Limits(threads=threads),
        )
        assert out.tolist() == [7 * g + 3 for g in range(640)]
        assert total[0] == sum(7 * g + 3 for g in range(640))
        assert sorted(order.tolist()) == list(range(640))
        orders.add(tuple(order[::32].tolist()))
    if threads == 1:
        assert len(orders) == 4
        assert tuple(range(0, 640, 32)) in orders  # without a seed, and with 0, blocks and warps ascend
        assert any(all(a > b for a, b in itertools.pairwise(one)) for one in orders)  # with 1 they descend


def test_a_seed_replays_its_order():
    program = kernel("atom.global.add.u32 %r2, [%a1], 1; st.global.u32 [%at], %r2;", 2)
    runs = []
    for _ in range(2):
        out = np.zeros(640, np.uint32)
        run(program, out, np.zeros(1, np.uint32), grid=10, block=64, seed=99, limits=Limits(threads=1))
        runs.append(out.tolist())
    assert runs[0] == runs[1]


def test_warp_instructions_by_hand():
    """Two warps (one partial) a block, three blocks; a divergent loop costs a warp its longest lane."""
    text = """.version 8.7
.target sm_90
.address_size 64
.visible .entry k() { .reg .b32 %r<9>; .reg .pred %p<9>;
mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; mov.u32 %r3, 0;
L: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r2; @%p1 bra L;
setp.gt.u32 %p2, %r1, 3; @%p2 bra END; add.u32 %r3, %r3, 1; add.u32 %r3, %r3, 1;
END: ret; }
"""
    from tilewright.programs import Program

    done = launch(Program.from_ptx(text), 3, 40, ())
    first = 3 + 3 * 31 + 2 + 2 + 1  # lanes 0 to 3 add, all return
    second = 3 + 3 * 7 + 2 + 1  # threads 32 to 39 run up to 7 rounds, none adds
    assert done.warp_instructions == 3 * (first + second)
    assert (done.grid, done.block) == ((3, 1, 1), (40, 1, 1))


def test_the_number_of_host_threads_is_a_setting(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_THREADS", "1")
    before = set(threading.enumerate())  # the CPU engine's threads stay
    seen: list[int] = []
    watcher_ends = threading.Event()

    def watch() -> None:
        while not watcher_ends.wait(0.005):
            new = set(threading.enumerate()) - before
            seen.append(sum(t.name.startswith("tilewright-") for t in new))

    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.raises(LimitError):
        run(kernel(ENDLESS["uniform"]), np.zeros(64, np.uint32), grid=8, limits=Limits(seconds=0.2))
    watcher_ends.set()
    watcher.join()
    assert max(seen) == 1
    assert set(threading.enumerate()) <= before  # none is left behind
    assert os.environ["TILEWRIGHT_THREADS"] == "1"


def test_a_limit_is_noticed_where_each_access_calls_python():
    """Check judges atomics in Python, in its own order; this must not make a warp's turn long."""
    program = kernel("L: atom.acq_rel.gpu.global.add.u32 %r1, [%out], 1; bra L;")
    start = time.perf_counter()
    with pytest.raises(LimitError):
        launch(
            program,
            1,
            64,
            (np.zeros(1, np.uint32),),
            instruments=[MemoryCheck(program.module)],
            limits=Limits(seconds=0.2),
        )
    assert time.perf_counter() - start < 5  # 0.4 s; 9 s with turns of 20,000 instructions


#: The first warp calls a function that calls itself and then waits for the flag that the second warp sets.
CALLED = """
.version 8.7
.target sm_90
.address_size 64
.func (.param .u32 out) deep(.param .u32 n, .param .u32 flag)
{
    .reg .b32 %r<5>; .reg .pred %p<3>;
    ld.param.u32 %r1, [n]; ld.param.u32 %r2, [flag];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra WAIT;
    sub.u32 %r3, %r1, 1;
    { .param .u32 a; .param .u32 b; .param .u32 c;
      st.param.u32 [a], %r3; st.param.u32 [b], %r2;
      call (c), deep, (a, b);
      ld.param.u32 %r4, [c]; }
    bra END;
    WAIT: ld.volatile.shared.u32 %r4, [%r2]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;
    END: st.param.u32 [out], %r4; ret;
}
.visible .entry k(.param .u64 p)
{
    .shared .align 4 .u32 s;
    .reg .b32 %r<5>; .reg .b64 %d; .reg .pred %p;
    ld.param.u64 %d, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r3, 0;
    st.shared.u32 [s], %r3; bar.sync 0;
    setp.ge.u32 %p, %r1, 32;
    @%p bra SET;
    { .param .u32 a; .param .u32 b; .param .u32 c;
      st.param.u32 [a], 3; st.param.u32 [b], %r2;
      call (c), deep, (a, b);
      ld.param.u32 %r4, [c]; }
    st.global.u32 [%d], %r4;
    ret;
    SET: st.volatile.shared.u32 [s], 7; ret;
}
"""


def test_a_called_function_that_waits_for_its_own_block(monkeypatch):
    """It gets the flag. If a launch has too many warps for a thread each, the limit ends it, and the error says why."""
    out, program, limits = np.zeros(1, np.uint32), Program.from_ptx(CALLED), Limits(seconds=0.3)
    launch(program, 1, 64, (out,))
    assert out[0] == 7
    with pytest.raises(LimitError, match=r"a loop may never end, or needs a higher limit$"):
        launch(program, 1, 32, (out,), limits=limits)
    monkeypatch.setattr(turns, "WARP_THREADS_MAX", 1)
    remark = "a function that is called recursively or through a pointer must not wait for other warps of its block"
    with pytest.raises(LimitError, match=f"or needs a higher limit; {remark}"):
        launch(program, 1, 64, (out,), limits=limits)

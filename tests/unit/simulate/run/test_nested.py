"""Kernels that launch kernels, in PTX as compilers write it; `frontends/programs` has whole programs that do."""

from __future__ import annotations

import functools
import mmap
import threading
import time
from types import SimpleNamespace

import narrow_hosts
import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import KernelError, LaunchError, LimitError, PtxError
from tilewright.ground.native.pages import resident_pages
from tilewright.programs import Program
from tilewright.simt import Limits, Memory, launch
from tilewright.simulate.events import GLOBAL_BASE
from tilewright.simulate.programs import assembler
from tilewright.simulate.run import nested

HEAD = """.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2 (.param .b64 f, .param .align 4 .b8 g[12],
  .param .align 4 .b8 b[12], .param .b32 s);
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2 (.param .b64 b, .param .b64 s);
.extern .func (.param .b32 r) __cudaCDP2GetLastError ();
.extern .func (.param .b32 r) __cudaCDP2MemcpyAsync (.param .b64 a, .param .b64 b, .param .b64 c, .param .b32 d,
  .param .b64 e);
.extern .func (.param .b32 r) __cudaCDP2MemsetAsync (.param .b64 a, .param .b32 b, .param .b64 c, .param .b64 e);
"""
#: Adds to each word of its block ten times the word and `add`, so results show the order of launches.
APPEND = """.visible .entry append(.param .u64 x, .param .u8 add, .param .u64 other) {
.reg .b64 %rd<6>; .reg .b32 %r<6>; ld.param.u64 %rd1, [x]; ld.param.u8 %r1, [add]; mov.u32 %r2, %tid.x;
mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r2; mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd1, %rd1, %rd2; ld.global.u32 %r3, [%rd1]; mad.lo.u32 %r3, %r3, 10, %r1; st.global.u32 [%rd1], %r3; ret; }
"""


def launched(kernel: str, grid: str = "1, 1, 1", block: str = "1, 1, 1", stream: int | str = 0, shared: int = 0,
             **stores: str) -> str:  # fmt: skip
    """A launch as compilers write it; the address of the parameters is %rd20, and the result comes in %r20."""
    parts = [(name, i, e) for name, given in (("g", grid), ("b", block)) for i, e in enumerate(given.split(","))]
    extents = " ".join(f"st.param.b32 [{name}+{4 * i}], {extent.strip()};" for name, i, extent in parts)
    writes = " ".join(f"st.{what.replace('_', ' [%rd20+', 1)}], {value};" for what, value in stores.items())
    return f"""{{ .reg .pred %q; .param .b64 f; .param .align 4 .b8 g[12]; .param .align 4 .b8 b[12]; .param .b32 s;
.param .b64 back; mov.u64 %rd21, {kernel}; st.param.b64 [f], %rd21; {extents} st.param.b32 [s], {shared};
call.uni (back), __cudaCDP2GetParameterBufferV2, (f, g, b, s); ld.param.b64 %rd20, [back]; mov.u32 %r20, -1;
setp.eq.u64 %q, %rd20, 0; @%q bra NONE; {writes}
{{ .param .b64 p; .param .b64 t; .param .b32 done; st.param.b64 [p], %rd20; st.param.b64 [t], {stream};
call.uni (done), __cudaCDP2LaunchDeviceV2, (p, t); ld.param.b32 %r20, [done]; }} NONE: }}"""


LAST_ERROR = "{ .param .b32 back; call.uni (back), __cudaCDP2GetLastError; ld.param.b32 %r21, [back]; }"


def entry(body: str, name: str = "k", parameters: str = ".param .u64 x") -> str:
    return f""".visible .entry {name}({parameters}) {{
.reg .b64 %rd<32>; .reg .b32 %r<32>; .reg .pred %p<8>; ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x;
{body} ret; }}
"""


def append(digit: int, stream: int = 0, threads: int = 8) -> str:
    return launched("append", block=f"{threads}, 1, 1", stream=stream, u64_0="%rd1", u8_8=f"{digit}")


def program(*entries: str) -> Program:
    return Program.from_ptx(HEAD + APPEND + "".join(entries), "k")


def test_a_kernel_that_launches_has_resources():
    assert assembler.resources(program(entry(append(1))).ptx, "k", (9, 0)).registers_per_thread > 0


@pytest.mark.parametrize("host", ["own", "avx2", "sse"])
def test_children_run_in_order_after_the_grid_and_tails_last(host, monkeypatch):
    narrow_hosts.use_host(monkeypatch.setattr, host)
    own = "mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1;"  # after all launches
    body = f"setp.ne.u32 %p1, %r1, 0; @%p1 bra ON; {append(9, 3)} {append(2)} {append(3, 4)} {append(4, 300)} ON: {own}"
    x = np.zeros(8, np.int32)
    for _ in range(2):  # cold and warm
        x[:] = 0
        launch(program(entry(body)), 1, 8, (x,))
        assert x.tolist() == [12349] * 8


def test_each_thread_launches_and_children_have_grids_of_several_blocks():
    body = launched("append", "3, 1, 1", "2, 1, 1", u64_0="%rd1", u8_8="1")
    x = np.zeros(8, np.int32)
    launch(program(entry(body)), 1, 4, (x,))
    assert x.tolist() == [1111] * 6 + [0, 0]


def test_a_child_and_its_launches_end_before_the_next_begins():
    inner = entry(f"{append(5)} {append(6, 3)} {append(7)}", "inner")
    body = f"{append(1)} {launched('inner', u64_0='%rd1')} {append(2)}"
    x = np.zeros(8, np.int32)
    launch(program(inner, entry(body)), 1, 1, (x,))
    assert x.tolist() == [15762] * 8


#: Counts its levels in x[0], and writes the launch's result and last error to x[1 + level].
DEEP = entry(
    f"""ld.param.u32 %r2, [level]; add.u32 %r3, %r2, 1; {launched("k", u64_0="%rd1", u32_8="%r3")} {LAST_ERROR}
    mad.lo.u32 %r21, %r20, 1000, %r21; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3+4], %r21; ld.global.u32 %r4, [%rd1]; add.u32 %r4, %r4, 1; st.global.u32 [%rd1], %r4;""",
    parameters=".param .u64 x, .param .u32 level",
)


def test_launches_are_nested_24_levels_deep():
    x = np.full(27, 7, np.int32)
    x[0] = 0
    launch(program(DEEP), 1, 1, (x, 0))
    assert x.tolist() == [25] + [0] * 24 + [65_065, 7]  # cudaErrorLaunchMaxDepthExceeded


@pytest.mark.parametrize(
    ("grid", "block", "shared", "error"),
    [("0, 1, 1", "1, 1, 1", 0, 9), ("1, 65536, 1", "1, 1, 1", 0, 9), ("1, 1, 1", "32, 33, 1", 0, 9),
     ("1, 1, 1", "1, 1, 65", 0, 9), ("1, 1, 1", "1, 1, 1", 1 << 20, 1)],
)  # fmt: skip
def test_a_launch_that_no_gpu_takes_is_reported_to_its_thread_once(grid, block, shared, error):
    body = f"""setp.ne.u32 %p1, %r1, 5; @%p1 bra ON; {launched("append", grid, block, shared=shared)}
    ON: {LAST_ERROR} mov.u32 %r9, %r21; {LAST_ERROR} mad.lo.u32 %r9, %r9, 100, %r21; mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r9;"""
    x = np.full(32, -1, np.int32)
    launch(program(entry(body)), 1, 32, (x,))
    assert x.tolist() == [100 * error * (t == 5) for t in range(32)]


def test_pending_launches_are_limited_by_room():
    body = f"""mov.u32 %r2, 0; mov.u32 %r8, 0; AGAIN: {append(1, 4, 1)} {LAST_ERROR} setp.eq.u32 %p2, %r21, 69;
    @%p2 add.u32 %r8, %r8, 1; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 65; @%p1 bra AGAIN;
    atom.global.add.u32 %r9, [%rd1+4], %r8;"""
    x = np.zeros(2, np.int32)
    run = launch(program(COUNT, entry(body).replace("append", "count")), 1, 32, (x,))
    assert x.tolist() == [2048, 65 * 32 - 2048] and run.warp_instructions > 0


COUNT = """.visible .entry count(.param .u64 x, .param .u8 add) { .reg .b64 %rd<3>; .reg .b32 %r<3>;
ld.param.u64 %rd1, [x]; ld.param.u8 %r1, [add]; atom.global.add.u32 %r2, [%rd1], %r1; ret; }
"""


def filled(value: int, stream: int = 0) -> str:
    """A fill of the first word, byte by byte."""
    return f"""{{ .param .b64 a; .param .b32 b; .param .b64 c; .param .b64 e; .param .b32 back; st.param.b64 [a], %rd1;
    st.param.b32 [b], {value}; st.param.b64 [c], 4; st.param.b64 [e], {stream};
    call.uni (back), __cudaCDP2MemsetAsync, (a, b, c, e); }}"""


def test_copies_and_fills_are_in_the_order_of_launches():
    move = """{ .param .b64 a; .param .b64 b; .param .b64 c; .param .b32 d; .param .b64 e; .param .b32 back;
    add.u64 %rd5, %rd1, 16; st.param.b64 [a], %rd5; st.param.b64 [b], %rd1; st.param.b64 [c], 16; st.param.b32 [d], 3;
    st.param.b64 [e], 0; call.uni (back), __cudaCDP2MemcpyAsync, (a, b, c, d, e); }"""
    x = np.zeros(8, np.int32)
    launch(program(entry(f"{append(1, 0, 4)} {move} {append(2, 0, 4)} {filled(257)}")), 1, 1, (x,))
    assert x.tolist() == [0x01010101, 12, 12, 12, 1, 1, 1, 1]
    far = entry(move.replace("[c], 16", "[c], 1000000"))
    with pytest.raises(KernelError, match=r"must be inside one allocation of device memory \(got 1,000,000 bytes"):
        launch(program(far), 1, 1, (x,))


def test_copies_and_fills_are_in_their_stream():
    """One after a launch in the tail stream, and its twin in the stream of the grid, which comes first."""
    x = np.zeros(8, np.int32)
    for stream, first in ((3, 0), (0, 7)):
        x[:] = 0
        launch(program(entry(f"{append(7, 3)} {filled(0, stream)} {append(9, 0)}")), 1, 1, (x,))
        assert x.tolist() == [first] + [97] * 7 if stream else [97] * 8


def test_limits_bound_copies_and_fills_too(monkeypatch):
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 50)
    monkeypatch.setattr(nested, "time", late)
    for seconds in (100, 5):
        x = np.zeros(8, np.int32)
        run = functools.partial(launch, program(entry(filled(1))), 1, 1, (x,), limits=Limits(seconds=seconds))
        if seconds > 10:
            run()
            assert x[0] == 0x01010101
        else:
            with pytest.raises(LimitError, match="with what its kernels launched"):
                run()


def test_a_queue_takes_only_the_memory_that_it_uses_up_to_a_limit(monkeypatch):
    resident = []

    def observed(about, values, placed, *given, **options):
        memory = placed.memory
        queue, size = max(memory.allocations(), key=lambda place: place[1])
        first = -(-(memory.host_address + queue - GLOBAL_BASE) // mmap.PAGESIZE) * mmap.PAGESIZE
        whole = size // mmap.PAGESIZE * mmap.PAGESIZE - mmap.PAGESIZE
        resident.append((size, sum(resident_pages()(first, whole)) * mmap.PAGESIZE))
        return run(about, values, placed, *given, **options)

    x, run = np.zeros(8, np.int32), nested.observed
    monkeypatch.setattr(nested, "observed", observed)
    monkeypatch.setattr(
        "tilewright.simulate.run.staged_launch.Device", functools.partial(nested.Device, pending=1 << 20)
    )
    launch(program(entry(append(1))), 1, 1, (x,), memory=Memory())
    assert x.tolist() == [1] * 8 and resident[0][0] > 90 << 20 and resident[0][1] < 1 << 20
    big = program(entry("", "big", ".param .u64 x, .param .align 4 .b8 more[4000]"), entry(append(1)))
    with pytest.raises(LaunchError, match=r"must take at most 134,217,728 bytes \(got "):
        launch(big, 1, 1, (x,), memory=Memory())


def test_pending_launches_of_all_levels_take_limited_memory(monkeypatch):
    """Sixteen launches on each level have no room for 187; its twin launches one."""
    monkeypatch.setattr("tilewright.simulate.run.staged_launch.Device", functools.partial(nested.Device, pending=16))
    monkeypatch.setattr(nested, "QUEUE_BYTES_MAX", 187 * 96)
    many = program(entry(launched("k", block="16, 1, 1", u64_0="%rd1")))
    with pytest.raises(KernelError, match=r"bytes while it waits \(got 196 launches and copies\)"):
        launch(many, 1, 16, (np.zeros(8),), memory=Memory(), limits=Limits(instructions=1_000_000, seconds=20))
    one = program(entry(f"setp.ne.u32 %p1, %r1, 0; @%p1 bra ON; {append(1)} ON:"))
    x = np.zeros(8, np.int32)
    launch(one, 1, 16, (x,), memory=Memory())
    assert x.tolist() == [1] * 8


def test_limits_bound_a_launch_with_all_its_children():
    again = entry(launched("k", stream=3, u64_0="%rd1"))
    with pytest.raises(LimitError, match=r"20,000 warp instructions.*with what its kernels launched"):
        launch(program(again), 1, 1, (np.zeros(1),), limits=Limits(instructions=20_000, seconds=20))
    with pytest.raises(LimitError, match=r"passed its limit of 0\.3 seconds with what"):
        launch(program(again), 1, 1, (np.zeros(1),), limits=Limits(seconds=0.3, instructions=10**9))


def test_an_error_of_a_child_is_an_error_of_the_launch_and_names_its_kernel():
    body = launched("append", block="8, 1, 1", u64_0="0", u8_8="1")
    with pytest.raises(KernelError, match="append: out of bounds global load"):
        launch(program(entry(body)), 1, 1, (np.zeros(8, np.int32),))


@pytest.mark.parametrize(
    "change",
    ["st.global.u64 [%rd20+-64], 77;", "st.global.u64 [%rd20+-64], 0;", "st.global.u64 [%rd20+-64], -3;",
     "mov.u64 %rd7, __cudaCDP2LaunchDeviceV2; st.global.u64 [%rd20+-64], %rd7;",
     "mov.u64 %rd7, absent; st.global.u64 [%rd20+-64], %rd7;", "st.global.u32 [%rd20+-56], 0;",
     "st.global.u32 [%rd20+-52], -1;", "st.global.u32 [%rd20+-44], 0;", "st.global.u32 [%rd20+-36], 65;",
     "st.global.u32 [%rd20+-32], -1;"],
)  # fmt: skip
def test_a_record_that_the_kernel_overwrites_reaches_nothing(change):
    body = launched("append", u64_0="%rd1", u8_8="1").replace("{ .param .b64 p;", f"{change} {{ .param .b64 p;")
    absent = ".extern .entry absent(.param .u64 x);\n"  # a kernel that is only declared
    with pytest.raises(KernelError, match="its record was overwritten"):
        launch(program(absent, entry(body)), 1, 1, (np.zeros(8, np.int32),))


#: The kernel's own variable, which the variable with the queue follows.
BESIDE = ".global .align 8 .b64 beside[8];\n"


def test_a_kernel_that_forges_its_level_goes_no_deeper():
    forged = "mov.u64 %rd9, beside; st.volatile.global.u32 [%rd9+88], 0; ld.param.u32 %r2, [level];"
    with pytest.raises(KernelError, match=r"at most 24 levels deep \(got one of level 25\)"):
        launch(program(BESIDE, DEEP.replace("ld.param.u32 %r2, [level];", forged)), 1, 1, (np.zeros(2000, np.int32), 0))


def test_a_queue_with_a_forged_length_gives_no_more_than_it_has():
    forged = "mov.u64 %rd9, beside; st.volatile.global.u32 [%rd9+80], -1;"
    x = np.zeros(8, np.int32)
    launch(program(BESIDE, entry(append(1) + forged)), 1, 1, (x,))
    assert x.tolist() == [1] * 8


@pytest.mark.parametrize("space", ["global", "shared", "const"])
def test_a_variable_is_no_queue_by_its_name_alone(space):
    """The definitions of the device runtime declare the queue; in a module without them it is a plain variable."""
    head = HEAD.partition(".extern")[0]
    own = f".{space} .b8 tilewright_launches[1];\n.global .b32 beside = 5;\n"
    x = np.zeros(1, np.int32)
    body = "ld.global.u32 %r2, [beside]; st.global.u32 [%rd1], %r2;"
    with Memory():
        for _ in range(2):
            x[:] = 0
            launch(Program.from_ptx(head + own + entry(body)), 1, 1, (x,))
            assert x.tolist() == [5]
    for mine in (own, ".func tilewright_thread () { ret; }\n"):
        with pytest.raises(PtxError, match=r"kernel.ptx:\d+: .*must not define names .*\(got 'tilewright_"):
            Program.from_ptx(HEAD + mine + APPEND)
    inside = entry(f".{space} .b8 tilewright_launches[1]; {append(1)}")
    with pytest.raises(PtxError, match="got 'tilewright_launches'"):
        program(inside)


def test_threads_launch_in_parallel_and_memory_is_freed():
    made, wrong = program(entry(f"{append(1)} {append(2)}")), []

    def work() -> None:
        for _ in range(20):
            x = np.zeros(8, np.int32)
            launch(made, 1, 1, (x,))
            wrong.extend([x.tolist()] * (x.tolist() != [12] * 8))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    with Memory() as memory:
        launch(made, 1, 1, (np.zeros(8, np.int32),))
        before = memory.used_bytes
        for _ in range(20):
            launch(made, 1, 1, (np.zeros(8, np.int32),))
        assert memory.used_bytes == before


def test_check_finds_errors_of_children():
    """A child whose last thread is past its array, and its clean twin."""
    found = tw.check(program(entry(append(1))), 1, 1, (np.zeros(8, np.int32),))
    assert not found
    beyond = tw.check(program(entry(append(1, 0, 9))), 1, 1, (np.zeros(8, np.int32),))
    assert {(one.code, one.kernel) for one in beyond} == {("TW101", "append")}


def test_parts_of_the_device_runtime_that_are_not_simulated_are_reported():
    text = HEAD + ".extern .func (.param .b32 r) __cudaCDP2DeviceGetLimit (.param .b64 a, .param .b32 b);\n"
    call = """{ .param .b64 a; .param .b32 b; .param .b32 r; st.param.b64 [a], %rd1; st.param.b32 [b], 0;
    call.uni (r), __cudaCDP2DeviceGetLimit, (a, b); }"""
    with pytest.raises(PtxError, match=r"simulated functions of the device runtime \(got '__cudaCDP2DeviceGetLimit'\)"):
        launch(Program.from_ptx(text + entry(call)), 1, 1, (np.zeros(1),))

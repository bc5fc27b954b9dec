"""Accesses outside their arena, or misaligned: found at any address, and only if a lane executes them."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.errors import MemoryAccessError
from tilewright.programs import Program
from tilewright.simt import Memory, launch
from tilewright.simulate.run.allocations import Arena
from tilewright.simulate.state import GLOBAL_BASE, SLACK_BYTES

#: Ways to compute the offset %d10 of an access, one for each kind of address in the translator; `far` is a literal.
SHAPES = {
    "uniform": "mov.u64 %d10, {far};",
    "pattern": "mad.wide.u32 %d10, %tid, 4, {far};",
    "vector": "xor.b32 %r1, %tid, 5; mul.lo.u32 %r1, %r1, %r1; mad.wide.u32 %d10, %r1, 4, {far};",
}
SPACES = {
    "global": "add.s64 %d11, %out, %d10; {op}.global.u32 {operands};",
    "generic": "add.s64 %d11, %out, %d10; {op}.u32 {operands};",
    "shared": "mov.u64 %d12, s; add.s64 %d11, %d12, %d10; {op}.shared.u32 {operands};",
    "local": "mov.u64 %d12, l; add.s64 %d11, %d12, %d10; {op}.local.u32 {operands};",
}
OPERATIONS = {"ld": "%r9, [%d11]", "st": "[%d11], %r8", "atom": ""}
#: PTX has no atomics on local memory.
FORMS = [(o, s) for o in OPERATIONS for s in SPACES if (o, s) != ("atom", "local")]
FAR = {
    "just before": -4 * 32 * 40,
    "just after": 1 << 14,
    "past the slack": 1 << 20,
    "far below": -(1 << 40),
    "far above": 1 << 40,
    "at the end of all addresses": -(1 << 63) + 4,
}
DECLARATIONS = ".shared .align 8 .b8 s[4096]; .local .align 8 .b8 l[4096];"


def body(shape: str, space: str, operation: str, far: int, guard: str = "") -> str:
    op, operands = operation, OPERATIONS[operation]
    if operation == "atom":
        op, operands = "atom", "%r9, [%d11], 1"
    access = SPACES[space].format(op=op, operands=operands)
    if operation == "atom":
        access = re.sub(r"atom(\.\w+)?\.u32", lambda m: f"atom{m[1] or ''}.add.u32", access)
    before, last = access.rstrip(";").rsplit("; ", 1)
    return f"{SHAPES[shape].format(far=far)} {before};\n{guard} {last};\nst.global.u32 [%at], 1;"


#: Distances that no check distinguishes: of stores and atomics, for the volume tests.
ALIKE = ("past the slack", "far below", "far above")


@pytest.mark.parametrize(("operation", "space", "far"), [
    pytest.param(*form, far, marks=[pytest.mark.volume] if form[0] != "ld" and far in ALIKE else [])
    for form in FORMS for far in FAR
])  # fmt: skip
@pytest.mark.parametrize("shape", SHAPES)
def test_an_access_outside_is_an_error_that_says_where(shape, space, operation, far):
    out = np.zeros(64, np.uint32)
    program = kernel(body(shape, space, operation, FAR[far]), declarations=DECLARATIONS)
    with pytest.raises(MemoryAccessError, match="out of bounds") as raised:
        run(program, out, block=64, limits=None)
    error = raised.value
    assert (error.kernel, error.block) == ("k", (0, 0, 0))
    assert error.thread is not None and error.thread[1:] == (0, 0)
    line = next(n for n, text in enumerate(program.ptx.splitlines(), 1) if re.match(r"\s*(ld|st|atom)\..*d11", text))
    assert error.line == f"PTX line {line}"
    named = {"ld": "load", "st": "store", "atom": "atomic"}[operation]
    assert str(error).startswith(f"k: out of bounds {space} {named} of 4 bytes at address ")
    assert f"{error.address:#x}" in str(error) and str(error.thread) in str(error)
    assert not out.any()  # arguments stay as they were


@pytest.mark.parametrize("operation", ["ld", "st", "atom"])
@pytest.mark.parametrize("space", ["global", "generic", "shared"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lanes", ["none", "some"])
def test_inactive_lanes_may_have_any_address(shape, space, operation, lanes):
    """The same accesses under a guard that excludes every lane out of bounds."""
    out = np.zeros(256, np.uint32)
    guard = {
        "none": "setp.gt.u32 %p1, %tid, 9999;",
        "some": "setp.lt.u32 %p1, %tid, 9; @!%p1 add.u64 %d10, %d10, 262144;",
    }
    text = body(shape, space, operation, 0, "@%p1")
    first, rest = text.split(";\n", 1)
    setup, compute = first.split("add.s64", 1)
    if lanes == "none":
        setup = setup.replace("0;", f"{1 << 45};", 1) if shape == "uniform" else setup
    program = kernel(f"{setup} {guard[lanes]} add.s64{compute};\n{rest}", declarations=DECLARATIONS)
    memory = Memory(1 << 20)
    run(program, out, block=64, memory=memory)
    assert (out[16:64] == 1).all()


def test_the_tail_of_a_partial_warp_is_no_access():
    """33 threads of an array of 33: lanes 1 to 31 of the second warp are past its end."""
    memory = Memory(1 << 20)
    out = memory.empty(33, np.uint32)
    launch(kernel("st.global.u32 [%at], %tid; ld.global.u32 %r1, [%at];"), (1, 1, 1), (33, 1, 1), (out,))
    assert out.to_host().tolist() == list(range(33))


@pytest.mark.parametrize("offset", [0, 4, 60])
def test_the_last_element_is_inside_and_the_next_is_not(offset):
    """Bounds are exact to the byte: the arena of a launch ends with what it allocated last."""
    out = np.zeros(32, np.uint32)

    def load(at: int, form: str = "u32 %r2", size: int = 64) -> None:
        text = f"mov.u32 %r1, s; ld.shared.{form}, [%r1+{at}]; st.global.u32 [%at], 1;"
        run(kernel(text, declarations=f".shared .align 8 .b8 s[{size}];"), out)

    load(offset)
    assert out.all()
    for wrong in ((64,), (64, "v2.u32 {%r2, %r3}", 68), (-4,), (64 + offset, "u8 %h1")):
        with pytest.raises(MemoryAccessError):
            load(*wrong)


@pytest.mark.parametrize("lane", [0, 13, 31])
def test_the_first_lane_out_of_bounds_is_named(lane):
    program = kernel(
        f"""setp.ge.u32 %p1, %lane, {lane}; setp.eq.u32 %p2, %block, 5; and.pred %p1, %p1, %p2;
        selp.u64 %d1, 0x7000000000, 0, %p1; add.u64 %d1, %d1, %at; setp.ge.u32 %p3, %tid, 32;
        @%p3 ld.global.u32 %r1, [%d1];"""
    )
    with pytest.raises(MemoryAccessError) as raised:
        run(program, np.zeros(8 * 64, np.uint32), grid=(2, 4), block=(16, 4))
    linear = 32 + lane
    assert raised.value.block == (1, 2, 0)
    assert raised.value.thread == (linear % 16, linear // 16, 0)
    assert f"({32 - lane} lane{'s' * (lane != 31)} of its warp" in str(raised.value)
    assert raised.value.address - 0x7000000000 >= GLOBAL_BASE


@pytest.mark.parametrize(
    "shape",
    ["mov.u64 %d1, {o};", "mad.wide.u32 %d1, %tid, 8, {o};", "xor.b32 %r1, %tid, 3; mad.wide.u32 %d1, %r1, 8, {o};"],
    ids=["uniform", "pattern", "vector"],
)
@pytest.mark.parametrize(
    ("operation", "natural"),
    [("ld.global.u16 %h1, [%d2];", 2), ("ld.global.u32 %r2, [%d2];", 4), ("st.global.f64 [%d2], %e1;", 8),
     ("ld.global.v2.u32 {%r2, %r3}, [%d2];", 8), ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d2];", 16),
     ("atom.global.add.u32 %r2, [%d2], 1;", 4), ("ld.u32 %r2, [%d2];", 4)],
)  # fmt: skip
def test_misaligned_accesses(shape, operation, natural):
    """Source: PTX ISA 6.4.1: an address must be a multiple of the access's size."""
    if natural == 16 and "mad" in shape:
        shape = shape.replace(", 8,", ", 16,")
    for offset in (natural // 2, natural):
        program = kernel(f"{shape.format(o=offset)} add.u64 %d2, %out, %d1; {operation}")
        if offset == natural:
            run(program, np.zeros(2048, np.uint8))
            continue
        with pytest.raises(MemoryAccessError, match=rf"misaligned .*must be a multiple of {natural}") as raised:
            run(program, np.zeros(2048, np.uint8))
        assert raised.value.address % natural == offset
        assert raised.value.thread == (0, 0, 0)


def test_a_misaligned_inactive_lane_is_no_error():
    out = np.zeros(64, np.uint32)
    run(kernel("""and.b32 %r1, %tid, 1; setp.eq.u32 %p1, %r1, 0; mad.wide.u32 %d1, %tid, 2, %out; mov.u32 %r2, 3;
        @%p1 st.global.u32 [%d1], %r2; xor.b32 %r3, %tid, 2; mad.wide.u32 %d2, %r3, 2, %out;
        @%p1 st.global.u32 [%d2+64], %r2;"""), out)  # fmt: skip
    assert out[:32].tolist() == [3] * 32


def test_numba_and_cuda_errors_name_the_source_line():
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit
    def stray(out):
        i = cuda.grid(1)
        if i == 70:
            out[1 << 40] = 1.0  # the line with the error

    line = stray.py_func.__code__.co_firstlineno + 4
    with pytest.raises(MemoryAccessError, match=rf"test_bounds\.py:{line} ") as raised:
        launch(stray, 3, 32, (np.zeros(96, np.float32),))
    assert raised.value.line.endswith(f"test_bounds.py:{line}")
    assert raised.value.block == (2, 0, 0) and raised.value.thread == (6, 0, 0)

    source = """extern "C" __global__ void stray(float *out, int n) {
  int i = threadIdx.x;
  if (i < n)
    out[-i * 100000] = 1;
}
"""
    program = Program.from_cuda(source, "stray", path="stray.cu")
    with pytest.raises(MemoryAccessError, match=r"stray\.cu:4") as raised:
        launch(program, 1, 64, (np.zeros(96, np.float32), np.int32(50)))
    assert raised.value.thread == (1, 0, 0)


def test_host_bytes_around_the_arenas_do_not_change():
    """Canaries in the slack of global memory, and in the host's heap, survive stray stores of every kind."""
    memory = Memory(1 << 20)
    start = memory.host_address
    slack = [(start - SLACK_BYTES, SLACK_BYTES), (start + (1 << 20), SLACK_BYTES)]
    for address, count in slack:
        ctypes.memset(address, 0xA5, count)
    heap = np.full(1 << 16, 0x5A, np.uint8)
    for shape in SHAPES:
        for far in (*FAR.values(), -640, -260, (1 << 20) - 4, heap.ctypes.data - start, 1 << 15):
            for operation in ("st", "atom"):
                program = kernel(body(shape, "global", operation, far), declarations=DECLARATIONS)
                with pytest.raises(MemoryAccessError):
                    run(program, np.zeros(64, np.uint32), block=64, memory=memory)
    assert (heap == 0x5A).all()
    for address, count in slack:
        assert ctypes.string_at(address, count) == b"\xa5" * count


def test_an_arena_has_slack_on_both_sides():
    arena = Arena(100)
    assert ctypes.string_at(arena.address - SLACK_BYTES, 4) == bytes(4)
    assert ctypes.string_at(arena.address + 100 + SLACK_BYTES - 4, 4) == bytes(4)


def test_running_past_the_last_array_is_an_error_at_its_end():
    """Arrays come last in memory, so nothing follows the last one."""
    text = """
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b32 table[64];
.visible .entry past(.param .u64 x, .param .u32 n)
{
  .reg .u64 %rd<4>; .reg .u32 %r<3>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r1, [n];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
}
"""
    x = np.zeros(10, np.uint32)
    launch(Program.from_ptx(text), 1, 1, (x, 9))
    assert x[9] == 9
    with pytest.raises(MemoryAccessError):
        launch(Program.from_ptx(text), 1, 1, (x, 10))

"""Memory of a size that only the run knows, on a thread's stack: `alloca`, `stacksave`, `stackrestore`."""

from __future__ import annotations

import narrow_hosts
import numpy as np
import pytest
from ptx_kernels import kernel, run, words

from tilewright.errors import KernelError, MemoryAccessError, PtxError
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.simt import Limits

HOSTS = ("own", "avx2", "sse")

#: For i below n: p[i] = i * factor; then the sum of p[n - 1 - i] * i. `n` is %r1, and the sum comes in %r9.
FILL_AND_SUM = """mul.wide.u32 %d1, %r1, 4; alloca.u64 %d2, %d1, 16; mov.u32 %r2, 0;
FILL: setp.ge.u32 %p1, %r2, %r1; @%p1 bra FILLED; mul.wide.u32 %d3, %r2, 4; add.u64 %d4, %d2, %d3;
mul.lo.u32 %r3, %r2, FACTOR; st.local.u32 [%d4], %r3; add.u32 %r2, %r2, 1; bra FILL;
FILLED: mov.u32 %r2, 0; mov.u32 %r9, 0;
SUM: setp.ge.u32 %p1, %r2, %r1; @%p1 bra SUMMED; sub.u32 %r4, %r1, %r2; sub.u32 %r4, %r4, 1;
mul.wide.u32 %d3, %r4, 4; add.u64 %d4, %d2, %d3; ld.local.u32 %r3, [%d4]; mad.lo.u32 %r9, %r3, %r2, %r9;
add.u32 %r2, %r2, 1; bra SUM; SUMMED:"""


def fill_and_sum(n: int, factor: int) -> int:
    values = [i * factor for i in range(n)]
    return sum(values[n - 1 - i] * i for i in range(n)) & 0xFFFFFFFF


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("size", ["mov.u32 %r1, 9;", "and.b32 %r1, %tid, 15;"])
def test_all_lanes_together_and_each_with_its_own_size(size, host, monkeypatch):
    narrow_hosts.use_host(monkeypatch.setattr, host)
    got = words(f"{size} {FILL_AND_SUM.replace('FACTOR', '%tid')} st.global.u32 [%at], %r9;", 80, 2, 40)
    sizes = [9 if "9" in size else t & 15 for t in range(40)]
    assert got.tolist() == [fill_and_sum(sizes[t], t) for t in range(40)] * 2


@pytest.mark.parametrize("align", [1, 8, 32, 1024])
def test_addresses_are_aligned_and_distinct(align):
    got = words(
        f"""mov.u32 %r1, 5; cvt.u64.u32 %d1, %r1; alloca.u64 %d2, %d1, 1; alloca.u64 %d3, %d1, {align};
        alloca.u64 %d4, %d1; st.local.u8 [%d2], %tid; sub.u64 %d5, %d3, %d2; cvt.u32.u64 %r2, %d5;
        cvt.u32.u64 %r3, %d3; and.b32 %r3, %r3, {align - 1}; sub.u64 %d6, %d4, %d3; cvt.u32.u64 %r4, %d6;
        shl.b32 %r3, %r3, 20; shl.b32 %r4, %r4, 24; or.b32 %r2, %r2, %r3; or.b32 %r2, %r2, %r4;
        st.global.u32 [%at], %r2;""",
        32,
    )
    assert set((got & 0xFFFFF) >= 5) == {True} and set(got >> 20 & 15) == {0} and set(got >> 24) == {8}


def test_pointers_of_32_bits():
    got = words(
        """mov.u32 %r1, 64; alloca.u32 %r2, %r1; stacksave.u32 %r3; st.local.u32 [%r2+60], %tid;
        alloca.u32 %r4, %r1, 4; st.local.u32 [%r4], %lane; stackrestore.u32 %r3; alloca.u32 %r5, %r1;
        sub.u32 %r6, %r5, %r4; ld.local.u32 %r7, [%r2+60]; mad.lo.u32 %r7, %r6, 1000, %r7; st.global.u32 [%at], %r7;""",
        32,
    )
    assert got.tolist() == list(range(32))  # freed memory is allocated again


WORK = f""".func (.param .b32 result) work(.param .b32 n, .param .b32 factor) {{
.reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<4>; ld.param.u32 %r1, [n]; ld.param.u32 %r8, [factor];
{FILL_AND_SUM.replace("FACTOR", "%r8")} st.param.b32 [result], %r9; ret; }}
"""
CALL = """{ .param .b32 back; .param .b32 a; .param .b32 b; st.param.b32 [a], %r11; st.param.b32 [b], %r12;
call (back), CALLEE, (a, b)PROTOTYPE; ld.param.b32 %r10, [back]; }"""


@pytest.mark.parametrize("by_address", [False, True], ids=["inlined", "by_address"])
def test_memory_of_a_function_is_freed_at_its_end(by_address):
    """A hundred calls of up to 1,024 bytes each, on a stack of 8,192 that the caller uses too."""
    target = "mov.u64 %d20, work;" if by_address else ""
    call = CALL.replace("CALLEE", "%d20" if by_address else "work").replace("PROTOTYPE", ", proto" * by_address)
    got = words(
        f"""{target} mov.u64 %d21, 400; alloca.u64 %d22, %d21, 8; st.local.u32 [%d22+396], %tid; mov.u32 %r20, 0;
        mov.u32 %r21, 0; AGAIN: add.u32 %r11, %r20, 156; mov.u32 %r12, %lane; {call}
        add.u32 %r21, %r21, %r10; add.u32 %r20, %r20, 1; setp.lt.u32 %p9, %r20, 100; @%p9 bra AGAIN;
        ld.local.u32 %r22, [%d22+396]; add.u32 %r21, %r21, %r22; st.global.u32 [%at], %r21;""",
        32, module=WORK, declarations="proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);",
    )  # fmt: skip
    wanted = [(sum(fill_and_sum(156 + i, t) for i in range(100)) + t) & 0xFFFFFFFF for t in range(32)]
    assert got.tolist() == wanted


#: down(n): n words of n on the stack; then the deeper ones; then the sum of its own, which must be as they were.
DOWN = """.func (.param .b32 result) down(.param .b32 n) { .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .pred %p<4>;
ld.param.u32 %r1, [n]; mov.u32 %r10, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
mul.wide.u32 %d1, %r1, 4; alloca.u64 %d2, %d1; mov.u32 %r2, 0;
FILL: mul.wide.u32 %d3, %r2, 4; add.u64 %d3, %d3, %d2; st.local.u32 [%d3], %r1; add.u32 %r2, %r2, 1;
setp.lt.u32 %p2, %r2, %r1; @%p2 bra FILL;
sub.u32 %r3, %r1, 1;
{ .param .b32 a; .param .b32 back; st.param.b32 [a], %r3; call (back), down, (a); ld.param.b32 %r10, [back]; }
mov.u32 %r2, 0;
SUM: mul.wide.u32 %d3, %r2, 4; add.u64 %d3, %d3, %d2; ld.local.u32 %r4, [%d3]; add.u32 %r10, %r10, %r4;
add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, %r1; @%p2 bra SUM;
END: st.param.b32 [result], %r10; ret; }
"""
CALL_DOWN = """{ .param .b32 a; .param .b32 back; st.param.b32 [a], %r1; call (back), down, (a);
ld.param.b32 %r2, [back]; }"""


@pytest.mark.parametrize("host", HOSTS)
def test_recursion_has_its_own_memory_at_each_depth(host, monkeypatch):
    narrow_hosts.use_host(monkeypatch.setattr, host)
    body = f"""and.b32 %r1, %tid, 15; mov.u64 %d1, 8; alloca.u64 %d9, %d1; st.local.u32 [%d9], %gid; {CALL_DOWN}
    ld.local.u32 %r3, [%d9]; mad.lo.u32 %r2, %r2, 1000, %r3; st.global.u32 [%at], %r2;"""
    got = words(body, 64, 2, 32, module=DOWN)
    assert got.tolist() == [1000 * sum(i * i for i in range((g & 15) + 1)) + g for g in range(64)]


@pytest.mark.parametrize(("size", "alike"), [("mov.u64 %d1, 9000;", True), ("mul.wide.u32 %d1, %tid, 500;", False),
                                             ("mov.u64 %d1, -8;", True)])  # fmt: skip
def test_no_room_is_a_fault_with_its_line(size, alike):
    text = f"{size}\n alloca.u64 %d2, %d1; st.global.u32 [%at], %tid;"
    program = kernel(text)
    line = next(i for i, row in enumerate(program.ptx.splitlines(), 1) if "alloca" in row)
    with pytest.raises(MemoryAccessError, match=rf"PTX line {line}.*bytes do not fit on the thread.s stack") as caught:
        run(program, np.zeros(32, np.uint32))
    assert caught.value.thread == ((0 if alike else 17), 0, 0) and caught.value.ptx_line == line


def test_the_limit_sets_the_size_of_the_stack():
    text = "mov.u64 %d1, 9000; alloca.u64 %d2, %d1; st.local.u32 [%d2+8996], %tid; ld.local.u32 %r1, [%d2+8996];"
    limits = Limits(seconds=30, stack_bytes=16_000)
    assert words(f"{text} st.global.u32 [%at], %r1;", 32, limits=limits).tolist() == list(range(32))


@pytest.mark.parametrize("pointer", ["mov.u64 %d3, 64000;", "mov.u64 %d3, -16;", "alloca.u64 %d3, %d1;"])
def test_only_saved_pointers_can_be_restored(pointer):
    """In the last case, a pointer to freed memory does not restore it."""
    back = "stacksave.u64 %d9; alloca.u64 %d8, %d1; stacksave.u64 %d3; stackrestore.u64 %d9;"
    body = f"mov.u64 %d1, 64; {back if 'alloca' in pointer else pointer} stackrestore.u64 %d3; st.global.u32 [%at], 1;"
    with pytest.raises(KernelError, match="must be a value of `stacksave`"):
        words(body, 32)


@pytest.mark.parametrize("align", ["3", "0", "16777216", "%r1"])
def test_alignments_that_no_gpu_takes(align):
    with pytest.raises(PtxError, match="an alignment that is a power of two, at most 8,388,608"):
        words(f"mov.u64 %d1, 8; alloca.u64 %d2, %d1, {align};", 32)


def test_nothing_beyond_local_memory_can_be_reached():
    with pytest.raises(MemoryAccessError, match="out of bounds local store"):
        words("mov.u64 %d1, 8; alloca.u64 %d2, %d1; st.local.u32 [%d2+8192], 1;", 32)


@pytest.mark.parametrize("lanes", ["mov.u64 %d1, 16;", "and.b32 %r9, %tid, 1; mad.wide.u32 %d1, %r9, 4, 12;"])
@pytest.mark.parametrize(
    ("does", "code", "count"),
    [
        ("st.local.u32 [%d2+8], 7; ld.local.u32 %r1, [%d2+8];", None, 0),
        ("ld.local.u32 %r1, [%d2+8];", "TW203", 32),  # never written
        ("st.local.u32 [%d2+16], 7; mov.u32 %r1, 7;", "TW104", 32),  # behind it
        ("stackrestore.u64 %d8; st.local.u32 [%d2+8], 7; mov.u32 %r1, 7;", "TW104", 32),  # freed
        # memory that is allocated again is unset
        ("st.local.u32 [%d2+8], 7; stackrestore.u64 %d8; alloca.u64 %d2, %d1; ld.local.u32 %r1, [%d2+8];", "TW203", 32),
    ],
)
def test_check_follows_allocations_and_writes(does, code, count, lanes):
    program = kernel(f"{lanes} stacksave.u64 %d8; alloca.u64 %d2, %d1; {does} st.global.u32 [%at], %r1;")
    done = run(program, np.zeros(32, np.uint32), instruments=[MemoryCheck(program.module)])
    found = done.results["memory"].findings
    assert [(one.code, one.count) for one in found] == ([(code, count)] if code else [])


@pytest.mark.parametrize("reads_after", [False, True])
def test_check_of_a_pointer_into_a_finished_function(reads_after):
    """A function stores a pointer into its stack; a read there after its return is a defect."""
    module = DOWN.replace(".func (.param .b32 result) down", ".global .u64 left;\n.func (.param .b32 result) down", 1)
    module = module.replace("alloca.u64 %d2, %d1;", "alloca.u64 %d2, %d1; st.global.u64 [left], %d2;", 1)
    after = "ld.global.u64 %d7, [left]; ld.local.u32 %r2, [%d7];" * reads_after
    program = kernel(f"mov.u32 %r1, 3; {CALL_DOWN} {after} st.global.u32 [%at], %r2;", module=module)
    found = run(program, np.zeros(1, np.uint32), block=1, instruments=[MemoryCheck(program.module)]).results["memory"]
    assert [one.code for one in found.findings] == ["TW104"] * reads_after


def test_a_full_stack_is_a_finding():
    from tilewright.observe.checking.faults import code_of

    with pytest.raises(MemoryAccessError) as caught:
        words("mov.u64 %d1, 9000; alloca.u64 %d2, %d1;", 32)
    assert code_of(caught.value) == "TW104"

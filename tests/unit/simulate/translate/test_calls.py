"""Device functions: called directly, by address, in divergent code, recursively, with structs, and too deep."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run, words

from tilewright.errors import KernelError, LaunchError, LimitError, PtxError
from tilewright.programs import Program
from tilewright.simt import Limits, launch

SQUARE = """.func (.param .b32 result) square(.param .b32 x) { .reg .b32 %r<4>;
ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
.func (.param .b32 result) square_and_more(.param .b32 x, .param .b32 y) { .reg .b32 %r<6>;
ld.param.u32 %r1, [x]; ld.param.u32 %r2, [y];
{ .param .b32 a; .param .b32 back; st.param.b32 [a], %r1; call.uni (back), square, (a); ld.param.b32 %r3, [back]; }
add.u32 %r4, %r3, %r2; st.param.b32 [result], %r4; ret; }
"""


def call(name: str, result: str, *arguments: str) -> str:
    """A call of 32-bit numbers, as compilers write it."""
    names = [f"a{i}" for i in range(len(arguments))]
    stores = " ".join(f".param .b32 {n}; st.param.b32 [{n}], {a};" for n, a in zip(names, arguments, strict=True))
    return f"{{ .param .b32 back; {stores} call (back), {name}, ({', '.join(names)}); ld.param.b32 {result}, [back]; }}"


def test_calls_inside_calls():
    got = words(f"{call('square_and_more', '%r1', '%tid', '%block')} st.global.u32 [%at], %r1;", 80, grid=2, block=40,
                module=SQUARE)  # fmt: skip
    assert got.tolist() == [t * t + b for b in range(2) for t in range(40)]


def test_two_calls_of_one_function_are_separate():
    got = words(
        f"""{call("square", "%r1", "%tid")} {call("square", "%r2", "%lane")} sub.u32 %r3, %r1, %r2;
        {call("square", "%r4", "%r3")} st.global.u32 [%at], %r4;""",
        50,
        block=50,
        module=SQUARE,
    )
    assert got.tolist() == [(t * t - (t % 32) ** 2) ** 2 & 0xFFFFFFFF for t in range(50)]


def test_a_call_by_some_lanes_only():
    got = words(
        f"""and.b32 %r1, %tid, 3; mov.u32 %r2, 7; setp.eq.u32 %p1, %r1, 2; @!%p1 bra OTHER;
        {call("square_and_more", "%r2", "%tid", "5")} bra JOIN;
        OTHER: setp.gt.u32 %p2, %tid, 20; @%p2 bra JOIN; {call("square", "%r2", "%r1")}
        JOIN: st.global.u32 [%at], %r2;""",
        48,
        block=48,
        module=SQUARE,
    )
    wanted = [t * t + 5 if t & 3 == 2 else 7 if t > 20 else (t & 3) ** 2 for t in range(48)]
    assert got.tolist() == wanted


def test_a_function_that_returns_early_in_some_lanes_and_loops_in_others():
    module = """.func (.param .b32 result) work(.param .b32 x) { .reg .b32 %r<6>; .reg .pred %p<4>;
        ld.param.u32 %r1, [x]; mov.u32 %r2, 100; st.param.b32 [result], %r2; setp.lt.u32 %p1, %r1, 5; @%p1 ret;
        mov.u32 %r3, 0; L: add.u32 %r3, %r3, %r1; sub.u32 %r1, %r1, 1; setp.ne.u32 %p2, %r1, 0; @%p2 bra L;
        st.param.b32 [result], %r3; ret; }"""
    got = words(f"{call('work', '%r1', '%tid')} add.u32 %r1, %r1, %lane; st.global.u32 [%at], %r1;", 40, block=40,
                module=module)  # fmt: skip
    assert got.tolist() == [(100 if t < 5 else t * (t + 1) // 2) + t % 32 for t in range(40)]


FIBONACCI = """.func (.param .b32 result) fib(.param .b32 n) { .reg .b32 %r<9>; .reg .pred %p<3>;
ld.param.u32 %r1, [n]; mov.u32 %r5, %r1; setp.lt.u32 %p1, %r1, 2; @%p1 bra DONE;
sub.u32 %r2, %r1, 1; CALL1 sub.u32 %r4, %r1, 2; CALL2 add.u32 %r5, %r3, %r6;
DONE: st.param.b32 [result], %r5; ret; }
""".replace("CALL1", call("fib", "%r3", "%r2")).replace("CALL2", call("fib", "%r6", "%r4"))


def test_recursion_with_another_depth_in_each_lane():
    got = words(f"and.b32 %r1, %tid, 15; {call('fib', '%r2', '%r1')} st.global.u32 [%at], %r2;", 44, block=44,
                module=FIBONACCI)  # fmt: skip
    numbers = [0, 1]
    while len(numbers) < 16:
        numbers.append(numbers[-1] + numbers[-2])
    assert got.tolist() == [numbers[t & 15] for t in range(44)]


ENDLESS = """.func (.param .b32 result) down(.param .b32 n) { .reg .b32 %r<9>; .reg .pred %p<3>;
ld.param.u32 %r1, [n]; add.u32 %r2, %r1, 1; CALL st.param.b32 [result], %r3; ret; }
""".replace("CALL", call("down", "%r3", "%r2"))


@pytest.mark.parametrize("depth", [1, 20, 512])
def test_calls_too_deep(depth):
    program = kernel(f"setp.ne.u32 %p1, %gid, 41; @%p1 exit; {call('down', '%r1', '0')} st.global.u32 [%at], %r1;",
                     module=ENDLESS)  # fmt: skip
    with pytest.raises(
        LimitError,
        match=rf"k: calls went deeper than {depth}, .* in block \(1, 0, 0\), thread \(9, 0, 0\).*; call less",
    ):
        run(program, np.zeros(64, np.uint32), grid=2, limits=Limits(call_depth=depth))


@pytest.mark.parametrize(("calls", "frame_bytes"), [(200, 4), (3000, 4), (400, 400)])
def test_a_recursion_as_deep_as_allowed(calls, frame_bytes):
    """A program that sets a larger stack on a GPU may call more deeply, or with larger frames."""
    module = """.func (.param .b32 result) sum(.param .b32 n) { .reg .b32 %r<9>; .reg .pred %p<3>;
.local .b8 own[BYTES]; ld.param.u32 %r1, [n]; mov.u32 %r3, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE;
sub.u32 %r2, %r1, 1; CALL
DONE: add.u32 %r3, %r3, %r1; st.param.b32 [result], %r3; ret; }
""".replace("CALL", call("sum", "%r3", "%r2")).replace("BYTES", str(frame_bytes))
    body = f"mov.u32 %r1, {calls}; {call('sum', '%r2', '%r1')} st.global.u32 [%at], %r2;"
    got = words(body, 32, module=module, limits=Limits().with_stack(1024 if calls == 200 else 200_000))
    assert got.tolist() == [calls * (calls + 1) // 2] * 32
    if calls > 200:
        with pytest.raises(LimitError, match=r"deeper than 512, or needed more than 65,536 bytes"):
            words(body, 32, module=module)


TABLE = (
    SQUARE
    + """.func (.param .b32 result) twice(.param .b32 x) { .reg .b32 %r<4>;
ld.param.u32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
.func (.param .b32 result) thrice_if_odd(.param .b32 x) { .reg .b32 %r<4>; .reg .pred %p<2>;
ld.param.u32 %r1, [x]; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra D; mul.lo.u32 %r1, %r1, 3;
D: st.param.b32 [result], %r1; ret; }
.global .align 8 .u64 table[4] = {square, twice, thrice_if_odd, 0};
"""
)

INDIRECT = """mov.u64 %d1, table; mad.wide.u32 %d1, %r1, 8, %d1; ld.global.u64 %d2, [%d1];
PROTO: .callprototype (.param .b32 _) _ (.param .b32 _);
{ .param .b32 a; .param .b32 back; st.param.b32 [a], %tid; call (back), %d2, (a), PROTO; ld.param.b32 %r2, [back]; }
add.u32 %r2, %r2, 1000; st.global.u32 [%at], %r2;"""


@pytest.mark.parametrize("index", ["rem.u32 %r1, %block, 3;", "rem.u32 %r1, %tid, 3;"], ids=["uniform", "divergent"])
def test_calls_through_a_table(index):
    got = words(index + INDIRECT, 6 * 40, grid=6, block=40, module=TABLE)
    meanings = [lambda t: t * t, lambda t: 2 * t, lambda t: 3 * t if t & 1 else t]
    by_lane = "tid" in index
    assert got.tolist() == [1000 + meanings[(t if by_lane else b) % 3](t) for b in range(6) for t in range(40)]


def test_a_call_of_no_function():
    with pytest.raises(
        KernelError,
        match=r"k: indirect call of an address that is not a function in block \(0, 0, 0\), thread \(7, 0, 0\)",
    ):
        words("setp.eq.u32 %p1, %tid, 7; selp.u32 %r1, 3, 1, %p1;" + INDIRECT, 32, module=TABLE)


@pytest.mark.parametrize("size", [64, 72, 1000, 4000])
def test_large_arguments_and_results_of_recursive_calls(size):
    """Arguments and results of a recursive function arrive completely, and only for the calling lanes."""
    last = size - 8
    module = f""".func (.param .align 8 .b8 result[{size}]) f(.param .align 8 .b8 x[{size}])
{{ .param .align 8 .b8 back[{size}]; .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>;
ld.param.u32 %r1, [x]; ld.param.u64 %d1, [x+{last}]; st.param.u64 [result+{last}], %d1; st.param.u32 [result], %r1;
setp.eq.u32 %p1, %r1, 0; @%p1 ret; sub.u32 %r1, %r1, 1; add.u64 %d1, %d1, 3;
{{ .param .align 8 .b8 a[{size}]; st.param.u32 [a], %r1; st.param.u64 [a+{last}], %d1; call (back), f, (a);
ld.param.u64 %d1, [back+{last}]; }} st.param.u64 [result+{last}], %d1; ret; }}"""
    got = words(
        f"""and.b32 %r1, %tid, 1; mul.wide.u32 %d1, %tid, 10; mov.u32 %r2, 7; setp.lt.u32 %p1, %tid, 20; @%p1 bra D;
        {{ .param .align 8 .b8 a[{size}]; .param .align 8 .b8 b[{size}]; st.param.u32 [a], %r1;
        st.param.u64 [a+{last}], %d1; call (b), f, (a); ld.param.u64 %d2, [b+{last}]; }} cvt.u32.u64 %r2, %d2;
        D: st.global.u32 [%at], %r2;""",
        40,
        block=40,
        module=module,
    )
    assert got.tolist() == [7 if t < 20 else t * 10 + 3 * (t & 1) for t in range(40)]


def test_an_oversized_argument_is_refused_immediately():
    module = ".func f(.param .b8 x[1000000000]) { .param .b8 a[1000000000]; call f, (a); ret; }"
    with pytest.raises(LaunchError, match="local memory of a thread must be at most"):
        words("{ .param .b8 a[1000000000]; call f, (a); }", 32, module=module)


def test_structs_and_arrays_by_value():
    module = """.func (.param .align 8 .b8 result[16]) turn(.param .align 8 .b8 pair[16], .param .b32 add) {
        .reg .b64 %d<6>; .reg .b32 %r<4>; ld.param.u64 %d1, [pair]; ld.param.u64 %d2, [pair+8]; ld.param.u32 %r1, [add];
        cvt.u64.u32 %d3, %r1; add.u64 %d1, %d1, %d3; st.param.b64 [result], %d2; st.param.b64 [result+8], %d1; ret; }"""
    out = np.zeros(128, np.uint64)
    program = kernel(
        """cvt.u64.u32 %d5, %tid; shl.b64 %d6, %d5, 40;
        { .param .align 8 .b8 p[16]; .param .b32 n; .param .align 8 .b8 back[16]; st.param.b64 [p], %d5;
          st.param.b64 [p+8], %d6; st.param.b32 [n], 9; call (back), turn, (p, n); ld.param.v2.b64 {%d7, %d8}, [back]; }
        mad.wide.u32 %d1, %tid, 16, %out; st.global.u64 [%d1], %d7; st.global.u64 [%d1+8], %d8;""",
        module=module,
    )
    run(program, out, block=64)
    assert out.reshape(64, 2).tolist() == [[t << 40, t + 9] for t in range(64)]


def test_a_function_with_its_own_local_array():
    module = """.func (.param .b32 result) pick(.param .b32 x) {
        .local .align 4 .b8 a[32]; .reg .b32 %r<6>; .reg .b64 %d<4>;
        ld.param.u32 %r1, [x]; st.local.u32 [a], 5; st.local.u32 [a+4], %r1; st.local.u32 [a+8], 7; mov.u64 %d1, a;
        rem.u32 %r2, %r1, 3; mad.wide.u32 %d1, %r2, 4, %d1; ld.local.u32 %r3, [%d1];
        st.param.b32 [result], %r3; ret; }"""
    body = f"""st.local.u32 [mine], %tid; {call("pick", "%r1", "%tid")} {call("pick", "%r2", "%lane")}
        ld.local.u32 %r3, [mine]; mad.lo.u32 %r1, %r1, 1000, %r2; mad.lo.u32 %r1, %r3, 1000000, %r1;
        st.global.u32 [%at], %r1;"""
    got = words(body, 40, block=40, module=module, declarations=".local .u32 mine;")

    def pick(x):
        return [5, x, 7][x % 3]

    assert got.tolist() == [1000000 * t + 1000 * pick(t) + pick(t % 32) for t in range(40)]


def test_barriers_inside_a_function():
    module = """.shared .align 4 .u32 s[64];
        .func (.param .b32 result) swap(.param .b32 t, .param .b32 v) { .reg .b32 %r<9>;
        ld.param.u32 %r1, [t]; ld.param.u32 %r2, [v]; mov.u32 %r3, s; mad.lo.u32 %r4, %r1, 4, %r3;
        bar.sync 0; st.shared.u32 [%r4], %r2; bar.sync 0; xor.b32 %r5, %r1, 63; mad.lo.u32 %r5, %r5, 4, %r3;
        ld.shared.u32 %r6, [%r5]; st.param.b32 [result], %r6; ret; }"""
    body = f"""mul.lo.u32 %r1, %tid, 3; {call("swap", "%r2", "%tid", "%r1")} add.u32 %r2, %r2, 1;
        {call("swap", "%r3", "%tid", "%r2")} st.global.u32 [%at], %r3;"""
    assert words(body, 64, block=64, module=module).tolist() == [3 * t + 1 for t in range(64)]


def test_calls_that_do_not_fit_their_function():
    for text, message in [("call missing;", "missing"), (call("square", "%r1", "1", "2"), "square")]:
        with pytest.raises(PtxError, match=message):
            words(text, 32, module=SQUARE)


def test_functions_of_a_cuda_program():
    """Recursion, a function pointer and a struct result, as the compiler writes them."""
    program = Program.from_cuda(
        """struct Pair { int low; double high; };
        __device__ __noinline__ Pair make(int a) { Pair p; p.low = a + 1; p.high = a * 0.5; return p; }
        __device__ __noinline__ int ackermann(int m, int n) {
          return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
        __device__ __noinline__ int plus(int a, int b) { return a + b; }
        __device__ __noinline__ int times(int a, int b) { return a * b; }
        extern "C" __global__ void k(double *out) {
          int t = threadIdx.x;
          int (*volatile chosen)(int, int) = t % 3 ? plus : times;
          Pair p = make(t);
          out[t] = p.low + p.high + 1000.0 * ackermann(2, t & 3) + 1e6 * chosen(t, 7); }""",
        "k",
    )
    out = np.zeros(40)
    launch(program, 1, 40, (out,))
    wanted = [t + 1 + t * 0.5 + 1000.0 * (2 * (t & 3) + 3) + 1e6 * (t + 7 if t % 3 else t * 7) for t in range(40)]
    assert out.tolist() == wanted


def test_functions_without_an_address_do_not_count_as_called_through_a_pointer() -> None:
    """A function with a barrier is inlined; the pointer reaches those whose address a variable or a `mov` has."""
    functions = """.func meet { bar.sync 0; ret; }
        .func (.reg .u32 %y) one(.reg .u32 %x) { add.u32 %y, %x, 1; ret; }
        .func (.reg .u32 %y) two(.reg .u32 %x) { add.u32 %y, %x, 2; ret; }
        .global .u64 table[1] = { two };"""
    body = """.reg .pred %odd; .reg .b64 %f, %g; call meet; mov.u64 %f, one; ld.global.u64 %g, [table];
        and.b32 %r1, %tid, 1; setp.eq.u32 %odd, %r1, 1; @%odd mov.u64 %f, %g;
        PROTOTYPE: .callprototype (.reg .u32 _) _ (.reg .u32 _);
        call (%r2), %f, (%tid), PROTOTYPE; st.global.u32 [%at], %r2;"""
    assert words(body, 64, block=64, module=functions).tolist() == [t + 1 + t % 2 for t in range(64)]


KEPT = """.extern .shared .align 4 .b32 dynamic[];
        .func (.param .b32 back) kept(.param .b32 depth, .param .b32 x) {
        .shared .align 4 .b32 own[64]; .reg .pred %p; .reg .b32 %r<9>;
        ld.param.u32 %r1, [depth]; ld.param.u32 %r2, [x]; setp.eq.u32 %p, %r1, 0; @%p bra LAST;
        sub.u32 %r1, %r1, 1; add.u32 %r2, %r2, 1;
        { .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b32 [b], %r2;
          call.uni (c), kept, (a, b); ld.param.b32 %r3, [c]; } bra DONE;
        LAST: mov.u32 %r4, %tid.x; shl.b32 %r4, %r4, 2; mov.u32 %r5, own; add.u32 %r5, %r5, %r4;
        st.shared.u32 [%r5], %r2; ld.shared.u32 %r3, [%r5];
        DONE: st.param.b32 [back], %r3; ret; }"""


def test_dynamic_shared_memory_follows_that_of_called_functions():
    """A recursive function's own array, declared inside it, is not where the kernel's dynamic one begins."""
    body = f"""mov.u32 %r1, dynamic; mad.lo.u32 %r1, %tid, 4, %r1; add.u32 %r2, %tid, 1000; st.shared.u32 [%r1], %r2;
        {call("kept", "%r3", "3", "%tid")} ld.shared.u32 %r4, [%r1]; add.u32 %r4, %r4, %r3; st.global.u32 [%at], %r4;"""
    got = words(body, 64, block=64, module=KEPT, shared_bytes=256)
    assert got.tolist() == [1000 + t + t + 3 for t in range(64)]


def test_shared_memory_of_a_kernel_and_of_a_called_function_may_have_one_name():
    body = f"""mov.u32 %r1, own; mad.lo.u32 %r1, %tid, 4, %r1; add.u32 %r2, %tid, 1000; st.shared.u32 [%r1], %r2;
        {call("kept", "%r3", "3", "%tid")} ld.shared.u32 %r4, [%r1]; add.u32 %r4, %r4, %r3; st.global.u32 [%at], %r4;"""
    got = words(body, 64, block=64, module=KEPT, declarations=".shared .align 4 .b32 own[64];")
    assert got.tolist() == [1000 + t + t + 3 for t in range(64)]


def test_the_largest_stack_leaves_room_for_other_local_memory():
    """A thread has 512 KiB of local memory in all."""
    module = FIBONACCI.replace("{ .reg", "{ .local .b8 own[1000]; .reg", 1)
    body = f"{call('fib', '%r2', '9')} st.global.u32 [%at], %r2;"
    limits = Limits(stack_bytes=512 << 10)
    assert words(body, 1, block=1, module=module, declarations=".local .b8 b[200000];", limits=limits).tolist() == [34]

"""The device runtime of every kernel: assertions, the heap, prints."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import AssertionFailedError, KernelError, PtxError, TrapError
from tilewright.programs import Program
from tilewright.simt import Memory, launch

pytest.importorskip("cuda.bindings.nvrtc", reason="not run: NVRTC is not installed")

ASSERTIONS = r"""
__device__ int checked(int value) {
    assert(value < 50 && "small enough");
    return value;
}

template <typename T> __global__ void each(const T *x, T *out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(x[i] != 3);
    if (x[i] > 40) {
        out[i] = checked(x[i]);
    }
    printf("%d;", i);
}

__global__ void shaped(int y, int z) {
    assert(threadIdx.y + blockIdx.z * 10 != y + z * 10);
}

__global__ void twice(int *x) {
    int step = 0;
    for (; step < 4; ++step) {
        assert(x[threadIdx.x] != step);
    }
}
"""


@pytest.mark.parametrize(
    ("values", "block", "thread", "line", "text"),
    [
        ([1, 3, 3, 1], 0, 1, 9, "x[i] != 3"),
        ([1, 1, 1, 1, 1, 3, 1, 1], 1, 1, 9, "x[i] != 3"),
        ([1, 1, 45, 60], 0, 2 + 1, 3, 'value < 50 && "small enough"'),
        ([1, 1, 1, 1, 1, 1, 1, 99], 1, 3, 3, 'value < 50 && "small enough"'),
    ],
)
@pytest.mark.parametrize("lineinfo", [True, False])
def test_a_failed_assertion_reports_its_line_and_thread(
    values: list[int], block: int, thread: int, line: int, text: str, lineinfo: bool
) -> None:
    program = Program.from_cuda(ASSERTIONS, "each<int>", lineinfo=lineinfo, path="some/kernels.cu")
    x = np.array(values, np.int32)
    with pytest.raises(AssertionFailedError) as shown:
        launch(program, len(values) // 4, 4, (x, np.zeros_like(x)))
    error = shown.value
    assert (error.line, error.block, error.thread) == (f"some/kernels.cu:{line}", (block, 0, 0), (thread, 0, 0))
    assert f"assertion `{text}` failed in block ({block}, 0, 0), thread ({thread}, 0, 0), at some/kernels" in str(error)
    assert f"block: [{block},0,0], thread: [{thread},0,0] Assertion `{text}` failed.\n" in error.printed
    found = tw.check(program, len(values) // 4, 4, (x, np.zeros_like(x)))
    assert [(f.code, f.source, f.line, f.block, f.thread) for f in found] == [
        ("TW801", "some/kernels.cu", line, (block, 0, 0), (thread, 0, 0))
    ]


def test_all_axes_of_a_place() -> None:
    program = Program.from_cuda(ASSERTIONS, "shaped")
    with pytest.raises(AssertionFailedError) as shown:
        launch(program, (1, 1, 3), (2, 5), (3, 2))
    assert (shown.value.block, shown.value.thread) == ((0, 0, 2), (0, 3, 0))
    launch(program, (1, 1, 3), (2, 5), (9, 9))


def test_assertions_that_hold_and_those_left_out() -> None:
    x = np.int32([1, 2, 4, 5])
    assert launch(Program.from_cuda(ASSERTIONS, "each<int>"), 1, 4, (x, x.copy())).printed == "0;1;2;3;"
    without = Program.from_cuda(ASSERTIONS, "each<int>", options=["-DNDEBUG"])
    assert launch(without, 1, 4, (np.int32([3] * 4), x.copy())).printed == "0;1;2;3;"
    with pytest.raises(AssertionFailedError, match=r"thread \(2, 0, 0\)"):
        launch(Program.from_cuda(ASSERTIONS, "twice"), 1, 4, (np.int32([9, 9, 2, 3]),))


def test_a_trap_is_no_assertion() -> None:
    source = 'extern "C" __global__ void k(int n) { assert(n < 3); if (threadIdx.x == 1) __trap(); }'
    program = Program.from_cuda(source, "k")
    with pytest.raises(TrapError, match=r"`trap` in block") as shown:
        launch(program, 1, 2, (1,))
    assert not isinstance(shown.value, AssertionFailedError)


def test_output_before_an_error_is_not_lost() -> None:
    source = 'extern "C" __global__ void k(int *x) { printf("before %d\\n", threadIdx.x); x[1 << 28] = 1; }'
    with pytest.raises(KernelError) as shown:
        launch(Program.from_cuda(source, "k"), 1, 2, (np.zeros(1, np.int32),))
    assert shown.value.printed == "before 0\nbefore 1\n"


HEAP = r"""
struct Base { int tag; __device__ Base(int t) : tag(t) {} __device__ virtual int area() const = 0;
              __device__ virtual ~Base() {} };
struct Square : Base { int side; __device__ Square(int s) : Base(1), side(s) {}
                       __device__ int area() const override { return side * side; } };
struct Strip : Base { int n; __device__ Strip(int s) : Base(2), n(s) {}
                      __device__ int area() const override { return n; } };
struct Node { int value; Node *next; };
__device__ Node *list;
__device__ int *block_memory;

extern "C" __global__ void shapes(int *out) {
    Base *shape = threadIdx.x % 2 ? static_cast<Base *>(new Square(threadIdx.x)) : new Strip(threadIdx.x);
    out[threadIdx.x] = shape->area() * 10 + shape->tag;
    delete shape;
}
extern "C" __global__ void push(int n) {  // a list that lives on to the next launch
    for (int i = 0; i < n; ++i) {
        Node *node = new Node{static_cast<int>(blockIdx.x * 100 + threadIdx.x), nullptr};
        unsigned long long before = *reinterpret_cast<volatile unsigned long long *>(&list), seen;
        do {
            seen = before;
            node->next = reinterpret_cast<Node *>(seen);
            __threadfence();
            before = atomicCAS(reinterpret_cast<unsigned long long *>(&list), seen,
                               reinterpret_cast<unsigned long long>(node));
        } while (before != seen);
    }
}
extern "C" __global__ void pop(int *count, long long *sum) {
    for (*count = 0, *sum = 0; list; ++*count) {
        Node *gone = list;
        *sum += gone->value;
        list = gone->next;
        delete gone;
    }
}
extern "C" __global__ void shared_by_block(int *out) {
    __shared__ int *data;
    if (threadIdx.x == 0) data = static_cast<int *>(malloc(blockDim.x * sizeof(int)));
    __syncthreads();
    assert(data);
    data[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = data[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(data);
}
extern "C" __global__ void greedy(int *out, size_t size) {
    int got = 0;
    while (malloc(size)) ++got;
    *out = got;
}
extern "C" __global__ void edges(int *out) {
    free(nullptr);
    delete static_cast<int *>(nullptr);
    out[0] = malloc(size_t(1) << 40) == nullptr;
    char *one = static_cast<char *>(malloc(1)), *two = static_cast<char *>(malloc(1));
    out[1] = one != two && reinterpret_cast<size_t>(one) % 16 == 0 && reinterpret_cast<size_t>(two) % 16 == 0;
    free(one);
    void *rest = malloc(1 << 20);  // beyond the first megabyte blocks are given again
    out[2] = rest != nullptr && malloc(1) == one;
    double *array = new double[100];
    for (int i = 0; i < 100; ++i) array[i] = i;
    out[3] = static_cast<int>(array[99]);
    delete[] array;
}
"""
HEAP_PTX = Program.from_cuda(HEAP, "shapes").ptx


def heap(entry: str) -> Program:
    return Program.from_ptx(HEAP_PTX, entry)


def test_objects_with_virtual_functions() -> None:
    out = np.zeros(40, np.int32)
    launch(heap("shapes"), 1, 40, (out,))
    assert out.tolist() == [t * t * 10 + 1 if t % 2 else t * 10 + 2 for t in range(40)]


@pytest.mark.parametrize("seed", [None, 3])
def test_a_list_lives_from_launch_to_launch_in_one_memory(seed: int | None) -> None:
    count, total = np.zeros(1, np.int32), np.zeros(1, np.int64)
    with Memory():
        for _ in range(2):
            launch(heap("push"), 3, 40, (2,), seed=seed)
        launch(heap("pop"), 1, 1, (count, total))
        assert (count[0], total[0]) == (480, 4 * sum(b * 100 + t for b in range(3) for t in range(40)))
        launch(heap("pop"), 1, 1, (count, total))
        assert count[0] == 0
    launch(heap("push"), 3, 40, (1,))
    launch(heap("pop"), 1, 1, (count, total))
    assert count[0] == 0, "launches without a memory start afresh"


def test_memory_of_a_block_is_shared_and_checked() -> None:
    out = np.zeros(96, np.int32)
    assert tw.check(heap("shared_by_block"), 3, 32, (out,)) == ()
    assert out.tolist() == [*range(31, -1, -1)] * 3


@pytest.mark.parametrize(("size", "most"), [(1 << 20, 8), (1 << 22, 2), (1 << 23, 1)])
def test_the_heap_ends(size: int, most: int) -> None:
    out = np.zeros(1, np.int32)
    launch(heap("greedy"), 1, 1, (out, size))
    assert 0 <= out[0] <= most


def test_edges_of_the_heap() -> None:
    out = np.zeros(4, np.int32)
    launch(heap("edges"), 1, 1, (out,))
    assert out.tolist() == [1, 1, 1, 99]


#: C format, its arguments in C++, and the same for the host's printf.
PRINTS: list[tuple[str, str, list[Any]]] = [
    ("%p|%p|%8p|%-8p|", "nullptr, (void *)0x12, nullptr, nullptr", [None, ctypes.c_void_p(0x12), None, None]),
    ("%s|%10s|%.3s|%-6s|%s", '"abc", "de", "fghij", "k", (char *)0', [b"abc", b"de", b"fghij", b"k", None]),
    ("%lld %llu %ld %zu", "-5ll, ~0ull, -7l, sizeof(int)", [ctypes.c_longlong(-5), ctypes.c_ulonglong(2**64 - 1),
                                                          ctypes.c_long(-7), ctypes.c_size_t(4)]),
    ("%%|%d%%|%5d|%-5d|%05d|%+d", "7, 42, 42, 42, 42", [7, 42, 42, 42, 42]),
    ("%d", "1, 2, 3", [1, 2, 3]),
    ("no directive", "1, 2", [1, 2]),
    ("%y %d %", "5", [5]),
    ("%'d|%*d|%-*d|%.*f", "12, 6, 42, 6, 42, 2, 3.14159", [12, 6, 42, 6, 42, 2, ctypes.c_double(3.14159)]),
    ("%c%5c|%-3c|", "'a', 'b', 'c'", [97, 98, 99]),
    ("\u00e9%s", '"\u00fc"', ["\u00fc".encode()]),
]  # fmt: skip


def test_prints_are_those_of_the_host() -> None:
    text = "\n".join(
        f'extern "C" __global__ void k{i}() {{ printf("{form}", {given}); }}'
        for i, (form, given, _) in enumerate(PRINTS)
    )
    ptx = Program.from_cuda(text, "k0", options=["-diag-suppress=181,182,183,224,225,226"]).ptx
    for i, (form, _, values) in enumerate(PRINTS):
        buffer = ctypes.create_string_buffer(500)
        ctypes.CDLL(None).snprintf(buffer, 500, form.encode(), *values)
        assert launch(Program.from_ptx(ptx, f"k{i}"), 1, 1, ()).printed == buffer.value.decode(), form


def test_texts_are_printed_as_they_were_at_the_call() -> None:
    source = r"""extern "C" __global__ void k(char *name) {
        __shared__ char word[4];
        char text[8];
        for (int i = 0; i < 7; ++i) text[i] = 'a' + (i + threadIdx.x + blockIdx.x) % 26;
        text[7] = 0;
        if (threadIdx.x == 0) { word[0] = 'p' + blockIdx.x; word[1] = 0; }
        __syncthreads();
        printf("%s %s %.3s|%5s %s\n", text, word, text, word, name);
        text[0] = word[0] = name[0] = '!';
        }"""
    name = np.frombuffer(bytearray(b"name\0"), np.int8)
    assert launch(Program.from_cuda(source, "k"), 1, 2, (name,)).printed.splitlines() == [
        "abcdefg p abc|    p name", "bcdefgh p bcd|    p name",
    ]  # fmt: skip


def test_texts_in_the_shared_memory_of_another_block_are_printed() -> None:
    source = r"""#include <cooperative_groups.h>
        extern "C" __global__ void __cluster_dims__(2) k() {
        __shared__ char word[4];
        auto cluster = cooperative_groups::this_cluster();
        word[0] = 'a' + cluster.block_rank(); word[1] = 0;
        cluster.sync();
        printf("%d %s\n", cluster.block_rank(), cluster.map_shared_rank(word, cluster.block_rank() ^ 1));
        cluster.sync(); }"""
    assert launch(Program.from_cuda(source, "k", cc=(9, 0)), 2, 1, (), gpu="h100").printed == "0 b\n1 a\n"


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("%5%|%*d|%.*f|%s", "%|   12|2.50|word"),
        ("%y %hhd %lld %.1f %s", "%y 5 12 2.5 word"),
        ("%-+ #0'5d|%li|%.f|%s|%", "+5   |12|2|word|%"),
        ("%*.*d|%*s|%s", "  012|  word|word"),
        ("%d %p %f %l", "5 0xc 2.500000 %l"),
    ],
)
def test_a_text_behind_any_directive_is_found(form: str, printed: str) -> None:
    second = {"%*.*d|%*s|%s": "5, 3, 12, 6, text, text", "%5%|%*d|%.*f|%s": "5, 12, 2, 2.5, text"}
    given = second.get(form, "5, 12ll, 2.5, text")
    source = f"""extern "C" __global__ void k(const char *form, int n) {{
        char text[8]; for (int i = 0; i < 4; ++i) text[i] = "word"[(i + n) % 4]; text[4] = 0;
        printf(form, {given}); }}"""
    words = np.frombuffer(form.encode() + b"\0", np.int8)
    assert launch(Program.from_cuda(source, "k"), 1, 1, (words, 4)).printed == printed


def test_a_text_outside_memory_is_not_read() -> None:
    program = Program.from_cuda('extern "C" __global__ void k() { printf("<%s>", (char *)16); }', "k")
    assert launch(program, 1, 1, ()).printed == "<(not in memory)>"


def test_ptx_keeps_its_lines_and_undefined_functions_are_refused() -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 size);
.visible .entry k(.param .u64 x) {
  .reg .b64 %a, %b;
  { .param .b64 r; .param .b64 s; st.param.b64 [s], 16; call (r), malloc, (s); ld.param.b64 %a, [r]; }
  st.global.u64 [%a + 1073741824], %a;
  ret;
}
"""
    with pytest.raises(KernelError) as shown:
        launch(Program.from_ptx(text), 1, 1, (None,))
    assert shown.value.ptx_line == 8
    assert tw.profile(Program.from_ptx(text.replace(" + 1073741824", "")), 1, 1, (None,)).resources is not None
    with pytest.raises(PtxError, match="call to 'calloc', which this module does not define"):
        launch(Program.from_ptx(text.replace("malloc", "calloc")), 1, 1, (None,))
    own = re.sub(
        r"\.extern (.*);", r".visible \1 { .reg .b64 %c; mov.u64 %c, 5; st.param.b64 [result], %c; ret; }", text
    )
    with pytest.raises(KernelError, match=r"0x40000005"):
        launch(Program.from_ptx(own), 1, 1, (None,))


def test_a_program_of_cuda_core_gets_the_driver_s_code_of_an_assertion(capfd: pytest.CaptureFixture[str]) -> None:
    cuda = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
    source = 'extern "C" __device__ int positive(int *r, int x) { assert(x > 0); *r = x; return 0; }'
    with tw.simulated_gpu():
        positive = cuda.declare_device("positive", "int32(int32)", link=cuda.CUSource(source))

        @cuda.jit
        def kernel(x: Any) -> None:
            x[cuda.grid(1)] = positive(x[cuda.grid(1)])

        kernel[1, 2](np.int32([1, 2]))
        with pytest.raises(Exception, match=r"CUDA_ERROR_ASSERT.*assertion `x > 0` failed.*thread \(1, 0, 0\)"):
            kernel[1, 2](np.int32([1, 0]))
    assert "thread: [1,0,0] Assertion `x > 0` failed." in capfd.readouterr().out

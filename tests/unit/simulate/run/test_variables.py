"""Variables of CUDA C++ and PTX: read and written by the host, and from launch to launch in one memory."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.programs import Program
from tilewright.simt import Memory, Variables, launch
from tilewright.simulate.run import memory as variables
from tilewright.simulate.run.memory import current_memory

pytest.importorskip("cuda.bindings.nvrtc", reason="not run: NVRTC is not installed")

SOURCE = r"""
struct Pair { int count; double sum; };
__constant__ float coefficients[4];
__constant__ int width = 3;
__device__ unsigned long long total;
__device__ float table[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ Pair pair = {7, 0.5};
__device__ bool flag;
__device__ float *where = &table[1][0];
__device__ int bins[5];
static __device__ short hidden = -2;
namespace inner { __device__ double scale = 2.5; namespace deep { __device__ int level = 1; } }

extern "C" __global__ void polynomial(const float *x, float *y) {
    const int i = threadIdx.x;
    float value = 0;
    for (int k = 3; k >= 0; --k) value = value * x[i] + coefficients[k];
    y[i] = value * static_cast<float>(inner::scale);
    atomicAdd(&total, 1ull);
}

extern "C" __global__ void others(int *out) {
    out[0] = width; out[1] = pair.count; out[2] = flag; out[3] = hidden; out[4] = *where; out[5] = inner::deep::level;
    table[1][2] += 1; pair.sum *= 2; hidden -= 1; ++bins[width];
}
"""
PTX = Program.from_cuda(SOURCE, "others").ptx
POLYNOMIAL, OTHERS = Program.from_ptx(PTX, "polynomial"), Program.from_ptx(PTX, "others")


def test_constants_are_set_and_counts_read() -> None:
    x = np.float32([0, 1, 2, 3])
    y = np.zeros(4, np.float32)
    with Memory():
        Variables(POLYNOMIAL)["coefficients"] = np.float32([1, 2, 3, 4])
        for launches in (1, 2):
            launch(POLYNOMIAL, 1, 4, (x, y))
            assert int(Variables(POLYNOMIAL)["total"][()]) == 4 * launches
        assert (y == np.float32(2.5) * np.polyval([4, 3, 2, 1], x)).all()
        Variables(POLYNOMIAL)["inner::scale"] = -1
        Variables(POLYNOMIAL)["coefficients"].view("float32")[1:] = 0
        launch(POLYNOMIAL, 1, 4, (x, y))
        assert y.tolist() == [-1] * 4


def test_kernels_of_one_text_share_their_variables() -> None:
    with Memory():
        launch(POLYNOMIAL, 1, 4, (np.zeros(4, np.float32), np.zeros(4, np.float32)))
        assert int(Variables(OTHERS)["total"][()]) == 4


def test_every_kind_has_its_initialiser_s_value() -> None:
    memory = Memory()
    found = memory.variables(OTHERS)
    out = np.zeros(6, np.int32)
    found["flag"] = True
    assert found["width"].dtype == np.uint32
    assert found["inner::scale"].dtype == np.float64
    assert found["inner::deep::level"][()] == 1
    assert (found["table"].shape, found["table"].dtype) == ((24,), np.dtype("u1"))
    table = found["table"].view("float32").reshape(2, 3)
    assert table.tolist() == [[1, 2, 3], [4, 5, 6]]
    table[1, 0] = 40
    kind = np.dtype({"names": ["count", "sum"], "formats": ["i4", "f8"], "offsets": [0, 8], "itemsize": 16})
    assert found["pair"].view(kind)[0].tolist() == (7, 0.5)
    launch(OTHERS, 1, 1, (out,), memory=memory)
    assert out.tolist() == [3, 7, 1, -2, 40, 1]
    assert table[1, 2] == 7, "the same bytes as the kernel's"
    assert found["pair"].view(kind)["sum"] == 1.0
    assert found["hidden"].view("i2") == -3
    assert found["bins"].view("int32").tolist() == [0, 0, 0, 1, 0]
    assert set(found) >= {"coefficients", "total", "hidden", "bins"}


def test_each_memory_has_its_own_and_a_launch_without_one_starts_afresh() -> None:
    first, second, out = Memory(), Memory(), np.zeros(6, np.int32)
    first.variables(OTHERS)["width"] = 1
    for memory, width, hidden in ((first, 1, -2), (second, 3, -2), (first, 1, -3), (None, 3, -2), (None, 3, -2)):
        launch(OTHERS, 1, 1, (out,), memory=memory)
        assert (out[0], out[3]) == (width, hidden)
    with first:
        launch(OTHERS, 1, 1, (out,))
        assert out[3] == -4
        with second:
            launch(OTHERS, 1, 1, (out,))
            assert out[3] == -3
        launch(OTHERS, 1, 1, (out,))
        assert out[3] == -5
    array = second.empty(6, np.int32)
    launch(OTHERS, 1, 1, (array,))
    assert array.to_host()[3] == -4, "the memory of its array"


def test_check_and_profile_use_them_too() -> None:
    x, y = np.float32([0, 1, 2, 3]), np.zeros(4, np.float32)
    with Memory() as memory:
        Variables(POLYNOMIAL)["coefficients"] = np.float32([1, 2, 3, 4])
        assert tw.check(POLYNOMIAL, 1, 4, (x, y)) == ()
        tw.profile(POLYNOMIAL, 1, 4, (x, y))
        assert int(Variables(POLYNOMIAL)["total"][()]) == 8
    assert y[0] == 2.5
    tw.check(POLYNOMIAL, 1, 4, (x, y), memory=memory)
    assert int(memory.variables(POLYNOMIAL)["total"][()]) == 12


def test_a_variable_may_be_an_argument() -> None:
    source = 'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }'
    twice, memory = Program.from_cuda(source, "twice"), Memory()
    table = memory.variables(OTHERS)["table"]
    launch(twice, 1, 6, (table,))
    assert tw.check(twice, 1, 6, (table,)) == ()
    assert table.view("f4").tolist() == [4, 8, 12, 16, 20, 24]


def test_past_the_last_variable_is_out_of_bounds() -> None:
    source = '__device__ int last[4]; extern "C" __global__ void k(int i) { last[i + threadIdx.x] = 1; }'
    program = Program.from_cuda(source, "k")
    for memory in (None, Memory()):
        assert tw.check(program, 1, 4, (0,), memory=memory) == ()
        assert [f.code for f in tw.check(program, 1, 4, (2,), memory=memory)] == ["TW101"]


@pytest.mark.parametrize(
    ("name", "value", "error", "said"),
    [
        ("coeficients", 1, ArgumentValueError, r"'coeficients'\); there are coefficients"),
        ("inner::scal", 1, ArgumentValueError, r"inner::scal"),
        ("coefficients", [1.0, 2.0], ArgumentTypeError, r"needs an array that has a dtype \(got list\)"),
        ("coefficients", np.arange(4.0), ArgumentValueError, r"its 16 bytes \(got 32, of float64 and shape \(4,\)\)"),
        ("coefficients", np.float32(1), ArgumentValueError, r"its 16 bytes \(got 4"),
    ],
)
def test_values_that_do_not_fit_are_refused(name: str, value: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Memory().variables(OTHERS)[name] = value


def test_the_error_outside_of_a_memory_says_what_to_do() -> None:
    with pytest.raises(ArgumentValueError, match=r"write `with tilewright.simt.Memory\(\):` around them"):
        _ = Variables(OTHERS)


def test_arrays_of_another_memory_are_refused_in_a_block() -> None:
    array = Memory().array(np.zeros(6, np.int32))
    with Memory(), pytest.raises(ArgumentTypeError, match="must be in the launch's Memory"):
        launch(OTHERS, 1, 1, (array,))


def test_types_that_ptx_states() -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.global .f32 f = 0f3F800000; .global .f64 d[3]; .const .s16 s[2] = {-1, 2}; .global .v4 .f32 v; .global .b64 b;
.global .align 1 .b8 one; .global .f16 h; .global .u8 u[2][3];
.visible .func counts () { .global .u32 calls = 5; .reg .b32 %r1;
  ld.global.u32 %r1, [calls]; add.u32 %r1, %r1, 1; st.global.u32 [calls], %r1; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r1; .reg .b64 %a; call.uni counts, (); ret; }
"""
    memory = Memory()
    found = memory.variables(Program.from_ptx(text, "k"))
    kinds = {name: (found[name].dtype.str.lstrip("<|"), found[name].shape) for name in found}
    assert kinds == {
        "f": ("f4", ()), "d": ("f8", (3,)), "s": ("i2", (2,)), "v": ("f4", (4,)), "b": ("u8", ()), "one": ("u1", ()),
        "h": ("f2", ()), "u": ("u1", (6,)),
    }  # fmt: skip
    assert found["s"].to_host().tolist() == [-1, 2]
    found["d"] = [1, 2, 3]
    found["v"] = 7
    assert found["d"].to_host().tolist() == [1, 2, 3]
    assert found["v"].to_host().tolist() == [7] * 4
    launch(Program.from_ptx(text, "k"), 1, 1, (None,), memory=memory)


def test_a_null_pointer() -> None:
    source = 'extern "C" __global__ void k(const float *x, int *out) { out[0] = x == nullptr; if (x) out[1] = x[0]; }'
    named = "__global__ void k(const float *x, int *out) { out[0] = x == nullptr; if (x) out[1] = x[0]; }"
    for program in (Program.from_cuda(source, "k"), Program.from_cuda(named, "k")):
        out = np.zeros(2, np.int32)
        launch(program, 1, 1, (None, out))
        assert out.tolist() == [1, 0]
        launch(program, 1, 1, (np.float32([3]), out))
        assert out.tolist() == [0, 3]
        assert tw.check(program, 1, 1, (None, out)) == ()
    number = Program.from_cuda("__global__ void k(long long x) { }", "k")
    with pytest.raises(ArgumentTypeError):
        launch(number, 1, 1, (None,))
    launch(Program.from_cuda("__global__ void k(void *x) { }", "k"), 1, 1, (ctypes.c_void_p(None).value,))


def test_each_thread_enters_a_memory_separately() -> None:
    memory, inside, left = Memory(), threading.Event(), threading.Event()
    seen: list[Any] = []

    def other() -> None:
        seen.append(current_memory())
        with memory:
            inside.set()
            left.wait()
            seen.append(current_memory())
        seen.append(current_memory())

    thread = threading.Thread(target=other)
    with memory:
        thread.start()
        inside.wait()
    left.set()
    thread.join()
    assert (seen, current_memory()) == ([None, memory, None], None)


def test_threads_with_the_first_access_get_the_same_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    placed = variables.place_all

    def slowly(*arguments: Any) -> int:
        time.sleep(0.05)
        return placed(*arguments)

    monkeypatch.setattr(variables, "place_all", slowly)
    with Memory() as memory:
        threads = [threading.Thread(target=launch, args=(OTHERS, 1, 1, (np.zeros(6, np.int32),)),
                                    kwargs={"memory": memory}) for _ in range(4)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(memory.allocations()) == 1  # the variables, and nothing else that remains
        assert int(Variables(OTHERS)["bins"].view("int32")[3]) == 4

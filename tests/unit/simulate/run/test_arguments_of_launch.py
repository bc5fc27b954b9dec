"""Arrays as arguments: any strides, results in the same array, and no other change."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

import tilewright as tw
from tilewright.errors import ArgumentTypeError, MemoryAccessError
from tilewright.programs import Program
from tilewright.simt import DeviceArray, Memory, launch

cuda = pytest.importorskip("numba.cuda")


@cuda.jit
def scale(x, y):
    i, j = cuda.grid(2)
    if i < y.shape[0] and j < y.shape[1]:
        y[i, j] = 3 * x[i, j] + y[i, j]


BASE = np.arange(13 * 17, dtype=np.float64).reshape(13, 17)
VIEWS = {
    "row-major": lambda a: a,
    "column-major": np.asfortranarray,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "reversed rows": lambda a: np.ascontiguousarray(a[::-1])[::-1],
    "reversed both": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "every third column": lambda a: np.repeat(a, 3, axis=1)[:, ::3],
    "part of a larger array": lambda a: np.pad(a, 5)[5:-5, 5:-5],
    "every second row, reversed columns": lambda a: np.repeat(a, 2, axis=0)[::2, :][:, ::-1][:, ::-1],
}


#: Each view as input and as output, with itself and two others; the volume tests run all pairs.
PAIRS = [
    pytest.param(x, y, marks=[] if (j - i) % len(VIEWS) in (0, 1, 5) else [pytest.mark.volume])
    for i, x in enumerate(VIEWS) for j, y in enumerate(VIEWS)
]  # fmt: skip


@pytest.mark.parametrize(("view_x", "view_y"), PAIRS)
def test_strides_of_input_and_output(view_x, view_y):
    x, y = VIEWS[view_x](BASE.copy()), VIEWS[view_y](BASE.copy() * 2)
    launch(scale, (2, 3), (8, 8), (x, y))
    assert np.array_equal(y, 5 * BASE)
    assert np.array_equal(x, BASE)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "f4", "f8"]
)
def test_dtypes(dtype):
    x = np.arange(60, dtype=dtype).reshape(6, 10)
    y = np.ones((6, 10), dtype)
    launch(scale, (1, 2), (8, 8), (x, y))
    assert np.array_equal(y, (3 * x + 1).astype(dtype))


def test_bytes_between_a_view_s_elements_are_left_alone():
    whole = np.full((13, 34), -1.0)
    launch(scale, (2, 3), (8, 8), (BASE, whole[:, ::2]))
    assert np.array_equal(whole[:, ::2], 3 * BASE - 1)
    assert (whole[:, 1::2] == -1).all()


def test_broadcast_and_read_only_inputs():
    row = np.arange(17, dtype=np.float64)
    broad = np.broadcast_to(row, (13, 17))
    locked = BASE.copy()
    locked.flags.writeable = False
    for x in (broad, locked):
        y = np.zeros((13, 17))
        launch(scale, (2, 3), (8, 8), (x, y))
        assert np.array_equal(y, 3 * x)
    assert np.array_equal(row, np.arange(17))


def test_a_kernel_s_writes_to_a_read_only_array_are_not_copied_back():
    locked = np.zeros(32, np.uint32)
    locked.flags.writeable = False
    run(kernel("st.global.u32 [%at], 5;"), locked)
    assert not locked.any()


def test_an_array_of_no_elements():
    empty = np.zeros((0, 4))
    launch(scale, (1, 1), (4, 4), (empty, empty))
    out = np.zeros(32, np.uint32)
    run(
        kernel("setp.eq.u64 %p1, %a1, 0; selp.u32 %r1, 1, 2, %p1; st.global.u32 [%at], %r1;", 2),
        out,
        np.zeros(0, np.uint8),
    )
    assert set(out.tolist()) == {2}


def test_the_same_array_twice_is_one_array():
    x = np.arange(32, dtype=np.uint32)
    run(kernel("st.global.u32 [%at], 7; mad.wide.u32 %d1, %tid, 4, %a1; ld.global.u32 %r1, [%d1];"
               "add.u32 %r1, %r1, %tid; st.global.u32 [%at], %r1;", 2), x, x)  # fmt: skip
    assert x.tolist() == [7 + t for t in range(32)]


def test_two_views_of_one_array_are_copied_separately_and_both_copied_back():
    x = np.zeros(64, np.uint32)
    run(kernel("mad.wide.u32 %d1, %tid, 4, %a1; st.global.u32 [%at], 1; st.global.u32 [%d1], 2;", 2), x[:32], x[32:])
    assert x.tolist() == [1] * 32 + [2] * 32


def plus_one(x, y):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = y[i] + 1


def read_only(x):
    locked = x[:]
    locked.flags.writeable = False
    return locked


#: Views of an array of 64, of which the kernel writes the first one's elements, those of the second and 1.
SHARING = {
    "two views of all": lambda x: (x.reshape(8, 8).reshape(-1), x.reshape(8, 8).reshape(-1)),
    "a part, then the whole": lambda x: (x[:32], x),
    "the whole, then a part": lambda x: (x[8:40], x[8:]),
    "another type": lambda x: (x.view(np.int64), x.view(np.int64)[:]),
    "read-only": lambda x: (x, read_only(x)),
    "another object of the same memory": lambda x: (x, np.frombuffer(x.data, x.dtype)),
    "every second": lambda x: (x[::2], x[:63][::2]),
    "beside each other": lambda x: (x[::2], x[1::2]),
    "one after the other": lambda x: (x[:32], x[32:]),
}


@pytest.mark.parametrize("how", [launch, tw.check, tw.profile], ids=["launch", "check", "profile"])
@pytest.mark.parametrize("views", SHARING)
def test_views_that_share_elements_are_one_memory(views, how):
    x, due = np.arange(64, dtype=np.float64), np.arange(64, dtype=np.float64)
    of_due = SHARING[views](due)
    of_due[0][...] = of_due[1][: len(of_due[0])] + 1
    found = how(plus_one, 1, 64, SHARING[views](x))
    np.testing.assert_array_equal(x, due)
    assert how is not tw.check or found == ()


def test_a_race_between_views_of_one_memory_is_found():
    x = np.arange(64, dtype=np.float64)
    assert [one.code for one in tw.check(plus_one, 1, 32, (x[1:33], x[:32]))] == ["TW304"]
    assert [one.code for one in tw.check(plus_one, 1, 64, (x, x[::-1]))] == ["TW302"]


def test_matrices_that_share_elements_are_one_memory_with_and_without_gaps():
    x = np.zeros((9, 12))
    assert tw.check(scale, (2, 3), (8, 8), (x, x[:])) == ()
    launch(scale, (2, 3), (8, 8), (np.ones((9, 12)), x))
    assert (x == 3).all()


def test_views_are_aligned_as_in_the_whole_array():
    whole = np.zeros(64, np.uint8)
    bytes_, words = whole[3:], whole[4:].view(np.uint32)
    run(kernel("mad.wide.u32 %d1, %tid, 4, %a1; st.global.u8 [%out], 9; st.global.u32 [%d1+16], 7;", 2), bytes_, words,
        block=4)  # fmt: skip
    assert (whole[3], words[4:8].tolist()) == (9, [7] * 4)


def test_device_arrays_stay_between_launches():
    memory = Memory(1 << 20)
    x = memory.array(np.arange(40, dtype=np.uint32))
    step = kernel("ld.global.u32 %r1, [%at]; mad.lo.u32 %r1, %r1, 2, 1; st.global.u32 [%at], %r1;")
    for _ in range(3):
        launch(step, (1, 1, 1), (40, 1, 1), (x,))
    assert x.to_host().tolist() == [8 * t + 7 for t in range(40)]
    host = np.zeros(40, np.uint32)
    copy = kernel("mad.wide.u32 %d1, %gid, 4, %a1; ld.global.u32 %r1, [%d1]; st.global.u32 [%at], %r1;", 2)
    launch(copy, (1, 1, 1), (40, 1, 1), (host, x))
    assert host.tolist() == x.to_host().tolist()


def test_a_launch_frees_its_copies_memory():
    memory = Memory(1 << 16)
    x = memory.empty(8, np.uint32)
    used = memory.used_bytes
    for _ in range(20):  # both together would not fit
        launch(kernel("st.global.u32 [%at], 9;", 2), (1, 1, 1), (8, 1, 1), (x, np.ones(8192, np.uint8)))
    assert memory.used_bytes == used
    assert x.to_host().tolist() == [9] * 8


def test_arguments_are_unchanged_if_the_kernel_fails():
    x = np.arange(64, dtype=np.uint32)
    with pytest.raises(MemoryAccessError):
        stray = "st.global.u32 [%at], 0; bar.sync 0; setp.eq.u32 %p1, %tid, 50; @%p1 st.global.u32 [%at+262144], 1;"
        run(kernel(stray), x, block=64)
    assert x.tolist() == list(range(64))


def test_arrays_of_other_libraries_and_other_memories_are_refused():
    class Other:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (4,), "typestr": "<f4", "data": (0, False), "version": 3,
        }  # fmt: skip

    with pytest.raises(ArgumentTypeError, match="NumPy arrays or tilewright"):
        run(kernel("st.global.u32 [%at], 1;"), Other())
    first, second = Memory(1 << 16), Memory(1 << 16)
    with pytest.raises(ArgumentTypeError, match="argument 1 must be in the launch's Memory"):
        run(kernel("", 2), first.empty(4), second.empty(4))


def test_a_device_array_describes_itself():
    memory = Memory(1 << 16)
    x = memory.array(np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2])
    assert (x.shape, x.strides, x.size, x.nbytes, x.ndim) == ((3, 2), (4, 2), 6, 12, 2)
    assert x.to_host().tolist() == [[0, 2], [4, 6], [8, 10]]
    assert isinstance(memory.empty(3), DeviceArray)
    assert x.address % 256 == 0 and memory.empty(1).address % 256 == 0
    assert "shape=(3, 2)" in repr(x)


def test_new_device_memory_reads_as_zero_also_if_it_is_reused():
    memory = Memory(1 << 16)
    keep = memory.empty(16, np.uint32)
    launch(kernel("st.global.u32 [%at], 0xffffffff;"), (1, 1, 1), (32, 1, 1), (np.zeros(32, np.uint32),), memory=memory)
    assert memory.empty(64, np.uint32).to_host().tolist() == [0] * 64
    assert not keep.to_host().any()


def test_scalars_reach_a_cuda_kernel_as_in_c():
    program = Program.from_cuda(
        """extern "C" __global__ void mix(double *out, char a, unsigned short b, int c, long long d, float e, double f,
                                          bool g) { out[threadIdx.x] = double(a + b + c + d) + e + f + (g ? 1000 : 0);
            }""",
        "mix",
    )
    out = np.zeros(4)
    launch(program, 1, 4, (out, -3, 60000, -5, 1 << 40, np.float32(0.5), 0.25, True))
    assert out.tolist() == [-3 + 60000 - 5 + (1 << 40) + 0.75 + 1000] * 4

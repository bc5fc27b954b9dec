"""`check` and `profile` execute the same translation as `run`, plus events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda

import tilewright as tw
from tilewright.checking import check
from tilewright.observe.instruments.shadow.memory import MemoryCheck
from tilewright.programs import Program
from tilewright.simulate.events import Handler, Site
from tilewright.simulate.programs.listing import parsed
from tilewright.simulate.run.kernels import KernelStore
from tilewright.simulate.translate.analysis.special import LaunchClass


@cuda.jit
def sums_of_columns(a, out):
    column = cuda.threadIdx.x
    total = np.float32(0)
    for row in range(cuda.threadIdx.y, a.shape[0], cuda.blockDim.y):
        total += a[row, column]
    tile = cuda.shared.array((4, 16), np.float32)
    tile[cuda.threadIdx.y, column] = total
    cuda.syncthreads()
    out[cuda.threadIdx.y, column] = tile[3 - cuda.threadIdx.y, column]


STRIDED = "void(float32[:, :], float32[:, :])"


def arrays() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.ones((20, 16), np.float32), np.zeros((4, 16), np.float32)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, LaunchClass]]:
    """The inputs of translations besides instruments, launch by launch."""
    found: list[tuple[str, str, LaunchClass]] = []
    first = KernelStore.first

    def spy(store: KernelStore, ptx: str, entry: str, launch: LaunchClass, instruments: Any, *, name: str) -> Any:
        found.append((ptx, entry, launch))
        return first(store, ptx, entry, launch, instruments, name=name)

    monkeypatch.setattr(KernelStore, "first", spy)
    return found


def test_run_check_and_profile_ask_for_one_translation(asked: list[tuple[str, str, LaunchClass]]) -> None:
    program = Program.from_python(sums_of_columns, STRIDED)
    for command in (tw.simt.launch, tw.check, tw.profile):
        a, out = arrays()
        command(program, 1, (16, 4), (a, out))
        assert out.tolist() == [[5.0] * 16] * 4
    assert len(asked) == 3 and asked.count(asked[0]) == 3
    ptx, entry, kind = asked[0]
    assert (ptx, entry) == (program.ptx, program.entry)
    # The last of two strides is the ninth of an array's nine parameters of 8 bytes.
    assert kind.unit_strides == {(8 * 8, 4), (17 * 8, 4)}


def test_a_driver_s_launch_has_the_same_class(asked: list[tuple[str, str, LaunchClass]]) -> None:
    program = Program.from_python(sums_of_columns, STRIDED)
    a, out = arrays()
    tw.simt.launch(program, 1, (16, 4), (a, out))
    with tw.simulated_gpu():
        cuda.jit(STRIDED)(sums_of_columns.py_func)[1, (16, 4)](a, out)
    assert [kind for _, _, kind in asked] == [asked[0][2]] * 2


@pytest.mark.parametrize(
    ("argument", "strides"),
    [
        (np.zeros((6, 4), np.int64), {(64, 8)}),
        (np.zeros((6, 8), np.int64)[:, ::2], set()),
        (np.zeros((6, 4), np.int64).T, set()),
        (np.zeros((4, 6), np.int64)[::2], {(64, 8)}),
        ((np.int32(8), np.zeros(6, np.complex64), 1j, np.zeros((2, 2), np.int8)[:, ::2]), {(56, 8)}),
    ],
    ids=["rows", "every second", "columns", "rows apart", "in a tuple"],
)
def test_only_a_last_stride_of_one_element_is_known(
    argument: Any, strides: set[tuple[int, int]], asked: list[tuple[str, str, LaunchClass]]
) -> None:
    @cuda.jit
    def nothing(a):
        pass

    tw.simt.launch(nothing, 1, 32, (argument,))
    assert asked[0][2].unit_strides == strides


def test_scalars_that_change_make_no_more_translations(asked: list[tuple[str, str, LaunchClass]]) -> None:
    @cuda.jit
    def fill(a, value):
        a[cuda.threadIdx.x, 0] = value

    for value in (1, 2, 4, 8, 16):
        tw.simt.launch(fill, 1, 4, (np.zeros((4, 4), np.int64), value))
    assert len(set(asked)) == 1


def test_shared_accesses_of_a_kernel_of_strided_arrays_are_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    a, out = arrays()
    seen: list[bool] = []

    class Spy(MemoryCheck):
        def handler(self, site: Site, offsets: Any = None) -> Handler | None:
            if site.space == "shared" and site.opcode.split(".")[1] == "shared":
                seen.append(offsets is not None)
            return super().handler(site, offsets)

        def key(self) -> Any:
            return object()  # cannot be pickled, so the code is made again

    spies: Callable[..., Any] = lambda ptx, entry, name, *_: Spy(parsed(ptx), name)  # noqa: E731
    monkeypatch.setattr("tilewright.observe.checking.checker._memory_check", spies)
    assert check(sums_of_columns, 1, (16, 4), (a, out)) == ()
    assert out.tolist() == [[5.0] * 16] * 4
    assert seen == [True, True]


def test_an_address_is_no_small_number() -> None:
    """Arguments have no address yet when a kernel is translated."""
    program = Program.from_ptx(""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) { .reg .b32 %r<2>; .reg .b64 %d<2>; .reg .pred %p<2>;
ld.param.u64 %d1, [p]; setp.lt.u64 %p1, %d1, 0x100000000; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%d1], %r1; ret; }""")
    for command in (tw.simt.launch, tw.check):
        out = np.full(1, 7, np.uint32)
        command(program, 1, 1, (out,))
        assert out.tolist() == [0]

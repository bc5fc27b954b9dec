"""Batches of arrays on a GPU: one launch, and one for each copy that a kernel needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright as tw
from tilewright.multiply.backends.cuda import launches
from tilewright.multiply.problem.reference import same_bits

cuda: Any = pytest.importorskip("numba.cuda", reason="not run: numba-cuda is not installed")
Array = npt.NDArray[Any]


def drawn(*shape: int, kind: str = "f4", seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(kind)


def there(view: Array) -> Any:
    """A view of the host's array as the same view on the GPU."""
    whole: Any = view
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    held = cuda.to_device(np.ascontiguousarray(whole))
    interface = held.__cuda_array_interface__
    at = interface["data"][0] + view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    described = interface | {"data": (at, False), "shape": view.shape, "strides": view.strides}
    return SimpleNamespace(held=held, __cuda_array_interface__=described)


def product(gpu: Any, a: Array, b: Array, **asked: Any) -> tuple[int, Array]:
    """The number of launches of a repeated product, and its result, which a first call gives too."""
    x, y, made = there(a), there(b), np.matmul(a, b)
    outs = [cuda.to_device(np.full(made.shape, 77, asked.get("dtype", made.dtype))) for _ in range(2)]
    for out in outs:
        before = gpu.launches
        tw.matmul(x, y, out, **asked)
    first, second = (out.copy_to_host() for out in outs)
    assert same_bits(first, second)
    return gpu.launches - before, second


A, B = drawn(4, 3, 20, 24), drawn(4, 3, 24, 17, seed=1)
ONCE: dict[str, tuple[Array, Array]] = {
    "two axes": (A, B),
    "one B": (A, B[1, 1]),
    "one A": (A[2, 2], B),
    "expanded": (A, np.broadcast_to(B[1], B.shape)),
    "each its axis": (A[:, :1], B[:1]),
    "descending": (A[::-1, ::-1], B[:, ::-1]),
    "axes exchanged": (A.swapaxes(0, 1), np.ascontiguousarray(B.swapaxes(0, 1))),
    "every second": (A[::2], B[1::2]),
    "nothing": (A[:0], B[:0]),
    "no steps": (A[..., :0], B[:, :, :0]),
}


@pytest.mark.parametrize("case", ONCE)
def test_matrices_in_rows_are_one_launch(gpu: Any, case: str) -> None:
    a, b = ONCE[case]
    count, found = product(gpu, a, b)
    assert same_bits(found, a @ b + np.float32(0))
    assert count == (1 if found.size else 0)


COPIED: dict[str, tuple[Array, Array, int]] = {
    "heads": (drawn(4, 20, 3, 24).swapaxes(1, 2), B, 2),
    "both heads": (drawn(4, 20, 3, 24).swapaxes(1, 2), drawn(4, 24, 3, 17).swapaxes(1, 2), 3),
    "by columns": (A, drawn(4, 3, 17, 24).mT, 2),
    "one B by columns": (A, np.broadcast_to(drawn(17, 24).T, B.shape), 2),
    "three axes": (drawn(2, 3, 4, 20, 24).transpose(2, 1, 0, 4, 3), drawn(4, 3, 2, 20, 9), 2 + 1),
}


@pytest.mark.parametrize("case", COPIED)
def test_a_copy_is_one_launch_for_two_axes(gpu: Any, case: str) -> None:
    a, b, expected = COPIED[case]
    count, found = product(gpu, a, b)
    assert same_bits(found, a @ b + np.float32(0))
    assert count == expected


def test_matrices_that_are_one_in_memory_are_copied_once(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, shapes = launches.Launches.room, []

    def room(self: Any, shape: tuple[int, ...], *more: Any) -> Array:
        shapes.append(shape)
        return made(self, shape, *more)

    monkeypatch.setattr(launches.Launches, "room", room)
    b = np.broadcast_to(drawn(4, 1, 17, 24).mT, B.shape)
    _, found = product(gpu, A, b)
    assert set(shapes) == {(4, 24, 17)}
    assert same_bits(found, A @ b + np.float32(0))


@pytest.mark.parametrize("kind", ["f2", "i4", "f8", "i1"])
def test_kernels_that_read_rows_with_gaps_copy_no_heads(gpu: Any, kind: str) -> None:
    a, b = drawn(4, 20, 3, 24, kind=kind).swapaxes(1, 2), drawn(4, 24, 3, 16, kind=kind, seed=1).swapaxes(1, 2)
    order = "fast" if kind == "f2" else "canonical"
    count, found = product(gpu, a, b, order=order)
    assert np.array_equal(found, (a.astype("f8") @ b.astype("f8")).astype(kind))
    assert count == (1 if kind in ("f2", "i1") else 3)


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_batches_of_dtypes_that_numpy_lacks(gpu: Any, kind: str) -> None:
    a, b = (np.asarray(tw.astype(drawn(3, 2, 9, 8, seed=seed), kind)) for seed in range(2))
    b = b.mT[..., :8, :]
    for order in ("canonical", "fast"):
        found = tw.matmul(a, b, device="simulated:rtx4090", order=order, dtype="float32")
        assert same_bits(found, a.astype("f4") @ b.astype("f4") + np.float32(0))


def test_c_of_any_layout_is_written_in_one_launch(gpu: Any) -> None:
    """C in rows is written in place; other layouts take one launch more."""
    x, y = there(A), there(B)
    for view, count in (
        (np.zeros((4, 6, 20, 17), "f4")[:, ::2], 1), (np.zeros((3, 4, 20, 17), "f4").swapaxes(0, 1), 1),
        (np.zeros((4, 3, 20, 17), "f4")[::-1], 1), (np.zeros((4, 20, 3, 17), "f4").swapaxes(1, 2), 2),
    ):  # fmt: skip
        out = there(view)
        tw.matmul(x, y, out)
        before = gpu.launches
        tw.matmul(x, y, out)
        assert gpu.launches - before == count
        lead = out.__cuda_array_interface__["data"][0] - out.held.__cuda_array_interface__["data"][0]
        raw = out.held.copy_to_host().reshape(-1).view(np.uint8)
        brought: Array = np.ndarray(view.shape, view.dtype, raw.data, lead, view.strides)
        assert same_bits(brought, A @ B + np.float32(0))


def test_operands_of_an_epilogue_follow_the_batch(gpu: Any) -> None:
    row, scale, held = drawn(3, 1, 17), drawn(4, 1, 1, 1, seed=2), drawn(4, 3, 20, 17, seed=3)
    x, y, more = there(A), there(B), [there(row), there(scale), there(held[::-1])]
    out = there(held.copy())
    asked: dict[str, Any] = {"epilogue": lambda s, r, f, h: tw.relu(s * f + r) - h, "epilogue_args": more}
    tw.matmul(x, y, out, **asked)
    before = gpu.launches
    tw.matmul(x, y, out, **asked)
    assert gpu.launches == before + 1
    expected = tw.matmul(A, B, **asked | {"epilogue_args": [row, scale, held[::-1]]})
    assert same_bits(out.held.copy_to_host(), expected)
    tw.matmul(x, y, out, alpha=2, beta=0.5)
    assert same_bits(out.held.copy_to_host(), tw.matmul(A, B, expected, alpha=2, beta=0.5))


def test_more_matrices_than_a_grid_has(gpu: Any) -> None:
    a, b = drawn(70_001, 1, 2), drawn(70_001, 2, 1)
    count, found = product(gpu, a, b)
    assert count == 2
    assert same_bits(found, a @ b + np.float32(0))


def test_boxes_are_copied_of_batches_in_place() -> None:
    """Heads and shared matrices by tensor maps of four axes; descending ones are copied first."""
    heads = drawn(4, 20, 3, 24, kind="f2").swapaxes(1, 2)
    rows = drawn(4, 24, 3, 16, kind="f2", seed=1).swapaxes(1, 2)
    by_columns = drawn(4, 3, 16, 24, kind="f2", seed=2).mT
    with tw.simulated_gpu("h100") as gpu:
        for a, b, expected in (
            (heads, rows, 1), (heads, by_columns, 1), (heads[0, 0], rows, 1),
            (heads, np.broadcast_to(rows[1], rows.shape), 1), (heads[:, :1], rows[:1], 1), (heads[::-1], rows, 2),
            (heads[..., 1:], rows[..., 1:, :], 2),
        ):  # fmt: skip
            count, found = product(gpu, a, b, order="fast")
            assert np.array_equal(found, (a.astype("f4") @ b.astype("f4")).astype("f2"))
            assert count == expected
            assert same_bits(tw.matmul(a, b, order="fast", device="simulated:h100"), found), "arrays of the host"
        assert (
            tw.plan((12, 20, 24), (12, 24, 16), "float16", device="simulated:h100", order="fast").path
            == "hopper_stores"
        )

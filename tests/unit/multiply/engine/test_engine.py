"""tw.matmul at its edges: outputs, errors, arrays of other libraries, threads, forks, plans and memory."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from callers import at_once

import tilewright as tw
from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends.cpu import product, threads
from tilewright.multiply.engine import known_layouts
from tilewright.multiply.problem.dtypes import DTYPES
from tilewright.multiply.problem.reference import canonical, same_bits

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


# Outputs


def test_an_output_that_overlaps_the_operands() -> None:
    a, b = normal(30, 30), normal(30, 30, seed=1)
    truth = canonical(a, b)
    for out_of in ("a", "b"):
        x, y = a.copy(), b.copy()
        out = x if out_of == "a" else y
        assert tw.matmul(x, y, out=out) is out
        assert same_bits(out, truth)
    whole = normal(31, 30)
    upper, truth = whole[:-1], canonical(whole[:-1].copy(), b)
    tw.matmul(upper, b, out=whole[1:])
    assert same_bits(whole[1:], truth)


def test_outputs_that_numpy_takes() -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    out = np.zeros((5, 2, 4), np.float32)
    assert tw.matmul(a, b, out=(out,)) is out
    assert (out == 3).all()
    scalar = np.zeros((), np.float32)
    assert tw.matmul(a[0], b[:, 0], out=scalar) is scalar
    assert scalar == 3
    wide = np.zeros((2, 4), ">f8")
    tw.matmul(a, b, out=wide)
    assert (wide == 3).all()
    wrapped = np.zeros((1, 1), np.int32)
    tw.matmul(np.full((1, 4), 100, np.int8), np.full((4, 1), 100, np.int8), out=wrapped)
    assert wrapped[0, 0] == 64  # as NumPy: the product is int8's, then cast


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64", "bool", "float16"])
@pytest.mark.parametrize(
    "shapes", [((5, 7), (7, 9)), ((7,), (7, 9)), ((5, 7), (7,)), ((3, 5, 7), (7, 9)), ((1, 7), (7, 1))]
)
def test_an_output_of_any_strides_is_written_and_nothing_else(dtype: str, shapes: tuple[Any, Any]) -> None:
    random = np.random.default_rng(3)
    a, b = (random.integers(-3, 4, shape).astype(dtype) for shape in shapes)
    truth = np.matmul(a, b)
    for spread in (slice(None), slice(None, None, 2), slice(None, None, -1)):
        room = np.full([3 * n + 2 for n in truth.shape], 77, np.int64).astype(truth.dtype)
        out = room[tuple(slice(1, 1 + 2 * n) for n in truth.shape)][(spread,) * truth.ndim]
        out = out[tuple(slice(n) for n in truth.shape)]
        inside = np.zeros(room.shape, bool)
        marked = inside[tuple(slice(1, 1 + 2 * n) for n in truth.shape)][(spread,) * truth.ndim]
        marked[tuple(slice(n) for n in truth.shape)] = True
        kept = room[~inside].copy()
        for _ in range(2):  # the second uses the kept way
            assert tw.matmul(a, b, out=out) is out
            assert (out == truth).all() and (room[~inside] == kept).all()
            out[...] = 0


def test_an_output_known_by_its_strides_is_checked_each_time() -> None:
    a, b, out = normal(6, 6), normal(6, 6, seed=1), np.empty((6, 6), np.float32)
    truth = canonical(a, b)
    for _ in range(3):
        assert tw.matmul(a, b, out) is out
    out.flags.writeable = False
    with pytest.raises(ArgumentValueError, match="read-only"):
        tw.matmul(a, b, out)
    assert tw.matmul(a, b, a) is a
    assert same_bits(a, truth)


def test_an_output_that_overlaps_itself_has_valid_sums() -> None:
    a = np.random.default_rng(0).integers(-3, 3, (300, 300)).astype(np.float32)
    for strides in ((4, 4), (8, 4), (4, 400), (-4, 4)):
        room = np.zeros(100_000, np.float32)
        out = np.lib.stride_tricks.as_strided(room[50_000:], (300, 300), strides)
        for _ in range(2):
            tw.matmul(a, a, out=out)
            last = 299 * sum(strides) // 4  # written once, in any order
            assert room[50_000 + last] == (a @ a)[-1, -1] or strides[0] < 0
            assert np.isin(room[room != 0], a @ a).all()


def test_outputs_that_numpy_refuses_or_truncates_are_refused() -> None:
    a = np.ones((2, 2))
    with pytest.raises(ArgumentTypeError, match="rule same_kind"):
        tw.matmul(a, a, out=np.zeros((2, 2), [("x", "f4"), ("y", "i4")]))
    with pytest.raises(ArgumentTypeError, match="without a mask"):
        tw.matmul(np.ma.array(a, mask=a > 0), a)
    for options in ({"alpha": np.ones(2)}, {"beta": None}, {"alpha": "2"}):
        with pytest.raises(ArgumentTypeError, match="must be a number"):
            tw.matmul(a, a, **options)
    with pytest.raises(ArgumentValueError, match="too large"):
        tw.matmul(a, a, alpha=10**400)
    with pytest.raises(ArgumentValueError, match="`order`"):
        tw.matmul(a, a, order=[])


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8, bool])
def test_booleans_of_other_bytes_than_0_and_1_are_true(dtype: Any) -> None:
    odd, b = np.array([[255, 1], [0, 2]], np.uint8).view(bool), np.ones((2, 2), dtype)
    assert tw.matmul(odd, b).tolist() == np.matmul(odd, b).tolist()
    assert tw.matmul(b, odd).tolist() == np.matmul(b, odd).tolist()


def test_doubles_are_rounded_once_to_the_floats_of_ml_dtypes() -> None:
    x, one = np.array([[1 + 2**-8 + 2**-40]]), np.ones((1, 1))
    for out in (np.zeros((1, 1), ml_dtypes.bfloat16), np.zeros((1, 1), ml_dtypes.float8_e5m2)):
        tw.matmul(x, one, out=out)
        assert float(out[0, 0]) == (1.0078125 if out.dtype.itemsize == 2 else 1.0)
    assert float(tw.matmul(x, one, dtype="bfloat16")[0, 0]) == 1.0078125


@pytest.mark.parametrize("dtype", [">f4", "float8_e4m3fn", "f4"])
def test_beta_takes_further_axes_of_any_dtype(dtype: str) -> None:
    a = np.ones((2, 2), np.float32)
    out = np.arange(12).reshape(3, 2, 2).astype(getattr(ml_dtypes, dtype, dtype))
    truth = out.astype(np.float32) + 2
    assert (tw.matmul(a, a, out=out, beta=1).astype(np.float32) == truth).all()


def test_an_output_whose_rows_are_all_the_same() -> None:
    row = np.zeros(4, np.float32)
    out = np.lib.stride_tricks.as_strided(row, (3, 4), (0, 4))
    tw.matmul(np.ones((3, 2), np.float32), np.ones((2, 4), np.float32), out=out)
    assert (row == 2).all()


READ_ONLY = np.zeros((2, 2))
READ_ONLY.flags.writeable = False
ONE = np.ones((2, 2))


@pytest.mark.parametrize(
    ("operands", "options", "error", "text"),
    [
        ((3, ONE), {}, ArgumentValueError, "`a` must have at least 1 dimension"),
        ((ONE, np.ones((3, 2))), {}, ArgumentValueError, r"`b.shape\[-2\]` must equal `a.shape\[-1\]` \(got 3 and 2\)"),
        ((np.ones((2, 2, 2)), np.ones((3, 2, 2))), {}, ArgumentValueError, "must broadcast"),
        (([[1, 2], [3]], ONE), {}, ArgumentValueError, "every row of the same length"),
        ((ONE, ONE), {"out": np.zeros((2, 3))}, ArgumentValueError, r"`out.shape` must be \(2, 2\)"),
        ((ONE, ONE), {"out": READ_ONLY}, ArgumentValueError, "read-only"),
        ((ONE, ONE), {"out": [0]}, ArgumentTypeError, "`out` must be an array"),
        ((ONE, ONE), {"out": (ONE, ONE)}, ArgumentValueError, "a tuple of one"),
        ((ONE, ONE), {"out": np.zeros((2, 2), int)}, ArgumentTypeError, "same_kind"),
        ((ONE, ONE), {"dtype": "int32"}, ArgumentTypeError, "`a` must be castable .*same_kind"),
        ((ONE, ONE), {"dtype": "no such"}, ArgumentTypeError, "`dtype` must be one of"),
        ((ONE, ONE), {"dtype": "datetime64[s]"}, ArgumentTypeError, "a product must be of"),
        ((ONE, ONE), {"acc_dtype": "float32"}, ArgumentTypeError, "`acc_dtype` must hold"),
        ((ONE, ONE), {"threads": 0}, ArgumentValueError, "`threads` must be at least 1"),
        ((ONE, ONE), {"threads": 1.5}, ArgumentTypeError, "`threads` must be a whole number"),
        ((ONE, ONE), {"threads": True}, ArgumentTypeError, "`threads` must be a whole number"),
        ((ONE, ONE), {"order": "C"}, ArgumentValueError, "`order` must be one of canonical, tf32x3, fast"),
        ((ONE, ONE), {"beta": 2}, ArgumentValueError, "`beta` must be 0 without `out`"),
        ((ONE, ONE), {"alpha": 1j}, ArgumentTypeError, "`alpha` must be real"),
        ((ONE, ONE), {"alpha": "2"}, ArgumentTypeError, "`alpha` must be a number"),
        ((ONE.astype(int), ONE.astype(int)), {"alpha": 0.5}, ArgumentTypeError, "`alpha` must be an integer"),
        ((ONE.astype(bool), ONE.astype(bool)), {"acc_dtype": "int8"}, ArgumentTypeError, "must not be given"),
        ((ONE.astype(bool), ONE.astype(bool)), {"alpha": 3}, ArgumentTypeError, "left out for booleans"),
        ((ONE.astype("complex64"),) * 2, {"acc_dtype": "float64"}, ArgumentTypeError, "must be complex"),
        ((ONE.astype(ml_dtypes.bfloat16), ONE.astype("float16")), {}, ArgumentTypeError, "common one"),
        ((None, ONE), {}, ArgumentTypeError, "`a` must be an array or a sequence"),
    ],
)
def test_arguments_that_are_refused(operands: tuple[Any, Any], options: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        tw.matmul(*operands, **options)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize(
    ("given", "dtype"), [("int64", "float32"), ("bool", "int8"), ("float64", "float16"), ("int16", "uint8")]
)
def test_casting_follows_numpy(given: str, dtype: str) -> None:
    a = np.random.default_rng(3).integers(0, 2 if given == "bool" else 1000, (5, 5)).astype(given)
    try:
        truth = np.matmul(a, a, dtype=dtype)
    except TypeError:
        with pytest.raises(TypeError, match="same_kind"):
            tw.matmul(a, a, dtype=dtype)
        return
    np.testing.assert_allclose(tw.matmul(a, a, dtype=dtype), truth, rtol=1e-2)


KINDS = ["bool", "uint8", "int32", "uint64", "float16", "float32", "complex64"]


def test_integers_with_floats_and_booleans_promote_as_numpy_does() -> None:
    for left, right in itertools.product(KINDS, repeat=2):
        truth = np.matmul(np.ones((6, 7), left), np.ones((7, 5), right))
        assert tw.plan((6, 7), (7, 5), left, right).dtype == truth.dtype, (left, right)


@pytest.mark.parametrize(
    "pairs",
    [
        [(name, KINDS[i - step]) for step in (1, 3) for i, name in enumerate(KINDS)],  # each twice on each side
        pytest.param([*itertools.product(KINDS, repeat=2)], marks=pytest.mark.volume),
    ],
    ids=["some", "all"],
)
def test_products_of_two_kinds_are_numpys(pairs: list[tuple[str, str]]) -> None:
    random = np.random.default_rng(5)
    for left, right in pairs:
        a, b = random.integers(0, 3, (6, 7)).astype(left), random.integers(0, 3, (7, 5)).astype(right)
        found, truth = tw.matmul(a, b), np.matmul(a, b)
        assert found.dtype == truth.dtype
        np.testing.assert_array_equal(found, truth)


# Values


def test_true_is_any_byte_but_zero() -> None:
    a = np.full((1, 70_000), 255, np.uint8).view(bool)
    assert tw.matmul(a, a.T)[0, 0]
    both = np.full((1, 256), 16, np.uint8).view(bool)  # 256 times 256 is 2^16
    assert tw.matmul(both, both.T)[0, 0]


def test_counts_of_booleans_do_not_wrap_to_false() -> None:
    # 2^32 = 256 * 256 * 65,536: a sum of as many products of 256 would be 0; bytes reach 255 only, so 16 * 16 * 2^24.
    k = 1 << 24
    a = np.full((1, k), 16, np.uint8).view(bool)
    assert tw.matmul(a, a.T)[0, 0]


@pytest.mark.parametrize("name", [record.name for record in DTYPES if record.bits == 8 and record.is_float])
def test_float8_is_read_and_written_as_ml_dtypes_does(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    every = np.arange(256, dtype=np.uint8).view(dtype).reshape(256, 1)
    widened = every.astype(np.float32)
    np.testing.assert_array_equal(tw.matmul(every, np.ones((1, 9), dtype)), np.repeat(widened, 9, axis=1))
    with np.errstate(all="ignore"):
        each = (widened * widened.T).astype(dtype)  # float32 holds the product of two
    np.testing.assert_array_equal(tw.matmul(every, every.T, dtype=name).astype(np.float32), each.astype(np.float32))
    random = np.random.default_rng(8)
    a, b = (random.integers(-8, 9, extents).astype(dtype) for extents in ((70, 45), (45, 33)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(tw.matmul(a, b), exact)
    rounded = exact.astype(np.float32).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(tw.matmul(a, b, dtype=name).astype(np.float32), rounded)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"])
def test_float8_gives_float32(name: str) -> None:
    dtype = getattr(ml_dtypes, name)
    a, b = normal(9, 20).astype(dtype), normal(20, 7, seed=1).astype(dtype)
    found = tw.matmul(a, b)
    assert same_bits(found, canonical(a.astype(np.float32), b.astype(np.float32)))


@pytest.mark.parametrize(("dtype", "bits"), [(np.dtype(np.float16), 11), (np.dtype(ml_dtypes.bfloat16), 8)])
def test_double_sums_are_rounded_once(dtype: np.dtype[Any], bits: int) -> None:
    # Just above the midpoint of two neighbours; rounded to float32 first, it would round down to 1.
    a = np.array([[1, 2.0**-bits, 2.0**-20]]).astype(dtype)
    b = np.array([[1], [1], [2.0**-20]]).astype(dtype)
    assert tw.matmul(a, b, acc_dtype="float64")[0, 0] > 1
    assert same_bits(tw.matmul(a, b, acc_dtype="float64"), canonical(a, b, acc_dtype="float64"))


def test_nan_and_infinity_are_as_ieee_says() -> None:
    a = np.array([[np.inf, 0], [1, np.nan], [-0.0, -0.0]])
    b = np.array([[0.0, 1], [1, np.inf]])
    assert same_bits(tw.matmul(a, b), canonical(a, b))
    assert np.isnan(tw.matmul(a, b, np.zeros((3, 2)), alpha=0)[0, 0])


def test_values_of_out_are_not_read_without_beta() -> None:
    out = np.full((2, 2), np.nan)
    tw.matmul(ONE, ONE, out, alpha=2)
    assert (out == 4).all()


# Arrays of other libraries


class Interface:
    """Has `__array_interface__` only."""

    def __init__(self, x: Array) -> None:
        self.x = x

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.x.__array_interface__


class DLPack:
    """Has DLPack only."""

    def __init__(self, x: Array) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()


class Elsewhere(DLPack):
    """Is on a GPU, and says so as CuPy does."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the array is on a GPU")


class Loud(np.ndarray):
    """A subclass with its own priority and wrap."""

    __array_priority__ = 5.0

    def __array_wrap__(self, array: Array, context: Any = None, return_scalar: bool = False) -> Any:
        return array.view(Loud)


class Deaf:
    """Refuses ufuncs."""

    __array_ufunc__ = None


def test_arrays_of_other_libraries() -> None:
    a, b = normal(8, 9), normal(9, 7, seed=1)
    truth = canonical(a, b)
    for wrap in (Interface, DLPack):
        assert same_bits(tw.matmul(wrap(a), wrap(b[:, ::-1])), truth[:, ::-1].copy())
    with pytest.raises(ArgumentTypeError, match="must be in this host's memory"):
        tw.matmul(Elsewhere(a), b)
    with pytest.raises(ArgumentTypeError, match="does not define its own products"):
        tw.matmul(a, Deaf())


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_subclasses_wrap_the_result() -> None:
    a = normal(4, 4)
    assert type(tw.matmul(a.view(Loud), a)) is Loud
    assert type(tw.matmul(np.asmatrix(a), a.view(Loud))) is type(np.matmul(np.asmatrix(a), a.view(Loud)))
    assert type(tw.matmul(np.asmatrix(a), a)) is np.matrix
    assert type(tw.matmul(a, a.tolist())) is np.ndarray


# Threads


@pytest.fixture
def eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requested threads, even for small products; no product is kept."""
    monkeypatch.setattr(product, "THREAD_WORK", 1)
    for made in (product.product, product._product, known_layouts._quick):
        monkeypatch.setattr(made.__module__ + "." + made.__name__, made.__wrapped__)


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "complex64", "bool"])
def test_threads_batch_and_strides_do_not_change_a_bit(dtype: str) -> None:
    a, b = normal(5, 70, 300).astype(dtype), normal(300, 333, seed=1).astype(dtype)
    truth = tw.matmul(a[0], b, threads=1).tobytes()
    for count in range(1, 9):
        assert tw.matmul(a[0], b, threads=count).tobytes() == truth
        assert tw.matmul(a, b, threads=count)[0].tobytes() == truth
        assert tw.matmul(a[:3], np.broadcast_to(b, (3, 300, 333)), threads=count)[0].tobytes() == truth
        assert np.ascontiguousarray(tw.matmul(b.T, a[0].T, threads=count).T).tobytes() == truth


@pytest.mark.usefixtures("eager_threads")
def test_many_python_threads_may_call_at_the_same_time() -> None:
    cases = [(normal(40 + i, 60, seed=i), normal(60, 90 + i, seed=i + 50)) for i in range(8)]
    truths = [canonical(a, b) for a, b in cases]
    wrong: list[int] = []

    def work(index: int) -> None:
        a, b = cases[index]
        for _ in range(30):
            if not same_bits(tw.matmul(a, b, threads=3), truths[index]):
                wrong.append(index)

    at_once(work, 8)
    assert wrong == []


def test_small_products_take_one_thread_and_large_ones_all_allowed() -> None:
    assert tw.plan((64, 64), (64, 64), "float32", threads=8).threads == 1
    assert tw.plan((2048, 2048), (2048, 2048), "float32", threads=8).threads == 8


def _in_child(a: Array, b: Array, results: Any) -> None:
    product_bytes = tw.matmul(a, b, threads=2).tobytes()
    results.put((product_bytes, threading.active_count()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_multiplies_with_its_own_threads() -> None:
    a = normal(300, 300)
    truth = tw.matmul(a, a, threads=2).tobytes()  # the parent's threads run
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_child, args=(a, a, results))
    child.start()
    found, running = results.get(timeout=60)
    child.join(60)
    assert found == truth
    assert running == 2


def test_threadpoolctl_sees_and_limits_the_engine() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    limit = threads.limit()
    before = limit.count
    try:
        limit.set(4)
        mine = [x for x in threadpoolctl.threadpool_info() if x["internal_api"] == "tilewright"]
        assert [x["num_threads"] for x in mine] == [4]
        with threadpoolctl.threadpool_limits(1, user_api="blas"):
            assert limit.count == 1
            assert tw.plan((2048, 2048), (2048, 2048)).threads == 1
        assert limit.count == 4
    finally:
        limit.set(before)


def test_the_environment_sets_the_number_of_threads() -> None:
    code = "import tilewright as tw; print(tw.plan((4096, 4096), (4096, 4096)).threads)"
    for count in ("1", "3"):
        environ = {**os.environ, "TILEWRIGHT_THREADS": count}
        run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == count


# Plans


def test_a_plan_describes_the_product_and_makes_it() -> None:
    plan = tw.plan((3, 40, 50), (50, 60), "int8", dtype="int32", threads=1)
    assert (plan.shape, plan.dtype, plan.acc_dtype) == ((3, 40, 60), np.int32, np.int32)
    assert plan.flops == 2 * 3 * 40 * 50 * 60
    assert plan.kernel.a == "int8"
    assert 0 < plan.buffer_bytes <= 16 << 20
    a, b = np.full((3, 40, 50), 100, np.int8), np.full((50, 60), 100, np.int8)
    assert (plan(a, b) == 500_000).all()
    with pytest.raises(ArgumentValueError, match=r"`a.shape` must be the plan's"):
        plan(a[0], b)
    with pytest.raises(ArgumentTypeError, match=r"`b.dtype` must be the plan's"):
        plan(a, b.astype(np.int16))


@pytest.mark.parametrize(
    ("shapes", "dtype", "path"),
    [
        (((200, 300), (300, 200)), "float32", "packed"),
        (((4, 300), (300, 200)), "float32", "skinny"),
        (((300, 300), (300,)), "float64", "skinny"),
        (((9, 9, 9), (9, 9, 9)), "float32", "small"),
        (((200, 300), (300, 200)), "complex64", "packed"),
    ],
)
def test_a_plan_has_its_path_and_prints_it(shapes: tuple[Any, Any], dtype: str, path: str) -> None:
    plan = tw.plan(*shapes, dtype, threads=1)
    assert plan.path == path
    lines = dict(line.split(maxsplit=1) for line in str(plan).splitlines())
    assert list(lines) == ["product", "sums", "kernel", "threads", "buffers", "work"]
    assert lines["kernel"].startswith(f"{path}: fma") and lines["work"] == f"{plan.flops:,} operations"
    assert f"-> {dtype} {plan.shape}" in lines["product"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "complex128", "bool"])
@pytest.mark.parametrize(
    "shape", [((4096, 4096), (4096, 4096)), ((100_000, 8), (8, 100)), ((8, 100_000), (100_000, 3))]
)
def test_buffers_stay_within_sixteen_megabytes_a_thread(dtype: str, shape: tuple[Any, Any]) -> None:
    plan = tw.plan(*shape, dtype, threads=1)
    assert plan.buffer_bytes <= 16 << 20


def test_plans_of_vectors_empty_and_lowered_products() -> None:
    for a, b, shape in [((4,), (4,), ()), ((4,), (4, 5), (5,)), ((3, 4), (4,), (3,)), ((3, 0), (0, 5), (3, 5))]:
        for dtype in ("float32", "complex64", "bool"):
            plan = tw.plan(a, b, dtype)
            assert plan.shape == shape
            assert not np.any(plan(np.zeros(a, dtype), np.zeros(b, dtype)))


# Memory


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell resident memory")
def test_thousands_of_random_calls_keep_no_memory() -> None:
    random = np.random.default_rng(9)
    pool = random.integers(-5, 5, (60, 60))
    names = ["float32", "float16", "int8", "complex64", "bool"]
    shapes = [tuple(random.integers(1, 60, 3)) for _ in range(4)]  # small ones have a kernel each

    def call(count: int) -> None:
        for _ in range(count):
            (m, n, k), name = shapes[random.integers(len(shapes))], names[random.integers(len(names))]
            a, b = pool[:m, :k].astype(name), pool[:k, :n].astype(name)
            out = np.empty((m, n), name) if random.random() < 0.3 else None
            tw.matmul(a, b, out, alpha=2 if name not in ("bool",) and random.random() < 0.2 else 1)

    call(6000)  # every kernel made
    gc.collect()
    before = resident_bytes()
    call(12_000)
    gc.collect()
    assert resident_bytes() - before < 2 << 20  # a leaked 60 x 60 matrix a call would be 170 MB

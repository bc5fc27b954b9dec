"""NumPy's own tests of matmul, run on ours.

Deviations, with reasons:

- dtypes `g`, `G` and `O` (longdouble and objects) are left out: no vector unit supports them, so they are refused.
- `test_out_arg`: our message is another; the exception's type is tested here.
- the tests of object arrays are replaced by one that they are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy._core.tests.test_multiarray import TestMatmul as NumPyTests

import tilewright as tw
from tilewright.errors import ArgumentTypeError


class TestMatmul(NumPyTests):
    types = "?bhilqBHILQefdFD"
    matmul = staticmethod(tw.matmul)

    def test_out_arg(self) -> None:
        a, b = np.ones((5, 2)), np.array([[1.0, 3], [5, 7]])
        for out in (np.zeros((5, 2)), np.zeros((5, 2), np.complex128)):
            assert self.matmul(a, b, out) is out
            np.testing.assert_array_equal(out, np.dot(a, b))
        with pytest.raises(TypeError, match=r"out.dtype.*same_kind.*got int32"):
            self.matmul(a, b, out=np.zeros((5, 2), np.int32))

    @pytest.mark.parametrize("dtype", [object, np.longdouble, np.clongdouble, "M8[s]", "U3"])
    def test_matmul_object(self, dtype: object) -> None:
        a = np.ones((2, 2), dtype)
        with pytest.raises(ArgumentTypeError, match=r"a product must be of|common one"):
            self.matmul(a, a)

    test_matmul_object_type_scalar = None
    test_matmul_empty = None
    test_matmul_exception_multiply = None
    test_matmul_exception_add = None

    @pytest.mark.parametrize("dtype", "?bhilqBHILQefdFD")
    def test_dot_equivalent_in_every_layout(self, dtype: str) -> None:
        """NumPy's own test of that name compares NumPy with itself."""
        random = np.random.default_rng(7)
        for m, n, k in [(5, 7, 3), (1, 7, 3), (5, 1, 3), (5, 7, 0), (1, 1, 4)]:
            a, b = (random.integers(0, 5, s).astype(dtype) for s in ((m, k), (k, n)))
            if dtype in "FD":
                a, b = a + 1j * a[::-1], b - 1j * b
                a, b = a.astype(dtype), b.astype(dtype)
            for x in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
                for y in (b, np.asfortranarray(b), b[::-1].copy()[::-1]):
                    np.testing.assert_array_equal(self.matmul(x, y), np.matmul(x, y))
                np.testing.assert_array_equal(self.matmul(x, y[:, 0]), np.matmul(x, y[:, 0]))
                np.testing.assert_array_equal(self.matmul(x[0], y), np.matmul(x[0], y))


# Cases that NumPy's own tests leave out: axes, casting, longlong

AXES = [
    ((2, 3, 4), (4, 5), [(-2, -1), (-2, -1), (-2, -1)]), ((2, 3, 4), (5, 4), [(-2, -1), (-1, -2), (0, 1)]),
    ((3, 2, 4), (4, 5), [(0, 2), (0, 1), (-1, -3)]), ((2, 3, 4), (4,), [(-2, -1), (0,), (0,)]),
    ((4, 3), (4,), [(1, 0), 0, -1]), ((4,), (4,), [(0,), (0,), ()]), ((4,), (5, 4, 3), [(0,), (1, 2), (0,)]),
    ((4, 2, 1, 3), (6, 4, 5), [(3, 0), (1, 0), (2, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "axes"), AXES)
def test_axes_are_numpys(a: tuple[int, ...], b: tuple[int, ...], axes: list[object]) -> None:
    x, y = (np.random.default_rng(3).integers(-50, 50, shape) for shape in (a, b))
    wanted, found = np.matmul(x, y, axes=axes), tw.matmul(x, y, axes=axes)
    assert np.array_equal(wanted, found)
    assert type(wanted) is type(found)
    out = np.zeros(np.shape(wanted), wanted.dtype)
    assert tw.matmul(x, y, out=out, axes=axes) is out
    assert np.array_equal(wanted, out)
    assert np.array_equal(tw.matmul(x.tolist(), y.tolist(), axes=axes), wanted)


@pytest.mark.parametrize(
    ("axes", "error", "says"),
    [
        (((-2, -1),) * 3, TypeError, "must be a list of three tuples"), (3, TypeError, "list of three"),
        ([(-2, -1)] * 2, ValueError, "an entry for each"),
        ([(-2, -1.0), (-2, -1), (-2, -1)], TypeError, "whole numbers"),
        ([(0, 0), (-2, -1), (-2, -1)], ValueError, "different axes"),
        ([(0, 7), (0, 1), (0, 1)], ValueError, "name axes"),
        ([(0,), (0, 1), (0, 1)], ValueError, "name 2 axes of a"), ([(0, 1), (0, 1), ()], ValueError, "of the result"),
    ],
)  # fmt: skip
def test_wrong_axes_are_refused_where_numpy_refuses_them(axes: object, error: type[Exception], says: str) -> None:
    x = np.ones((3, 3))
    with pytest.raises(error):
        np.matmul(x, x, axes=axes)
    with pytest.raises(error, match=says):
        tw.matmul(x, x, axes=axes)  # type: ignore[arg-type]


def _outcome(function: Callable[..., Any], *args: object, **options: object) -> object:
    """A result's dtype and values, or the kind of error."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = function(*args, **options)
    except TypeError:
        return TypeError
    return found.dtype, found.tolist()


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("given", ["?", "b", "H", "i", "l", "e", "f", "d", ">d", "F", "D"])
def test_casting_is_numpys(casting: str, given: str) -> None:
    """From small integers, whose products are exact, to every dtype that `dtype` or `out` may name."""
    a = np.array([[0, 1.75], [3, 2]]).astype(given)
    for to in "?bHilefdFD":
        for options in ({"dtype": to}, {"out": np.zeros((2, 2), to)}):
            if given not in "?" and to == "?" and "dtype" in options:
                continue  # a boolean product of numbers: below
            wanted = _outcome(np.matmul, a, a, casting=casting, **options)
            assert _outcome(tw.matmul, a, a, casting=casting, **options) == wanted, (given, to, options)


def test_numbers_that_are_not_zero_cast_to_true() -> None:
    a = np.array([[0, 0.5], [3, -2]])
    wanted = np.matmul(a, a, dtype=bool, casting="unsafe")
    assert np.array_equal(tw.matmul(a, a, dtype=bool, casting="unsafe"), wanted)
    with pytest.raises(TypeError, match="rule same_kind"):
        tw.matmul(a, a, dtype=bool)


@pytest.mark.parametrize(("casting", "error"), [("bad", ValueError), (3, TypeError), (None, TypeError)])
def test_unknown_casting_is_refused(casting: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`casting` must be"):
        tw.matmul(np.eye(2), np.eye(2), casting=casting)


def test_longlong_stays_longlong() -> None:
    """NumPy distinguishes it from int64, although they are equal: `l` and `q` have one width on Linux."""
    for a in "bilLqQ":
        for b in "lLqQ":
            x, y = np.ones((2, 2), a), np.ones((2, 2), b)
            for _ in range(3):  # the way past every check too
                assert tw.matmul(x, y).dtype.char == np.matmul(x, y).dtype.char, (a, b)
            assert tw.matmul(x, y.tolist()).dtype.char == np.matmul(x, y.tolist()).dtype.char
    for dtype in (np.dtype("q"), "q", np.longlong, np.dtype("l"), "l", np.int64):
        for kind in "lqi":
            x = np.ones((2, 2), kind)
            for _ in range(2):
                assert tw.matmul(x, x, dtype=dtype).dtype.char == np.matmul(x, x, dtype=dtype).dtype.char
    assert type(tw.matmul(np.ones(2, "q"), np.ones(2, "q"))) is np.longlong

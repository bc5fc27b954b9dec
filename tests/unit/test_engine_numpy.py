"""NumPy's own tests of matmul, run against ours.

Deviations, with reasons:

- dtypes `g`, `G` and `O` (longdouble and objects) are left out: no vector unit has them, so they are refused.
- `test_out_arg`: our message is another; the exception's type is tested here.
- `test_result_types` without `q` and `Q`: where long long is as long as long, NumPy calls the dtypes equal, and equal
  dtypes share a plan; a scalar result is then of the first one's type.
- the tests of object arrays are replaced by one that they are refused.
"""

from __future__ import annotations

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

    def test_result_types(self) -> None:
        self.types = "?bhilBHILefdFD"
        super().test_result_types()
        for dtype in "qQ":
            assert self.matmul(np.ones((2, 2), dtype), np.ones((2, 2), dtype)).dtype == dtype

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

import numpy as np
import pytest

from tilewright.errors import ArgumentValueError
from tilewright.multiply.problem.problem import Problem


def test_of_arrays():
    problem = Problem.of(np.zeros((3, 4), np.float64), np.zeros((4, 5), np.float64))
    assert (problem.m, problem.n, problem.k, problem.out_dtype.name) == (3, 5, 4, "float64")


def test_dtypes():
    problem = Problem.of(np.zeros((2, 5), np.int8), np.zeros((5, 3), np.int8), out_dtype="int32")
    assert (problem.out_dtype.name, problem.acc_dtype.name) == ("int32", "int32")


def test_mixed_operands():
    problem = Problem.of(np.zeros((4, 4), np.float16), np.zeros((4, 4), np.float32))
    assert (problem.out_dtype.name, problem.acc_dtype.name) == ("float32", "float32")


def test_wrong_shapes():
    with pytest.raises(ArgumentValueError, match=r"`b.shape\[0\]` must equal `a.shape\[1\]` \(got 48 and 64\)"):
        Problem.of(np.zeros((2, 64)), np.zeros((48, 2)))
    with pytest.raises(ArgumentValueError, match=r"`b` must have 2 dimensions \(got shape \(4,\)\)"):
        Problem.of(np.zeros((2, 4)), np.zeros(4))

import numpy as np
import pytest

from tilewright.errors import ArgumentValueError
from tilewright.problem.problem import Problem


def test_numbers():
    problem = Problem.build(2, 3, 5, "int8", out_dtype="int32", batch=7)
    assert problem.flops == 2 * 7 * 2 * 3 * 5
    assert problem.bytes == 7 * (2 * 5 + 5 * 3 + 4 * 2 * 3)
    assert problem.intensity == problem.flops / problem.bytes
    assert problem.acc_dtype.name == "int32"


def test_mixed_operands():
    problem = Problem.build(4, 4, 4, "float16", "float32")
    assert (problem.out_dtype.name, problem.acc_dtype.name) == ("float32", "float32")
    assert problem.bytes == 16 * (2 + 4 + 4)


def test_of_arrays():
    problem = Problem.of(np.zeros((3, 4), np.float64), np.zeros((4, 5), np.float64))
    assert (problem.m, problem.n, problem.k, problem.batch) == (3, 5, 4, 1)


def test_empty_problem_has_no_intensity():
    assert Problem.build(0, 0, 0, "float32").intensity == 0.0


def test_wrong_shapes():
    with pytest.raises(ArgumentValueError, match=r"`b.shape\[0\]` must equal `a.shape\[1\]` \(got 48 and 64\)"):
        Problem.of(np.zeros((2, 64)), np.zeros((48, 2)))
    with pytest.raises(ArgumentValueError, match=r"`b` must have 2 dimensions \(got shape \(4,\)\)"):
        Problem.of(np.zeros((2, 4)), np.zeros(4))
    with pytest.raises(ArgumentValueError, match=r"`n` must not be negative \(got -1\)"):
        Problem.build(1, -1, 1, "float32")

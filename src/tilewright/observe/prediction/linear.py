"""Minimises a linear cost of non-negative numbers under linear equations: a linear program, solved by HiGHS.

Source: Huangfu, Hall, Parallelizing the Dual Revised Simplex Method, Mathematical Programming Computation 10, 2018.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tilewright.errors import CompileError
from tilewright.observe.prediction.deadline import Deadline
from tilewright.simulate.programs.optional import require

Equation = tuple[Mapping[int, float], float]  #: Factors by number, and their sum.


def least(costs: Sequence[float], equations: Sequence[Equation], deadline: Deadline) -> npt.NDArray[np.float64]:
    """The x >= 0 with the least cost.

    `costs`: cost of each number.

    Raises CompileError: no x satisfies the equations; LimitError: the solver did not finish before the deadline;
    MissingExtraError: the solver is not installed.

    >>> least([1.0, 3.0, 1.0], [({0: 1.0, 1: 1.0, 2: -1.0}, 4.0)], Deadline()).tolist()
    [4.0, 0.0, 0.0]
    """
    highs = require("highspy", "Predicting times")
    program = highs.HighsLp()
    program.num_col_, program.num_row_ = len(costs), len(equations)
    program.col_cost_ = np.array(costs)
    program.col_lower_, program.col_upper_ = np.zeros(len(costs)), np.full(len(costs), highs.kHighsInf)
    program.row_lower_ = program.row_upper_ = np.array([total for _, total in equations])
    matrix = program.a_matrix_
    matrix.format_ = highs.MatrixFormat.kRowwise
    matrix.start_ = np.cumsum([0, *(len(factors) for factors, _ in equations)])
    matrix.index_ = np.array([number for factors, _ in equations for number in factors])
    matrix.value_ = np.array([factor for factors, _ in equations for factor in factors.values()])
    solver = highs.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("dual_feasibility_tolerance", 1e-10)):
        solver.setOptionValue(option, value)
    deadline.check()
    solver.setOptionValue("time_limit", deadline.left())
    solver.passModel(program)
    solver.run()
    status = solver.getModelStatus()
    if status == highs.HighsModelStatus.kTimeLimit:
        deadline.check()
    if status != highs.HighsModelStatus.kOptimal:
        raise CompileError(
            f"a predicted kernel must end (got code in which no path does: {status.name[1:]}); leave out what waits "
            "for ever"
        )
    return np.array(solver.getSolution().col_value)

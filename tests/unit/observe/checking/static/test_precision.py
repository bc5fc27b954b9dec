"""TW601 and TW604: float64 arithmetic on float32 arrays, and float64 data in float32 tiles."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numba import cuda

from tilewright.observe.checking.static import precision
from tilewright.observe.checking.static.values import of_kernel
from tilewright.programs import Program

SINGLE = "void(float32[::1], float32[::1])"


def float_literal(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        total = 0.0
        for j in range(4):
            total += x[i] * x[j]  # finds TW601
        y[i] = total


def float_literal_mended(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        total = numba.float32(0)
        for j in range(4):
            total += x[i] * x[j]
        y[i] = total


def quotient(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[i] * (i / 3)  # finds TW601


def quotient_mended(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[i] * (numba.float32(i) / numba.float32(3))


def library(x, y):
    i = cuda.grid(1)
    if i < y.shape[0]:
        angles = math.sin(x[i]) + math.cos(x[i]) + math.tan(x[i])
        y[i] = angles + math.sqrt(x[i]) + math.exp(x[i]) + math.pow(x[i], x[i]) + math.erf(x[i]) + math.log(x[i])


def scalar(x, y, factor):
    i = cuda.grid(1)
    if i < y.shape[0]:
        y[i] = x[i] * factor


def tile(x, y):
    i = cuda.grid(1)
    kept = cuda.shared.array(32, numba.float32)
    kept[cuda.threadIdx.x] = x[i]  # finds TW604
    cuda.syncthreads()
    y[i] = kept[31 - cuda.threadIdx.x]


def tile_mended(x, y):
    i = cuda.grid(1)
    kept = cuda.shared.array(32, numba.float64)
    kept[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    y[i] = kept[31 - cuda.threadIdx.x]


def found(kernel: Callable[..., None], signature: str, *dtypes: str) -> list[tuple[int, str]]:
    """(line, code) of each finding, with arrays of these dtypes."""
    program = Program.from_python(kernel, signature)
    values = of_kernel(program.ptx, program.entry)
    rows = precision.findings(values, program.name, [np.dtype(d) for d in dtypes], __file__)
    assert all(row.kernel == kernel.__name__ and row.source == __file__ for row in rows)
    return [(row.line, row.code) for row in rows]


def marked(kernel: Callable[..., None]) -> list[tuple[int, str]]:
    lines, start = inspect.getsourcelines(kernel)
    return [(start + i, line.split()[-1]) for i, line in enumerate(lines) if "# finds " in line]


@pytest.mark.parametrize(
    ("kernel", "signature", "dtypes"),
    [
        (float_literal, SINGLE, ("f4", "f4")),
        (float_literal_mended, SINGLE, ("f4", "f4")),
        (quotient, SINGLE, ("f4", "f4")),
        (quotient_mended, SINGLE, ("f4", "f4")),
        (library, SINGLE, ("f4", "f4")),
        (scalar, "void(float32[::1], float32[::1], float64)", ("f4", "f4")),
        (tile, "void(float64[::1], float64[::1])", ("f8", "f8")),
        (tile_mended, "void(float64[::1], float64[::1])", ("f8", "f8")),
    ],
    ids=lambda v: v.__name__ if callable(v) else None,
)
def test_each_defect_at_its_line_and_nothing_on_its_twin(kernel: Any, signature: str, dtypes: Any) -> None:
    assert found(kernel, signature, *dtypes) == marked(kernel)


def test_arrays_of_float64_and_of_integers_are_no_kernel_of_float32() -> None:
    assert found(float_literal, SINGLE, "f4", "f8") == []
    assert found(float_literal, SINGLE, "f4", "c16") == []
    assert found(float_literal, SINGLE, "i4", "i4") == []
    assert found(float_literal, SINGLE, "c8", "i4") == marked(float_literal)
    assert found(float_literal, SINGLE, "f2", "i4") == marked(float_literal)


def test_the_fields_of_a_record_count() -> None:
    program = Program.from_python(float_literal, SINGLE)
    values = of_kernel(program.ptx, program.entry)
    for fields, wanted in (([("a", "f4"), ("b", "f8")], 0), ([("a", "f4"), ("b", "i4", (3,))], 1)):
        assert len(precision.findings(values, "k", [np.dtype(fields)], __file__)) == wanted


def test_lines_of_an_installed_library_are_not_reported() -> None:
    program = Program.from_python(float_literal, SINGLE)
    installed = program.ptx.replace(__file__, numba.__file__)
    values = of_kernel(installed, program.entry)
    assert precision.findings(values, "k", [np.dtype("f4")], __file__) == []
    assert len(precision.findings(values, "k", [np.dtype("f4")], numba.__file__)) == 1, "the user's own is reported"


def test_the_message_counts_and_names_the_instructions() -> None:
    program = Program.from_python(quotient, SINGLE)
    (row,) = precision.findings(of_kernel(program.ptx, program.entry), "k", [np.dtype("f4")], __file__)
    assert row.count == 2
    assert row.message.startswith(
        "2 float64 instructions (div.rn.f64, mul.f64) although all arrays of numbers are float32;"
    )

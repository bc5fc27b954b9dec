"""TW511: arguments that packages pass by their own bytes, for parameters of other types."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontends.passed import passed
from tilewright.observe.checking import signatures
from tilewright.observe.checking.passed import findings as of_arguments
from tilewright.observe.instruments.findings import Finding
from tilewright.programs import Program
from tilewright.simulate.observer import Launch, PassedArguments

BODY = "{ if (threadIdx.x < n) x[threadIdx.x] = v; }"
#: Kernels with an array, a number and a count; the types of the second are in its symbol.
FLOATS = f'extern "C" __global__ void k(float *__restrict x, const float v, int n) {BODY}'
DOUBLES = f"template <typename T> __global__ void k(T *x, T v, long long n) {BODY}"
HALVES = f'#include <cuda_fp16.h>\nextern "C" __global__ void k(__half *x, __half v, unsigned n) {BODY}'


class Array:
    """An array on a GPU."""

    def __init__(self, dtype: str) -> None:
        self.__cuda_array_interface__ = {"typestr": dtype, "shape": (8,), "data": (0, False), "version": 3}


def findings(one: Launch) -> list[Finding]:
    """The arguments of a launch that do not fit."""
    assert one.passed is not None
    return of_arguments(one, one.passed)


def launch(source: str, *arguments: Any) -> Launch:
    program = Program.from_cuda(source, "k<double>" if "template" in source else "k")
    given = PassedArguments(tuple(map(passed, arguments)), source)
    return Launch(program.name, program, (1, 1, 1), (32, 1, 1), 0, passed=given)


@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        (FLOATS, (Array("<f4"), np.float32(2), np.int32(8))),
        (FLOATS, (Array("<f4"), ctypes.c_float(2), 8)),  # the first four bytes of a long are the int
        (FLOATS, (Array("<f4"), np.float32(2), -1)),
        (FLOATS, (Array("|u1"), np.float32(2), 8)),  # raw memory
        (FLOATS, (Array("<c8"), np.float32(2), 8)),
        (FLOATS, (0x1000, np.float32(2), 8)),  # an address
        (FLOATS, (object(), np.float32(2), 8)),
        (DOUBLES, (Array("<f8"), 2.0, 8)),
        (HALVES, (Array("<f2"), np.float16(2), 2**32 - 1)),
        (HALVES, (Array("<u2"), np.float16(2), np.uint32(8))),
    ],
)
def test_what_fits_is_no_finding(source: str, arguments: tuple[Any, ...]) -> None:
    assert findings(launch(source, *arguments)) == []


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        (FLOATS, (Array("<f4"), 2.0, 8), "parameter `v` is `const float`, and the launch passes 2.0 (float64)"),
        (FLOATS, (Array("<f4"), 1, 8), "passes 1 (int64): the kernel gets 1e-45"),
        (FLOATS, (Array("<f4"), np.float32(2), 8.0), "`n` is `int`, and the launch passes 8.0 (float64): the kernel"),
        (FLOATS, (Array("<f4"), np.float32(2), 2**32 + 1), "passes 4294967297 (int64): the kernel gets 1"),
        (FLOATS, (Array("<f4"), np.float32(2), 2**31), "the kernel gets -2147483648"),
        (FLOATS, (Array("<f4"), np.float32(2), np.int16(8)), "8 (int16): the kernel also gets the 2 bytes that follow"),
        (FLOATS, (Array("<f4"), Array("<f4"), 8), "`v` is `const float`, and the launch passes an array of float32"),
        (FLOATS, (Array("<f8"), np.float32(2), 8), "`x` is `float *__restrict`, and the launch passes an array of f"),
        (FLOATS, (Array("<i4"), np.float32(2), 8), "an array of int32"),
        (FLOATS, (Array("<f4"), np.zeros(2), 8), "`v` is `const float`, and the launch passes 16 bytes"),
        (FLOATS, (Array("<f4"), np.float32(2)), "the kernel has 3 parameters, and the launch passes 2 arguments"),
        (FLOATS, (Array("<f4"), np.float32(2), 8, 9), "passes 4 arguments"),
        (DOUBLES, (Array("<f4"), 2.0, 8), "`x` is `double *`, and the launch passes an array of float32"),
        (DOUBLES, (Array("<f8"), np.float32(2), 8), "`v` is `double`, and the launch passes 2.0 (float32)"),
        (DOUBLES, (Array("<f8"), 2.0, np.int32(8)), "`n` is `long long`, and the launch passes 8 (int32)"),
        (HALVES, (Array("<f4"), np.float16(2), 8), "`x` is `__half *`, and the launch passes an array of float32"),
        (HALVES, (Array("<f2"), np.float32(2), 8), "`v` is `__half`, and the launch passes 2.0 (float32)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_a_finding(source: str, arguments: tuple[Any, ...], message: str) -> None:
    (found,) = findings(launch(source, *arguments))
    assert found.code == "TW511"
    assert message in found.message


def test_without_a_source_the_sizes_and_floating_point_of_ptx_are_known() -> None:
    wrong, right = (launch(FLOATS, Array(kind), v, 8) for kind, v in (("<f8", 2.0), ("<f8", np.float32(2))))
    programs = [replace(one.program, ptx=_without_lines(one.program.ptx)) for one in (wrong, right)]
    given = [PassedArguments(one.passed.arguments) for one in (wrong, right) if one.passed]
    first, second = (
        replace(one, program=p, passed=g) for one, p, g in zip((wrong, right), programs, given, strict=True)
    )
    assert [one.message for one in findings(first)] == [
        "parameter 1 is `float`, and the launch passes 2.0 (float64): the kernel gets 0.0"
    ]
    assert findings(second) == []


def _without_lines(ptx: str) -> str:
    return "\n".join(line for line in ptx.splitlines() if not line.lstrip().startswith((".loc", ".file")))


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("const unsigned int a, long int b, short unsigned c", [("a", "<u4"), ("b", "<i8"), ("c", "<u2")]),
        ("std::size_t a, uint8_t const *b, int32_t c[]", [("a", "<u8"), ("b", "|u1"), ("c", "<i4")]),
        ("float **a, Map<int, float> b, dim3 c, float", [("a", ""), ("b", ""), ("c", ""), ("", "<f4")]),
        ("void", []),
    ],
)
def test_declarations_are_read(text: str, types: list[tuple[str, str]]) -> None:
    found = signatures.declared(f"__global__ void k({text}) {{ }}", "k")
    assert [(one.name, one.type.dtype) for one in found] == types


def test_kernels_of_one_name_differ_by_their_lines() -> None:
    text = "__global__ void k(int a) { }\n__global__ void k(float b) { }"
    assert [signatures.declared(text, "k", line)[0].name for line in (1, 2)] == ["a", "b"]
    assert signatures.declared(text, "k") == ()


def _launched_by_bindings(kernel: Any, arguments: tuple[Any, ...], types: tuple[Any, ...]) -> None:
    from cuda.bindings import driver

    code, *_ = driver.cuLaunchKernel(int(kernel.handle), 1, 1, 1, 32, 1, 1, 0, 0, (arguments, types), 0)
    assert code == driver.CUresult.CUDA_SUCCESS


def _launched_by_core(kernel: Any, arguments: tuple[Any, ...], types: tuple[Any, ...]) -> None:
    from cuda.core import Device, LaunchConfig, launch

    values = [arguments[0], *(type_(value) for value, type_ in zip(arguments[1:], types[1:], strict=True))]
    launch(Device().default_stream, LaunchConfig(grid=1, block=32), kernel, *values)


@pytest.mark.parametrize("launched", [_launched_by_bindings, _launched_by_core])
def test_launches_of_cuda_python_say_what_they_pass(launched: Callable[..., None]) -> None:
    with tw.simulated_gpu("h100", check=True) as gpu:
        from cuda.core import Device, Program

        Device().set_current()
        kernel = Program(FLOATS, "c++").compile("cubin").get_kernel("k")
        buffer = Device().memory_resource.allocate(128, stream=Device().default_stream)
        x = int(buffer.handle)
        launched(kernel, (x, 2.0, 8), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
        assert list(gpu.findings) == []
        launched(kernel, (x, 2.0, 8), (ctypes.c_void_p, ctypes.c_double, ctypes.c_int))
        assert [one.code for one in gpu.findings] == ["TW511"]

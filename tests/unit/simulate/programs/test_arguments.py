from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

from tilewright.errors import ArgumentTypeError, LaunchError
from tilewright.simulate.programs.arguments import Argument, array_shape, c_arguments, marshal
from tilewright.simulate.programs.listing import Parameter
from tilewright.simulate.programs.program import Program


def words(*values: int) -> list[bytes]:
    return [struct.pack("<q", value) for value in values]


def eights(count: int) -> list[Parameter]:
    return [Parameter(f"p{i}", 8, 8, "integer") for i in range(count)]


def address(_: Any) -> int:
    return 0x7000


def numba(argument: Argument, value: Any, sizes: list[int]) -> tuple[bytes, ...]:
    parameters = [Parameter(f"p{i}", size, size, "integer") for i, size in enumerate(sizes)]
    return marshal("k", [argument], parameters, [value], address)


def scalar(dtype: str) -> Argument:
    return Argument("x", "scalar", dtype, np.dtype(dtype).str)


MATRIX = Argument("A", "array", "array(float32, 2d, A)", "<f4", 2, "A")


def test_an_array_is_numbas_nine_fields() -> None:
    array = np.zeros((6, 10), np.float32)[::-2, 1:8:3]
    values = numba(MATRIX, array, [8] * 9)
    assert list(values) == words(0, 0, 9, 4, 0x7000, 3, 3, -80, 12)


def test_an_array_of_the_gpu_is_described_by_its_interface() -> None:
    class OnGpu:
        def __init__(self, strides: tuple[int, int] | None, rows: Any = 2) -> None:
            self.__cuda_array_interface__ = {
                "typestr": "<f4", "shape": (rows, 5), "strides": strides, "data": (0x10, False), "version": 3,
            }  # fmt: skip

    assert list(numba(MATRIX, OnGpu(None), [8] * 9))[5:] == words(2, 5, 20, 4)
    assert list(numba(MATRIX, OnGpu((4, 8)), [8] * 9))[5:] == words(2, 5, 4, 8)
    assert list(numba(MATRIX, OnGpu(None, np.int64(2)), [8] * 9))[5:] == words(2, 5, 20, 4)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 2), np.float64),
        np.zeros((2, 2), ">f4"),
        np.zeros(4, np.float32),
        np.float32(1),
        [[1.0, 2.0]],
        None,
    ],
    ids=["dtype", "byte order", "dimensions", "scalar", "list", "none"],
)
def test_an_invalid_array_is_refused(array: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"^k: A must be array\(float32, 2d, A\) \(got .*\); "):
        numba(MATRIX, array, [8] * 9)


def test_layout_and_writability_are_checked() -> None:
    row_major = Argument("A", "array", "array(float32, 2d, C)", "<f4", 2, "C")
    numba(row_major, np.zeros((3, 4), np.float32), [8] * 9)
    with pytest.raises(ArgumentTypeError, match=r"2d, F"):
        numba(row_major, np.zeros((3, 4), np.float32).T, [8] * 9)
    with pytest.raises(ArgumentTypeError, match="read-only"):
        array = np.zeros((3, 4), np.float32)
        array.flags.writeable = False
        numba(row_major, array, [8] * 9)
    column_major = Argument("A", "array", "array(float32, 2d, F)", "<f4", 2, "F")
    numba(column_major, np.zeros((3, 1), np.float32), [8] * 9)
    with pytest.raises(ArgumentTypeError, match=r"2d, C"):
        numba(column_major, np.zeros((3, 4), np.float32), [8] * 9)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3, 4)), np.zeros((3, 4)).T, np.zeros((6, 4))[::2], np.zeros((6, 4))[:1, ::2], np.zeros(()),
        np.zeros((0, 3))[:, ::2],
        np.zeros((4, 6))[:, ::-1], np.zeros((2, 3, 4)).transpose(0, 2, 1), np.broadcast_to(1.0, (3, 3)),
    ],
)  # fmt: skip
def test_layout_agrees_with_numpy(array: np.ndarray[Any, Any]) -> None:
    shape = array_shape(array)
    assert shape is not None
    assert (shape.layout == "C") == array.flags.c_contiguous
    assert (shape.layout == "A") == (not array.flags.forc)


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("int8", -3, struct.pack("<b", -3)),
        ("uint64", 2**64 - 1, b"\xff" * 8),
        ("int64", np.int8(-1), b"\xff" * 8),
        ("float16", 1.5, np.float16(1.5).tobytes()),
        ("float32", 1, struct.pack("<f", 1)),
        ("float64", np.float32(0.1), struct.pack("<d", float(np.float32(0.1)))),
        ("bool", True, b"\x01"),
        ("bool", np.False_, b"\x00"),
    ],
)
def test_scalars(dtype: str, value: Any, expected: bytes) -> None:
    assert numba(scalar(dtype), value, [len(expected)]) == (expected,)


def test_a_complex_number_is_two_parameters() -> None:
    assert numba(scalar("complex64"), 1 + 2j, [4, 4]) == (struct.pack("<f", 1), struct.pack("<f", 2))
    assert numba(scalar("complex128"), 3, [8, 8]) == (struct.pack("<d", 3), struct.pack("<d", 0))


def test_a_tuple_is_its_items() -> None:
    pair = Argument("t", "tuple", "Tuple(int64, float32)", items=(scalar("int64"), scalar("float32")))
    assert numba(pair, (7, 2.0), [8, 4]) == (struct.pack("<q", 7), struct.pack("<f", 2))
    with pytest.raises(ArgumentTypeError, match="t must be Tuple"):
        numba(pair, (7,), [8, 4])


@pytest.mark.parametrize(("dtype", "value"), [("int8", 128), ("uint32", -1), ("int64", 2**63)])
def test_an_integer_out_of_range(dtype: str, value: int) -> None:
    with pytest.raises(LaunchError, match=rf"x must fit {dtype} \(got {value}\)"):
        numba(scalar(dtype), value, [np.dtype(dtype).itemsize])


@pytest.mark.parametrize(
    ("dtype", "value"), [("int32", 1.0), ("float32", 1j), ("float32", "1"), ("bool", 2), ("int64", np.zeros(1))]
)
def test_a_scalar_of_another_kind(dtype: str, value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="x must be"):
        numba(scalar(dtype), value, [np.dtype(dtype).itemsize])


def test_a_wrong_number_of_arguments() -> None:
    with pytest.raises(LaunchError, match=r"k takes 1 arguments \(x: int32\) \(got 2\)"):
        marshal("k", [scalar("int32")], eights(1), [1, 2], address)


C_PARAMETERS = [
    Parameter("a", 8, 8, "integer"),
    Parameter("n", 4, 4, "integer"),
    Parameter("x", 4, 4, "float"),
    Parameter("s", 6, 2, "bytes"),
]


def c(*args: Any) -> tuple[bytes, ...]:
    return marshal("k", c_arguments(C_PARAMETERS), C_PARAMETERS, args, address)


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int16), ("b", ctypes.c_int16), ("c", ctypes.c_int16))


def test_c_arguments() -> None:
    structure = b"\1\0\2\0\3\0"
    expected = (struct.pack("<q", 0x7000), struct.pack("<i", -5), struct.pack("<f", 0.5), structure)
    array = np.zeros(3, np.int8)
    assert c(array, -5, 0.5, structure) == expected
    assert c(array, np.int32(-5), np.float32(0.5), Pair(1, 2, 3)) == expected
    record = np.array([(1, 2, 3)], dtype="i2,i2,i2")[0]
    assert c(array, 2**32 - 5, 0.5, record) == expected
    assert c(0x7000, -5, 0.5, structure) == expected


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((np.zeros(1), np.zeros(1), 1, bytes(6)), ArgumentTypeError, "argument 1 must be a 4-byte integer"),
        ((np.zeros(1), 1.5, 1, bytes(6)), ArgumentTypeError, "argument 1 must be a 4-byte integer"),
        ((np.zeros(1), 2**32, 1, bytes(6)), LaunchError, "argument 1 must fit"),
        ((np.zeros(1), -(2**31) - 1, 1, bytes(6)), LaunchError, "argument 1 must fit"),
        ((1.0, 1, 1, bytes(6)), ArgumentTypeError, "argument 0 must be a 8-byte integer or pointer"),
        ((np.zeros(1), 1, "x", bytes(6)), ArgumentTypeError, "argument 2 must be a 4-byte float"),
        ((np.zeros(1), 1, 1, bytes(5)), ArgumentTypeError, "argument 3 must be a 6-byte structure"),
        ((np.zeros(1), 1, 1, 7), ArgumentTypeError, "argument 3 must be a 6-byte structure"),
    ],
)
def test_c_arguments_that_do_not_fit(args: tuple[Any, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        c(*args)


def test_values_are_aligned() -> None:
    parameters = [Parameter("a", 1, 1, "integer"), Parameter("b", 8, 8, "float"), Parameter("c", 2, 2, "integer")]
    program = Program("k", "", "k", (9, 0), tuple(parameters), 0, (), "c")
    assert program.pack([b"a", b"b" * 8, b"cc"]) == b"a" + bytes(7) + b"b" * 8 + b"cc"


def test_an_array_in_the_other_byte_order_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"byte order.*astype\('<i4'\)"):
        marshal("k", c_arguments(eights(1), None), eights(1), (np.zeros(4, ">i4"),), address)

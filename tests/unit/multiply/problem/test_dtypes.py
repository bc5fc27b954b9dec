import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import ArgumentTypeError
from tilewright.multiply.problem.dtypes import DTYPES, Dtype, common, dtype

by_name = pytest.mark.parametrize("record", DTYPES, ids=lambda record: record.name)


@by_name
def test_agrees_with_numpy(record):
    assert record.numpy.name == record.name
    assert record.numpy.itemsize == record.bytes
    if record.is_float:
        info = ml_dtypes.finfo(record.numpy)
        assert record.precision == info.nmant + 1
        assert record.largest == float(info.max)
        assert record.smallest == float(info.smallest_subnormal)
        assert 2.0**record.emin == float(info.smallest_normal)
    else:
        info = np.iinfo(record.numpy)
        assert record.exact_range == (info.min, info.max)
        assert record.kind == ("signed" if info.min else "unsigned")


@by_name
def test_accumulator_holds_the_dtype(record):
    assert dtype(record.accumulator).holds(record)


#: A float whose exponents end before the bits of its significand do, which no record of the table has.
FEW_EXPONENTS = Dtype("float8_e3m4", 1, "float", "float32", 5, -2, 3, extends_numpy=True)


@pytest.mark.parametrize("record", [*(r for r in DTYPES if r.is_float), FEW_EXPONENTS], ids=lambda record: record.name)
def test_exact_range_of_floats(record):
    low, high = record.exact_range
    assert low == -high
    for integer in (high - 1, high):
        assert int(np.array(float(integer)).astype(record.numpy)) == integer
    assert float(np.array(float(high + 1)).astype(record.numpy)) != high + 1


def test_lookups():
    assert dtype(np.float32) is dtype("float32") is dtype(dtype("f4")) is dtype(np.dtype(">f4"))
    assert dtype("bfloat16") is dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("like", ["datetime64[s]", object, "no such thing"])
def test_unknown_dtype(like):
    with pytest.raises(ArgumentTypeError, match=r"must be one of float8_e4m3fn, .*astype"):
        dtype(like)


def test_common():
    assert common(dtype("int8"), dtype("int32")).name == "int32"
    assert common(dtype("int32"), dtype("uint32")).name == "int64"
    assert common(dtype("bfloat16"), dtype("float16")).name == "float32"
    assert common(dtype("float8_e4m3fn"), dtype("float8_e5m2")).name == "float16"
    for pair in (("int64", "uint64"), ("int8", "float64")):
        with pytest.raises(ArgumentTypeError, match=f"got {pair[0]} and {pair[1]}"):
            common(*map(dtype, pair))

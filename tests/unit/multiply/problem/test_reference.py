import ml_dtypes  # noqa: F401  (makes "bfloat16" a NumPy name)
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scalar_product import canonical_scalar

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.problem import reference
from tilewright.multiply.problem.dtypes import DTYPES, dtype
from tilewright.multiply.problem.reference import canonical, error_bound, gamma, same_bits

FLOATS = [record for record in DTYPES if record.is_float]
INTEGERS = [record for record in DTYPES if not record.is_float]
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]


def values(rng, shape, record, style):
    """A matrix of one dtype: plain numbers, all bit patterns, or mostly edge values."""
    if not record.is_float or style == "bits":
        raw = rng.integers(0, 256, (*shape, record.bytes), np.uint8)
        return raw.view(record.numpy).reshape(shape) if raw.size else np.zeros(shape, record.numpy)
    matrix = rng.standard_normal(shape)
    if style == "edges":
        tiny, huge = record.smallest, record.largest
        pool = np.array([*EDGES, tiny, -tiny, 3 * tiny, 2.0**record.emin, huge, -huge, huge / 2, 1.5])
        matrix = np.where(rng.random(shape) < 0.2, rng.choice(pool, shape), matrix)
    if style == "spread":
        matrix = np.ldexp(matrix, rng.integers(record.emin // 2, record.emax // 2, shape))
    return matrix.astype(record.numpy)


def restride(matrix, how):
    """The same matrix under other strides."""
    if how == "fortran":
        return np.asfortranarray(matrix)
    if how == "reversed":
        return np.ascontiguousarray(matrix[::-1, ::-1])[::-1, ::-1]
    if how == "sliced":
        wide = np.zeros((matrix.shape[0] * 2, matrix.shape[1] * 3), matrix.dtype)
        wide[1::2, 2::3] = matrix
        return wide[1::2, 2::3]
    return matrix


extents = st.integers(0, 20)
styles = st.sampled_from(["plain", "spread", "edges", "bits"])
strides = st.sampled_from(["plain", "fortran", "reversed", "sliced"])
seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=60)
@given(extents, extents, extents, st.sampled_from(DTYPES), styles, strides, strides, seeds)
def test_agrees_with_the_scalar_oracle(m, n, k, record, style, a_strides, b_strides, seed):
    rng = np.random.default_rng(seed)
    a = restride(values(rng, (m, k), record, style), a_strides)
    b = restride(values(rng, (k, n), record, style), b_strides)
    assert same_bits(canonical(a, b), canonical_scalar(a, b))


def combinations():
    """Every operand, accumulator and output of one kind that is allowed."""
    for kind in (FLOATS, INTEGERS):
        for operand in kind:
            for total in kind:
                if not operand.is_float or total.holds(operand):
                    for out in kind:
                        yield pytest.param(operand, total, out, id=f"{operand.name}-{total.name}-{out.name}")


@pytest.mark.parametrize(("operand", "total", "out"), list(combinations()))
def test_every_combination_of_dtypes(operand, total, out):
    rng = np.random.default_rng(operand.bytes + 10 * total.bytes + 100 * out.bytes)
    for style in ("plain", "spread", "edges"):
        a, b = values(rng, (3, 7), operand, style), values(rng, (7, 4), operand, style)
        for order in reference.ORDERS:
            chosen = {"acc_dtype": total, "out_dtype": out, "order": order}
            assert same_bits(canonical(a, b, **chosen), canonical_scalar(a, b, **chosen)), (style, order)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["float16", "bfloat16"]), seeds)
def test_sums_in_sixteen_bits_round_once(name, seed):
    """Significands are such that products and sums often lie on or next to a tie."""
    rng = np.random.default_rng(seed)
    record = dtype(name)
    scale = np.ldexp(1.0, rng.integers(-12, 5, (4, 12)))
    a = ((2.0 ** (record.precision - 1) + rng.integers(-3, 4, (4, 12))) * scale).astype(record.numpy)
    b = np.ldexp(1.0 + rng.integers(-2, 3, (12, 5)) * 2.0 ** (1 - record.precision), -rng.integers(0, 30, (12, 5)))
    b = b.astype(record.numpy)
    for order in reference.ORDERS:
        chosen = {"acc_dtype": record, "order": order}
        assert same_bits(canonical(a, b, **chosen), canonical_scalar(a, b, **chosen))


@pytest.mark.parametrize(
    ("first", "x", "y", "expected"),
    [
        (2.0**-100, 1 + 2.0**-4, 1 + 2.0**-4, 1.125 + 2.0**-7),  # just above a tie whose even side is below
        (-(2.0**-100), 1 + 2.0**-7, 1.5, 193 / 128),  # just below a tie whose even side is above
        (0.0, 1 + 2.0**-4, 1 + 2.0**-4, 1.125),
        (0.0, 1 + 2.0**-7, 1.5, 194 / 128),
    ],
)
def test_bfloat16_sums_see_what_float64_cannot_hold(first, x, y, expected):
    a, b = np.array([[first, x]], "bfloat16"), np.array([[1.0], [y]], "bfloat16")
    assert float(canonical(a, b, acc_dtype="bfloat16")[0, 0]) == expected
    assert float(canonical(-a, b, acc_dtype="bfloat16")[0, 0]) == -expected


def test_float64_to_bfloat16_rounds_once():
    """1 + 2^-8 + 2^-40 lies above the tie that it becomes in float32."""
    a = np.array([[1 + 2.0**-8 + 2.0**-40]])
    assert float(canonical(a, np.ones((1, 1)), out_dtype="bfloat16")[0, 0]) == 1 + 2.0**-7


@pytest.mark.parametrize(
    ("product", "total", "fused"),
    [
        ("float32", "float32", True),
        ("float64", "float64", True),
        ("float32", "float32", False),
        ("float64", "float64", False),
        ("float32", "float64", False),
    ],
)
def test_baseline_host_gives_the_same_bits(product, total, fused):
    """Code without any extension has no vector fma, so it calls the mathematics library's."""
    rng = np.random.default_rng(3)
    for style in ("plain", "spread", "edges"):
        a, b = values(rng, (5, 40), dtype(product), style), values(rng, (40, 37), dtype(product), style)
        sums = [reference._sum(a, b, np.dtype(total), fused=fused, native=native) for native in (True, False)]
        assert same_bits(*sums)


def test_fused_and_rounded_differ():
    rng = np.random.default_rng(4)
    a, b = rng.random((20, 20)).astype(np.float32), rng.random((20, 20)).astype(np.float32)
    assert not same_bits(canonical(a, b), canonical(a, b, order="rounded-product"))


def test_numba_naive_kernel_sum():
    """S1: float32 products, summed in double, as a Python float `0.` makes a compiler do."""
    rng = np.random.default_rng(5)
    a, b = rng.random((3, 50)).astype(np.float32), rng.random((50, 4)).astype(np.float32)
    expected = np.zeros((3, 4))
    for k in range(50):
        expected += (a[:, k, None] * b[None, k, :]).astype(np.float64)
    actual = canonical(a, b, acc_dtype="float64", out_dtype="float32", order="rounded-product")
    assert same_bits(actual, expected.astype(np.float32))


def test_byte_order_and_scalars():
    a = np.arange(6, dtype=">f4").reshape(2, 3)
    assert same_bits(canonical(a, a.T), canonical(a.astype("f4"), a.T.astype("f4")))


def test_no_terms_give_positive_zeros():
    result = canonical(np.zeros((3, 0), np.float32), np.zeros((0, 2), np.float32))
    assert same_bits(result, np.zeros((3, 2), np.float32))


def test_integers_wrap():
    a, b = np.full((1, 3), 2**31 - 1, np.int32), np.full((3, 1), 2**31 - 1, np.int32)
    assert canonical(a, b)[0, 0] == 3
    assert canonical(a, b, acc_dtype="int64", out_dtype="int64")[0, 0] == 3 * (2**31 - 1) ** 2 - 2**64


def test_wrong_use():
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(ArgumentValueError, match=r"`b.shape\[0\]` must equal"):
        canonical(a, a[:1])
    with pytest.raises(ArgumentValueError, match=r"`order` must be one of fma, rounded-product \(got 'any'\)"):
        canonical(a, a, order="any")
    with pytest.raises(ArgumentTypeError, match=r"`acc_dtype` must hold float32 exactly \(got float16\)"):
        canonical(a, a, acc_dtype="float16")
    with pytest.raises(ArgumentTypeError, match=r"`out_dtype` must be of the operands' kind"):
        canonical(a, a, out_dtype="int32")
    with pytest.raises(ArgumentTypeError, match="got float32 and int32"):
        canonical(a, a.astype(np.int32))


def test_same_bits():
    one = np.ones((2, 2), np.float32)
    assert same_bits(one, one.copy(order="F"))
    assert not same_bits(one, one.astype(np.float64))
    assert not same_bits(one, one[:1])
    assert not same_bits(one, np.nextafter(one, np.float32(2)))
    assert same_bits(np.array([np.nan], "bfloat16"), -np.array([np.nan], "bfloat16"))
    assert same_bits(np.zeros((0, 3)), np.zeros((0, 3)))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FLOATS), st.integers(1, 40), st.sampled_from(["plain", "spread"]), seeds)
def test_bound_covers_other_orders(record, k, style, seed):
    from fractions import Fraction

    rng = np.random.default_rng(seed)
    a, b = values(rng, (2, k), record, style), values(rng, (k, 2), record, style)
    order = rng.permutation(k)
    bound = error_bound(a, b)
    results = [canonical(a, b), canonical(a[:, order], b[order])]
    if record.name in ("float32", "float64"):
        half = k // 2  # the sum is split in two, with two roundings a step
        parts = canonical(a[:, :half], b[:half], order="rounded-product"), canonical(a[:, half:], b[half:])
        with np.errstate(all="ignore"):
            results.append(parts[0] + parts[1])
    for i, j in np.ndindex(2, 2):
        exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True))
        for result in results:
            value = float(result[i, j])
            assert bound[i, j] == np.inf or abs(Fraction(value) - exact) <= Fraction(float(bound[i, j]))


def test_bound_covers_underflow():
    tiny = np.full((1, 3), 1.5 * 2.0**-75, np.float32)
    exact = 3 * 2.25 * 2.0**-150
    assert float(canonical(tiny, tiny.T)[0, 0]) == 3 * 2.0**-149
    assert abs(3 * 2.0**-149 - exact) <= error_bound(tiny, tiny.T)[0, 0] < 4 * 2.0**-149


def test_bound_is_of_the_right_size():
    """The bound is tight: about k roundings of the accumulator for a well-scaled product."""
    ones = np.ones((1, 64), np.float32)
    assert error_bound(ones, ones.T)[0, 0] == pytest.approx(64 * 64 * 2.0**-24, rel=1e-3)
    assert error_bound(ones.astype(np.float16), ones.T.astype(np.float16))[0, 0] == pytest.approx(
        64 * 2.0**-11, rel=0.01
    )
    huge = np.full((1, 4), 3e38, np.float32)
    assert error_bound(huge, huge.T)[0, 0] == np.inf
    assert error_bound(np.ones((2, 3), np.int8), np.ones((3, 2), np.int8)).tolist() == [[0, 0], [0, 0]]
    assert gamma(2**24, 2.0**-24) == np.inf

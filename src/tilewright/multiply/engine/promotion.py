"""The dtypes of a product: how `numpy.matmul` promotes and casts them; ml_dtypes' floats are floats too."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.problem import dtypes
from tilewright.multiply.problem.algebra import WORD, Semiring, semiring
from tilewright.multiply.problem.expression import Expression
from tilewright.multiply.problem.kind import Kind

#: How the products of a dtype are computed.
Lowering = Literal["real", "complex", "bool", "words"]
#: Whether only the sums' bits within the result's width matter ("result"), or all of them.
Use = Literal["result", "epilogue", "semiring"]
Order = Literal["canonical", "tf32x3", "fast"]
#: NumPy's casting rules; each allows all that the ones before it allow.
Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
_RULES = get_args(Casting)
ORDERS: tuple[Order, ...] = get_args(Order)
#: k up to which sums of products of two bytes cannot reach 2^32. Source: 2^32 / 255^2.
_BYTE_SUMS = 66_051


@dataclass(frozen=True)
class Types:
    """The dtypes of a product."""

    result: np.dtype[Any]  #: The dtype that sums are rounded or wrapped to.
    accumulator: np.dtype[Any]  #: The dtype of their registers.
    #: `a`, `b`: the dtypes that kernels read; other operands are converted first.
    a: np.dtype[Any]
    b: np.dtype[Any]
    lowering: Lowering
    #: The orders of summation that the caller allows, for real sums.
    order: Order = "canonical"

    @functools.cached_property
    def kind(self) -> Kind:
        """The kind of the product that computes it, with sums rounded to the result."""
        if self.lowering == "bool":
            return Kind("uint8", "uint8", "uint32", "uint32")
        if self.lowering == "complex":
            return Kind(*(self.accumulator.name,) * 4)
        return Kind(self.a.name, self.b.name, self.result.name, self.accumulator.name, order=self.order)

    @functools.cached_property
    def finishes_in_kernel(self) -> bool:
        """Whether the kernel's own final conversion rounds once."""
        return self.accumulator.name != "float64" or dtypes.element(self.result.name).carried is None


def real_kind(types: Types, algebra: Semiring | None = None, finish: tuple[Expression, bool] | None = None) -> Kind:
    """The kind of a real product by an algebra; `finish` is an expression of its sums, and whether that reads C."""
    kind = types.kind._replace(algebra=algebra)
    return kind if finish is None else kind._replace(out=finish[0].dtype, finish=finish[0], reads_out=finish[1])


def kind_of(types: Types, k: int, algebra: Semiring | None, finish: tuple[Expression, bool] | None = None) -> Kind:
    """The kind of the product that computes one of these dtypes, with k steps."""
    if types.lowering == "bool":
        return byte_kind(k)
    return word_kind(algebra) if types.lowering == "words" else real_kind(types, algebra, finish)


def word_kind(algebra: Semiring | None) -> Kind:
    """The kind of a product of booleans by an algebra, with rows of B and C in words of 32."""
    return Kind("bool", WORD, WORD, WORD, algebra)


def truth_kind(algebra: Semiring | None) -> Kind:
    """The kind of a product of booleans as bytes, for devices with units for bits; or-and by default."""
    return Kind(*("bool",) * 4, algebra=semiring("or-and", "bool").in_words() if algebra is None else algebra)


def byte_kind(k: int) -> Kind:
    """The kind of or-and by counting: a counter wide enough that no count wraps to 0."""
    total = "uint32" if k <= _BYTE_SUMS else "uint64"
    return Kind("uint8", "uint8", total, total)


def as_dtype(like: Any, name: str) -> np.dtype[Any]:
    """A dtype in native byte order, from NumPy's or ml_dtypes' names or torch's dtypes."""
    if type(like).__module__ == "torch" and type(like).__name__ == "dtype":
        like = str(like).removeprefix("torch.")
    if isinstance(like, str) and dtypes.extends_numpy(like):
        import ml_dtypes

        like = getattr(ml_dtypes, like, like)
    try:
        found: np.dtype[Any] = np.dtype(like).newbyteorder("=")
    except TypeError:
        raise dtypes.unknown(f"`{name}`", like, "or another dtype of NumPy") from None
    return found


def check_casting(casting: Any) -> None:
    """Raise if it is not one of NumPy's rules.

    Raises ArgumentTypeError, ArgumentValueError.
    """
    if not isinstance(casting, str):
        raise ArgumentTypeError(f"`casting` must be the name of a rule (got {type(casting).__name__})")
    if casting not in _RULES:
        raise ArgumentValueError.of_name("`casting`", casting, _RULES)


def check_order(order: Any) -> None:
    """Raise if it is not an order of summation.

    Raises ArgumentValueError.
    """
    if not isinstance(order, str) or order not in ORDERS:
        raise ArgumentValueError.of_name("`order`", order, ORDERS)


def types(
    a: np.dtype[Any],
    b: np.dtype[Any],
    dtype: np.dtype[Any] | None = None,
    acc_dtype: np.dtype[Any] | None = None,
    use: Use = "result",
    order: Order = "canonical",
    casting: Casting = "same_kind",
) -> Types:
    """The dtypes of a product, as `numpy.matmul` promotes and casts them.

    Without `dtype` the result has the operands' common dtype (float32 for float8, which has no arithmetic). With it the
    operands are cast to that dtype first, which `casting` must allow.

    Raises ArgumentTypeError: there is no such product, or the casting rule forbids it.

    >>> types(np.dtype("int8"), np.dtype("float32")).result
    dtype('float32')
    >>> types(np.dtype("q"), np.dtype("q")).result.char  # NumPy keeps longlong apart from int64, which equals it
    'q'
    """
    found = _types(a, b, dtype, acc_dtype, use, order, casting)
    if found.result.kind in "iu" and found.result.itemsize == 8:
        exact = np.result_type(a, b).newbyteorder("=") if dtype is None else dtype
        if exact.char != found.result.char:
            return replace(found, result=exact)
    return found


@functools.lru_cache(maxsize=1024)
def _types(
    a: np.dtype[Any],
    b: np.dtype[Any],
    dtype: np.dtype[Any] | None,
    acc_dtype: np.dtype[Any] | None,
    use: Use,
    order: Order,
    casting: Casting,
) -> Types:
    result = _promoted(a, b) if dtype is None else dtype
    if result.name not in dtypes.NAMES and result.kind != "b" and not _is_complex(result):
        raise ArgumentTypeError(
            f"a product must be of booleans, integers, floats to 64 bits or complex numbers to 128 "
            f"(got {result} for {a} and {b}); convert the operands with .astype"
        )
    for name, operand in (("a", a), ("b", b)):
        if not castable(operand, result, casting):
            raise ArgumentTypeError(
                f"`{name}` must be castable to the product's dtype {result} by the rule {casting} (got {operand}); "
                f"convert it with .astype, or allow more by `casting`"
            )
    if result.kind == "c" and use != "result":
        raise ArgumentTypeError(
            f"a product of complex numbers must have no algebra and no epilogue (got {result}); multiply the real and "
            "imaginary parts, or compute afterwards"
        )
    if result.kind == "b":
        if acc_dtype is not None:
            raise ArgumentTypeError(f"`acc_dtype` must not be given for booleans (got {acc_dtype}); they do not add up")
        if use == "epilogue":
            raise ArgumentTypeError(
                "an epilogue must follow a product of numbers (got booleans); convert the operands with "
                '.astype("uint8")'
            )
        byte = np.dtype(np.uint8)
        return Types(result, result, byte, byte, "bool" if use == "result" else "words")
    if result.kind == "c":
        total = _complex_total(result, acc_dtype)
        return Types(result, total, result, result, "complex")
    total = _total(result, result if acc_dtype is None and use == "semiring" and result.kind in "iu" else acc_dtype)
    left, right = (_readable(x, result, total, whole=use != "result") for x in (a, b))
    inexact = left == right and dtypes.dtype(left).is_float and total.kind == "f" and use != "semiring"
    return Types(result, total, left, right, "real", order if inexact else "canonical")


def _promoted(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    try:
        found = np.result_type(a, b)
    except TypeError as error:
        raise ArgumentTypeError(
            f"`a` and `b` must have dtypes with a common one (got {a} and {b}); convert one with .astype"
        ) from error
    return np.dtype(np.float32) if dtypes.is_float8(found.name) else found.newbyteorder("=")


def _is_float(given: np.dtype[Any]) -> bool:
    return given.kind == "f" or dtypes.extends_numpy(given.name)


def castable(given: np.dtype[Any], wanted: np.dtype[Any], casting: Casting = "same_kind") -> bool:
    """Whether NumPy's rule allows a cast; ml_dtypes' floats count as floats.

    >>> castable(np.dtype("f8"), np.dtype("f4")), castable(np.dtype("f8"), np.dtype("f4"), "safe")
    (True, False)
    """
    if casting == "same_kind":
        if _is_float(given) and (_is_float(wanted) or wanted.kind == "c"):
            return True
        if _is_float(wanted) and given.kind in "biu":
            return True
    return bool(np.can_cast(given, wanted, casting))


def _total(result: np.dtype[Any], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    record = dtypes.dtype(result)
    default = dtypes.dtype(record.accumulator)
    if wanted is None:
        return default.numpy
    if wanted.name not in dtypes.NAMES or not dtypes.dtype(wanted).holds(record):
        raise ArgumentTypeError(
            f"`acc_dtype` must hold every value of the product's dtype {result} (got {wanted}); give {default.name} "
            "or a wider one, or a narrower `dtype`"
        )
    if dtypes.dtype(wanted).carried is not None:
        raise ArgumentTypeError(f"`acc_dtype` must be float32 or float64 for {result} (got {wanted})")
    return wanted


def _is_complex(given: np.dtype[Any]) -> bool:
    """Whether kernels multiply such complex numbers; there are none for complex longdouble."""
    return given.kind == "c" and given.itemsize <= 16


def _complex_total(result: np.dtype[Any], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    if wanted is None:
        return result
    if not _is_complex(wanted) or wanted.itemsize < result.itemsize:
        raise ArgumentTypeError(f"`acc_dtype` must be complex and hold {result} (got {wanted})")
    return wanted


def _readable(
    given: np.dtype[Any], result: np.dtype[Any], total: np.dtype[Any], *, whole: bool = False
) -> np.dtype[Any]:
    """The dtype that kernels read for an operand: its own if reading it converts as NumPy's cast does.

    For `whole` sums this must hold for every bit of the accumulator, not only for the result's.
    """
    native = np.dtype(np.uint8) if given.kind == "b" else given.newbyteorder("=")
    if native.name not in dtypes.NAMES:
        return result
    have, want = dtypes.dtype(native), dtypes.dtype(result)
    if have.is_float and not want.is_float:  # only casting "unsafe" comes here, and NumPy casts before it multiplies
        return result
    if have.is_float == want.is_float:
        if whole:
            return native if want.holds(have) else result
        # Narrower integers of either sign are the same modulo 2^bits; narrower floats are the same values.
        return native if want.holds(have) or (not want.is_float and have.bytes <= want.bytes) else result
    # An integer of at most the significand's bits is a value of the float type; a longer one is rounded to it first.
    exact = have.precision <= want.precision and have.largest <= want.largest
    return native if exact or total == result else result

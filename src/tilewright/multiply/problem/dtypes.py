"""Element types: THE table, one record each.

A record holds all facts about a dtype: its range, its accumulator, its names in every library and language, and its
conversions if it has no arithmetic of its own (:mod:`tilewright.multiply.problem.carried`).

Source: IEEE 754-2019, table 3.5 (binary16, binary32, binary64); bfloat16 is binary32 with 8 significand bits; arXiv
2209.05433 (8-bit floats). LLVM Language Reference; OpenCL 1.2 Specification, section 6.1.1 (scalar types).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright.errors import ArgumentTypeError, MissingExtraError, near
from tilewright.ground import installation
from tilewright.multiply.problem.carried import FLOAT8_E4M3, FLOAT8_E5M2, HALF, UPPER_HALF, Carried


@dataclass(frozen=True, slots=True)
class Dtype:
    """One element type."""

    name: str  #: NumPy's name, and torch's, JAX's and `ml_dtypes`'.
    bytes: int  #: Size of one element.
    kind: Literal["float", "signed", "unsigned", "bool", "complex"]
    accumulator: str  #: Name of the default type of sums.
    precision: int  #: Significand bits with the hidden one; for integers the bits of a magnitude.
    #: `emin`, `emax`: exponents of the smallest and largest normal power of two; 0 for integers.
    emin: int = 0
    emax: int = 0
    memory: str = ""  #: LLVM's type of an element in memory.
    c: str = ""  #: OpenCL C's type of one in a register, and in memory for all but booleans.
    ptx: str = ""  #: PTX's type of one; "" where there is none.
    cuda: str = ""  #: CUDA C++'s type, where the catalogue's kernels are templates over it.
    #: Its name in AMX's features and instructions; "" if AMX cannot multiply it.
    amx: str = ""
    extends_numpy: bool = False  #: Whether NumPy has it only through the package `ml_dtypes`.
    carried: Carried | None = None  #: Conversions of a float that is only stored; arithmetic on it is in float32.
    infinite: bool = True  #: For floats, whether there is an infinity; else all bits set are NaN.
    dlpack: int | None = None  #: DLPack's kind of elements where `kind` does not say it.
    cuda_data: int | None = None  #: CUDA's `cudaDataType` (`library_types.h`), where products of its libraries have it.

    @property
    def dlpack_code(self) -> int:
        """DLPack's kind of elements (`DLDataTypeCode` of `dlpack.h`)."""
        kinds = {"signed": 0, "unsigned": 1, "float": 2, "complex": 5, "bool": 6}
        return kinds[self.kind] if self.dlpack is None else self.dlpack

    @property
    def pairs(self) -> int:
        """Numbers of the register type that one element is: 2 for a complex one."""
        return 2 if self.kind == "complex" else 1

    @property
    def register(self) -> str:
        """LLVM's type of one number of running sums; narrow integers have the same bits modulo their own width."""
        if self.kind == "complex":
            return {8: "float", 16: "double"}[self.bytes]
        return element(self.accumulator).memory

    @property
    def c_memory(self) -> str:
        """OpenCL C's type of an element in memory."""
        return "uchar" if self.kind == "bool" else self.c

    @property
    def computed(self) -> str:
        """The dtype that expressions compute in: itself, or float32."""
        return "float32" if self.carried is not None else self.name

    @property
    def product(self) -> str:
        """The default dtype of products: float32 for 8-bit floats, which cannot hold sums."""
        return self.accumulator if self.is_float and self.bytes == 1 else self.name

    @property
    def bits(self) -> int:
        """Width of one element."""
        return 8 * self.bytes

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "float"

    @property
    def exact_range(self) -> tuple[int, int]:
        """The widest interval around zero whose integers the type all holds.

        >>> dtype("float16").exact_range
        (-2048, 2048)
        >>> dtype("uint8").exact_range
        (0, 255)
        """
        limit = 1 << self.precision
        if self.is_float:
            limit = min(limit, int(self.largest))  # few exponents end before the significand's bits do
            return -limit, limit
        return (-limit if self.kind == "signed" else 0), limit - 1

    @property
    def largest(self) -> float:
        """The largest finite value."""
        if not self.is_float:
            return float(self.exact_range[1])
        # Without an infinity, the last exponent has numbers too; only its largest significand is NaN.
        return (2.0 - 2.0 ** (1 - self.precision) * (1 if self.infinite else 2)) * 2.0**self.emax

    @property
    def smallest(self) -> float:
        """The smallest positive value: the lowest subnormal, or 1."""
        return 2.0 ** (self.emin - self.precision + 1) if self.is_float else 1.0

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding to nearest; 0 for integers.

        Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 2.1.
        """
        return 2.0**-self.precision if self.is_float else 0.0

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype, in native byte order."""
        if not self.extends_numpy:
            return np.dtype(self.name)
        try:
            import ml_dtypes
        except ImportError as error:
            raise MissingExtraError(
                f"{self.name} arrays need the package ml_dtypes, which is not installed; run "
                f"`{installation.packages('ml-dtypes')}`",
                "gpu",
            ) from error
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
        return found

    @property
    def installed(self) -> bool:
        """Whether NumPy has the dtype here, itself or through the package `ml_dtypes`."""
        try:
            return self.numpy is not None
        except MissingExtraError:
            return False

    def holds(self, other: Dtype) -> bool:
        """Whether every value of `other` is a value of this type."""
        if self.is_float != other.is_float:
            return False
        if self.is_float:
            return self.precision >= other.precision and self.emin <= other.emin and self.emax >= other.emax
        lower, upper = self.exact_range
        other_lower, other_upper = other.exact_range
        return lower <= other_lower and other_upper <= upper


#: Every dtype of numbers, narrow before wide.
DTYPES: tuple[Dtype, ...] = (
    Dtype("float8_e4m3fn", 1, "float", "float32", 4, -6, 8, "i8", "uchar", cuda="__nv_fp8_e4m3", extends_numpy=True,
          carried=FLOAT8_E4M3, infinite=False, dlpack=10, cuda_data=28),
    Dtype("float8_e5m2", 1, "float", "float32", 3, -14, 15, "i8", "uchar", cuda="__nv_fp8_e5m2", extends_numpy=True,
          carried=FLOAT8_E5M2, dlpack=12, cuda_data=29),
    Dtype("float16", 2, "float", "float32", 11, -14, 15, "half", "ushort", "f16", "__half", carried=HALF, cuda_data=2),
    Dtype("bfloat16", 2, "float", "float32", 8, -126, 127, "i16", "ushort", "bf16", "__nv_bfloat16", amx="bf16",
          extends_numpy=True, carried=UPPER_HALF, dlpack=4, cuda_data=14),
    Dtype("float32", 4, "float", "float32", 24, -126, 127, "float", "float", "f32", "float", cuda_data=0),
    Dtype("float64", 8, "float", "float64", 53, -1022, 1023, "double", "double", "f64", "double", cuda_data=1),
    Dtype("int8", 1, "signed", "int32", 7, memory="i8", c="char", ptx="s8", cuda="signed char", amx="int8",
          cuda_data=3),
    Dtype("int16", 2, "signed", "int32", 15, memory="i16", c="short", ptx="s16", cuda="short"),
    Dtype("int32", 4, "signed", "int32", 31, memory="i32", c="int", ptx="s32", cuda="int", cuda_data=10),
    Dtype("int64", 8, "signed", "int64", 63, memory="i64", c="long", ptx="s64", cuda="long long"),
    Dtype("uint8", 1, "unsigned", "uint32", 8, memory="i8", c="uchar", ptx="u8", cuda="unsigned char", amx="int8",
          cuda_data=8),
    Dtype("uint16", 2, "unsigned", "uint32", 16, memory="i16", c="ushort", ptx="u16", cuda="unsigned short"),
    Dtype("uint32", 4, "unsigned", "uint32", 32, memory="i32", c="uint", ptx="u32", cuda="unsigned"),
    Dtype("uint64", 8, "unsigned", "uint64", 64, memory="i64", c="ulong", ptx="u64", cuda="unsigned long long"),
)  # fmt: skip
#: Dtypes whose products are built from those of numbers: booleans, and complex numbers.
COMPOSED: tuple[Dtype, ...] = (
    Dtype("bool", 1, "bool", "bool", 1, memory="i8", c="bool"),
    Dtype("complex64", 8, "complex", "complex64", 24, memory="i64", c="float2", cuda_data=4),
    Dtype("complex128", 16, "complex", "complex128", 53, memory="i128", c="double2", cuda_data=5),
)
NAMES = frozenset(record.name for record in DTYPES)
#: What begins short names of dtypes, in full.
_PREFIXES = {"bf": "bfloat", "fp": "float", "f": "float", "i": "int", "s": "int", "u": "uint"}
_BY_NAME = {record.name: record for record in DTYPES + COMPOSED}
#: Other floats of 8 bits are converted before they are multiplied.
_FLOAT8 = "float8"


def element(name: str) -> Dtype:
    """The record of an array's elements: numbers, booleans or complex numbers.

    >>> element("bfloat16").memory, element("complex64").pairs
    ('i16', 2)
    """
    return _BY_NAME[name]


def extends_numpy(name: str) -> bool:
    """Whether NumPy has a dtype only through the package `ml_dtypes`.

    >>> extends_numpy("float8_e4m3fn"), extends_numpy("float16")
    (True, False)
    """
    return name.startswith(_FLOAT8) or (name in _BY_NAME and _BY_NAME[name].extends_numpy)


def is_float8(name: str) -> bool:
    """Whether a dtype is one of `ml_dtypes`' floats of 8 bits, which have no arithmetic of their own."""
    return name.startswith(_FLOAT8)


@functools.lru_cache(maxsize=256)
def name_of(given: np.dtype[Any]) -> str:
    """A dtype's name, cached since NumPy builds it again for each access.

    >>> name_of(np.dtype("f4"))
    'float32'
    """
    return given.name


def dtype(like: Dtype | npt.DTypeLike) -> Dtype:
    """The record of a dtype.

    `like`: names work for all, `"bfloat16"` included; byte order is ignored.

    Raises ArgumentTypeError: when there is no record for it.

    >>> dtype("int8").accumulator
    'int32'
    >>> dtype(np.float32).bytes
    4
    """
    if isinstance(like, Dtype):
        return like
    try:
        name = like if isinstance(like, str) and extends_numpy(like) else np.dtype(like).name
    except TypeError:
        name = str(like)
    if name in NAMES:
        return _BY_NAME[name]
    raise unknown("a matrix element", name, "convert with `.astype(...)`", DTYPES)


def full_name(text: str, subject: str) -> str:
    """A dtype's name, from any that NumPy takes; `ml_dtypes` need not be installed.

    Raises ArgumentTypeError: it has no record.

    >>> full_name("half", "`dtype`"), full_name("bfloat16", "`dtype`")
    ('float16', 'bfloat16')
    """
    name = text
    if text not in _BY_NAME and text.isidentifier():  # NumPy takes a zero byte for booleans
        with contextlib.suppress(TypeError, ValueError):
            name = np.dtype(text).name
    if name not in _BY_NAME:
        raise unknown(subject, text, "choose one")
    return name


def unknown(
    subject: str, got: object, remedy: str, records: Sequence[Dtype] = (*DTYPES, *COMPOSED)
) -> ArgumentTypeError:
    """The error for a dtype that has no record: it lists them all, and asks for the one that is meant.

    >>> unknown("`dtype`", "fp16", "choose one").args[0].rpartition("; ")[2]
    'did you mean float16?'
    """
    whole = re.sub(r"^(bf|fp?|i|s|u)(?=\d)", lambda short: _PREFIXES[short[0]], str(got).lower())
    known = [record.name for record in records]
    held = [name for name in known if whole in name and whole[-1:].isdigit()]  # float8_e4m3fn has e4m3
    hint = f"did you mean {held[0]}?" if held else near(whole, known, remedy)
    return ArgumentTypeError(f"{subject} must be one of {', '.join(known)} (got {got!r}); {hint}")


def common(a: Dtype, b: Dtype) -> Dtype:
    """The narrowest record that holds all values of both.

    Raises ArgumentTypeError: when there is none, as for int64 with uint64 or an integer with a float.

    >>> common(dtype("int8"), dtype("uint8")).name
    'int16'
    >>> common(dtype("float16"), dtype("bfloat16")).name
    'float32'
    """
    for record in (a, b, *DTYPES):
        if record.holds(a) and record.holds(b):
            return record
    raise ArgumentTypeError(
        f"`a` and `b` must have dtypes that one dtype holds exactly (got {a.name} and {b.name}); convert one of them"
    )

"""Every function of cuBLAS on random calls, against `cublas_oracle`, which has only the documented formulas.

Elements are small integers, so that results are exact and compared with `==`, memory between the elements too; it holds
NaN, as does everything that a call must not read. Norms, rotations made by `rotg` and solves have a bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import cublas_oracle as oracle
import numpy as np
import pytest

import tilewright as tw
from tilewright.frontends.cublas import answers
from tilewright.frontends.cublas.operands import RefusedCall
from tilewright.frontends.host_arrays import array_at, write
from tilewright.simulate.device.contexts import PRIMARY
from tilewright.simulate.device.gpu import SimulatedGpu

Array = np.ndarray[Any, Any]
HOST, ON_DEVICE = 0, 1
#: Element types of C by the types that parameters point to.
C_TYPES = {
    "int64_t": "R64I",
    "float": "R32F",
    "double": "R64F",
    "cuComplex": "C32F",
    "cuDoubleComplex": "C64F",
    "__half": "R16F",
    "__nv_bfloat16": "R16BF",
}
#: Number in cudaDataType, and how NumPy holds an element. R16BF: the bits.
DATA_TYPES: Mapping[str, tuple[int, str]] = {
    "R32F": (0, "f4"), "R64F": (1, "f8"), "R16F": (2, "f2"), "R8I": (3, "i1"), "C32F": (4, "c8"), "C64F": (5, "c16"),
    "R32I": (10, "i4"), "R16BF": (14, "u2"), "R64I": (24, "i8"),
}  # fmt: skip
#: Types of one kind in the functions of level 1 that name them: of the elements, coefficients, results and sums.
_FLOATS = ("R32F", "R64F", "C32F", "C64F")
LEVEL_1 = {
    "Axpy": ["R16F R32F - R32F", "R16BF R32F - R32F", *(f"{one} {one} - {one}" for one in _FLOATS)],
    "Dot": ["R16F - R16F R32F", "R16BF - R16BF R32F", *(f"{one} - {one} {one}" for one in _FLOATS)],
    "Nrm2": ["R16F - R16F R32F", "R16BF - R16BF R32F", "R32F - R32F R32F", "R64F - R64F R64F",
             "C32F - R32F R32F", "C64F - R64F R64F"],
}  # fmt: skip
LEVEL_1["Dotc"], LEVEL_1["Scal"], LEVEL_1["Asum"] = LEVEL_1["Dot"], LEVEL_1["Axpy"], LEVEL_1["Nrm2"]
LEVEL_1 |= dict.fromkeys(("Copy", "Swap"), LEVEL_1["Dot"])
LEVEL_1["amax"] = LEVEL_1["amin"] = [f"{one} - R32I {one}" for one in (*_FLOATS, "R16F", "R16BF")]
_SMALL = [f"{one} {one} - R32F" for one in ("R16F", "R16BF")]
LEVEL_1 |= {"Rotg": [f"{one} {one} - {one}" for one in _FLOATS], "Rotm": LEVEL_1["Axpy"][2:4] + _SMALL}
LEVEL_1["Rot"] = [*LEVEL_1["Rotg"], *_SMALL, "C32F R32F - C32F", "C64F R64F - C64F"]
#: Types of products that name them: of A and B, of C, of coefficients, and the arithmetic.
PRODUCTS = [
    "R16F R16F R16F 64", "R16F R16F R16F 65", "R8I R32I R32I 72", "R8I R32I R32I 73",
    *(f"{kinds} R32F {arithmetic}" for arithmetic in (68, 69) for kinds in
      ("R16BF R16BF", "R16F R16F", "R8I R32F", "R16BF R32F", "R16F R32F", "R32F R32F")),
    "C32F C32F C32F 68", "C32F C32F C32F 69",
    *(f"{one} {one} {one} {fast}" for one in ("R32F", "C32F") for fast in (74, 75, 77)),
    "R64F R64F R64F 70", "C64F C64F C64F 71",
]  # fmt: skip
MIXED = {  # cublasSgemmEx and cublasCgemmEx
    "S": ["R16BF R16BF R32F", "R16F R16F R32F", "R8I R32F R32F", "R16BF R32F R32F", "R16F R32F R32F", "R32F R32F R32F"],
    "C": ["C32F C32F C32F"],
}
SOLVES = ("trsv", "tbsv", "tpsv", "trsm")


def encoded(kind: str, values: Array) -> Array:
    """Values as elements in memory."""
    if kind == "R16BF":
        return (values.real.astype("f4").view("u4") >> 16).astype("u2")
    dtype = np.dtype(DATA_TYPES[kind][1])
    return (values if dtype.kind == "c" else values.real).astype(dtype)


def decoded(kind: str, elements: Array) -> Array:
    if kind == "R16BF":
        return (elements.astype("u4") << 16).view("f4").astype(complex)
    return elements.astype(complex)


def base_of(stem: str) -> str:
    """The name of what a function computes: `gemm` of `GemmStridedBatchedEx`."""
    for part in ("StridedBatched", "Batched", "Ex", "3m"):
        stem = stem.replace(part, "")
    return stem.lower()


class Blas:
    """A simulated GPU with two handles, one for each place of numbers."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        gpu.contexts.append(PRIMARY)
        self.handles = [self.handle(), self.handle()]
        self.call("cublasSetPointerMode_v2", self.handles[ON_DEVICE], ON_DEVICE)

    def handle(self) -> int:
        made = np.zeros(1, "u8")
        self.call("cublasCreate_v2", made.ctypes.data)
        return int(made[0])

    def call(self, name: str, *values: int) -> str:
        """Perform a call; its status."""
        try:
            with self.gpu.call():
                answers.perform(self.gpu, name, values)
        except RefusedCall as refused:
            return refused.status
        return "SUCCESS"

    def put(self, elements: Array) -> int:
        address = self.gpu.allocate(max(elements.nbytes, 1))
        if elements.size and not self.gpu.observers:
            array_at(self.gpu, address, elements.dtype, elements.shape)[...] = elements
        known = np.isfinite(elements) if elements.dtype.kind in "fc" else np.ones(elements.size, bool)
        for at in np.flatnonzero(known) if self.gpu.observers else ():  # the rest stays unset
            place = address + int(at) * elements.itemsize
            write(self.gpu, array_at(self.gpu, place, elements.dtype, (1,)), elements[at : at + 1])
        return address

    def get(self, address: int, like: Array) -> Array:
        return array_at(self.gpu, address, like.dtype, like.shape).copy()


@pytest.fixture
def blas(gpu: SimulatedGpu) -> Blas:
    return Blas(gpu)


class Drawn:
    """A random call: values of parameters, and arrays with their types by name."""

    def __init__(
        self, function: Any, rng: np.random.Generator, largest: int = 6, fixed: Mapping[str, int] = {}
    ) -> None:
        self.function, self.rng, self.largest, self.fixed = function, rng, largest, fixed
        self.base = base_of(function.stem)
        self.pointers = {name: type_ for type_, name in function.parameters if "*" in type_}
        self.plain: dict[str, int] = {}  # parameters passed by value
        self.kinds: dict[str, str] = {}  # type of each array and number
        self.numbers: dict[str, Array] = {}  # coefficients and results, in complex128
        self.arrays: dict[str, list[Array]] = {}  # operands of each matrix of a batch, in complex128
        self.shared: dict[str, str] = {}  # an operand that is another one
        self.strides: dict[str, int] = {}
        self._types()
        self._sizes()
        self._numbers()
        self.shapes = oracle.shapes(self.base, self.parameters())
        self._operands()

    def parameters(self) -> Any:
        return oracle.SimpleNamespace(**self.plain)

    def pick(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def _types(self) -> None:
        stem, letter = self.function.stem, self.function.letter
        names = [name for _, name in self.function.parameters]
        for name, type_ in self.pointers.items():
            pointed = type_.replace("const", "").replace("*", "").strip()
            self.kinds[name.removesuffix("array")] = C_TYPES.get(pointed, "R32I")
        if "Atype" in names:
            a, c, coefficients, *arithmetic = self.pick(*MIXED.get(letter, PRODUCTS)).split()
            coefficients = "R32F" if self.base == "herk" else coefficients
            self.kinds |= {"A": a, "B": a, "C": c, "alpha": coefficients, "beta": coefficients}
            self.plain |= {"Atype": DATA_TYPES[a][0], "Btype": DATA_TYPES[a][0], "Ctype": DATA_TYPES[c][0]}
            if arithmetic:
                self.plain |= {"computeType": int(arithmetic[0]), "algo": self.pick(-1, 0, 7, 99, 103)}
        elif {"executionType", "xType"} & set(names):
            rows = LEVEL_1[stem.removesuffix("Ex")]
            rows = [one for one in rows if one.startswith("C")] if stem == "DotcEx" and self.pick(0, 1) else rows
            element, coefficient, result, sums = self.pick(*rows).split()
            if coefficient == "-":
                coefficient = element
            kinds = {**dict.fromkeys("xyab", element), "alpha": coefficient, "result": result}
            kinds |= dict.fromkeys(("c", "s", "param"), coefficient)
            self.kinds |= {name: kind for name, kind in kinds.items() if name in self.pointers}
            values = {"xType": element, "yType": element, "alphaType": coefficient, "resultType": result}
            values |= {"executionType": sums, "abType": element, "csType": coefficient, "paramType": coefficient}
            self.plain |= {name: DATA_TYPES[kind][0] for name, kind in values.items() if name in names}

    def _sizes(self) -> None:
        names = [name for _, name in self.function.parameters]
        complex_ = any(kind.startswith("C") for kind in self.kinds.values())
        hermitian = self.base in ("herk", "her2k", "herkx")
        for name in names:
            match name:
                case "m" | "n" | "k" | "kl" | "ku":
                    drawn = self.pick(0, 1, 2, 3, 4, self.largest - 1, self.largest, self.largest)
                    self.plain[name] = int(drawn)
                case "trans" if hermitian:
                    self.plain[name] = self.pick(oracle.N, oracle.C)
                case "trans" if self.base in ("syrk", "syr2k", "syrkx") and complex_:
                    self.plain[name] = self.pick(oracle.N, oracle.T)
                case "trans" | "transa" | "transb":
                    self.plain[name] = self.pick(oracle.N, oracle.T, oracle.C)
                case "uplo" | "side" | "diag" | "mode":
                    self.plain[name] = self.pick(0, 1)
                case "incx" | "incy":
                    self.plain[name] = self.pick(1, 1, 2, 3, -1, -2)
                case "batchCount":
                    self.plain[name] = self.pick(0, 1, 2, 3)
        rising = self.base in ("amax", "amin", "asum", "nrm2", "scal", "dgmm")
        if rising:
            self.plain["incx"] = abs(self.plain["incx"])
        self.plain |= {name: value for name, value in self.fixed.items() if name in names}
        leading = [name for name in names if name.startswith("ld")]
        self.plain |= dict.fromkeys(leading, 100)
        found = oracle.shapes(self.base, self.parameters())
        for name in leading:
            operand = name[2:].upper()
            least = found[operand].rows
            if self.base == "gbmv":
                least = self.plain["kl"] + self.plain["ku"] + 1
            elif self.base in ("sbmv", "hbmv", "tbmv", "tbsv"):
                least = self.plain["k"] + 1
            self.plain[name] = max(1, least) + self.pick(0, 0, 1, 3)
        if "C" in found and not self.pick(0, 1, 2):  # results in place of an operand
            square = {"trmm": ["B"], "dgmm": ["A"], "geam": ["A", "B"]}.get(self.base, [])
            square = [one for one in square if self.plain.get(f"trans{one.lower()}", oracle.N) == oracle.N]
            if square:
                other = self.pick(*square)
                self.shared["C"], self.plain["ldc"] = other, self.plain[f"ld{other.lower()}"]

    def integers(self, kind: str, count: int | tuple[int, ...]) -> Array:
        values = self.rng.integers(-3, 4, count).astype(complex)
        return values + 1j * self.rng.integers(-3, 4, count) if kind.startswith("C") else values

    def _numbers(self) -> None:
        for name, kind in self.kinds.items():
            if name in ("alpha", "beta"):
                values = (0, 0, 1, -2, 3, *((2j, 1 - 1j) if kind.startswith("C") else ()))
                self.numbers[name] = np.array([self.pick(*values)], complex)
            elif name in ("c", "s", "a", "b"):
                self.numbers[name] = self.integers(kind, 1)
            elif name == "result":
                self.numbers[name] = np.array([-7], complex)
        if self.base == "rotm":
            flag = self.pick(-2, -1, 0, 1)
            matrix = self.integers("", 4)
            unread = {-2: (0, 1, 2, 3), -1: (), 0: (0, 3), 1: (1, 2)}[flag]
            matrix[list(unread)] = np.nan
            self.numbers["param"] = np.array([flag, *matrix])

    def _operands(self) -> None:
        alpha = self.numbers.get("alpha", [1])[0] or self.base == "scal"
        beta = self.numbers.get("beta", [1])[0]
        results = [
            name
            for name in self.shapes
            if "const" not in self.pointers.get(name, self.pointers.get(f"{name}array", ""))
        ]
        batch = self.plain.get("batchCount", 1)
        for name, shape in self.shapes.items():
            stride = f"stride{name}"
            one = "StridedBatched" in self.function.stem
            count = batch
            extra = int(self.rng.integers(0, 4))
            size = shape.size + extra
            if one:
                again = name not in results and self.pick(0, 0, 1)
                self.strides[name] = self.plain[stride] = 0 if again else size
                count = 1 if again else batch
            reads = {"A": alpha, "B": alpha, "x": alpha, "AP": alpha}.get(name, True)
            if name in results:
                reads = (
                    beta
                    if "beta" in self.numbers
                    else self.base not in ("copy", "dgmm", "trmm", "geam", "tpttr", "trttp")
                )
                reads = alpha if self.base == "trsm" else reads
            if self.base == "geam" and name in "AB":
                reads = alpha if name == "A" else beta
            self.arrays[name] = [self._flat(name, shape, size, bool(reads)) for _ in range(count)]
            if one:
                self.arrays[name] = [np.concatenate([*self.arrays[name], np.zeros(0, complex)])]
        for name, other in self.shared.items():
            self.arrays[name] = self.arrays[other]

    def _flat(self, name: str, shape: oracle.Shape, size: int, reads: bool) -> Array:
        kind = self.kinds[name]
        blank = np.nan if "I" not in kind else 5
        flat = np.full(size, blank + 1j * blank if kind.startswith("C") else blank, complex)
        if reads or "I" in kind:
            for (i, j), at in shape.cells.items():
                flat[at] = self.integers(kind, 1)[0]
                if i == j and self.base in SOLVES and name in ("A", "AP"):
                    flat[at] = self.pick(1, -1, 2, -2) * (self.pick(1, 1j) if kind.startswith("C") else 1)
        if shape.kind == "hermitian" and not self.numbers["alpha"][0]:  # nothing to do: BLAS leaves it as it is
            for (i, j), at in shape.cells.items():
                flat[at] = flat[at].real if i == j else flat[at]
        return flat

    def expected(self) -> tuple[dict[str, list[Array]], dict[str, Array]]:
        """Operands and numbers after the call."""
        copies: dict[int, list[Array]] = {id(one): [flat.copy() for flat in one] for one in self.arrays.values()}
        arrays = {name: copies[id(one)] for name, one in self.arrays.items()}
        numbers = {name: one.copy() for name, one in self.numbers.items()}
        single = {name: one if name == "param" else one[0] for name, one in numbers.items()}
        single = {name: one.real if self.kinds[name].startswith("R") else one for name, one in single.items()}
        given = {**self.plain, **single, "complex": "C" in self.kinds.get("s", "")[:1]}
        for at in range(self.plain.get("batchCount", 1)):
            flats = {
                name: (one[0][at * self.strides[name] :] if name in self.strides else one[at])
                for name, one in arrays.items()
            }
            for name, value in oracle.apply(self.base, given, flats).items():
                numbers[name] = np.array([value], complex)
        return arrays, numbers

    def perform(
        self, blas: Blas, mode: int, changed: Mapping[str, int] = {}
    ) -> tuple[str, dict[str, list[Array]], dict[str, Array]]:
        """Call; the status, and operands and numbers in memory afterwards."""
        places: dict[int, tuple[list[int], list[Array]]] = {}
        held: dict[str, Array] = {name: encoded(self.kinds[name], one) for name, one in self.numbers.items()}
        values = dict(self.plain)
        addresses = {name: blas.put(one) if mode == ON_DEVICE else one.ctypes.data for name, one in held.items()}
        lists = []
        for name, flats in self.arrays.items():
            if id(flats) not in places:
                elements = [encoded(self.kinds[name], flat) for flat in flats]
                places[id(flats)] = [blas.put(one) for one in elements], elements
            where = places[id(flats)][0]
            if f"{name}array" in self.pointers:
                lists.append(blas.put(np.array(where, "u8")))
                values[f"{name}array"] = lists[-1]
            else:
                values[name] = where[0]
        values |= {"handle": blas.handles[mode], **addresses, **changed}
        status = blas.call(self.function.name, *(int(values[name]) for _, name in self.function.parameters))
        arrays = {
            name: [blas.get(at, one) for at, one in zip(*places[id(flats)], strict=True)]
            for name, flats in self.arrays.items()
        }
        numbers = {name: blas.get(addresses[name], one) if mode == ON_DEVICE else one for name, one in held.items()}
        device = [*(at for where, _ in places.values() for at in where), *lists]
        for at in [*device, *(addresses.values() if mode == ON_DEVICE else ())]:
            blas.gpu.free(at)
        return status, arrays, numbers

    def close(self, kind: str, found: Array, wanted: Array) -> bool:
        """Equal, or within the bound of what is rounded."""
        rounded = self.base in ("nrm2", "rotg")
        real, expected = decoded(kind, found), decoded(kind, wanted)
        if not rounded and self.base not in SOLVES:
            return np.array_equal(real, expected, equal_nan=True)
        steps = {"R16F": 2.0**-10, "R16BF": 2.0**-7, "R32F": 2.0**-23, "C32F": 2.0**-23}.get(kind, 2.0**-52)
        largest = np.nanmax(np.abs(expected), initial=1.0) if self.base in SOLVES else np.abs(expected)
        apart = np.abs(real - expected) <= (16 if self.base in SOLVES else 4) * steps * largest
        return bool(np.all(apart | (np.isnan(real) & np.isnan(expected))))

    def __str__(self) -> str:
        return f"{self.function.name} {self.plain} {self.numbers} {self.kinds} in place: {self.shared}"


FOUND = [one for one in answers.FUNCTIONS.values() if base_of(one.stem) in oracle.FORMULAS]
WIDE = [one for one in FOUND if one.name.endswith("_64")]
COMPUTING = [one for one in FOUND if one not in WIDE]
STEMS = sorted({one.stem for one in COMPUTING})


def compare(drawn: Drawn, blas: Blas, mode: int) -> None:
    arrays, numbers = drawn.expected()
    status, found_arrays, found_numbers = drawn.perform(blas, mode)
    assert status == "SUCCESS", str(drawn)
    for name, flats in arrays.items():
        for found, wanted in zip(found_arrays[name], flats, strict=True):
            kind = drawn.kinds[name]
            assert drawn.close(kind, found, encoded(kind, wanted)), (name, found, encoded(kind, wanted), str(drawn))
    for name, wanted in numbers.items():
        kind = drawn.kinds[name]
        assert drawn.close(kind, found_numbers[name], encoded(kind, wanted)), (name, found_numbers, wanted, str(drawn))


@pytest.mark.parametrize("rounds", [8, pytest.param(30, marks=pytest.mark.volume)])
@pytest.mark.parametrize("stem", STEMS)
def test_random_calls(blas: Blas, stem: str, rounds: int) -> None:
    for function in (one for one in COMPUTING if one.stem == stem):
        rng = np.random.default_rng([rounds, zlib.crc32(function.name.encode())])
        for at in range(rounds * (4 if "Ex" in function.stem else 1)):
            compare(Drawn(function, rng), blas, at % 2)


@pytest.mark.parametrize("stem", STEMS)
def test_calls_with_counts_of_64_bits(blas: Blas, stem: str) -> None:
    without = ("rotg", "tpttr", "trttp")
    names = {one.name for one in COMPUTING if one.stem == stem and base_of(stem) not in without}
    assert {one.name.removesuffix("_64") for one in WIDE if one.stem == stem} == names
    for at, function in enumerate(one for one in WIDE if one.stem == stem):
        assert "int" not in {type_ for type_, _ in function.parameters}
        compare(Drawn(function, np.random.default_rng([at, 64])), blas, at % 2)


@pytest.mark.parametrize("base", sorted(oracle.FORMULAS))
def test_larger_operands(blas: Blas, base: str) -> None:
    """Above the blocks of a product's kernel."""
    for function in (one for one in COMPUTING if base_of(one.stem) == base and one.letter in "DC"):
        drawn = Drawn(function, np.random.default_rng(len(base)), 24 if base in SOLVES else 70)
        compare(drawn, blas, HOST)


WHOLE = {"m": 3, "n": 4, "k": 2, "kl": 1, "ku": 2, "batchCount": 2, "incx": 1, "incy": 2}
WRONG = {
    **dict.fromkeys("m n k kl ku batchCount".split(), (-1,)),
    **dict.fromkeys("trans transa transb".split(), (4, -1)),
    **dict.fromkeys("uplo side diag".split(), (2, -1)),
    **dict.fromkeys("incx incy".split(), (0,)),
    **dict.fromkeys("alpha beta c s a b param result".split(), (0,)),
}


def wrong_calls(drawn: Drawn) -> Iterator[tuple[str, int, str]]:
    """Each wrong value of a parameter, with the documented status."""
    level_1 = not {"A", "AP", "Aarray"} & set(drawn.pointers)
    for _, name in drawn.function.parameters:
        values: tuple[int, ...] = WRONG.get(name, ())
        if name.startswith("ld"):
            least = drawn.shapes[name[2:].upper()].rows
            least = drawn.plain["kl"] + drawn.plain["ku"] + 1 if drawn.base == "gbmv" else least
            least = drawn.plain["k"] + 1 if drawn.base in ("sbmv", "hbmv", "tbmv", "tbsv") else least
            values = (least - 1, 0, -5)
        if name == "handle":
            yield from ((name, value, "NOT_INITIALIZED") for value in (0, 99999))
        elif not (level_1 and name in ("n", "incx", "incy")) and not (drawn.base == "dgmm" and name == "incx"):
            yield from ((name, value, "INVALID_VALUE") for value in values)


@pytest.mark.parametrize("stem", STEMS)
def test_wrong_arguments_get_the_documented_status(blas: Blas, stem: str) -> None:
    for function in (one for one in COMPUTING if one.stem == stem):
        drawn = Drawn(function, np.random.default_rng(4), fixed=WHOLE)
        before = {name: [encoded(drawn.kinds[name], flat) for flat in flats] for name, flats in drawn.arrays.items()}
        for name, value, status in wrong_calls(drawn):
            found, arrays, _ = drawn.perform(blas, HOST, {name: value})
            assert found == status, (name, value, str(drawn))
            for changed, as_given in ((one, before[name]) for name, one in arrays.items()):
                assert all(map(lambda a, b: a.tobytes() == b.tobytes(), changed, as_given)), (name, value, str(drawn))


@pytest.mark.parametrize("stem", STEMS)
def test_check_finds_no_read_of_what_a_call_leaves_out(stem: str) -> None:
    with tw.simulated_gpu("h100", check=True) as gpu:
        blas = Blas(gpu)
        for function in (one for one in COMPUTING if one.stem == stem and one.letter != "Z"):
            for at in range(3):
                drawn = Drawn(function, np.random.default_rng([at, 9]))
                drawn.numbers = {name: np.nan_to_num(one) for name, one in drawn.numbers.items()}
                assert drawn.perform(blas, at % 2)[0] == "SUCCESS"
                assert gpu.findings == (), str(drawn)


def test_leading_dimensions_of_empty_matrices_are_at_least_1(blas: Blas) -> None:
    for function in COMPUTING:
        sizes = dict.fromkeys(("m", "n", "k", "kl", "ku"), 0)
        drawn = Drawn(function, np.random.default_rng(4), fixed={**WHOLE, **sizes})
        for _, name in function.parameters:
            if name.startswith("ld"):
                assert drawn.perform(blas, HOST, {name: 0})[0] == "INVALID_VALUE", (name, str(drawn))
        assert drawn.perform(blas, HOST)[0] == "SUCCESS"


def numbers_of(blas: Blas, dtype: str, *values: float) -> tuple[list[Array], list[int]]:
    held = [np.array([one], dtype) for one in values]
    return held, [one.ctypes.data for one in held]


def test_lengths_do_not_overflow(blas: Blas) -> None:
    for values, wanted in (([3e30, 4e30], 5e30), ([3e-30, 4e-30], 5e-30), ([0, 0], 0), ([np.inf, 1], np.inf)):
        at, result = blas.put(np.array(values, "f4")), np.zeros(1, "f4")
        assert blas.call("cublasSnrm2_v2", blas.handles[HOST], 2, at, 1, result.ctypes.data) == "SUCCESS"
        assert result[0] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("n", [0, -1])
def test_functions_of_no_elements_give_zeros_and_change_nothing(blas: Blas, n: int) -> None:
    for function in COMPUTING:
        if not {"A", "AP", "Aarray"} & {name for _, name in function.parameters} and base_of(function.stem) != "rotg":
            drawn = Drawn(function, np.random.default_rng(5), fixed={"n": 3})
            before = {name: [encoded(drawn.kinds[name], flat) for flat in one] for name, one in drawn.arrays.items()}
            status, after, numbers = drawn.perform(blas, HOST, {"n": n})
            assert status == "SUCCESS", function.name
            assert all(
                a.tobytes() == b.tobytes() for name in before for a, b in zip(after[name], before[name], strict=True)
            )
            assert "result" not in numbers or not numbers["result"].any(), function.name


@pytest.mark.parametrize("step", [0, -1])
def test_searches_along_increments_that_are_not_positive_give_zero(blas: Blas, step: int) -> None:
    for function in COMPUTING:
        if base_of(function.stem) in ("amax", "amin", "asum", "nrm2"):
            drawn = Drawn(function, np.random.default_rng(5), fixed={"n": 3, "incx": 1})
            status, _, numbers = drawn.perform(blas, HOST, {"incx": step})
            assert (status, numbers["result"].any()) == ("SUCCESS", False), function.name


def test_an_increment_of_zero_reads_one_element_again(blas: Blas) -> None:
    x, y = blas.put(np.array([2], "f4")), blas.put(np.array([1, 10, 100], "f4"))
    held, (three, result) = numbers_of(blas, "f4", 3, 0)
    assert blas.call("cublasSdot_v2", blas.handles[HOST], 3, x, 0, y, 1, result) == "SUCCESS"
    assert held[1][0] == 222
    assert blas.call("cublasSaxpy_v2", blas.handles[HOST], 3, three, x, 0, y, 1) == "SUCCESS"
    assert blas.get(y, np.zeros(3, "f4")).tolist() == [7, 16, 106]


def modified(blas: Blas, dtype: str, *values: float) -> tuple[int, Array, list[float]]:
    """Flag, matrix, and factors and number after `rotmg`; what it leaves out is NaN."""
    held, places = numbers_of(blas, dtype, *values)
    param = np.full(5, np.nan, dtype)
    name = "cublasSrotmg_v2" if dtype == "f4" else "cublasDrotmg_v2"
    assert blas.call(name, blas.handles[HOST], *places, param.ctypes.data) == "SUCCESS"
    return int(param[0]), param[1:], [float(one[0]) for one in held]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_modified_rotations_keep_lengths(blas: Blas, dtype: str) -> None:
    """(0, h22 y + h21 x) with the new factors has the length that (x, y) had with the old ones."""
    assert modified(blas, dtype, 1, 0, 2, 3)[0] == modified(blas, dtype, 1, 2, 3, 0)[0] == -2
    flag, matrix, after = modified(blas, dtype, -1, 2, 3, 4)
    assert (flag, matrix.any(), after[:3]) == (-1, False, [0, 0, 0])
    assert modified(blas, dtype, 2, -3, 1, 4)[0] == -1
    rng, flags = np.random.default_rng(5), set()
    for at in range(60):
        d1, d2, x, y = rng.uniform(0.5, 2, 4) * 10.0 ** rng.integers(-9 if at % 2 else 0, 9 if at % 2 else 1, 4)
        flag, matrix, (new1, new2, new_x, same) = modified(blas, dtype, d1, d2, x, y)
        unread = {-1: [], 0: [0, 3], 1: [1, 2]}[flag]
        assert np.flatnonzero(np.isnan(matrix)).tolist() == unread
        h11, h21, h12, h22 = np.where(np.isnan(matrix), {0: 1, 1: [0, -1, 1, 0]}.get(flag, 0), matrix).astype(float)
        near = 64 * float(np.finfo(dtype).eps)
        assert h11 * x + h12 * y == pytest.approx(new_x, rel=near)
        assert abs(h21 * x + h22 * y) <= near * max(abs(h21 * x), abs(h22 * y))
        assert new1 * new_x * new_x == pytest.approx(d1 * x * x + d2 * y * y, rel=near)
        assert all(4096**-2 < abs(one) < 4096**2 for one in (new1, new2)) and same == np.dtype(dtype).type(y)
        flags.add(flag)
    assert flags == {-1, 0, 1}


@pytest.mark.parametrize(
    ("name", "kind", "compute"),
    [
        ("cublasSgemmGroupedBatched", "R32F", None), ("cublasDgemmGroupedBatched_64", "R64F", None),
        ("cublasGemmGroupedBatchedEx", "R32F", 68), ("cublasGemmGroupedBatchedEx", "R16BF", 68),
        ("cublasGemmGroupedBatchedEx_64", "R64F", 70),
    ],
)  # fmt: skip
def test_products_of_groups(blas: Blas, name: str, kind: str, compute: int | None) -> None:
    rng = np.random.default_rng(8)
    sizes, count = [2, 0, 1], "i8" if name.endswith("_64") else "i4"
    m, n, k, extra = (rng.integers(1, 6, 3) for _ in range(4))
    transa, transb = np.array([[0, 1, 1], [1, 0, 0]], "i4")
    coefficient = "f8" if kind == "R64F" else "f4"
    alpha, beta = np.array([[1, 2, 3], [0, 1, -2]], coefficient)
    shapes = {"A": np.where(transa, [k, m], [m, k]), "B": np.where(transb, [n, k], [k, n]), "C": np.array([m, n])}
    leading = {one: shape[0] + extra for one, shape in shapes.items()}
    held: dict[str, list[Array]] = {one: [] for one in "ABC"}
    for group, size in enumerate(sizes):
        for _ in range(size):
            for one, shape in shapes.items():
                elements = rng.integers(-3, 4, leading[one][group] * shape[1][group]).astype(complex)
                held[one].append(encoded(kind, elements))
    wanted = [one.copy() for one in held["C"]]
    for at, group in enumerate((0, 0, 2)):
        p = oracle.SimpleNamespace(m=m[group], n=n[group], k=k[group], transa=transa[group], transb=transb[group])
        flats = {one: decoded(kind, held[one][at]) for one in "ABC"}
        lds = {f"ld{one.lower()}": found[group] for one, found in leading.items()}
        oracle.apply("gemm", {**vars(p), **lds, "alpha": alpha[group], "beta": beta[group]}, flats)
        wanted[at] = encoded(kind, flats["C"])
    places = {one: [blas.put(found) for found in each] for one, each in held.items()}
    lists = {one: blas.put(np.array(each, "u8")) for one, each in places.items()}
    host = {one: values.astype(count) for one, values in {"m": m, "n": n, "k": k, **leading}.items()}
    counts = np.array(sizes, count)

    def call(groups: int = 3, first: int = transa.ctypes.data, c_type: str = kind, handle: int = HOST) -> str:
        def typed(of: str) -> tuple[int, ...]:
            return () if compute is None else (DATA_TYPES[of][0],)

        given = [first, transb.ctypes.data, *(host[one].ctypes.data for one in "mnk"), alpha.ctypes.data]
        given += [lists["A"], *typed(kind), host["A"].ctypes.data, lists["B"], *typed(kind), host["B"].ctypes.data]
        given += [beta.ctypes.data, lists["C"], *typed(c_type), host["C"].ctypes.data, groups, counts.ctypes.data]
        return blas.call(name, blas.handles[handle], *given, *([] if compute is None else [compute]))

    assert call() == "SUCCESS"
    for at, after in zip(places["C"], wanted, strict=True):
        assert np.array_equal(blas.get(at, after), after)
    assert [call(-1), call(3, 0), call(0, 0)] == ["INVALID_VALUE", "INVALID_VALUE", "SUCCESS"]
    assert call(handle=ON_DEVICE) == "NOT_SUPPORTED"
    if kind == "R16BF":
        assert call(c_type="R32F") == "NOT_SUPPORTED"
    counts[0] = -1
    assert call() == "INVALID_VALUE"
    counts[0], host["k"][2] = 2, -1
    assert call() == "INVALID_VALUE"


def test_operands_that_are_not_read_may_be_null(blas: Blas) -> None:
    a, c = blas.put(np.array([1, 2, 3, 4], "f4")), blas.put(np.full(4, np.nan, "f4"))
    held, (zero, two) = numbers_of(blas, "f4", 0, 2)
    handle = blas.handles[HOST]
    assert blas.call("cublasSgeam", handle, 1, 0, 2, 2, two, a, 2, zero, 0, 2, c, 2) == "SUCCESS"
    assert blas.get(c, np.zeros(4, "f4")).tolist() == [2, 6, 4, 8]
    assert blas.call("cublasSgeam", handle, 0, 1, 2, 2, zero, 0, 2, two, a, 2, c, 2) == "SUCCESS"
    assert blas.get(c, np.zeros(4, "f4")).tolist() == [2, 6, 4, 8]
    assert blas.call("cublasSgemm_v2", handle, 0, 0, 2, 2, 2, zero, 0, 2, 0, 2, two, c, 2) == "SUCCESS"
    assert blas.call("cublasSgemm_v2", handle, 0, 0, 2, 2, 0, two, 0, 2, 0, 1, two, c, 2) == "SUCCESS"
    assert blas.get(c, np.zeros(4, "f4")).tolist() == [8, 24, 16, 32]
    assert blas.call("cublasSgemm_v2", handle, 0, 0, 0, 2, 2, two, 0, 1, a, 2, two, 0, 1) == "SUCCESS"
    assert blas.call("cublasSgemmBatched", handle, 0, 0, 2, 2, 2, two, 0, 2, 0, 2, zero, 0, 2, 0) == "SUCCESS"
    unset = blas.put(np.full(4, np.nan, "f4"))
    assert blas.call("cublasSgemm_v2", handle, 0, 0, 2, 2, 2, zero, unset, 2, unset, 2, zero, unset, 2) == "SUCCESS"
    assert blas.get(unset, np.zeros(4, "f4")).tolist() == [0, 0, 0, 0]
    assert held


def test_sums_in_place_of_an_operand_need_its_form(blas: Blas) -> None:
    a, (held, (two,)) = blas.put(np.arange(9, dtype="f4")), numbers_of(blas, "f4", 2)
    handle = blas.handles[HOST]
    for transa, lda in ((1, 3), (0, 4)):
        status = blas.call("cublasSgeam", handle, transa, 0, 2, 2, two, a, lda, two, a + 4, 3, a, 3)
        assert (status, held[0][0]) == ("INVALID_VALUE", 2)


@pytest.mark.parametrize(
    ("types", "compute", "status"),
    [
        ((0, 0, 0), 70, "NOT_SUPPORTED"),  # float32 in float64
        ((2, 14, 0), 68, "NOT_SUPPORTED"),  # float16 by bfloat16
        ((1, 1, 0), 70, "NOT_SUPPORTED"),
        ((3, 3, 10), 68, "NOT_SUPPORTED"),
        ((0, 0, 0), 72, "NOT_SUPPORTED"),
        ((2, 2, 0), 64, "NOT_SUPPORTED"),
        ((7, 7, 4), 68, "NOT_SUPPORTED"),  # bytes of complex numbers: documented, but not served
        ((99, 0, 0), 68, "NOT_SUPPORTED"),
        ((0, 0, 0), 1000, "NOT_SUPPORTED"),
    ],
)
def test_products_of_types_that_are_not_in_the_table(
    blas: Blas, types: tuple[int, int, int], compute: int, status: str
) -> None:
    at = blas.put(np.zeros(64, "f8"))
    a, b, c = types
    one = np.ones(2, "f8").ctypes.data
    given = (0, 0, 2, 2, 2, one, at, a, 2, at, b, 2, one, at, c, 2, compute, -1)
    assert blas.call("cublasGemmEx", blas.handles[HOST], *given) == status


def test_handles_hold_what_is_set(blas: Blas) -> None:
    handle, value = blas.handle(), np.zeros(1, "i4")
    for name, wanted in (
        ("PointerMode_v2", 1), ("AtomicsMode", 1), ("MathMode", 3), ("SmCountTarget", 16), ("EmulationStrategy", 2),
        ("FixedPointEmulationMantissaControl", 1), ("FixedPointEmulationMaxMantissaBitCount", 55),
    ):  # fmt: skip
        assert blas.call(f"cublasGet{name}", handle, value.ctypes.data) == "SUCCESS"
        assert value[0] == 0
        assert blas.call(f"cublasSet{name}", handle, wanted) == "SUCCESS"
        blas.call(f"cublasGet{name}", handle, value.ctypes.data)
        assert value[0] == wanted
        assert blas.call(f"cublasSet{name}", handle, -1) == "INVALID_VALUE"
        blas.call(f"cublasGet{name}", blas.handles[HOST], value.ctypes.data)
        assert value[0] == 0
    assert blas.call("cublasSetWorkspace_v2", handle, 0, 0) == "SUCCESS"
    callback = np.ones(1, "u8")
    for at in (0, 4096):
        assert blas.call("cublasGetLoggerCallback", callback.ctypes.data) == "SUCCESS"
        assert callback[0] == at
        assert blas.call("cublasSetLoggerCallback", 4096) == "SUCCESS"
    assert blas.call("cublasLoggerConfigure", 1, 0, 0, 0) == "SUCCESS"
    version, parts = np.zeros(1, "i4"), []
    assert blas.call("cublasGetVersion_v2", handle, version.ctypes.data) == "SUCCESS"
    for part in range(3):
        assert blas.call("cublasGetProperty", part, value.ctypes.data) == "SUCCESS"
        parts.append(int(value[0]))
    assert version[0] == parts[0] * 10000 + parts[1] * 100 + parts[2]
    assert blas.call("cublasGetProperty", 3, value.ctypes.data) == "INVALID_VALUE"
    stream = np.full(1, 7, "u8")
    assert blas.call("cublasGetStream_v2", handle, stream.ctypes.data) == "SUCCESS"
    assert stream[0] == 0
    assert blas.call("cublasDestroy_v2", handle) == "SUCCESS"
    at = value.ctypes.data
    for name, rest in (
        ("Destroy_v2", ()), ("SetPointerMode_v2", (0,)), ("GetPointerMode_v2", (at,)), ("GetMathMode", (at,)),
        ("SetStream_v2", (0,)), ("GetStream_v2", (at,)), ("SetWorkspace_v2", (0, 0)),
    ):  # fmt: skip
        assert blas.call(f"cublas{name}", handle, *rest) == "NOT_INITIALIZED", name


@pytest.mark.parametrize("suffix", ["", "Async"])
def test_copies_of_vectors_and_matrices(blas: Blas, suffix: str) -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        n, incx, incy, item, rows = (int(rng.integers(low, 5)) for low in (0, 1, 1, 1, 0))
        stream = (0,) if suffix else ()
        for kind, height in (("Vector", 1), ("Matrix", rows)):
            given, lda, ldb = (height, n), incx + height, incy + height
            if kind == "Vector":
                given, lda, ldb = (n,), incx, incy
            host = rng.integers(0, 256, max(1, n * lda * item), np.uint8)
            device = rng.integers(0, 256, max(1, n * ldb * item), np.uint8)
            at = blas.put(device)
            status = blas.call(f"cublasSet{kind}{suffix}", *given, item, host.ctypes.data, lda, at, ldb, *stream)
            assert status == "SUCCESS"
            for j in range(n):
                device[j * ldb * item :][: height * item] = host[j * lda * item :][: height * item]
            assert np.array_equal(blas.get(at, device), device)
            back = rng.integers(0, 256, host.size, np.uint8)
            wanted = back.copy()
            status = blas.call(f"cublasGet{kind}{suffix}", *given, item, at, ldb, back.ctypes.data, lda, *stream)
            assert status == "SUCCESS"
            for j in range(n):
                wanted[j * lda * item :][: height * item] = device[j * ldb * item :][: height * item]
            assert np.array_equal(back, wanted)
            whole = [*given, item, host.ctypes.data, lda, at, ldb]
            for wrong in range(len(whole)):
                if wrong not in (len(given) + 1, len(given) + 3):
                    values = [*whole[:wrong], -1, *whole[wrong + 1 :], *stream]
                    assert blas.call(f"cublasSet{kind}{suffix}", *values) == "INVALID_VALUE", values


def test_every_function_is_tried() -> None:
    others = {"gemmgrouped": test_products_of_groups, "rotmg": test_modified_rotations_keep_lengths}
    helpers = {
        name
        for name, one in answers.FUNCTIONS.items()
        if one not in FOUND and not one.is_lt and base_of(one.stem) not in others
    }
    assert all(
        name.startswith(("cublasSet", "cublasGet", "cublasCreate", "cublasDestroy", "cublasLogger")) for name in helpers
    )

"""cuBLASLt on random calls, against the documented formulas in float64, and its statuses for what it refuses.

Elements are small integers, so that results are exact and compared with `==`, memory between the elements too; GELU has
a bound. A descriptor is made as programs do it that hold it in their own memory.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.frontends.cublas import answers, calls, lt_calls
from tilewright.frontends.cublas.operands import RefusedCall
from tilewright.frontends.host_arrays import array_at, write
from tilewright.simulate.device.contexts import PRIMARY
from tilewright.simulate.device.gpu import SimulatedGpu

Array = np.ndarray[Any, Any]
E4M3, E5M2 = "e4m3", "e5m2"
#: Numbers of `cudaDataType`, and how NumPy holds an element.
KINDS: Mapping[str, tuple[int, Any]] = {
    "f4": (0, "f4"), "f8": (1, "f8"), "f2": (2, "f2"), "i1": (3, "i1"), "c8": (4, "c8"), "c16": (5, "c16"),
    "i4": (10, "i4"), "bf": (14, ml_dtypes.bfloat16), E4M3: (28, ml_dtypes.float8_e4m3fn),
    E5M2: (29, ml_dtypes.float8_e5m2),
}  # fmt: skip
#: A, B, C, D, alpha, bias ("-" for no epilogue), and the compute types.
TYPES = [
    "f2 f2 f2 f2 f2 f2 64 65", "i1 i1 i4 i4 i4 - 72 73", "i1 i1 i1 i1 f4 - 72 73", "bf bf bf bf f4 bf 68 69",
    "f2 f2 f2 f2 f4 f2 68 69", "i1 i1 f4 f4 f4 - 68 69", "bf bf f4 f4 f4 f4 68 69", "f2 f2 f4 f4 f4 f4 68 69",
    "f4 f4 f4 f4 f4 f4 68 69 74 75 77", "c8 c8 c8 c8 c8 - 68 77", "f8 f8 f8 f8 f8 - 70 71", "c16 c16 c16 c16 c16 - 70",
    *(f"{ab} {cd} f4 {bias} 68" for ab in ("e4m3 e4m3", "e4m3 e5m2", "e5m2 e4m3") for cd, bias in
      (("bf bf", "bf"), ("bf e4m3", "bf"), ("f2 f2", "f2"), ("f2 e4m3", "f2"), ("f4 f4", "bf"))),
    "e4m3 e5m2 bf e5m2 f4 bf 68", "e5m2 e4m3 f2 e5m2 f4 f2 68",
]  # fmt: skip
EPILOGUES = {name.removeprefix("CUBLASLT_EPILOGUE_"): value for name, value in (
    pair for pair in lt_calls.ENUMERATIONS["cublasLtEpilogue_t"].items())}  # fmt: skip
HOST, DEVICE, VECTORS, ALPHA_VECTOR, ALPHA_VECTOR_BETA_HOST = range(5)


def in_memory(kind: str, values: Array) -> Array:
    """Elements of a type: integers are rounded and limited, and so are floats of 8 bits."""
    dtype = np.dtype(KINDS[kind][1])
    if kind.startswith("i"):
        return np.clip(np.rint(values.real), np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    if kind in (E4M3, E5M2):
        limit = 448 if kind == E4M3 else 57344
        return np.clip(values.real, -limit, limit).astype("f4").astype(dtype)
    return (values if kind.startswith("c") else values.real).astype(dtype)


class Library:
    """A simulated GPU with a handle of cuBLASLt."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        gpu.contexts.append(PRIMARY)
        self.kept: list[Any] = []
        self.reason = ""  # of the last refusal
        made = np.zeros(1, "u8")
        assert self.call("cublasLtCreate", made.ctypes.data) == "SUCCESS"
        self.handle = int(made[0])

    def call(self, name: str, *values: int) -> str:
        try:
            with self.gpu.call():
                answers.perform(self.gpu, name, values)
        except RefusedCall as refused:
            self.reason = str(refused)
            return refused.status
        return "SUCCESS"

    def made(self, kind: str, *first: int, **attributes: Any) -> int:
        """A descriptor with these attributes."""
        one = lt_calls.DESCRIPTORS[kind]
        place = np.zeros(one.words, "u8")
        self.kept.append(place)
        assert self.call(f"cublasLt{kind}Init_internal", place.ctypes.data, 8 * one.words, *first) == "SUCCESS"
        for name, value in attributes.items():
            assert self.set(kind, place.ctypes.data, name, value) == "SUCCESS", name
        return place.ctypes.data

    def set(self, kind: str, place: int, name: str, value: Any) -> str:
        at = lt_calls.DESCRIPTORS[kind].attributes[name]
        held = np.array([value], f"<{np.dtype(at.form).str[1:]}")
        return self.call(f"cublasLt{kind}SetAttribute", place, at.number, held.ctypes.data, held.nbytes)

    def put(self, elements: Array) -> int:
        """The address of a copy in device memory."""
        address = self.gpu.allocate(max(elements.nbytes, 1))
        flat = elements.reshape(-1)
        if flat.size and not self.gpu.observers:
            array_at(self.gpu, address, flat.dtype, flat.shape)[...] = flat
        known = np.ones(flat.size, bool) if flat.dtype.kind in "iu" else ~np.isnan(flat)
        for at in np.flatnonzero(known) if self.gpu.observers else ():  # the rest stays unset
            place = address + int(at) * flat.itemsize
            write(self.gpu, array_at(self.gpu, place, flat.dtype, (1,)), flat[at : at + 1])
        return address

    def get(self, address: int, like: Array) -> Array:
        return array_at(self.gpu, address, like.dtype, like.shape).copy()


@pytest.fixture
def library(gpu: SimulatedGpu) -> Library:
    return Library(gpu)


class Operand:
    """Matrices of a batch in one array, with what lies between them."""

    def __init__(self, rng: Any, kind: str, rows: int, columns: int, batch: int, unit: int, known: bool = True) -> None:
        self.kind, self.rows, self.columns, self.batch = kind, rows, columns, batch
        self.order = 0 if unit > 1 else int(rng.integers(2))
        along, across = (columns, rows) if self.order else (rows, columns)
        self.leading = max(1, along) + int(rng.integers(3)) * unit
        self.step = self.leading * across + int(rng.integers(3)) * unit
        self.values = np.full(max(1, self.step * batch), np.nan if kind[0] != "i" else 5, complex)
        if known:
            for at in range(batch):
                real = rng.integers(-3, 4, (rows, columns)).astype(complex)
                imaginary = rng.integers(-3, 4, (rows, columns)) if kind.startswith("c") else 0
                self.store(at, real + 1j * imaginary)

    def place(self, at: int) -> Array:
        """Where each element lies."""
        i, j = np.ogrid[: self.rows, : self.columns]
        return at * self.step + (i * self.leading + j if self.order else i + j * self.leading)

    def store(self, at: int, dense: Array) -> None:
        self.values[self.place(at)] = dense

    def dense(self, at: int) -> Array:
        found: Array = self.values[self.place(at)]
        return found

    @property
    def elements(self) -> Array:
        return in_memory(self.kind, self.values)

    def layout(self, library: Library, **changed: int) -> int:
        attributes = {"ORDER": self.order, "BATCH_COUNT": self.batch, "STRIDED_BATCH_OFFSET": self.step} | changed
        return library.made("MatrixLayout", KINDS[self.kind][0], self.rows, self.columns, self.leading, **attributes)


def op(operation: int, dense: Array) -> Array:
    return dense if operation == 0 else dense.T if operation == 1 else dense.conj().T


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_slope(x: Array) -> Array:
    step = 1e-5
    return (gelu(x + step) - gelu(x - step)) / (2 * step)


class Drawn:
    """A random product."""

    def __init__(self, rng: np.random.Generator, row: str, epilogue: str = "", mode: int | None = None) -> None:
        a, b, c, d, number, bias, *compute = row.split()
        self.rng, self.number, self.bias_kind, self.compute = rng, number, bias, int(rng.choice(compute))
        self.float8, self.bytes = a in (E4M3, E5M2), (a == "i1" and number != "f4") or d == "i1"
        unit = 16 if self.float8 else 4 if self.bytes else 1
        sizes = [0, 1, 2, 3, 5, 8, 33] if unit == 1 else [unit, 2 * unit]
        self.m, self.k = (int(rng.choice(sizes)) for _ in "mk")
        self.n, self.batch = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        self.operations = (1, 0) if unit > 1 else tuple(int(one) for one in rng.integers(0, 3, 2))
        self.mode = int(rng.integers(5)) if mode is None else mode
        self.alpha_step = self.m if self.mode == ALPHA_VECTOR_BETA_HOST else 0
        self.epilogue = epilogue or ("DEFAULT" if bias == "-" else str(rng.choice(list(EPILOGUES))))
        self._numbers()
        shapes = [(self.m, self.k), (self.k, self.n)]
        a_shape, b_shape = (
            one[::-1] if operation else one for one, operation in zip(shapes, self.operations, strict=True)
        )
        read = bool(self.alpha.any())
        self.A = Operand(rng, a, *a_shape, self.batch, unit, read or a == "i1" or self.epilogue == "BGRADA")
        self.B = Operand(rng, b, *b_shape, self.batch, unit, read or a == "i1" or self.epilogue == "BGRADB")
        self.C = Operand(rng, c, self.m, self.n, self.batch, unit, bool(self.beta.any()) or c[0] == "i")
        self.D = Operand(rng, d, self.m, self.n, self.batch, unit)
        self.D.order = self.C.order
        along, across = (self.n, self.m) if self.D.order else (self.m, self.n)
        self.D.leading = max(1, along) + int(rng.integers(3)) * unit
        self.D.step = self.D.leading * across + 2 * unit
        self.D.values = np.full(max(1, self.D.step * self.batch), 7, complex)
        self.in_place = c == d and bool(rng.integers(2))
        if self.in_place:
            self.D = self.C
        self._extras()

    def _numbers(self) -> None:
        draw = lambda count: self.rng.choice([0, 1, -2, 3], count).astype(complex)  # noqa: E731
        whole = 0 if not self.rng.integers(4) else 1
        self.alpha = draw(max(1, self.m) * self.batch) if self.mode >= VECTORS else draw(1)
        self.alpha *= whole
        if self.mode in (VECTORS, ALPHA_VECTOR):
            self.alpha = self.alpha[: max(1, self.m)]
        self.beta = draw(max(1, self.m)) if self.mode == VECTORS else draw(1)
        if self.mode == ALPHA_VECTOR:
            self.beta[:] = 0
        if self.number.startswith("c"):
            self.alpha, self.beta = self.alpha * (1 + 1j), self.beta * (1 - 2j)

    def _extras(self) -> None:
        """Bias, auxiliary matrix and factors."""
        rng, m, n = self.rng, self.m, self.n
        length = max(m, n)
        self.bias_step = length + int(rng.integers(2))
        self.bias = np.full(max(1, self.bias_step * self.batch), np.nan)
        for at in range(self.batch):
            self.bias[at * self.bias_step :][:m] = rng.integers(-3, 4, m)
        unit = 128 if "RELU" in self.epilogue else 8
        self.aux_ld = (m // unit + 1) * unit
        self.aux_step = self.aux_ld * n
        self.mask = rng.integers(0, 256, self.aux_step * self.batch // 8).astype("u1")
        self.kept = rng.integers(-2, 3, self.aux_step * self.batch).astype(complex)
        self.kept_kind = "f2" if self.D.kind == E4M3 and rng.integers(2) else self.D.kind
        self.scales = {"A": 1.0, "B": 1.0, "D": 1.0, "EPILOGUE_AUX": 1.0}
        if self.float8:
            self.scales = {name: float(rng.choice([0.5, 1, 2])) for name in self.scales}

    # -- what it gives ---------------------------------------------------------------------------------------------

    def number_of(self, values: Array, at: int, step: int) -> Any:
        return values[0] if values.size == 1 else values[at * step :][: self.m, None]

    def expected(self) -> dict[str, Any]:
        """What memory holds afterwards: D, bias, mask or kept values, the largest values."""
        found: dict[str, Any] = {"D": self.D.values.copy(), "bias": self.bias.copy(), "mask": self.mask.copy()}
        found |= {"kept": self.kept.copy(), "largest": 0.0, "largest kept": 0.0}
        vectors = self.mode >= VECTORS
        for at in range(self.batch):
            alpha = self.alpha[at * self.alpha_step :][: self.m, None] if vectors else self.alpha[0]
            beta = self.beta[: self.m, None] if self.mode == VECTORS else self.beta[0]
            left, right = (
                op(operation, np.nan_to_num(one.dense(at)))
                for one, operation in zip((self.A, self.B), self.operations, strict=True)
            )
            x = alpha * self.scales["A"] * self.scales["B"] * (left @ right) + beta * np.nan_to_num(self.C.dense(at))
            found["largest"] = max(found["largest"], np.abs(y := self._after(at, x, left, right, found)).max(initial=0))
            found["D"][self.D.place(at)] = y * self.scales["D"]
        return found

    def _after(self, at: int, x: Array, left: Array, right: Array, found: dict[str, Any]) -> Array:
        name, m, n = self.epilogue, self.m, self.n
        if not m:  # nothing to do
            return x
        bias = found["bias"][at * self.bias_step :]
        if name.endswith("BIAS"):
            x = x + self.bias[at * self.bias_step :][:m, None]
        if name == "BGRADA":
            bias[:m] = left.real.sum(1)
        if name == "BGRADB":
            bias[:n] = right.real.sum(0)
        for i, j in itertools.product(range(m), range(n)):
            place = at * self.aux_step + i + j * self.aux_ld
            byte, bit = divmod(place, 8)
            if name.startswith("DRELU"):
                x[i, j] = x[i, j] if self.mask[byte] >> bit & 1 else 0
            if name.startswith("DGELU"):
                x[i, j] *= gelu_slope(self.kept[place].real)
            if name.startswith("GELU_AUX"):
                found["largest kept"] = max(found["largest kept"], abs(x[i, j]))
                found["kept"][place] = x[i, j] * self.scales["EPILOGUE_AUX"]
            if name.startswith("RELU_AUX"):
                if i % 8 == 0:
                    found["mask"][byte] = 0
                found["mask"][byte] |= int(x[i, j].real > 0) << bit
        if name.startswith("RELU"):
            x = np.maximum(x.real, 0) + 0j
        if name.startswith("GELU"):
            x = gelu(x.real) + 0j
        if name.endswith("BGRAD"):
            bias[:m] = x.real.sum(1)
        return x

    # -- the call --------------------------------------------------------------------------------------------------

    def perform(
        self, library: Library, changed: Mapping[str, Any] = {}, edits: Sequence[tuple[str, str, int]] = ()
    ) -> tuple[str, dict[str, Any]]:
        """Call, with parameters changed, and attributes of descriptors; the status, and what memory holds."""
        memory: dict[str, tuple[int, Array]] = {}
        for name in "ABCD":
            elements = getattr(self, name).elements
            same = name == "D" and self.in_place
            memory[name] = memory["C"] if same else (library.put(elements), elements)
        attributes: dict[str, Any] = {
            "POINTER_MODE": self.mode, "TRANSA": self.operations[0], "TRANSB": self.operations[1],
            "EPILOGUE": EPILOGUES[self.epilogue], "ALPHA_VECTOR_BATCH_STRIDE": self.alpha_step,
        }  # fmt: skip
        if "BIAS" in self.epilogue or "BGRAD" in self.epilogue:
            elements = in_memory(self.bias_kind, self.bias)
            memory["bias"] = library.put(elements), elements
            attributes |= {"BIAS_POINTER": memory["bias"][0], "BIAS_BATCH_STRIDE": self.bias_step}
            attributes |= {"BIAS_DATA_TYPE": KINDS[self.bias_kind][0]} if self.rng.integers(2) else {}
        if EPILOGUES[self.epilogue] & 128:
            of_mask = "RELU" in self.epilogue
            elements = self.mask if of_mask else in_memory(self.kept_kind, self.kept)
            name = "mask" if of_mask else "kept"
            memory[name] = library.put(elements), elements
            attributes |= {"EPILOGUE_AUX_POINTER": memory[name][0], "EPILOGUE_AUX_LD": self.aux_ld}
            attributes["EPILOGUE_AUX_BATCH_STRIDE"] = self.aux_step
            if not of_mask and self.kept_kind != self.D.kind:
                attributes["EPILOGUE_AUX_DATA_TYPE"] = KINDS[self.kept_kind][0]
        self._factors(library, attributes, memory)
        if self.mode in (HOST, ALPHA_VECTOR_BETA_HOST):
            held = in_memory(self.number, self.beta)
            library.kept.append(held)
            beta = held.ctypes.data
        else:
            beta = 0 if self.mode == ALPHA_VECTOR else library.put(in_memory(self.number, self.beta))
        held = in_memory(self.number, self.alpha)
        library.kept.append(held)
        alpha = held.ctypes.data if self.mode == HOST else library.put(held)
        desc = library.made("MatmulDesc", self.compute, KINDS[self.number][0], **attributes)
        layouts = {name: getattr(self, name).layout(library) for name in "ABCD"}
        values = {"handle": library.handle, "desc": desc, "alpha": alpha, "beta": beta, "stream": 0, "algo": 0}
        values |= {f"{name}desc": one for name, one in layouts.items()} | {name: memory[name][0] for name in "ABCD"}
        for name, attribute, value in edits:
            kind = "MatmulDesc" if name == "desc" else "MatrixLayout"
            assert library.set(kind, desc if name == "desc" else layouts[name], attribute, value) == "SUCCESS"
        values |= changed
        names = "handle desc alpha A Adesc B Bdesc beta C Cdesc D Ddesc algo".split()
        status = library.call("cublasLtMatmul", *(values[name] for name in names), 0, 0, values["stream"])
        found: dict[str, Any] = {name: library.get(*one) for name, one in memory.items()}
        return status, found

    def _factors(self, library: Library, attributes: dict[str, Any], memory: dict[str, tuple[int, Array]]) -> None:
        for name, value in self.scales.items() if self.float8 else ():
            float8 = name in "AB" or (self.D.kind if name == "D" else self.kept_kind) in (E4M3, E5M2)
            used = name != "EPILOGUE_AUX" or self.epilogue.startswith("GELU_AUX")
            if float8 and used:
                attributes[f"{name}_SCALE_POINTER"] = library.put(np.array([value], "f4"))
            else:
                self.scales[name] = 1.0
            largest = {
                "D": ("AMAX_D_POINTER", "largest"),
                "EPILOGUE_AUX": ("EPILOGUE_AUX_AMAX_POINTER", "largest kept"),
            }
            if name in largest and float8 and used:
                start = np.zeros(1, "f4")
                memory[largest[name][1]] = library.put(start), start
                attributes[largest[name][0]] = memory[largest[name][1]][0]

    def __str__(self) -> str:
        kinds = " ".join(getattr(self, name).kind for name in "ABCD")
        return f"{kinds}, {self.m} x {self.n} x {self.k}, {self.batch}, {self.epilogue}, mode {self.mode}"


def compare(drawn: Drawn, library: Library) -> None:
    status, found = drawn.perform(library)
    assert status == "SUCCESS", (library.reason, str(drawn))
    wanted = drawn.expected()
    kinds = {"D": drawn.D.kind, "bias": drawn.bias_kind, "kept": drawn.kept_kind}
    for name in found.keys() & {"D", "bias", "kept", "mask"}:
        elements = wanted[name] if name == "mask" else in_memory(kinds[name], wanted[name])
        if "GELU" not in drawn.epilogue:
            assert np.array_equal(found[name].astype("c16"), elements.astype("c16"), equal_nan=True), (name, str(drawn))
            continue
        steps = {"f4": 2.0**-17, "f2": 2.0**-9, "bf": 2.0**-6, E4M3: 2.0**-3, E5M2: 2.0**-2}.get(kinds.get(name, ""), 0)
        real, exact = found[name].astype("f8"), wanted[name].real
        if kinds.get(name) in (E4M3, E5M2):
            exact = np.clip(exact, -448 if kinds[name] == E4M3 else -57344, 448 if kinds[name] == E4M3 else 57344)
        apart = np.abs(real - exact) <= steps * np.maximum(np.abs(exact), 1)
        assert np.all(apart | (np.isnan(real) & np.isnan(exact))), (name, str(drawn))
    for name in found.keys() & {"largest", "largest kept"}:
        assert found[name][0] == pytest.approx(wanted[name], rel=1e-5), (name, str(drawn))


@pytest.mark.parametrize("rounds", [6, pytest.param(60, marks=pytest.mark.volume)])
@pytest.mark.parametrize("row", TYPES)
def test_random_products(library: Library, row: str, rounds: int) -> None:
    for at in range(rounds):
        rng = np.random.default_rng([rounds, at, TYPES.index(row)])
        compare(Drawn(rng, row, mode=at % 5 if at < 5 else None), library)


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues(library: Library, epilogue: str) -> None:
    for at, row in enumerate(row for row in TYPES if row.split()[5] != "-"):
        compare(Drawn(np.random.default_rng([at, 3]), row, epilogue), library)


def test_a_product_has_the_bits_of_cublas(library: Library) -> None:
    """Of values that are rounded: sums of halves by tensor cores, and of floats in canonical order."""
    rng = np.random.default_rng(8)
    for kind, number, compute in (
        ("f2", "f4", 68),
        ("bf", "f4", 68),
        ("f4", "f4", 68),
        ("f8", "f8", 70),
        ("c8", "c8", 68),
    ):
        dtype, scalar = np.dtype(KINDS[kind][1]), np.dtype(KINDS[number][1])
        a, b, c = (library.put(rng.standard_normal(100 * 100).astype(dtype)) for _ in "ABC")
        start = library.get(c, np.zeros(100 * 100, dtype))
        d, held = library.put(start), np.array([0.7, -1.3], scalar)
        alpha, beta, type_ = held.ctypes.data, held.ctypes.data + scalar.itemsize, KINDS[kind][0]
        given = (1, 0, 90, 80, 70, alpha, a, type_, 100, b, type_, 75, beta, c, type_, 95, compute, -1)
        assert library.call("cublasGemmEx", library.handle, *given) == "SUCCESS"
        desc = library.made("MatmulDesc", compute, KINDS[number][0], TRANSA=1)
        sizes = {"A": (70, 90, 100), "B": (70, 80, 75), "C": (90, 80, 95)}
        layouts = {name: library.made("MatrixLayout", type_, *size) for name, size in sizes.items()}
        pointers = (alpha, a, layouts["A"], b, layouts["B"], beta, d, layouts["C"], d, layouts["C"])
        assert library.call("cublasLtMatmul", library.handle, desc, *pointers, 0, 0, 0, 0) == "SUCCESS"
        assert library.get(c, start).tobytes() == library.get(d, start).tobytes(), kind


# -- statuses -----------------------------------------------------------------------------------------------------

PLAIN = TYPES[8]


def drawn_of(row: str = PLAIN, epilogue: str = "BIAS", mode: int = HOST) -> Drawn:
    """A product of which nothing is empty or 0."""
    for seed in range(1000):
        found = Drawn(np.random.default_rng([seed, 77]), row, epilogue, mode)
        if min(found.m, found.k, found.batch - 1) and found.alpha.all() and found.beta.all() and not found.in_place:
            return found
    raise AssertionError


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        *(({name: 0}, "NOT_INITIALIZED") for name in ("handle",)),
        ({"handle": 999}, "NOT_INITIALIZED"),
        *(({name: 0}, "INVALID_VALUE") for name in "desc alpha A B beta C D Adesc Bdesc Ddesc".split()),
        ({"stream": 999}, "EXECUTION_FAILED"),
    ],
)
def test_wrong_parameters(library: Library, changed: dict[str, int], status: str) -> None:
    drawn = drawn_of()
    assert drawn.perform(library, changed)[0] == status
    before, after = drawn.D.elements, drawn.perform(library, changed)[1]["D"]
    assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize(
    ("matrix", "attribute", "value", "status"),
    [
        ("A", "ORDER", 2, "INVALID_VALUE"),  # a leading dimension of tiles is larger
        ("B", "ORDER", -1, "NOT_SUPPORTED"),
        ("A", "PLANE_OFFSET", 64, "NOT_SUPPORTED"),
        ("A", "ORDER", 5, "NOT_SUPPORTED"),
        ("A", "TYPE", 99, "NOT_SUPPORTED"),
        ("A", "TYPE", 1, "NOT_SUPPORTED"),
        ("D", "TYPE", 2, "NOT_SUPPORTED"),
        ("C", "LD", -1, "INVALID_VALUE"),
        ("D", "LD", 0, "INVALID_VALUE"),
        ("D", "LD", -7, "INVALID_VALUE"),
        ("A", "ROWS", 60, "INVALID_VALUE"),
        ("C", "COLS", 60, "INVALID_VALUE"),
        ("D", "BATCH_COUNT", 9, "INVALID_VALUE"),
        ("B", "BATCH_COUNT", 0, "INVALID_VALUE"),
        ("B", "BATCH_MODE", 3, "INVALID_VALUE"),
        ("B", "BATCH_MODE", 2, "INVALID_VALUE"),  # the others are of no groups
        ("desc", "D_OUT_SCALE_POINTER", 64, "INVALID_VALUE"),
        ("desc", "D_OUT_SCALE_MODE", 2, "INVALID_VALUE"),
        *(("desc", name, 3, "INVALID_VALUE") for name in ("TRANSA", "TRANSB")),
        ("desc", "TRANSC", 1, "NOT_SUPPORTED"),
        ("desc", "FILL_MODE", 0, "NOT_SUPPORTED"),
        ("desc", "POINTER_MODE", 5, "INVALID_VALUE"),
        ("desc", "EPILOGUE", 3, "INVALID_VALUE"),
        ("desc", "EPILOGUE", 130, "INVALID_VALUE"),  # no auxiliary matrix
        ("desc", "BIAS_POINTER", 0, "INVALID_VALUE"),
        ("desc", "BIAS_DATA_TYPE", 2, "NOT_SUPPORTED"),
        ("desc", "A_SCALE_POINTER", 64, "INVALID_VALUE"),
        ("desc", "D_SCALE_POINTER", 64, "INVALID_VALUE"),
        ("desc", "AMAX_D_POINTER", 64, "INVALID_VALUE"),
        ("desc", "EPILOGUE_AUX_SCALE_POINTER", 64, "INVALID_VALUE"),
        ("desc", "EPILOGUE_AUX_DATA_TYPE", 2, "INVALID_VALUE"),
        ("desc", "D_SCALE_MODE", 2, "NOT_SUPPORTED"),
        ("desc", "ALPHA_VECTOR_BATCH_STRIDE", 4, "INVALID_VALUE"),
        ("desc", "COMPUTE_TYPE", 70, "NOT_SUPPORTED"),
        ("desc", "SCALE_TYPE", 1, "NOT_SUPPORTED"),
    ],
)
def test_wrong_descriptors(library: Library, matrix: str, attribute: str, value: int, status: str) -> None:
    drawn = drawn_of()
    assert drawn.perform(library, edits=[(matrix, attribute, value)])[0] == status, library.reason


@pytest.mark.parametrize(
    ("row", "epilogue", "matrix", "attribute", "value", "status"),
    [
        ("f4 f4 f4 f4 f4 f4 68", "RELU_AUX", "desc", "EPILOGUE_AUX_POINTER", 0, "INVALID_VALUE"),
        ("f4 f4 f4 f4 f4 f4 68", "RELU_AUX", "desc", "EPILOGUE_AUX_LD", 64, "INVALID_VALUE"),
        ("f4 f4 f4 f4 f4 f4 68", "RELU_AUX", "desc", "EPILOGUE_AUX_BATCH_STRIDE", 8, "INVALID_VALUE"),
        ("f4 f4 f4 f4 f4 f4 68", "GELU_AUX", "desc", "EPILOGUE_AUX_LD", 12, "INVALID_VALUE"),
        ("f4 f4 f4 f4 f4 f4 68", "GELU_AUX", "desc", "EPILOGUE_AUX_LD", 0, "INVALID_VALUE"),
        ("f8 f8 f8 f8 f8 - 70", "DEFAULT", "desc", "EPILOGUE", 2, "NOT_SUPPORTED"),
        ("c8 c8 c8 c8 c8 - 68", "DEFAULT", "desc", "EPILOGUE", 4, "NOT_SUPPORTED"),
        ("i1 i1 i4 i4 i4 - 72", "DEFAULT", "desc", "EPILOGUE", 2, "NOT_SUPPORTED"),
        ("i1 i1 i4 i4 i4 - 72", "DEFAULT", "desc", "TRANSA", 0, "INVALID_VALUE"),
        ("i1 i1 i4 i4 i4 - 72", "DEFAULT", "A", "LD", 33, "NOT_SUPPORTED"),
        ("e4m3 e4m3 bf bf f4 bf 68", "DEFAULT", "A", "LD", 33, "NOT_SUPPORTED"),
        ("e4m3 e4m3 bf bf f4 bf 68", "DEFAULT", "A", "TYPE", 3, "NOT_SUPPORTED"),
        ("e4m3 e5m2 bf bf f4 bf 68", "DEFAULT", "A", "TYPE", 29, "NOT_SUPPORTED"),
        ("e4m3 e4m3 bf bf f4 bf 68", "DEFAULT", "D", "TYPE", 29, "NOT_SUPPORTED"),
        ("e4m3 e4m3 bf bf f4 bf 68", "DEFAULT", "desc", "C_SCALE_POINTER", 64, "INVALID_VALUE"),
        ("e4m3 e4m3 bf bf f4 bf 68", "DEFAULT", "desc", "A_SCALE_MODE", 2, "NOT_SUPPORTED"),
        ("e4m3 e4m3 bf bf f4 bf 68", "DEFAULT", "desc", "COMPUTE_TYPE", 64, "NOT_SUPPORTED"),
    ],
)
def test_rules_of_types_and_epilogues(
    library: Library, row: str, epilogue: str, matrix: str, attribute: str, value: int, status: str
) -> None:
    drawn = drawn_of(row, epilogue)
    assert drawn.perform(library, edits=[(matrix, attribute, value)])[0] == status, library.reason


def test_products_of_bytes_and_of_float8_have_their_operands_beside_each_other(library: Library) -> None:
    for row, item in (("i1 i1 i4 i4 i4 - 72", 4), ("e4m3 e4m3 f4 f4 f4 bf 68", 16)):
        drawn = drawn_of(row, "DEFAULT")
        square = [Operand(drawn.rng, kind, item, item, 1, item) for kind in row.split()[:4]]
        drawn.A, drawn.B, drawn.C, drawn.D = square
        drawn.m = drawn.n = drawn.k = item
        drawn.batch = 1
        drawn.scales = dict.fromkeys(drawn.scales, 1.0)
        compare(drawn, library)
        for operations in ((0, 0), (1, 1), (0, 1)):
            drawn.operations = operations
            assert drawn.perform(library)[0] == "NOT_SUPPORTED"


def test_float8_needs_its_tensor_cores() -> None:
    with tw.simulated_gpu("a100") as gpu:
        assert drawn_of(TYPES[12], "DEFAULT").perform(Library(gpu))[0] == "NOT_SUPPORTED"


@pytest.mark.parametrize("name", ["A", "B"])
def test_factors_of_rows_and_columns(library: Library, name: str) -> None:
    drawn = drawn_of("e4m3 e4m3 f4 f4 f4 bf 68", "DEFAULT")
    length = drawn.m if name == "A" else drawn.n
    factors = np.array([2.0 ** (at % 3) for at in range(length)], "f4")
    start, _ = drawn.perform(library), None
    place = library.put(factors)
    drawn.scales[name] = 1.0
    _, plain = drawn.perform(library)
    edits = [("desc", f"{name}_SCALE_MODE", 3), ("desc", f"{name}_SCALE_POINTER", place)]
    drawn.beta[:] = 0
    _, plain = drawn.perform(library)
    status, found = drawn.perform(library, edits=edits)
    assert (status, start[0]) == ("SUCCESS", "SUCCESS"), library.reason
    shaped = factors[:, None] if name == "A" else factors[None, :]
    for at in range(drawn.batch):
        where = drawn.D.place(at)
        assert np.array_equal(found["D"][where], plain["D"][where] * shaped)


def test_matrices_of_a_batch_by_their_addresses(library: Library) -> None:
    drawn = drawn_of("f4 f4 f4 f4 f4 f4 68", "DEFAULT")
    status, wanted = drawn.perform(library)
    memory = {name: library.put(getattr(drawn, name).elements) for name in "ABCD"}
    changed = {}
    for name, at in memory.items():
        places = [at + 4 * index * getattr(drawn, name).step for index in range(drawn.batch)]
        changed[name] = library.put(np.array(places, "u8"))
    edits = [(name, "BATCH_MODE", 1) for name in "ABCD"]
    assert (status, drawn.perform(library, changed, edits=edits)[0]) == ("SUCCESS", "SUCCESS"), library.reason
    assert library.get(memory["D"], wanted["D"]).tobytes() == wanted["D"].tobytes()


def test_a_type_of_bias_has_no_effect_without_a_bias(library: Library) -> None:
    assert drawn_of(PLAIN, "RELU").perform(library, edits=[("desc", "BIAS_DATA_TYPE", 2)])[0] == "SUCCESS"


def test_c_may_be_missing_if_beta_is_0(library: Library) -> None:
    drawn = drawn_of()
    drawn.beta[:] = 0
    status, found = drawn.perform(library, {"C": 0})
    assert status == "SUCCESS"
    assert np.array_equal(found["D"], in_memory("f4", drawn.expected()["D"]), equal_nan=True)


@pytest.mark.parametrize("leading", [3, 0])
def test_c_may_have_the_layout_of_d_and_one_column_for_all(library: Library, leading: int) -> None:
    a, c, numbers = np.arange(6, dtype="f4"), np.arange(12, dtype="f4"), np.array([1, 10], "f4")
    one = library.made("MatrixLayout", 0, 3, 2, 3)
    added = library.made("MatrixLayout", 0, 3, 4, leading) if not leading else 0
    other, d = library.made("MatrixLayout", 0, 2, 4, 2), library.made("MatrixLayout", 0, 3, 4, 3)
    at, found = numbers.ctypes.data, library.put(np.zeros(12, "f4"))
    given = [at, library.put(a), one, library.put(np.ones(8, "f4")), other, at + 4, library.put(c), added, found, d]
    assert (
        library.call("cublasLtMatmul", library.handle, library.made("MatmulDesc", 68, 0), *given, 0, 0, 0, 0)
        == "SUCCESS"
    )
    columns = c.reshape(4, 3) if leading else np.tile(c[:3], (4, 1))
    assert np.array_equal(library.get(found, c).reshape(4, 3), a[:3] + a[3:] + 10 * columns)


# -- factors of blocks ---------------------------------------------------------------------------------------------

FLOAT4 = "e2m1"
VALUES4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
VEC16, VEC32, OUTER, VEC128, BLOCK128, PER_BATCH = range(1, 7)


def packed4(codes: Array) -> Array:
    """Two numbers in a byte, the first in its low bits."""
    return (codes[0::2] | codes[1::2] << 4).astype("u1")


class Narrow:
    """A transposed A times B, of narrow floats in whole columns, with factors of blocks."""

    def __init__(self, rng: Any, kind: str, modes: tuple[int, int], m: int, n: int, k: int) -> None:
        self.kind, self.modes, self.shape = kind, modes, (m, n, k)
        self.memory: dict[str, Array] = {}
        dense = {}
        for name, mode, outer in zip("AB", modes, (m, n), strict=True):
            if kind == FLOAT4:
                codes = rng.integers(0, 16, outer * k)
                self.memory[name], values = packed4(codes), VALUES4[codes]
            else:
                values = rng.integers(-3, 4, outer * k).astype(float)
                self.memory[name] = in_memory(kind, values.astype(complex))
            factors, self.memory[f"{name} factors"] = self.factors(rng, mode, outer, k)
            dense[name] = values.reshape(outer, k) * factors
        self.addend = rng.integers(-3, 4, (m, n)).astype(float)
        self.product = dense["A"] @ dense["B"].T + self.addend

    def factors(self, rng: Any, mode: int, outer: int, k: int) -> tuple[Array, Array]:
        """The factor of each element, and what lies in memory."""
        size = {VEC16: 16, VEC32: 32}.get(mode, 128)
        count = -(-k // size)
        power = rng.integers(-2, 3, (outer, count))
        if mode == BLOCK128:
            power = power[::size].repeat(size, 0)[:outer]
            held = np.full(-(-outer // size) * (-(-count // 4) * 4), np.nan, "f4")
            for block in range(0, outer, size):
                held[block // size * (-(-count // 4) * 4) :][:count] = 2.0 ** power[block]
        elif mode == VEC128:
            held = (2.0**power).T.astype("f4").reshape(-1)
        else:
            held = np.zeros(-(-outer // 128) * 128 * -(-count // 4) * 4, "u1")
            for i, j in itertools.product(range(outer), range(count)):
                tile = (i // 128) * -(-count // 4) + j // 4
                place = tile * 512 + (i % 32) * 16 + (i % 128) // 32 * 4 + j % 4
                float8 = np.array(2.0 ** power[i, j], ml_dtypes.float8_e4m3fn).view("u1")
                held[place] = power[i, j] + 127 if mode == VEC32 else float8
        return (2.0**power).repeat(size, 1)[:, :k], held

    def perform(self, library: Library, d: str = "f4", edits: Mapping[str, Any] = {}) -> tuple[str, Array, Array]:
        """The status, D, and the factors of its blocks."""
        m, n, k = self.shape
        number = {FLOAT4: 33}.get(self.kind) or KINDS[self.kind][0]
        place = {name: library.put(one) for name, one in self.memory.items()}
        attributes = {"TRANSA": 1, "A_SCALE_MODE": self.modes[0], "B_SCALE_MODE": self.modes[1]}
        attributes |= {f"{name}_SCALE_POINTER": place[f"{name} factors"] for name in "AB"}
        wide = "bf" if d in (FLOAT4, E4M3) else d
        addend = in_memory(wide, self.addend.T.reshape(-1).astype(complex))
        start = np.zeros(m * n // 2, "u1") if d == FLOAT4 else in_memory(d, np.zeros(m * n, complex))
        out = np.zeros(4096, "u1")
        at, out_at = library.put(start), library.put(out)
        if wide != d:
            attributes |= {"D_OUT_SCALE_POINTER": out_at, "D_OUT_SCALE_MODE": self.modes[0]}
        desc = library.made("MatmulDesc", 68, 0, **attributes | edits)
        layouts = [library.made("MatrixLayout", number, k, outer, k) for outer in (m, n)]
        layouts += [library.made("MatrixLayout", {FLOAT4: 33}.get(one) or KINDS[one][0], m, n, m) for one in (wide, d)]
        one = np.ones(1, "f4")
        given = [one.ctypes.data, place["A"], layouts[0], place["B"], layouts[1], one.ctypes.data]
        given += [library.put(addend), layouts[2], at, layouts[3], 0, 0, 0, 0]
        status = library.call("cublasLtMatmul", library.handle, desc, *given)
        return status, library.get(at, start), library.get(out_at, out)


SCALED = [
    ("h100", E4M3, (VEC128, VEC128)), ("h100", E4M3, (VEC128, BLOCK128)), ("h100", E4M3, (BLOCK128, VEC128)),
    ("b200", E4M3, (VEC32, VEC32)), ("b200", FLOAT4, (VEC16, VEC16)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "modes"), SCALED)
def test_factors_of_blocks(name: str, kind: str, modes: tuple[int, int]) -> None:
    with tw.simulated_gpu(name) as gpu:
        library = Library(gpu)
        for at, shape in enumerate(((32, 16, 32), (160, 32, 288), (32, 160, 672))):
            narrow = Narrow(np.random.default_rng([at, 2]), kind, modes, *shape)
            status, found, _ = narrow.perform(library)
            assert status == "SUCCESS", library.reason
            assert np.array_equal(found.reshape(shape[1], shape[0]).T, narrow.product.astype("f4"))


@pytest.mark.parametrize(("kind", "mode"), [(E4M3, VEC32), (FLOAT4, VEC16)])
def test_results_with_factors_of_blocks(kind: str, mode: int) -> None:
    """A factor is at least what the largest element of its block needs, and no factor but the next would do."""
    with tw.simulated_gpu("b200") as gpu:
        library, (m, n, k) = Library(gpu), (96, 160, 64)
        narrow = Narrow(np.random.default_rng(3), kind, (mode, mode), m, n, k)
        status, found, codes = narrow.perform(library, kind)
        assert status == "SUCCESS", library.reason
        pairs = np.stack([found & 15, found >> 4], 1).reshape(-1) if kind == FLOAT4 else found
        values = (VALUES4[pairs] if kind == FLOAT4 else found.astype(float)).reshape(n, m)
        size, largest = (16, 6) if kind == FLOAT4 else (32, 448)
        wanted = narrow.product.T.astype(ml_dtypes.bfloat16 if kind == "" else "f4").astype(float)
        for i, j in itertools.product(range(n), range(m // size)):
            tile = (i // 128) * -(-(m // size) // 4) + j // 4
            code = codes[tile * 512 + (i % 32) * 16 + (i % 128) // 32 * 4 + j % 4]
            block, exact = values[i, j * size :][:size], wanted[i, j * size :][:size]
            need = np.abs(exact).max() / largest
            if kind == FLOAT4:
                factor = float(code.view(ml_dtypes.float8_e4m3fn))
                assert factor == float(np.array(need, ml_dtypes.float8_e4m3fn))
                allowed = np.abs(VALUES4[:, None] - np.clip(exact / factor, -6, 6)).min(0) + 1e-6
            else:
                factor = 2.0 ** (int(code) - 127)
                assert need <= factor < 2 * need
                allowed = np.maximum(np.abs(exact / factor) * 2.0**-4, 2.0**-10)
            assert np.all(np.abs(block - np.clip(exact / factor, -largest, largest)) <= allowed)


@pytest.mark.parametrize(
    ("name", "kind", "modes", "d", "edits", "status"),
    [
        ("h100", E4M3, (BLOCK128, BLOCK128), "f4", {}, "NOT_SUPPORTED"),
        ("h100", E4M3, (VEC32, VEC32), "f4", {}, "NOT_SUPPORTED"),  # of Blackwell
        ("b200", E4M3, (VEC128, VEC128), "f4", {}, "NOT_SUPPORTED"),  # of Hopper
        ("b200", E4M3, (VEC16, VEC16), "f4", {}, "NOT_SUPPORTED"),
        ("b200", FLOAT4, (VEC32, VEC32), "f4", {}, "NOT_SUPPORTED"),
        ("b200", FLOAT4, (VEC16, VEC16), "f4", {"A_SCALE_MODE": 0, "B_SCALE_MODE": 0}, "NOT_SUPPORTED"),
        ("b200", E4M3, (VEC32, VEC32), "f4", {"B_SCALE_MODE": 0}, "NOT_SUPPORTED"),
        ("b200", E4M3, (VEC32, VEC32), "f4", {"A_SCALE_POINTER": 0}, "INVALID_VALUE"),
        ("b200", E4M3, (VEC32, VEC32), E4M3, {"D_OUT_SCALE_POINTER": 0}, "INVALID_VALUE"),
        ("b200", E4M3, (VEC32, VEC32), E4M3, {"D_OUT_SCALE_MODE": 0}, "INVALID_VALUE"),
        ("b200", E4M3, (VEC32, VEC32), "f4", {"D_OUT_SCALE_POINTER": 64}, "INVALID_VALUE"),
        ("b200", FLOAT4, (VEC16, VEC16), "f4", {"TRANSA": 0}, "INVALID_VALUE"),
        ("b200", FLOAT4, (VEC16, VEC16), E4M3, {}, "NOT_SUPPORTED"),
        ("h100", E4M3, (VEC128, VEC128), E4M3, {}, "NOT_SUPPORTED"),
        ("b200", E4M3, (PER_BATCH, PER_BATCH), "f4", {}, "SUCCESS"),
        ("b200", E4M3, (VEC32, VEC32), "f4", {"A_SCALE_MODE": 12}, "NOT_SUPPORTED"),
    ],
)  # fmt: skip
def test_factors_that_are_refused(
    name: str, kind: str, modes: tuple[int, int], d: str, edits: Mapping[str, int], status: str
) -> None:
    with tw.simulated_gpu(name) as gpu:
        library = Library(gpu)
        assert Narrow(np.random.default_rng(1), kind, modes, 32, 32, 128).perform(library, d, edits)[0] == status


# -- planes, tiles, groups -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("half", "result"), [(6, 6), (15, 15), (6, 4), (15, 4)])
def test_complex_numbers_in_two_planes(library: Library, half: int, result: int) -> None:
    kinds, m, n, k = {6: "f2", 15: "bf", 4: "f4"}, 5, 3, 7
    rng, planes, places = np.random.default_rng(half), {}, {}
    for name, rows, columns, number in (("A", k, m, half), ("B", k, n, half), ("C", m, n, result)):
        dense = rng.integers(-3, 4, (2, 2, columns, rows)).astype(float)  # part, matrix, column, row
        planes[name] = (dense[0] + 1j * dense[1]).swapaxes(1, 2)
        places[name] = library.put(in_memory(kinds[number], dense.reshape(-1).astype(complex)))
    item = {6: 2, 15: 2, 4: 4}

    def layout(number: int, rows: int, columns: int) -> int:
        step = rows * columns
        attributes = {"BATCH_COUNT": 2, "STRIDED_BATCH_OFFSET": step, "PLANE_OFFSET": 2 * step * item[number]}
        return library.made("MatrixLayout", number, rows, columns, rows, **attributes)

    numbers = np.array([1 + 2j, 2 - 1j], "c8")
    a, b, c = layout(half, k, m), layout(half, k, n), layout(result, m, n)
    desc = library.made("MatmulDesc", 68, 4, TRANSA=2)
    at = numbers.ctypes.data
    given = [at, places["A"], a, places["B"], b, at + 8, places["C"], c, places["C"], c, 0, 0, 0, 0]
    assert library.call("cublasLtMatmul", library.handle, desc, *given) == "SUCCESS", library.reason
    wanted = numbers[0] * planes["A"].conj().swapaxes(1, 2) @ planes["B"] + numbers[1] * planes["C"]
    parts = np.stack([wanted.real, wanted.imag]).swapaxes(2, 3).reshape(-1)
    held = in_memory(kinds[result], parts.astype(complex))
    assert np.array_equal(library.get(places["C"], held), held)
    given[2] = library.made("MatrixLayout", 4, k, m, k)
    assert library.call("cublasLtMatmul", library.handle, desc, *given) == "NOT_SUPPORTED"


@pytest.mark.parametrize("order", [2, 3, 4])
def test_orders_by_tiles_hold_each_element_once(library: Library, order: int) -> None:
    """A matrix that goes into tiles comes back; padding stays, and neighbours are those of the documentation."""
    rng, (rows, columns), number = np.random.default_rng(order), (37, 70), np.ones(1, "f4")
    unit = {2: 1, 3: 8, 4: 32}[order]
    leading = 32 * -(-rows // unit) * unit
    values = rng.integers(-100, 100, rows * columns).astype("i1")
    start, back = np.full(3 * leading, 99, "i1"), np.zeros_like(values)
    at, tiles, back_at = library.put(values), library.put(start), library.put(back)
    plain = library.made("MatrixLayout", 3, rows, columns, rows)
    tiled = library.made("MatrixLayout", 3, rows, columns, leading, ORDER=order)
    desc, one = library.made("MatrixTransformDesc", 0), number.ctypes.data
    for given in ((at, plain, 0, 0, 0, tiles, tiled), (tiles, tiled, 0, 0, 0, back_at, plain)):
        assert library.call("cublasLtMatrixTransform", library.handle, desc, one, *given, 0) == "SUCCESS"
    assert np.array_equal(library.get(back_at, back), values)
    held, dense = library.get(tiles, start), values.reshape(columns, rows).T
    assert np.array_equal(np.sort(held), np.sort(np.concatenate([values, np.full(held.size - values.size, 99, "i1")])))
    run = 4 if order == 3 else 32  # elements of a row that lie beside each other
    assert np.array_equal(held[:run], dense[0, :run])
    following = {2: (1, 0), 3: (2, 0), 4: (1, 0)}[order]  # the first element of the next run
    assert held[run] == dense[following]
    assert held[leading] == dense[0, 32]
    short = library.made("MatrixLayout", 3, rows, columns, leading - 1, ORDER=order)
    given = (desc, one, at, plain, 0, 0, 0, tiles, short, 0)
    assert library.call("cublasLtMatrixTransform", library.handle, *given) == "INVALID_VALUE"


@pytest.mark.parametrize(
    ("name", "orders", "status"),
    [
        ("a100", (2, 3, 2), "SUCCESS"), ("a100", (2, 4, 2), "SUCCESS"), ("t4", (2, 3, 2), "SUCCESS"),
        ("t4", (2, 4, 2), "NOT_SUPPORTED"), ("h100", (2, 3, 2), "NOT_SUPPORTED"), ("a100", (2, 2, 2), "NOT_SUPPORTED"),
        ("a100", (0, 3, 2), "NOT_SUPPORTED"), ("a100", (2, 3, 0), "NOT_SUPPORTED"),
    ],
)  # fmt: skip
def test_products_of_bytes_in_tiles(name: str, orders: tuple[int, int, int], status: str) -> None:
    with tw.simulated_gpu(name, check=True) as gpu:
        library, rng, (m, n, k), unit = Library(gpu), np.random.default_rng(4), (20, 12, 40), np.ones(1, "f4")
        desc, one = library.made("MatrixTransformDesc", 0), unit.ctypes.data
        dense = [rng.integers(-9, 9, shape).astype("i1") for shape in ((m, k), (n, k))]
        places, layouts = [], []
        for values, order in zip(dense, orders, strict=False):
            rows, columns = values.shape
            leading = rows if order == 0 else 32 * -(-rows // 32) * 32
            plain = library.made("MatrixLayout", 3, rows, columns, rows)
            layouts.append(library.made("MatrixLayout", 3, rows, columns, leading, ORDER=order))
            places.append(gpu.allocate(leading * columns))
            given = (library.put(values.T.reshape(-1).copy()), plain, 0, 0, 0, places[-1], layouts[-1], 0)
            assert library.call("cublasLtMatrixTransform", library.handle, desc, one, *given) == "SUCCESS"
        layouts.append(library.made("MatrixLayout", 10, m, n, m if orders[2] == 0 else 32 * m, ORDER=orders[2]))
        found, back = gpu.allocate(4 * 32 * m), gpu.allocate(4 * m * n)
        numbers = np.array([1, 0], "i4")
        product = library.made("MatmulDesc", 72, 10, TRANSB=1)
        at = numbers.ctypes.data
        given = [at, places[0], layouts[0], places[1], layouts[1], at + 4, found, layouts[2], found, layouts[2]]
        assert library.call("cublasLtMatmul", library.handle, product, *given, 0, 0, 0, 0) == status, library.reason
        if status == "SUCCESS":
            plain = library.made("MatrixLayout", 10, m, n, m)
            given = [one, found, layouts[2], 0, 0, 0, back, plain, 0]
            assert library.call("cublasLtMatrixTransform", library.handle, desc, *given) == "SUCCESS"
            wanted = dense[0].astype("i4") @ dense[1].astype("i4").T
            assert np.array_equal(library.get(back, np.zeros(m * n, "i4")).reshape(n, m).T, wanted)
        assert gpu.findings == ()


class Groups:
    """Products of shapes that are on the device."""

    def __init__(self, library: Library, kind: str, wide: bool, scaled: int = 0) -> None:
        self.library, rng, count = library, np.random.default_rng(6), "i8" if wide else "i4"
        self.shapes = [(16, 32, 48), (32, 16, 0), (0, 16, 16), (48, 16, 32)]
        m, n, k = np.array(self.shapes).T
        arrays = {"A": (k, m, k), "B": (k, n, k), "D": (m, n, m)}
        put = lambda values: library.put(np.array(values).astype(count))  # noqa: E731
        self.layouts, self.lists, self.wanted, self.results = {}, {}, [], []
        for name, (rows, columns, leading) in arrays.items():
            held = np.zeros(14, "u8")
            library.kept.append(held)
            number = KINDS["f4" if name == "D" else kind][0]
            given = (held.ctypes.data, 112, number, len(self.shapes), put(rows), put(columns), put(leading))
            assert library.call("cublasLtGroupedMatrixLayoutInit_internal", *given) == "SUCCESS"
            for width in ("GROUPED_ROWS_COLS_ARRAY", "GROUPED_LD_ARRAY"):
                library.set("MatrixLayout", held.ctypes.data, f"{width}_INTEGER_WIDTH", int(wide))
            self.layouts[name] = held.ctypes.data
        places: dict[str, list[int]] = {"A": [], "B": [], "D": []}
        self.alphas, self.scales = [], {"A": [], "B": []}
        for at, (m, n, k) in enumerate(self.shapes):
            a, b, c = (rng.integers(-3, 4, shape).astype(float) for shape in ((m, k), (n, k), (n, m)))
            factors = [2.0 ** (at % 3), 2.0 ** -(at % 2)] if scaled else [1.0, 1.0]
            for name, values, factor in zip("AB", (a, b), factors, strict=True):
                places[name].append(library.put(in_memory(kind, values.reshape(-1).astype(complex))))
                self.scales[name].append(library.put(np.array([factor], "f4")))
            places["D"].append(library.put(c.reshape(-1).astype("f4")))
            self.alphas.append(library.put(np.array([at + 1], "f4")))
            self.wanted.append((a @ b.T * factors[0] * factors[1], c.T))
        self.lists = {name: library.put(np.array(each, "u8")) for name, each in places.items()}
        self.results = places["D"]

    def perform(self, alpha: int, beta: int, edits: Mapping[str, int] = {}, **changed: int) -> str:
        desc = self.library.made("MatmulDesc", 68, 0, TRANSA=1, **edits)
        layouts = self.layouts | changed
        given = [alpha, self.lists["A"], layouts["A"], self.lists["B"], layouts["B"], beta]
        given += [self.lists["D"], layouts["D"]] * 2
        return self.library.call("cublasLtMatmul", self.library.handle, desc, *given, 0, 0, 0, 0)

    def check(self, alphas: Sequence[float], beta: float) -> None:
        for (m, n, _), alpha, place, (product, addend) in zip(
            self.shapes, alphas, self.results, self.wanted, strict=True
        ):
            found = self.library.get(place, np.zeros(m * n, "f4")).reshape(n, m).T
            assert np.array_equal(found, alpha * product + beta * addend)


@pytest.mark.parametrize(("name", "kind", "wide"), [("h100", "f2", False), ("b200", "bf", True), ("h100", E4M3, False)])
def test_products_of_groups_whose_shapes_are_on_the_device(name: str, kind: str, wide: bool) -> None:
    with tw.simulated_gpu(name) as gpu:
        library, numbers = Library(gpu), np.array([3, 2], "f4")
        groups = Groups(library, kind, wide)
        assert groups.perform(numbers.ctypes.data, numbers.ctypes.data + 4) == "SUCCESS", library.reason
        groups.check([3] * 4, 2)


def test_groups_have_numbers_and_factors_of_their_own() -> None:
    with tw.simulated_gpu("b200") as gpu:
        library = Library(gpu)
        groups = Groups(library, E4M3, wide=False, scaled=1)
        alphas = library.put(np.array(groups.alphas, "u8"))
        factors = {name: library.put(np.array(each, "u8")) for name, each in groups.scales.items()}
        edits = {"POINTER_MODE": 1, "ALPHA_BATCH_STRIDE": 1, "A_SCALE_MODE": PER_BATCH, "B_SCALE_MODE": PER_BATCH}
        edits |= {f"{name}_SCALE_POINTER": place for name, place in factors.items()}
        assert groups.perform(alphas, library.put(np.array([1], "f4")), edits) == "SUCCESS", library.reason
        groups.check([1, 2, 3, 4], 1)


@pytest.mark.parametrize(
    ("name", "edits", "changed", "status"),
    [
        ("a100", {}, {}, "NOT_SUPPORTED"),
        ("h100", {"EPILOGUE": 2}, {}, "NOT_SUPPORTED"),
        ("h100", {"POINTER_MODE": 2}, {}, "NOT_SUPPORTED"),
        ("h100", {"POINTER_MODE": 1, "ALPHA_BATCH_STRIDE": 1}, {}, "NOT_SUPPORTED"),
        ("b200", {"ALPHA_BATCH_STRIDE": 1}, {}, "NOT_SUPPORTED"),
        ("b200", {"TRANSB": 1}, {}, "EXECUTION_FAILED"),
        ("h100", {}, {"ORDER": 1}, "NOT_SUPPORTED"),
        ("h100", {}, {"GROUPED_ROWS_ARRAY": 64}, "EXECUTION_FAILED"),
        ("h100", {}, {"BATCH_COUNT": 3}, "INVALID_VALUE"),
    ],
)
def test_groups_that_are_refused(name: str, edits: Mapping[str, int], changed: Mapping[str, int], status: str) -> None:
    with tw.simulated_gpu(name) as gpu:
        library, numbers = Library(gpu), np.array([1, 0], "f4")
        groups = Groups(library, "f2", wide=False)
        for attribute, value in changed.items():
            library.set("MatrixLayout", groups.layouts["A"], attribute, value)
        assert groups.perform(numbers.ctypes.data, numbers.ctypes.data + 4, edits) == status, library.reason
        short = np.zeros(8, "u8")
        given = (short.ctypes.data, 64, 2, 1, 0, 0, 0)
        assert library.call("cublasLtGroupedMatrixLayoutInit_internal", *given) == "INVALID_VALUE"


# -- descriptors --------------------------------------------------------------------------------------------------


def test_older_programs_have_shorter_descriptors(library: Library) -> None:
    """Their layouts have 64 bytes, and no groups; what lies behind is not touched."""
    one = lt_calls.DESCRIPTORS["MatrixLayout"]
    place, rows = np.full(14, 7, "u8"), np.array([5], "u8")
    assert library.call("cublasLtMatrixLayoutInit_internal", place.ctypes.data, 64, 0, 3, 4, 3) == "SUCCESS"
    assert library.set("MatrixLayout", place.ctypes.data, "ROWS", 5) == "SUCCESS"
    assert library.set("MatrixLayout", place.ctypes.data, "GROUPED_ROWS_ARRAY", 5) == "INVALID_VALUE"
    assert place[8:].tolist() == [7] * 6
    number = one.attributes["ROWS"].number
    given = (place.ctypes.data, number, rows.ctypes.data, 8, 0)
    rows[0] = 0
    assert library.call("cublasLtMatrixLayoutGetAttribute", *given) == "SUCCESS"
    assert rows[0] == 5
    wide = np.array([9], "u8")
    preference, average = library.made("MatmulPreference"), lt_calls.DESCRIPTORS["MatmulPreference"].attributes
    number = average["GROUPED_DESC_D_AVERAGE_ROWS"].number
    given = (preference, number, wide.ctypes.data, 8)
    assert library.call("cublasLtMatmulPreferenceSetAttribute", *given) == "SUCCESS"


@pytest.mark.parametrize("kind", [*lt_calls.DESCRIPTORS, "MatmulAlgo"])
def test_attributes_have_defaults_and_keep_what_is_set(library: Library, kind: str) -> None:
    one = lt_calls.DESCRIPTORS.get(kind, lt_calls.ALGO)
    if kind == "MatmulAlgo":
        place = np.zeros(8, "u8")
        given = (library.handle, 68, 0, 0, 0, 0, 0, 1, place.ctypes.data)
        assert library.call("cublasLtMatmulAlgoInit", *given) == "SUCCESS"
        made, names = (
            place.ctypes.data,
            ("cublasLtMatmulAlgoConfigSetAttribute", "cublasLtMatmulAlgoConfigGetAttribute"),
        )
    else:
        made = library.made(kind, *range(1, 1 + len(one.first.split())))
        names = (f"cublasLt{kind}SetAttribute", f"cublasLt{kind}GetAttribute")
    first = [re.sub("([A-Z])", r"_\1", word.partition(":")[0]).upper() for word in one.first.split()]
    expected = {name: first.index(name) + 1 if name in first else at.default for name, at in one.attributes.items()}
    expected |= {"ID": 1} if "ID" in expected else {}
    written = np.zeros(1, "u8")
    for turn, (name, at) in itertools.product(range(2), one.attributes.items()):
        held = np.zeros(1, f"<{np.dtype(at.form).str[1:]}")
        address, size = held.ctypes.data, held.nbytes
        assert library.call(names[1], made, at.number, 0, 0, written.ctypes.data) == "SUCCESS"
        assert written[0] == size
        assert library.call(names[1], made, at.number, address, size, 0) == "SUCCESS"
        assert held[0] == expected[name], name
        for wrong in ((made, at.number, 0, size), (made, at.number, address, size + 1), (made, 77, address, size)):
            assert library.call(names[0], *wrong) == "INVALID_VALUE", name
            assert library.call(names[1], *wrong, written.ctypes.data) == "INVALID_VALUE", name
        assert library.call(names[1], made, at.number, address, 0, 0) == "INVALID_VALUE"
        if not turn:
            held[0] = expected[name] = 0 if name == "ID" else at.number % 5 + 3
            status = library.call(names[0], made, at.number, address, size)
            expected |= {"ID": 1} if name == "ID" else {}
            assert status == ("INVALID_VALUE" if name == "ID" else "SUCCESS"), name


def test_descriptors_need_their_bytes_and_an_address(library: Library) -> None:
    for kind, one in lt_calls.DESCRIPTORS.items():
        place, first = np.zeros(one.words, "u8"), (0,) * len(one.first.split())
        name = f"cublasLt{kind}Init_internal"
        assert library.call(name, place.ctypes.data, one.sizes[0] - 1, *first) == "ALLOC_FAILED"
        assert library.call(name, 0, 8 * one.words, *first) == "INVALID_VALUE"
        assert (
            library.call(f"cublasLt{kind}SetAttribute", place.ctypes.data, 0, place.ctypes.data, 4) == "INVALID_VALUE"
        )


# -- algorithms ---------------------------------------------------------------------------------------------------


def search(library: Library, requested: int = 5, end: str = "", **changed: int) -> tuple[str, int, Array]:
    desc = library.made("MatmulDesc", 68, 0)
    layout = library.made("MatrixLayout", 0, 200, 200, 200)
    found, count = np.zeros((5, 96), "u1"), np.array([-1], "i4")
    given = {"desc": desc, **dict.fromkeys("ABCD", layout), "preference": library.made("MatmulPreference")} | changed
    places = (requested, found.ctypes.data, count.ctypes.data)
    places += (0,) if end else ()
    status = library.call(f"cublasLtMatmulAlgoGetHeuristic{end}", library.handle, *given.values(), *places)
    return status, int(count[0]), found


def test_a_search_gives_algorithms_that_products_take(library: Library) -> None:
    status, count, found = search(library)
    assert (status, count) == ("SUCCESS", 3)
    for at in range(count):
        workspace, state, waves = (
            found[at, 64:80].view("u8")[0],
            *found[at, 72:76].view("i4"),
            *found[at, 76:80].view("f4"),
        )
        assert (workspace, state, bool(waves > 0)) == (0, 0, True)
        assert drawn_of().perform(library, {"algo": found[at:].ctypes.data})[0] == "SUCCESS"
    assert search(library, 1)[:2] == ("SUCCESS", 1)
    assert search(library, 0)[0] == "INVALID_VALUE"
    assert search(library, end="ForStream")[:2] == ("SUCCESS", 3)
    assert search(library, preference=0)[0] == "INVALID_VALUE"
    assert search(library, A=library.made("MatrixLayout", 0, 7, 7, 7))[:2] == ("INVALID_VALUE", 0)
    assert search(library, desc=library.made("MatmulDesc", 70, 1))[:2] == ("NOT_SUPPORTED", 0)
    assert drawn_of().perform(library, {"algo": np.zeros(8, "u8").ctypes.data})[0] == "INVALID_VALUE"


def test_algorithms_by_number(library: Library) -> None:
    ids, count, algo = np.full(9, -1, "i4"), np.zeros(1, "i4"), np.zeros(8, "u8")
    types = (68, 0, 0, 0, 0, 0)
    get, make = "cublasLtMatmulAlgoGetIds", "cublasLtMatmulAlgoInit"
    assert library.call(get, library.handle, *types, 9, ids.ctypes.data, count.ctypes.data) == "SUCCESS"
    assert (count[0], ids.tolist()) == (3, [0, 1, 2, *[-1] * 6])
    assert library.call(get, library.handle, *types, 0, ids.ctypes.data, count.ctypes.data) == "INVALID_VALUE"
    assert library.call(make, library.handle, *types, -1, algo.ctypes.data) == "INVALID_VALUE"
    assert library.call(make, library.handle, *types, 66, algo.ctypes.data) == "SUCCESS"  # a number of the vendor's
    assert drawn_of().perform(library, {"algo": algo.ctypes.data})[0] == "SUCCESS"
    assert library.call(make, library.handle, 68, 0, 3, 3, 3, 3, 0, algo.ctypes.data) == "NOT_SUPPORTED"
    assert library.call(make, 0, *types, 0, algo.ctypes.data) == "NOT_INITIALIZED"
    assert library.call(make, library.handle, *types, 2, algo.ctypes.data) == "SUCCESS"
    desc, layout = library.made("MatmulDesc", 68, 0), library.made("MatrixLayout", 0, 9, 9, 9)
    result, check = np.full(96, 255, "u1"), "cublasLtMatmulAlgoCheck"
    given = (library.handle, desc, *[layout] * 4)
    assert library.call(check, *given, algo.ctypes.data, result.ctypes.data) == "SUCCESS"
    assert (result[:64].min(), result[64:76].max()) == (255, 0)
    assert library.call(check, *given, 0, result.ctypes.data) == "INVALID_VALUE"
    clusters, number = algo.copy(), lt_calls.ALGO.attributes["CLUSTER_SHAPE_ID"].number
    shape = np.array([3], "u2")
    setting = (clusters.ctypes.data, number, shape.ctypes.data, 2)
    assert library.call("cublasLtMatmulAlgoConfigSetAttribute", *setting) == "SUCCESS"
    assert library.call(check, *given, clusters.ctypes.data, result.ctypes.data) == "NOT_SUPPORTED"
    held, written = np.full(4, 99, "u4"), np.zeros(1, "u8")
    for name, at in lt_calls.CAPABILITIES.items():
        given = (algo.ctypes.data, at.number, held.ctypes.data, at.size_bytes, written.ctypes.data)
        assert library.call("cublasLtMatmulAlgoCapGetAttribute", *given) == "SUCCESS", name
    given = (algo.ctypes.data, lt_calls.CAPABILITIES["TILE_IDS"].number, held.ctypes.data, 16, written.ctypes.data)
    assert library.call("cublasLtMatmulAlgoCapGetAttribute", *given) == "SUCCESS"
    assert written[0] == 4


def test_the_library_keeps_what_is_set(library: Library) -> None:
    size = np.zeros(1, "u8")
    assert library.call("cublasLtHeuristicsCacheGetCapacity", size.ctypes.data) == "SUCCESS"
    assert size[0] == 8192
    assert library.call("cublasLtHeuristicsCacheSetCapacity", 5) == "SUCCESS"
    library.call("cublasLtHeuristicsCacheGetCapacity", size.ctypes.data)
    assert size[0] == 5
    statuses = [library.call("cublasLtLoggerSetLevel", level) for level in (-1, 0, 5, 6)]
    assert statuses == ["INVALID_VALUE", "SUCCESS", "SUCCESS", "INVALID_VALUE"]
    for name in ("SetCallback", "SetFile", "OpenFile", "SetMask"):
        assert library.call(f"cublasLtLogger{name}", 0) == "SUCCESS"
    assert library.call("cublasLtLoggerForceDisable") == "SUCCESS"
    part = np.zeros(1, "i4")
    assert library.call("cublasLtGetProperty", 0, part.ctypes.data) == "SUCCESS"
    assert library.call("cublasLtDestroy", library.handle) == "SUCCESS"
    assert library.call("cublasLtDestroy", library.handle) == "NOT_INITIALIZED"


# -- sums ---------------------------------------------------------------------------------------------------------


def transform(library: Library, rng: Any, kinds: str, mode: int, missing: str = "") -> None:
    a_kind, b_kind, c_kind, number = kinds.split()
    operations = [int(one) for one in rng.integers(0, 3, 2)]
    m, n, batch = (int(rng.integers(1, 6)) for _ in range(3))
    pair = [
        Operand(rng, kind, *((n, m) if operation else (m, n)), batch, 1)
        for kind, operation in zip((a_kind, b_kind), operations, strict=True)
    ]
    target = Operand(rng, c_kind, m, n, batch, 1)
    numbers = in_memory(number, np.array([rng.integers(-2, 3), rng.integers(-2, 3)], complex))
    held = library.put(numbers) if mode else numbers.ctypes.data
    wanted = target.values.copy()
    for at in range(batch):
        parts = [
            complex(factor) * op(operation, one.dense(at))
            for factor, operation, one, name in zip(numbers, operations, pair, "AB", strict=True)
            if name != missing
        ]
        wanted[target.place(at)] = sum(parts)
    place, start = library.put(target.elements), target.elements
    desc = library.made(
        "MatrixTransformDesc", KINDS[number][0], POINTER_MODE=mode, TRANSA=operations[0], TRANSB=operations[1]
    )
    given = []
    for at, (name, one) in enumerate(zip("AB", pair, strict=True)):
        there = (held + at * numbers.itemsize, library.put(one.elements), one.layout(library))
        given += [0, 0, 0] if name == missing else there
    status = library.call("cublasLtMatrixTransform", library.handle, desc, *given, place, target.layout(library), 0)
    assert status == "SUCCESS", (library.reason, kinds)
    expected = in_memory(c_kind, wanted)
    found = library.get(place, start)
    assert np.array_equal(found.astype("c16"), expected.astype("c16"), equal_nan=True), (kinds, operations, mode)


@pytest.mark.parametrize(
    "kinds",
    [
        "f4 f4 f4 f4",
        "i1 i1 i1 f4",
        "i4 i1 f4 f4",
        "f2 f4 bf f4",
        "c8 c8 c8 c8",
        "f8 f8 f8 f8",
        "i4 i4 i1 i4",
        "f4 f4 i4 f4",
    ],
)
def test_sums_of_matrices(library: Library, kinds: str) -> None:
    for at in range(12):
        transform(library, np.random.default_rng([at, 5]), kinds, at % 2, ("", "A", "B")[at % 3])


def test_sums_that_are_refused(library: Library) -> None:
    desc, held = library.made("MatrixTransformDesc", 0), np.ones(1, "f4")
    number = held.ctypes.data
    layout, other = library.made("MatrixLayout", 0, 4, 4, 4), library.made("MatrixLayout", 0, 4, 5, 4)
    at = library.put(np.zeros(64, "f4"))
    whole = [library.handle, desc, number, at, layout, number, at, layout, at, layout, 0]
    wrong = [
        (0, 0, "NOT_INITIALIZED"), (1, 0, "INVALID_VALUE"), (2, 0, "INVALID_VALUE"), (4, 0, "INVALID_VALUE"),
        (4, other, "INVALID_VALUE"), (8, 0, "INVALID_VALUE"), (9, 0, "INVALID_VALUE"),
        (9, library.made("MatrixLayout", 0, 4, 4, 128, ORDER=5), "NOT_SUPPORTED"),
        (9, library.made("MatrixLayout", 4, 4, 4, 4), "NOT_SUPPORTED"),
        (1, library.made("MatrixTransformDesc", 28), "NOT_SUPPORTED"),
        (1, library.made("MatrixTransformDesc", 0, TRANSA=3), "INVALID_VALUE"),
        (1, library.made("MatrixTransformDesc", 0, POINTER_MODE=2), "INVALID_VALUE"),
    ]  # fmt: skip
    assert library.call("cublasLtMatrixTransform", *whole) == "SUCCESS"
    for place, value, status in wrong:
        given = [*whole[:place], value, *whole[place + 1 :]]
        assert library.call("cublasLtMatrixTransform", *given) == status, (place, value, library.reason)


# -- observers, and the table -------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", TYPES[:12:2] + TYPES[12:14])
def test_check_finds_no_read_of_what_a_call_leaves_out(row: str) -> None:
    with tw.simulated_gpu("h100", check=True) as gpu:
        library = Library(gpu)
        for at in range(4):
            drawn = Drawn(np.random.default_rng([at, 9]), row)
            assert drawn.perform(library)[0] == "SUCCESS", library.reason
            assert gpu.findings == (), str(drawn)


def test_check_finds_an_unset_bias() -> None:
    with tw.simulated_gpu("h100", check=True) as gpu:
        drawn = drawn_of()
        drawn.bias[:] = np.nan
        assert drawn.perform(Library(gpu))[0] == "SUCCESS"
        assert [one.code for one in gpu.findings] == ["TW205"]


def test_descriptors_fit_their_structures() -> None:
    for one in (*lt_calls.DESCRIPTORS.values(), lt_calls.ALGO):
        assert one.places(one.sizes[1]).keys() == one.attributes.keys()
    assert all(one.name in answers.FUNCTIONS or one.statements for one in calls.functions())

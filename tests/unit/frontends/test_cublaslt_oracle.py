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
        *(({name: 0}, "INVALID_VALUE") for name in "desc alpha A B beta C D Adesc Bdesc Cdesc Ddesc".split()),
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
        ("A", "ORDER", 2, "NOT_SUPPORTED"),
        ("B", "ORDER", 4, "NOT_SUPPORTED"),
        ("A", "PLANE_OFFSET", 64, "NOT_SUPPORTED"),
        ("A", "TYPE", 99, "NOT_SUPPORTED"),
        ("A", "TYPE", 1, "NOT_SUPPORTED"),
        ("D", "TYPE", 2, "NOT_SUPPORTED"),
        ("C", "LD", 0, "INVALID_VALUE"),
        ("D", "LD", -7, "INVALID_VALUE"),
        ("A", "ROWS", 60, "INVALID_VALUE"),
        ("C", "COLS", 60, "INVALID_VALUE"),
        ("D", "BATCH_COUNT", 9, "INVALID_VALUE"),
        ("B", "BATCH_COUNT", 0, "INVALID_VALUE"),
        ("B", "BATCH_MODE", 2, "INVALID_VALUE"),
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


# -- descriptors --------------------------------------------------------------------------------------------------


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
        assert library.call(name, place.ctypes.data, 8 * one.words - 1, *first) == "ALLOC_FAILED"
        assert library.call(name, 0, 8 * one.words, *first) == "INVALID_VALUE"
        assert (
            library.call(f"cublasLt{kind}SetAttribute", place.ctypes.data, 0, place.ctypes.data, 4) == "INVALID_VALUE"
        )


# -- algorithms ---------------------------------------------------------------------------------------------------


def search(library: Library, requested: int = 5, **changed: int) -> tuple[str, int, Array]:
    desc = library.made("MatmulDesc", 68, 0)
    layout = library.made("MatrixLayout", 0, 200, 200, 200)
    found, count = np.zeros((5, 96), "u1"), np.array([-1], "i4")
    given = {"desc": desc, **dict.fromkeys("ABCD", layout), "preference": library.made("MatmulPreference")} | changed
    places = (requested, found.ctypes.data, count.ctypes.data)
    status = library.call("cublasLtMatmulAlgoGetHeuristic", library.handle, *given.values(), *places)
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
    assert library.call(make, library.handle, *types, 3, algo.ctypes.data) == "INVALID_VALUE"
    assert library.call(make, library.handle, 68, 0, 3, 3, 3, 3, 0, algo.ctypes.data) == "NOT_SUPPORTED"
    assert library.call(make, 0, *types, 0, algo.ctypes.data) == "NOT_INITIALIZED"
    assert library.call(make, library.handle, *types, 2, algo.ctypes.data) == "SUCCESS"
    desc, layout = library.made("MatmulDesc", 68, 0), library.made("MatrixLayout", 0, 9, 9, 9)
    result, check = np.full(96, 255, "u1"), "cublasLtMatmulAlgoCheck"
    given = (library.handle, desc, *[layout] * 4)
    assert library.call(check, *given, algo.ctypes.data, result.ctypes.data) == "SUCCESS"
    assert (result[:64].min(), result[64:76].max()) == (255, 0)
    assert library.call(check, *given, 0, result.ctypes.data) == "INVALID_VALUE"
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
    desc, number = library.made("MatrixTransformDesc", 0), np.ones(1, "f4").ctypes.data
    layout, other = library.made("MatrixLayout", 0, 4, 4, 4), library.made("MatrixLayout", 0, 4, 5, 4)
    at = library.put(np.zeros(64, "f4"))
    whole = [library.handle, desc, number, at, layout, number, at, layout, at, layout, 0]
    wrong = [
        (0, 0, "NOT_INITIALIZED"), (1, 0, "INVALID_VALUE"), (2, 0, "INVALID_VALUE"), (4, 0, "INVALID_VALUE"),
        (4, other, "INVALID_VALUE"), (8, 0, "INVALID_VALUE"), (9, 0, "INVALID_VALUE"),
        (9, library.made("MatrixLayout", 0, 4, 4, 128, ORDER=2), "NOT_SUPPORTED"),
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
        assert one.layout.size <= 8 * one.words
    assert all(one.name in answers.FUNCTIONS or one.statements for one in calls.functions())

"""Other processors: narrower vectors give the same bits, and NEON's and SSE's kernels compile."""

from __future__ import annotations

import itertools
import os
import platform
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import tilewright as tw
from tilewright.ground.native import halves
from tilewright.ground.native.bitcode import bitcode
from tilewright.multiply.backends.cpu import pool, product
from tilewright.multiply.backends.cpu.contexts import KernelKey
from tilewright.multiply.backends.cpu.lanes import lanes_text
from tilewright.multiply.backends.cpu.loops import kernel_text
from tilewright.multiply.backends.cpu.pool import _PAUSES, host_text
from tilewright.multiply.backends.cpu.skinny import SkinnyKey, skinny_text
from tilewright.multiply.backends.cpu.small import SmallKey, small_text
from tilewright.multiply.engine.partial import Partial
from tilewright.multiply.engine.request import Request
from tilewright.multiply.problem.reference import canonical, same_bits

Array = np.ndarray[Any, Any]

# Narrower hosts: the engine runs in a child process that assumes another processor.

#: LLVM's name of a processor, the features that it must not have, and its vectors' bytes.
#: Source: x86-64 psABI, "Micro-Architecture Levels"; skylake-avx512 is AVX-512 without dot products of bytes, alderlake
#: AVX2 with them.
HOSTS = {
    "x86-64-v2": (r"avx|fma|f16c|amx|vaes|vpclmulqdq|gfni|xop|bmi", 16, "pairs"),
    "x86-64-v3": (r"avx512|avx10|avxvnni|avxifma|avxne|amx|evex|apx", 32, "pairs"),
    "alderlake": (r"avx512|avx10|avxifma|avxne|amx|evex|apx", 32, "dot"),
    "skylake-avx512": (r"avx512(?!f$|bw$|cd$|dq$|vl$)|avx10|avxvnni|avxifma|avxne|amx", 64, "pairs"),
}
#: Hosts that test only dot products.
INTEGERS_ONLY = ("alderlake", "skylake-avx512")
CHILD = """
import re, sys
import llvmlite.binding as llvm
name, without, wide, family, target = sys.argv[1:]
real = llvm.get_host_cpu_features()
features = {key: value and not re.match(without, key) for key, value in real.items()}


class Features(dict):
    def flatten(self):
        return ",".join(("+" if on else "-") + key for key, on in sorted(self.items()))


llvm.get_host_cpu_name = lambda: name
llvm.get_host_cpu_features = lambda: Features(features)
import numpy as np
import tilewright as tw
from test_engine_hosts import products
from tilewright.multiply.backends.cpu import product
from tilewright.multiply.backends.cpu.choice import kernel_key

product._HOT = 32

assert kernel_key(*("float32",) * 4).vector_bytes == int(wide)
assert kernel_key("int8", "int8", "int32", "int32").family == family
np.savez(target, **products(name))
"""
REAL = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64"]
#: dtypes of A and B, and of the result; first those with dot products here.
DOTS = [("int8", "int8", "int8"), ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("uint8", "uint8", "uint8"),
        ("int16", "int16", "int16"), ("int16", "int16", "int32"),
        ("int8", "uint16", "int16"), ("uint8", "int16", "int32")]  # fmt: skip
OTHERS = ["float16", "bfloat16", "float32", "float64", "int32", "int64", "complex64", "complex128"]
KINDS = [*DOTS, *((name, name, name) for name in OTHERS)]
#: Shapes of A and B, and their kernels: packed with edges and several blocks of k, few rows, few columns.
SHAPES = {
    "packed": ((67, 300), (300, 131)),
    "columns": ((67, 300), (300, 131)),
    "rows": ((3, 300), (300, 160)),
}
#: Dtypes with kernels for few rows and for exact extents; the others differ only in packing.
ROWS = ("float16", "float32", "int8", "int64", "complex128")
SMALL = ("float32", "int64")
#: Those that `order="fast"` sums in lanes.
LANES = ("float16", "float32", "float64")
#: Dtypes whose sums are continued; integers first.
PANELS = ("int8", "int16", "float16", "float64", "complex64")
#: Algebras and epilogues by name: dtype of the operands, and further arguments.
FUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "min-plus": ("float32", {"algebra": "min-plus"}),
    "xor-and": ("bool", {"algebra": "xor-and"}),
    "gelu": ("float32", {"epilogue": lambda acc: tw.gelu(acc * 0.5 + 1)}),
    "sigmoid": ("float64", {"epilogue": tw.sigmoid}),
    "requantise": ("int8", {"dtype": "int32", "epilogue": lambda acc: tw.where(acc > 0, acc, acc // 2)}),
}


def matrices(name: str, *shape: int, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    if name == "bool":
        return random.random(shape) < 0.1
    dtype = tw.problem.dtypes.dtype(name).numpy if name in REAL else np.dtype(name)
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return random.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(dtype)
    return random.normal(size=shape).astype(dtype)


def operands(kind: tuple[str, str, str], case: str) -> tuple[Array, Array]:
    a_shape, b_shape = SHAPES[case]
    a, b = matrices(kind[0], *a_shape), matrices(kind[1], *b_shape, seed=1)
    if case == "columns":
        wide = matrices(kind[1], len(b), 2 * b.shape[1], seed=2)
        wide[:, ::2] = b
        return np.asfortranarray(a), wide[:, ::2]
    return a, b


def by_panels(name: str) -> Array:
    """The packed product of a dtype, its sums continued from panel to panel."""
    a, b = operands((name,) * 3, "packed")
    shape = a.shape[0], b.shape[1]
    work = Partial.of(a.dtype, b.dtype, shape, Request())
    sums = np.empty(shape, work.sums)
    for first, last in itertools.pairwise((0, 1, 10, 200, a.shape[1])):
        work.add(a[:, first:last], b[first:last], sums, first=first == 0)
    return work.finish(sums, (), slice(0, shape[0]), slice(0, shape[1]))


def products(name: str = "") -> dict[str, Array]:
    """The bytes of every product for which a host has its own kernels, by name."""
    found: dict[str, Array] = {}
    for kind in DOTS if name in INTEGERS_ONLY else KINDS:
        for case in SHAPES:
            if case == "rows" and kind[0] not in ROWS:
                continue
            options = {} if kind[0] == kind[2] else {"dtype": kind[2]}
            found["-".join((*kind, case))] = tw.matmul(*operands(kind, case), **options)
    for dtype in PANELS[:2] if name in INTEGERS_ONLY else PANELS:
        found[f"{dtype}-panels"] = by_panels(dtype)
    for dtype in ("int8", "int16"):  # the sums farthest from 0, and overflow
        least = np.full((13, 601), np.iinfo(dtype).min, dtype)
        found[f"{dtype}-least"] = tw.matmul(least, np.repeat(least.T, 10, axis=1), dtype="int32")
    if name not in INTEGERS_ONLY:
        for dtype in SMALL:
            a, b = matrices(dtype, 40, 5, 9), matrices(dtype, 40, 9, 19, seed=1)
            for _ in range(2):  # the second has the kernel of exact extents
                found[f"{dtype}-small"] = tw.matmul(a, b)
        for dtype in LANES:
            few = matrices(dtype, 3, 5003), matrices(dtype, 5003, 2, seed=1)
            found[f"{dtype}-lanes"] = tw.matmul(*few, order="fast")
        for label, (dtype, options) in FUSED.items():
            found[label] = tw.matmul(*operands((dtype,) * 3, "packed"), **options)
    return {name: np.frombuffer(np.ascontiguousarray(x).tobytes(), np.uint8) for name, x in found.items()}


def has(name: str) -> bool:
    """Whether this processor can run code for that one."""
    features = llvm.get_host_cpu_features()
    needed = {"x86-64-v2": "sse4.2", "x86-64-v3": "avx2", "alderlake": "avxvnni", "skylake-avx512": "avx512vl"}[name]
    return platform.machine() in ("x86_64", "AMD64") and bool(features.get(needed))


@pytest.fixture(scope="module")
def here() -> Iterator[dict[str, Array]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product, "_HOT", 32)  # kernels for exact extents too
        yield products()


def products_on(name: str, target: Path) -> dict[str, Array]:
    """The products from a child that assumes another processor."""
    if not has(name):
        pytest.skip(f"this processor cannot run code for {name}")
    without, wide, family = HOSTS[name]
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, name, without, str(wide), family, str(target)],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with np.load(target) as found:
        return dict(found)


@pytest.mark.parametrize("name", HOSTS)
def test_another_processor_gives_the_same_bits(name: str, here: dict[str, Array], tmp_path: Path) -> None:
    there = products_on(name, tmp_path / "products.npz")
    assert len(there) >= 2 * len(DOTS)
    assert [x for x in there if there[x].tobytes() != here[x].tobytes()] == []


@pytest.mark.parametrize("dtype", PANELS)
def test_sums_by_panels_are_the_whole_product(dtype: str, here: dict[str, Array]) -> None:
    assert here[f"{dtype}-panels"].tobytes() == here["-".join([*[dtype] * 3, "packed"])].tobytes()


@pytest.mark.parametrize("kind", [x for x in KINDS if x[0] in REAL], ids="-".join)
def test_the_compared_bits_are_the_canonical_product(kind: tuple[str, str, str], here: dict[str, Array]) -> None:
    for case in SHAPES:
        if "-".join((*kind, case)) not in here:
            continue
        a, b = operands(kind, case)
        if kind[0] == kind[2]:
            truth = canonical(a, b)
        else:
            truth = canonical(a.astype(kind[2]), b.astype(kind[2]))
        found = np.frombuffer(here["-".join((*kind, case))].tobytes(), truth.dtype).reshape(truth.shape)
        assert same_bits(found, truth)


def test_the_sums_farthest_from_zero_are_exact(here: dict[str, Array]) -> None:
    for dtype in ("int8", "int16"):
        term = np.iinfo(dtype).min ** 2
        total = np.array(601 * term % 2**32, np.uint32).tobytes()
        assert here[f"{dtype}-least"].tobytes() == total * (13 * 130)


# Compiled for other processors, not run

#: LLVM's triple, processor and features, and the ELF machine.
#: Source: ELF gABI, e_machine: EM_X86_64 is 62, EM_AARCH64 183.
TARGETS = {
    "neon": ("aarch64-unknown-linux-gnu", "generic", "+neon", 183),
    "sse": ("x86_64-unknown-linux-gnu", "x86-64-v2", "", 62),
}
#: Functions that a host's C library may lack, and those that would make each lane a call.
#: Source: LLVM's RuntimeLibcalls; libgcc's soft-float routines.
CALLED = re.compile(rb"\0(__\w+|fmaf?)(?=\0)")
#: SSE has no fused multiply-add: C's own is called, which is exact. Conversions of halves are linked in.
ALLOWED = {"neon": set(), "sse": {b"fma", b"fmaf", *(x.encode() for x in halves.SYMBOLS)}}


TOTALS = {
    "float16": "float32", "bfloat16": "float32", "complex64": "float32", "complex128": "float64",
    "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
}  # fmt: skip


def text_of(name: str) -> str:
    """The module of a kernel for 16-byte vectors."""
    register = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64"}

    def key(dtype: str, total: str) -> KernelKey:
        return KernelKey(dtype, dtype, dtype, register[total], "integer" if "int" in total else "fma", 16)

    kind, _, rest = name.partition(" ")
    if kind == "small":
        return small_text(SmallKey(key(rest, rest), 5, 7, 9, 36, 4, 28, 28))
    if kind == "lanes":
        return lanes_text(replace(key(rest, rest), family="lanes"))
    if kind == "skinny":
        along = "rows" if rest.endswith("rows") else "columns"
        return skinny_text(SkinnyKey(key("float32", "float32"), 3, along))  # type: ignore[arg-type]
    return kernel_text(key(kind, TOTALS.get(kind, kind)))


KERNELS = [*REAL, "uint16", "complex64", "complex128", "small float32", "small int64", "skinny rows", "skinny columns",
           "lanes float32"]  # fmt: skip
#: Kernels that `make test` compiles for SSE: each way of halves, sums and calls. x86-64-v2 above runs the others.
SSE = ("float16", "bfloat16", "float32", "int8", "int32", "skinny rows")


@pytest.fixture(scope="module")
def machines() -> dict[str, Any]:
    """Target machines by name."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return {
        name: llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=1)
        for name, (triple, cpu, features, _) in TARGETS.items()
    }


def compiled(text: str, target: str, machine: Any, parts: Sequence[bytes] = ()) -> tuple[Any, bytes]:
    """The optimised module and its object file."""
    module = llvm.parse_assembly(text)
    for part in parts:
        module.link_in(llvm.parse_bitcode(part))
    module.triple = TARGETS[target][0]
    if halves.needed(text, *TARGETS[target][:3:2]):
        module.link_in(llvm.parse_bitcode(bitcode(halves.SOURCE)))
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    return module, bytes(machine.emit_object(module))


#: Instructions on vectors that a kernel's text must have.
VECTORS = {
    ("float32", "neon"): r"fmla\s+v\d+\.4s",
    ("int32", "neon"): r"mla\s+v\d+\.4s",
    ("int32", "sse"): r"pmulld\s+.*xmm",
}


@pytest.mark.parametrize(("name", "target"), [
    pytest.param(name, target, marks=[pytest.mark.volume] if target == "sse" and name not in SSE else [])
    for name in KERNELS for target in TARGETS
])  # fmt: skip
def test_every_kernel_compiles_for_narrow_vectors(name: str, target: str, machines: dict[str, Any]) -> None:
    module, code = compiled(text_of(name), target, machines[target])
    assert code[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", code, 18)[0] == TARGETS[target][3]
    assert set(CALLED.findall(code)) <= ALLOWED[target]
    if instruction := VECTORS.get((name, target)):
        assert re.search(instruction, machines[target].emit_assembly(module))


POOL = bitcode(Path(pool.__file__).with_name("pool.c"))


@pytest.mark.parametrize(("target", "architecture"), [("neon", "aarch64"), ("sse", "x86_64")])
def test_the_pool_compiles(target: str, architecture: str, machines: dict[str, Any]) -> None:
    module, code = compiled(host_text(_PAUSES[architecture]), target, machines[target], [POOL])
    assert struct.unpack_from("<H", code, 18)[0] == TARGETS[target][3]
    assembly = machines[target].emit_assembly(module)
    assert re.search(r"\byield\b|\bhint\s+#(0x)?1\b" if target == "neon" else r"\bpause\b", assembly)

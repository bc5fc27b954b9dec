"""Kernels of products in tensor memory: turns, what is found in broken copies, when they are chosen, and times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import machine, simt
from tilewright.ladder import operands
from tilewright.multiply.backends.ranking import chosen
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.kind import Kind
from tilewright.multiply.problem.reference import same_bits
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.programs import Program

FOLDER = Path(catalogue.__file__).parent
TEXT = (FOLDER / "blackwell.cu").read_text()
PAIRS = (FOLDER / "blackwell_pairs.cu").read_text()
THREADS = 320
B200 = machine.gpu("b200")


def program(entry: str, text: str = TEXT) -> Program:
    """An instance of the kernel for one block, or of that for pairs."""
    if entry.startswith("blackwell_pairs"):
        text = PAIRS.replace('#include "blackwell.cu"', text)
    options = ["--gpu-architecture=compute_100a", f"--include-path={FOLDER}"]
    return Program.from_cuda(text, entry, (10, 0), options)


def shared_bytes(stages: int, columns: int) -> int:
    """Of a block that holds so many columns of B."""
    return stages * (128 + columns) * 128 + 8 * 32 * 32 * 4 + (2 * stages + 4) * 8 + 8


#: Instances of the kernel: dtype, entry, by which operands lie by columns; columns of B that a block holds; stages.
INSTANCES = [
    pytest.param("bfloat16", "blackwell<__nv_bfloat16, 64, 2, ", (False, False), 64, 2, marks=pytest.mark.volume),
    pytest.param("float16", "blackwell_pairs<__half, 128, 3, ", (True, True), 64, 3, marks=pytest.mark.volume),
    ("int8", "blackwell_pairs<signed char, 256, 2, ", (True, False), 128, 2),
]


@pytest.mark.parametrize(("dtype", "entry", "turned", "columns", "stages"), INSTANCES)
def test_blocks_take_one_tile_after_another(
    dtype: str, entry: str, turned: tuple[bool, bool], columns: int, stages: int
) -> None:
    """More rows than a group of tiles has, and ragged; turns which not all blocks have, and blocks without a tile."""
    name, (m, n, k) = "blackwell_s8" if dtype == "int8" else "blackwell", (2200, 130, 170)
    record, (a, b) = replace(catalogue.find(name), columns=turned), operands(m, n, k, dtype, seed=6)
    made = program(f"{entry}{', '.join(str(one).lower() for one in turned)}>")
    shared, found = shared_bytes(stages, columns), []
    for blocks in (2, 14, 300):
        c = np.full((m, n), 77, a.dtype)
        simt.launch(made, blocks, THREADS, record.arguments(a, b, c), shared, gpu="b200")
        found.append(c)
    assert all(same_bits(c, found[0]) for c in found)
    assert record.wrong_elements(found[0], a, b) == 0


def test_a_long_sum_of_8_bit_floats_keeps_the_bits_of_float32() -> None:
    record, random = catalogue.find("blackwell_fp8"), np.random.default_rng(10)
    a, b = (random.uniform(1, 2, extents).astype(element("float8_e5m2").numpy) for extents in ((8, 4096), (4096, 8)))
    c, shape = record.blank(8, 8, "float8_e5m2"), record.launch_rule(8, 8, 4096)
    made, given = record.program("float8_e5m2"), record.arguments(a, b, c)
    simt.launch(made, shape.grid, shape.block, given, shape.shared_bytes, gpu="b200")
    assert record.wrong_elements(c, a, b) == 0


#: What is broken: text of the kernel, what takes its place, the code of what is found then, if anything, and whether
#: it is found in pairs of blocks too.
BROKEN = {
    "nothing": ("", "", "", True),
    "no wait for copies": ("                wait(at.full + 8 * stage.at, stage.parity);\n", "", "TW306", True),
    "no wait for products": ("wait(at.empty + 8 * stage.at, stage.parity ^ 1);", "", "TW306", True),
    "no wait for sums": ("            wait(at.summed + 8 * half.at, half.parity);\n", "", "TW206", False),
    "no wait for stores": ("            wait(at.stored + 8 * half.at, half.parity ^ 1);\n", "", "TW407", True),
    "columns not freed": ("        Memory::free_columns(columns);\n", "", "TW419", True),
    "no wait for loads": ('                 "tcgen05.wait::ld.sync.aligned;"\n', "", "TW418", True),
    "sums that begin with what is there": ("SHAPE, step > 0 || l > 0);", "SHAPE, true);", "TW206", False),
    "no order between lanes": (
        "    __syncwarp();\n#pragma unroll\n    for (int i = 0; i < 16", "    for (int i = 0; i < 16", "TW304", True,
    ),
    "no fence before a relaxed arrival": (
        """            before_arrival();
            __syncwarp();
            if (lane == 0) {
                if constexpr (BLOCKS > 1) {
                    arrive_at(0, at.stored + 8 * half.at);
                } else {
                    arrive(""",
        """            __syncwarp();
            if (lane == 0) {
                if constexpr (BLOCKS > 1) {
                    arrive_at(0, at.stored + 8 * half.at);
                } else {
                    arrive_relaxed(""", "TW420", False,
    ),
}  # fmt: skip
#: Of pairs, those that each run of the tests compiles; the volume tests have the rest.
IN_PAIRS = ("nothing", "no wait for copies", "columns not freed")
RELAXED = """
__device__ inline void arrive_relaxed(unsigned barrier) {
    asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One lane"""


@pytest.mark.parametrize(("what", "blocks"), [
    pytest.param(what, blocks, marks=[pytest.mark.volume] if blocks == 2 and what not in IN_PAIRS else [])
    for what, (*_, in_pairs) in BROKEN.items() for blocks in (1, 2)[: 1 + in_pairs]
])  # fmt: skip
def test_what_is_broken_is_found(what: str, blocks: int) -> None:
    (m, n, k), (line, other, code, _) = (300, 130, 40), BROKEN[what]
    assert line in TEXT, "the kernel has the line"
    a, b = operands(m, n, k, "bfloat16")
    text = (TEXT.replace(line, other, 1) if line else TEXT).replace("// One lane", RELAXED, 1)
    name = "blackwell<__nv_bfloat16, 64" if blocks == 1 else "blackwell_pairs<__nv_bfloat16, 128"
    given = catalogue.find("blackwell").arguments(a, b, np.zeros((m, n), a.dtype))
    made, shared = program(f"{name}, 2, false, false>", text), shared_bytes(2, 64)
    found = {one.code for one in tw.check(made, blocks, THREADS, given, shared_bytes=shared, gpu="b200")}
    assert code in found if code else not found


def test_it_is_chosen_on_its_family_alone() -> None:
    kind = Kind("bfloat16", "bfloat16", "bfloat16", "float32", order="fast")
    layouts = ((False, False), "blackwell_pairs"), ((True, False), "blackwell_tn"), ((True, True), "blackwell_tt")
    for columns, name in layouts:
        assert chosen(kind, 4096, 4096, 4096, B200, (10, 0), columns).best.record.name == name
    for gpu in ("h100", "rtx5090", "a100"):
        other = machine.gpu(gpu)
        names = [one.record.name for one in chosen(kind, 4096, 4096, 4096, other, other.compute_capability).candidates]
        assert not any(name.startswith("blackwell") for name in names)


@pytest.mark.parametrize(
    ("dtype", "name", "rate"),
    [
        ("bfloat16", "blackwell_pairs", 1.7e15),
        pytest.param("float8_e4m3fn", "blackwell_fp8", 3e15, marks=pytest.mark.volume),
        pytest.param("int8", "blackwell_s8", 3e15, marks=pytest.mark.volume),
        pytest.param("float32", "blackwell_tf32", 0.9e15, marks=pytest.mark.volume),
    ],
)
def test_the_estimate_is_near_the_predicted_time(dtype: str, name: str, rate: float) -> None:
    kind = Kind(dtype, dtype, element(dtype).product, element(dtype).accumulator, order="fast")
    size = 4096
    found = predict_product(catalogue.find(name), Product(size, size, size, dtype), B200, changes=False).seconds
    best = chosen(kind, size, size, size, B200, (10, 0)).ranking[0]
    assert best.name == name
    assert 0.85 < best.seconds / found < 1.2
    assert 2 * size**3 / found > rate

"""Kernels of products in tensor memory: turns, what is found in broken copies, when they are chosen, and times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import machine, simt
from tilewright.backends.ranking import chosen
from tilewright.kernels import catalogue
from tilewright.ladder import operands
from tilewright.prediction.products import Product, predict_product
from tilewright.problem.kind import Kind
from tilewright.problem.reference import same_bits
from tilewright.programs import Program

FOLDER = Path(catalogue.__file__).parent
TEXT = (FOLDER / "blackwell.cu").read_text()
B200 = machine.gpu("b200")


def program(entry: str, text: str = TEXT) -> Program:
    options = ["--gpu-architecture=compute_100a", f"--include-path={FOLDER}"]
    return Program.from_cuda(text, entry, (10, 0), options)


def shared_bytes(stages: int, columns: int) -> int:
    return stages * (128 + columns) * 128 + 128 * 33 * 4 + (2 * stages + 4) * 8 + 8


@pytest.mark.parametrize(
    ("name", "entry", "columns", "stages"),
    [
        ("blackwell", "blackwell<__nv_bfloat16, 64, 2, false, false>", 64, 2),
        pytest.param("blackwell_tt", "blackwell<__half, 128, 3, true, true>", 128, 3, marks=pytest.mark.volume),
    ],
)
def test_blocks_take_one_tile_after_another(name: str, entry: str, columns: int, stages: int) -> None:
    record, (m, n, k) = catalogue.find(name), (2200, 130, 70)  # more rows than a group of tiles has, and ragged
    a, b = operands(m, n, k, "float16" if "half" in entry else "bfloat16", seed=6)
    made, shared = program(entry), shared_bytes(stages, columns)
    expected = None
    for blocks in (1, 7, 300):  # tiles in turns, the last of which not all blocks have; and blocks without a tile
        c = np.full((m, n), 77, a.dtype)
        simt.launch(made, blocks, 192, record.arguments(a, b, c), shared, gpu="b200")
        expected = c if expected is None else expected
        assert same_bits(c, expected), blocks
    assert expected is not None
    assert record.wrong_elements(expected, a, b) == 0


#: What is broken: text of the kernel, what takes its place, and the codes of what is found then.
BROKEN = {
    "nothing": ("", "", set()),
    "no wait for copies": ("                wait(at.full + 8 * stage.at, stage.parity);\n", "", {"TW306"}),
    "no wait for products": ("wait(at.empty + 8 * stage.at, stage.parity ^ 1);", "", {"TW306", "TW407", "TW408"}),
    "no wait for sums": ("            wait(at.summed + 8 * half.at, half.parity);\n", "", {"TW206", "TW416"}),
    "no wait for stores": ("            wait(at.stored + 8 * half.at, half.parity ^ 1);\n", "", {"TW408", "TW416"}),
    "columns not freed": ("        free_columns(columns);\n", "", {"TW419"}),
    "no wait for loads": ('                 "tcgen05.wait::ld.sync.aligned;"\n', "", {"TW418"}),
    "sums that begin with what is there": ("SHAPE, step > 0 || l > 0);", "SHAPE, true);", {"TW206"}),
    "no order between lanes": ("__syncwarp();\n                const int x", "const int x", {"TW304"}),
    "no fence before a relaxed arrival": (
        'before_arrival();\n            __syncwarp();\n            if (lane == 0) {\n                arrive(',
        '__syncwarp();\n            if (lane == 0) {\n                arrive_relaxed(', {"TW420"},
    ),
}  # fmt: skip
RELAXED = """
__device__ inline void arrive_relaxed(unsigned barrier) {
    asm volatile("mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until"""


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_found(what: str) -> None:
    record, (m, n, k) = catalogue.find("blackwell"), (300, 130, 200)
    line, other, codes = BROKEN[what]
    assert line in TEXT, "the kernel has the line"
    a, b = operands(m, n, k, "bfloat16")
    text = TEXT.replace(line, other, 1) if line else TEXT
    made = program("blackwell<__nv_bfloat16, 64, 2, false, false>", text.replace("// Waits until", RELAXED, 1))
    given = record.arguments(a, b, np.zeros((m, n), a.dtype))
    found = tw.check(made, 1, 192, given, shared_bytes=shared_bytes(2, 64), gpu="b200")
    assert {one.code for one in found} == codes


def test_it_is_chosen_on_its_family_alone() -> None:
    kind = Kind("bfloat16", "bfloat16", "bfloat16", "float32", order="fast")
    layouts = ((False, False), "blackwell"), ((True, False), "blackwell_tn"), ((True, True), "blackwell_tt")
    for columns, name in layouts:
        assert chosen(kind, 4096, 4096, 4096, B200, (10, 0), columns).best.record.name == name
    for gpu in ("h100", "rtx5090", "a100"):
        other = machine.gpu(gpu)
        names = [one.record.name for one in chosen(kind, 4096, 4096, 4096, other, other.compute_capability).candidates]
        assert not any(name.startswith("blackwell") for name in names)


def test_the_estimate_is_near_the_predicted_time() -> None:
    kind = Kind("bfloat16", "bfloat16", "bfloat16", "float32", order="fast")
    record, size = catalogue.find("blackwell"), 4096
    predicted = predict_product(record, Product(size, size, size, "bfloat16"), B200, changes=False).seconds
    estimated = chosen(kind, size, size, size, B200, (10, 0)).ranking[0].seconds
    assert 0.8 < estimated / predicted < 1.25
    assert 2 * size**3 / predicted > 1e15

from __future__ import annotations

import math
import re
from pathlib import Path

import ml_dtypes  # noqa: F401  # NumPy has bfloat16's name from it
import numpy as np
import pytest
from scalar_product import canonical_scalar

from tilewright.errors import ArgumentTypeError, ArgumentValueError
from tilewright.multiply.backends.cpu import host_kernels
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.catalogue import Record
from tilewright.multiply.problem.expression import identity
from tilewright.multiply.problem.reference import canonical, same_bits
from tilewright.programs import Program

RECORDS = catalogue.records()
GPU = [record for record in RECORDS if record.backend == "gpu"]
CASES = [(record, dtype) for record in GPU for dtype in record.dtypes]
SHAPES = [(1, 1, 1), (7, 9, 8), (31, 33, 32), (64, 64, 64), (100, 37, 61)]
#: One multiply-add of the canonical product in PTX, by dtype.
STEP = {"float32": "fma.rn.f32", "float64": "fma.rn.f64", "int32": "mad.lo.s32"}
#: Elements of A's and B's tiles where they are not as large as C's, padding included.
TILES = {
    "uncoalesced": (0, 0), "coalesced": (0, 0), "thread_tile_1d": (64 * 8, 8 * 64),
    "thread_tile_2d": (128 * 8, 8 * 128), "vectorised": (128 * 8, 8 * 128), "padded": (132 * 8, 8 * 128),
    "double_buffered": (2 * 132 * 8, 2 * 8 * 128), "warp_tiled": (128 * 16 + 4 * 8, 16 * 128),
    "tensor_core_words": (2 * 128 * 32, 2 * 32 * 64), "tensor_core_shorts": (2 * 128 * 64, 2 * 64 * 64),
    "semiring": (66 * 16, 16 * 64), "tensor_core_bits": (2 * 4 * 2 * (4 * 128 + 16), 2 * 4 * 8 * (128 + 8)),
}  # fmt: skip


def is_alike(record: Record, dtype: str) -> bool:
    return any(record.columns) or (record.source == "TC" and dtype != record.dtypes[-1])


def cases(pairs: list[tuple[Record, str]]) -> pytest.MarkDecorator:
    """Of each pair a test.

    For the volume tests: kernels that are another's for operands by columns, and of tensor cores all dtypes but the
    last, which share their template.
    """
    return pytest.mark.parametrize(
        ("record", "dtype"),
        [
            pytest.param(r, d, id=f"{r.name}-{d}", marks=[pytest.mark.volume] if is_alike(r, d) else [])
            for r, d in pairs
        ],
    )


def test_every_row_of_the_issue_has_its_records() -> None:
    by_source: dict[str, list[str]] = {}
    for record in RECORDS:
        by_source.setdefault(record.source, []).append(record.name)
    assert by_source == {
        "S5": ["three_loops"],
        "CPU": ["cpu_engine"],
        "S1": ["naive_published", "naive"],
        "S2": ["tiled_published", "tiled"],
        "S3": ["block_partitioned_16", "block_partitioned_32"],
        "S6": ["global_memory"],
        "S9": ["shared_memory_8", "shared_memory_16", "shared_memory_32"],
        "S11": [f"results_{count}" for count in (1, 2, 4, 8, 16, 32)],
        "SGEMM": [
            "uncoalesced", "coalesced", "thread_tile_1d", "thread_tile_2d",
            "vectorised", "padded", "double_buffered", "warp_tiled",
        ],
        "TC": [
            "tensor_core", "split_k", "stream_k", "tensor_core_64", "transposed", "hopper",
            "hopper_multicast", "hopper_stores", "hopper_tn", "hopper_nt", "hopper_tt", "hopper_fp8",
            "hopper_s8", "hopper_tf32x3", "hopper_digits", "hopper_digits16",
            "blackwell", "blackwell_pairs", "blackwell_tn", "blackwell_nt", "blackwell_tt",
            "blackwell_fp8", "blackwell_fp8_nt", "blackwell_s8", "blackwell_s8_nt", "blackwell_tf32",
            "tensor_core_tf32", "tensor_core_tf32x3", "tensor_core_bf16x9", "tensor_core_f64", "tensor_core_s8",
            "tensor_core_words", "tensor_core_shorts", "turing", "turing_s8", "tensor_core_fp8", "tensor_core_bits",
        ],
        "SR": ["semiring"],
        "S4": ["opencl_naive", "opencl_tiled"],
        "OpenCL": ["opencl_register_tiled"],
    }  # fmt: skip


def test_specimens_carry_published_in_their_name_and_say_their_limits() -> None:
    for record in RECORDS:
        assert record.published == ("published" in record.name)
        assert not record.published or record.limits


def test_names_are_the_command_lines() -> None:
    assert len({record.name for record in RECORDS}) == len(RECORDS)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{2,23}", record.name) for record in RECORDS)
    assert all(catalogue.find(record.name) == record for record in RECORDS)
    with pytest.raises(ArgumentValueError, match=r"one of three_loops, .*got 'nothing'"):
        catalogue.find("nothing")


@cases(CASES)
def test_every_kernel_compiles_and_assembles(record: Record, dtype: str) -> None:
    program = record.program(dtype)
    assert program is record.program(dtype)
    resources = program.resources()
    assert 16 <= resources.registers_per_thread <= 255
    assert resources.spill_store_bytes == resources.spill_load_bytes == resources.stack_bytes == 0
    tiles = sum(TILES[record.name]) if record.name in TILES else 2 * math.prod(record.tile)
    # stages of two tiles, 64 bytes of each row of A, or 128 of half as many
    if record.source == "TC" and record.name not in TILES:
        tiles = record.stages * 2 * 8192 // np.dtype(dtype).itemsize
    if record.source == "TC" and record.tile == (64, 64) and dtype != "float64":  # four stages of half of that
        tiles = 4 * 2 * 4096 // np.dtype(dtype).itemsize
    if record.shared_bytes:  # nothing is static; stages of 128 bytes of each row and column, two mbarriers each
        together = record.planes.count if record.planes and record.planes.together else 1
        boxes = 2 * 2 * 64 * 128 * record.boxes_of_c  # of C, two of each consumer
        # parts of sums that are turned, four mbarriers, the address of tensor memory
        beside = 8 * 32 * 32 * 4 + 4 * 8 + 8 if record.cc == (10, 0) else 0
        halves = record.cluster if record.cc == (10, 0) else 1  # of B's tile, one for each block of a pair
        lines = record.tile[0] + record.tile[1] // halves
        assert record.shared_bytes == record.stages * (together * 128 * lines + 2 * 8) + boxes + beside
        tiles = 0
    tiles *= np.dtype(dtype).itemsize * (record.source not in ("S1", "S6"))
    assert program.shared_bytes == resources.shared_bytes == tiles
    barriers = 1 if tiles or (record.shared_bytes and record.cluster == 1) else 0
    assert resources.barriers == (16 if record.boxes_of_c else barriers)  # a register says which
    # A register file holds 65,536: a block must be able to run at all.
    assert resources.registers_per_thread * record.block[0] * record.block[1] <= 65_536


def test_generic_lambdas_are_compiled_by_every_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(Program, "from_cuda", lambda *named, **more: given.append(named[3]))
    for finish in (None, identity("float32", "float32")):
        catalogue._cuda.__wrapped__("tensor_core_f32.cu", "tensor_core_f32<>", "float32", (9, 0), finish=finish)
    assert all("--device-as-default-execution-space" in options for options in given), "which NVRTC 13.0 needs"
    assert len(given) == 2


@cases(CASES)
def test_every_line_table_leads_to_the_kernels_file(record: Record, dtype: str) -> None:
    program = record.program(dtype)
    files = {where.rsplit(":", 1)[0].rsplit("/", 1)[-1] for where in program.source_lines.values()}
    own = next((str(name) for name in getattr(record.compiler, "args", ()) if ".cu" in name), f"{record.name}.cu")
    shared = {
        "multiply_add.py",
        "fours.cuh",
        "tiles.cuh",
        "floats.cuh",
        "finish.cuh",
        "boxes.cuh",
        "tensor_core.cu",
        "hopper.cu",
        "blackwell.cu",
    } - {own}
    assert len(files - shared) == 1
    assert len(program.source_lines) > 20


@cases([(r, d) for r, d in CASES if r.order == "fma" and r.source != "TC" and d in STEP])
def test_sums_are_fused_in_their_own_width(record: Record, dtype: str) -> None:
    text = record.program(dtype).ptx
    assert STEP[dtype] in text
    if dtype != "float64":
        assert not re.search(r"\b(add|mul|fma)(\.rn)?\.f64", text)
    # Nothing is multiplied and added apart: a contraction would be the driver's choice, not the kernel's.
    assert not re.search(r"\b(add|mul)(\.rn)?\.f(32|64)", text)


def test_the_published_sums_are_what_their_order_says() -> None:
    naive = catalogue.find("naive_published")
    text = naive.program("float32").ptx
    assert re.search(r"mul\.f32.*\n.*cvt\.f64\.f32.*\n.*add\.f64", text)
    assert "fma" not in text
    # In float64 the compiler contracts the sum, which is then the canonical one.
    assert "fma.rn.f64" in naive.program("float64").ptx
    assert not re.search(r"\b(add|mul)(\.rn)?\.f64", naive.program("float64").ptx)
    assert "add.f64" in catalogue.find("tiled_published").program("float32").ptx


def test_several_results_share_one_read_of_b() -> None:
    """S11: results + 1 shared loads a step, for `results` multiply-adds."""
    for count in (1, 2, 4, 8, 16, 32):
        text = catalogue.find(f"results_{count}").program("float32").ptx
        steps = text.count("fma.rn.f32") // count
        assert text.count("ld.shared.f32") == steps * (count + 1)


@pytest.mark.parametrize("record", GPU, ids=lambda r: r.name)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_the_grid_covers_c_and_no_more(record: Record, m: int, n: int, k: int) -> None:
    shape = record.launch_rule(m, n, k)
    if record.resident:  # a block a tile, or a step of one, until the GPU is full; clusters are whole
        tiles = -(-m // (record.tile[0] * record.cluster)) * record.cluster * -(-n // record.tile[1])
        steps = -(-k // record.split) if record.split else 1
        assert shape.grid == (min(tiles * steps, record.resident), 1, 1)
        assert record.launch_rule(1 << 14, 1 << 14, k).grid == (record.resident, 1, 1)
        return
    x, y = (m, n) if record.rows_by_x else (n, m)
    tile_x, tile_y = record.tile if record.rows_by_x else record.tile[::-1]
    for extent, blocks, tile in ((x, shape.grid[0], tile_x), (y, shape.grid[1], tile_y)):
        assert (blocks - 1) * tile < extent <= blocks * tile
    assert shape.grid[2] == (min(-(-k // record.split), 8) if record.split else 1)
    assert shape.block[2] == 1
    assert shape.block[0] * shape.block[1] <= 1024
    assert math.prod(record.tile) == math.prod(shape.block) * math.prod(record.results)


def test_the_launch_of_the_transaction_analysis() -> None:
    """S7: width 32, block (32, 32), grid (1, 1)."""
    shape = catalogue.find("global_memory").launch_rule(32, 32, 32)
    assert (shape.grid, shape.block) == ((1, 1, 1), (32, 32, 1))


@cases(CASES)
def test_arguments_fit_the_program(record: Record, dtype: str) -> None:
    m, n, k = 7, 9, 8
    a = np.asfortranarray(np.arange(m * k).astype(dtype).reshape(m, k))
    b = np.arange(k * n).astype(dtype).reshape(k, n)
    b.flags.writeable = False
    c = record.blank(m, n, dtype)
    args = record.arguments(a, b, c)
    assert any(isinstance(arg, np.ndarray) and np.shares_memory(arg, c) for arg in args)
    program = record.program(dtype)
    seen: list[np.ndarray] = []

    def address_of(array: np.ndarray) -> int:
        seen.append(array)
        return len(seen) << 20

    values = program.marshal(args, address_of)
    assert [len(value) for value in values] == [parameter.bytes for parameter in program.parameters]
    if record.operands == "boxes":  # of copies whose rows begin at multiples of 16 bytes
        assert all(array.strides[0] % 16 == 0 for array in seen[:2])
    else:
        turned = record.operands.endswith("turned")  # A's columns stay as they are
        assert all(array.flags.c_contiguous for array in seen[turned:])
    a_first = record.operands != "cab m k n"
    lying = [x.T if by_columns else x for x, by_columns in zip((a, b), record.columns, strict=True)]
    order = (*lying, c) if a_first else (c, *lying)
    whole = not (record.split or record.boxes_of_c)
    assert all(np.array_equal(array, expected) for array, expected in zip(seen, order, strict=whole))
    if program.abi == "c":
        sizes = [int.from_bytes(value, "little") for value in values[3:]]
        assert sizes[:3] == ([m, n, k] if a_first else [m, k, n])
        of_lines = {"boxes": [n], "abc m n k ld turned": [m, n, n]}
        of_c = slice(3, 4 if record.boxes_of_c else 6)  # behind that are C's map and whether it is used
        assert sizes[of_c] == of_lines.get(record.operands, [k, n, n] if "ld" in record.operands else [])


def test_c_must_be_there_to_be_written() -> None:
    record = catalogue.find("tiled")
    a, b = np.zeros((2, 3), np.float32), np.zeros((3, 4), np.float32)
    for c in (np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32).T):
        with pytest.raises(ArgumentValueError, match="`c` must be row-major of shape"):
            record.arguments(a, b, c)


def test_what_a_kernel_accepts() -> None:
    for record in RECORDS:
        for dtype in record.dtypes:
            assert record.accepts(100, 37, 61, dtype) is None
        assert "takes" in (record.accepts(4, 4, 4, "complex64") or "")
        assert "at least 1" in (record.accepts(4, 0, 4, record.dtypes[0]) or "")
    assert "2**31 elements" in (catalogue.find("global_memory").accepts(2**16, 2**16, 8, "int32") or "")
    assert "65536 blocks in y" in (catalogue.find("tiled").accepts(16 * 65_536, 1, 1, "float32") or "")
    assert catalogue.find("tiled").accepts(16 * 65_535, 1, 1, "float32") is None
    assert catalogue.find("naive_published").accepts(16 * 65_536, 1, 1, "float32") is None


def test_wrong_use() -> None:
    loops, tiled = catalogue.find("three_loops"), catalogue.find("tiled")
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(ArgumentValueError, match="'three_loops' is one of 'cpu' and has no GPU program"):
        loops.program("float32")
    with pytest.raises(ArgumentValueError, match="has no launch shape"):
        loops.launch_rule(1, 1, 1)
    with pytest.raises(ArgumentValueError, match="runs on a GPU"):
        host_kernels.run(tiled, a, a)
    with pytest.raises(ArgumentTypeError, match=r"takes float32, float64, int32 \(got float16\)"):
        tiled.program("float16")


def operands(m: int, n: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(m + n + k)
    if dtype == "int32":
        return tuple(random.integers(-(2**31), 2**31, s).astype(dtype) for s in ((m, k), (k, n)))  # type: ignore[return-value]
    return tuple(random.standard_normal(s).astype(dtype) for s in ((m, k), (k, n)))  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(("m", "n", "k"), [*SHAPES, (3, 4, 0), (0, 4, 3)])
def test_the_three_loops_are_canonical(m: int, n: int, k: int, dtype: str) -> None:
    a, b = operands(m, n, k, dtype)
    assert same_bits(host_kernels.run(catalogue.find("three_loops"), a, b), canonical(a, b))
    assert same_bits(host_kernels.three_loops(np.asfortranarray(a), b[:, ::-1]), canonical(a, b[:, ::-1]))


@pytest.mark.parametrize("dtype", catalogue.find("cpu_engine").dtypes)
def test_the_cpu_engine_is_canonical(dtype: str) -> None:
    random = np.random.default_rng(8)
    for m, n, k in SHAPES:
        a, b = (random.uniform(0, 100, shape).astype(dtype) for shape in ((m, k), (k, n)))
        assert same_bits(host_kernels.run(catalogue.find("cpu_engine"), a, b), canonical(a, b))


def test_the_three_loops_agree_with_the_plainest_scalar_product() -> None:
    a, b = operands(5, 4, 33, "float32")
    assert same_bits(host_kernels.three_loops(a, b), canonical_scalar(a, b))


def test_the_three_loops_go_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_kernels, "_SLICE", 1000)
    a, b = operands(50, 20, 10, "float64")
    assert same_bits(host_kernels.three_loops(a, b), canonical(a, b))


def test_the_three_loops_refuse_what_they_are_not_made_for() -> None:
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(ArgumentTypeError, match=r"one dtype of .* \(got float32 and float64\)"):
        host_kernels.three_loops(a, a.astype(np.float64))
    with pytest.raises(ArgumentTypeError, match="float16"):
        host_kernels.three_loops(a.astype(np.float16), a.astype(np.float16))
    with pytest.raises(ArgumentValueError, match=r"\(got \(2, 2\) and \(3, 2\)\)"):
        host_kernels.three_loops(a, np.zeros((3, 2), np.float32))


def test_references() -> None:
    a, b = operands(9, 7, 33, "float32")
    naive = catalogue.find("naive_published")
    sums = np.zeros((9, 7))
    for k in range(33):
        sums += np.multiply.outer(a[:, k], b[k]).astype(np.float64)
    assert same_bits(naive.reference(a, b), sums.astype(np.float32))
    assert not same_bits(naive.reference(a, b), canonical(a, b))
    wide = operands(9, 7, 33, "float64")
    assert same_bits(naive.reference(*wide), canonical(*wide))
    assert same_bits(catalogue.find("tiled").reference(a, b), canonical(a, b))


def test_every_row_has_a_meaning_and_a_line_in_the_documentation() -> None:
    page = (Path(__file__).parents[4] / "docs" / "sources.md").read_text(encoding="utf-8")
    assert {record.source for record in catalogue.records()} == set(catalogue.SOURCES)
    for row in (*catalogue.SOURCES, *(f"S{number}" for number in range(1, 14))):
        assert f"\n| {row} | " in page

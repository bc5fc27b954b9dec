"""Kernels of tensor cores: every shape, address and leading dimension within the bound that the record states."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from family import gpu_of

import tilewright as tw
from tilewright import simt
from tilewright.ladder import operands
from tilewright.multiply.kernels import catalogue
from tilewright.multiply.kernels.catalogue import Record
from tilewright.multiply.problem.algebra import semiring
from tilewright.multiply.problem.bounds import Bound
from tilewright.multiply.problem.dtypes import element
from tilewright.multiply.problem.reference import same_bits
from tilewright.observe.prediction.launches import predict
from tilewright.observe.prediction.products import Product, predict_product
from tilewright.profiling import Profile
from tilewright.programs import Program
from tilewright.simt import DeviceArray, Memory

RECORDS = [record for record in catalogue.records() if record.source == "TC"]
VOLUME = pytest.mark.volume
#: Kernels that share nearly all with others, and dtypes of those that are long to compile, are for the volume tests.
LATER = {
    "stream_k", "tensor_core_64", "transposed", "tensor_core_bf16x9", "hopper_tn", "hopper_nt", "hopper_tt",
    "hopper_stores", "hopper_digits16", "blackwell", "blackwell_fp8_nt", "blackwell_s8_nt",
    "blackwell_tn", "blackwell_nt", "blackwell_tt",
}  # fmt: skip
CASES = [
    pytest.param(
        record, dtype, id=f"{record.name}-{dtype}",
        marks=[VOLUME] if record.name in LATER or (record.cc > (8, 0) and dtype != record.dtypes[-1]) else [],
    )
    for record in RECORDS for dtype in record.dtypes
]  # fmt: skip
#: What depends on addresses alone is alike in two dtypes of one width, and in two kernels of one template that differ
#: in the product: one of them is for the volume tests.
ALIKE = (
    "tensor_core-bfloat16", "split_k-bfloat16", "tensor_core_fp8-float8_e5m2", "tensor_core_tf32x3-float32",
    "hopper-bfloat16", "blackwell_pairs-bfloat16",
)  # fmt: skip
PLACES = [pytest.param(*case.values, id=case.id, marks=[VOLUME] if case.id in ALIKE else case.marks) for case in CASES]
#: Kernels that stand for the others where each has to be translated once more, with instruments.
STANDING = ("tensor_core-float16", "split_k-float16", "hopper_fp8-float8_e5m2", "blackwell_pairs-float16")
INSTRUMENTED = [pytest.param(*case.values, id=case.id, marks=[] if case.id in STANDING else [VOLUME]) for case in CASES]
#: (m, n, k): a single element, whole tiles, one of them ragged, one long, less than a tile, many steps.
SHAPES = [
    (129, 257, 65), (1, 1, 4096), (128, 136, 100), (130, 70, 4099),
    *(
        pytest.param(shape, marks=VOLUME)
        for shape in (
            (1, 1, 1), (128, 128, 64), (64, 40, 16), (7, 9, 8), (130, 70, 515), (256, 256, 256)
        )
    ),
]  # fmt: skip


def product(record: Record, a: np.ndarray, b: np.ndarray, gpu: str = "") -> np.ndarray:
    """A record's product of two operands; unwritten elements stay recognisable."""
    c = record.blank(a.shape[0], b.shape[1], a.dtype.name)
    c[...] = 77
    gpu = gpu or gpu_of(record)
    shape = record.launch_rule(*c.shape, a.shape[1])
    program = record.program(a.dtype.name, tw.machine.gpu(gpu).compute_capability)
    simt.launch(program, shape.grid, shape.block, record.arguments(a, b, c), shape.shared_bytes, gpu=gpu)
    return c


@pytest.mark.parametrize(("record", "dtype"), CASES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_every_shape_is_right(record: Record, dtype: str, shape: tuple[int, int, int]) -> None:
    a, b = operands(*shape, dtype, seed=sum(shape))
    assert record.wrong_elements(product(record, a, b), a, b) == 0


def arguments(record: Record, arrays: Sequence[DeviceArray], sizes: Sequence[int]) -> tuple[Any, ...]:
    """Arguments for arrays of the device, whose rows are apart; boxes can be copied of those alone that are aligned."""
    m, n, k = sizes[:3]
    blank = [np.zeros(extents, arrays[0].dtype) for extents in ((m, k), (k, n))]
    given = record.arguments(*blank, record.blank(m, n, arrays[0].dtype.name))
    if record.operands != "boxes":
        return *arrays, *(np.int32(size) for size in sizes), *given[9:]
    for one, device, width, by_columns in zip(given, arrays[:2], (k, n), record.columns, strict=False):
        rows = device.view()[:, :width]
        lines = rows.T if by_columns else rows
        one.array[...] = record.planes.split(lines).reshape(one.array.shape) if record.planes else lines
    by_lanes = (*given[7:-1], np.int32(0)) if record.boxes_of_c else ()  # the map is of another C
    return *given[:2], arrays[2], *given[3:6], np.int32(sizes[5]), *by_lanes


@pytest.mark.parametrize(("record", "dtype"), PLACES)
def test_rows_may_be_apart_transposed_or_at_any_address(record: Record, dtype: str) -> None:
    m, n, k = 70, 75, 45
    a, b = operands(m, n, k, dtype, seed=1)
    expected = product(record, a, b)
    assert same_bits(product(record, np.asfortranarray(a), np.asfortranarray(b)), expected)
    a, b, expected = (x.view(np.uint8) if x.dtype == np.bool_ else x for x in (a, b, expected))
    for offset, gap in ((0, 16), (1, 0), (3, 5)):
        with Memory() as memory:
            placed = []
            for values in (a, b, np.full(expected.shape, 77, expected.dtype)):
                rows, leading = len(values), values.shape[1] + gap
                around = memory.array(np.full(offset + rows * leading + 8, 77, values.dtype))
                inner = DeviceArray(memory, around.address + offset * values.itemsize, (rows, leading), values.dtype)
                inner.view()[:, : values.shape[1]] = values
                placed.append((inner, around))
            (x, _), (y, _), (c, around) = placed
            shape = record.launch_rule(m, n, k)
            given = arguments(record, (x, y, c), (m, n, k, k + gap, n + gap, n + gap))
            program, gpu = record.program(dtype), gpu_of(record)
            simt.launch(program, shape.grid, shape.block, given, shape.shared_bytes, gpu=gpu)
            assert same_bits(np.ascontiguousarray(c.to_host()[:, :n]), expected), (offset, gap)
            assert (around.to_host() == 77).sum() >= offset + m * gap + 8


@pytest.mark.parametrize(("n", "offset"), [(264, 0), (257, 0), (264, 1)])
def test_results_are_stored_by_boxes_where_rows_of_c_allow_it(n: int, offset: int) -> None:
    """Whatever the extents: what lies outside of C is not written; and nothing is found."""
    record, (m, k) = catalogue.find("hopper_stores"), (193, 130)
    a, b = operands(m, n, k, "bfloat16", seed=n)
    around = record.blank(1, m * n + 16, "bfloat16").reshape(-1)
    start = -around.ctypes.data % 16 // 2 + offset  # elements: C begins at a multiple of 16 bytes, or one behind
    c = around[start : start + m * n].reshape(m, n)
    shape, given = record.launch_rule(m, n, k), record.arguments(a, b, c)
    assert given[-1] == (n % 8 == 0 and not offset)
    program = record.program("bfloat16")
    assert tw.check(program, shape.grid, shape.block, given, shared_bytes=shape.shared_bytes) == ()
    assert record.wrong_elements(c, a, b) == 0


def test_a_view_of_a_larger_matrix_is_not_copied() -> None:
    record = catalogue.find("tensor_core")
    a, b = operands(40, 48, 64, "float16")
    left, c = a[:, 8:40], np.zeros((40, 48), np.float16)
    given = record.arguments(left, b[:32], c)
    assert given[0] is left
    assert [int(size) for size in given[3:]] == [40, 48, 32, 64, 48, 48]
    assert same_bits(product(record, left, b[:32]), product(record, left.copy(), b[:32]))


#: Other tiles in the same order of k: (entry of the record, another entry, its tile and threads).
TILES = [
    ("tensor_core", "float16", "tensor_core<__half, 64, 64, 32, 32, 32, 4>", 64, 128),
    pytest.param(
        "tensor_core", "bfloat16", "tensor_core<__nv_bfloat16, 128, 64, 32, 64, 16, 3>", (128, 64), 256, marks=VOLUME
    ),
    ("split_k", "float16", "split_k<__half, 128, 64, 32, 64, 16, 2>", (128, 64), 256),
    ("tensor_core_tf32x3", "float32", "tensor_core_f32<true, 64, 64, 16, 32, 32, 2>", 64, 128),
    pytest.param("tensor_core_f64", "float64", "tensor_core_f64<32, 64, 16, 16, 32, 4>", (32, 64), 128, marks=VOLUME),
    pytest.param(
        "tensor_core_s8", "int8", "tensor_core_bytes<signed char, 64, 128, 64, 32, 32, 3>", (64, 128), 256, marks=VOLUME
    ),
    (
        "tensor_core_fp8", "float8_e5m2", "tensor_core_bytes<__nv_fp8_e5m2, 64, 128, 64, 32, 32, 3>", (64, 128), 256,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "entry", "tile", "threads"), TILES)
def test_tiles_of_one_order_have_the_same_bits(
    name: str, dtype: str, entry: str, tile: int | tuple[int, int], threads: int
) -> None:
    record = catalogue.find(name)
    a, b = operands(150, 140, 200, dtype, seed=2)
    path = Path(catalogue.__file__).with_name(f"{entry.partition('<')[0]}.cu")
    other = Program.from_cuda(path, entry, (9, 0))
    rows, columns = tile if isinstance(tile, tuple) else (tile, tile)
    c = record.blank(150, 140, dtype)
    simt.launch(other, (-(-140 // columns), -(-150 // rows)), threads, record.arguments(a, b, c))
    assert same_bits(c, product(record, a, b))


@pytest.mark.parametrize(("record", "dtype"), INSTRUMENTED)
@pytest.mark.parametrize(
    "shape", [pytest.param((128, 128, 256), marks=VOLUME), (130, 131, 67)], ids=["whole", "ragged"]
)
def test_nothing_is_found(record: Record, dtype: str, shape: tuple[int, int, int]) -> None:
    a, b = operands(*shape, dtype)
    launch, given = record.launch_rule(*shape), record.arguments(a, b, record.blank(*shape[:2], dtype))
    options = {"shared_bytes": launch.shared_bytes, "gpu": gpu_of(record)}
    assert tw.check(record.program(dtype), launch.grid, launch.block, given, **options) == ()


def profiled(record: Record, dtype: str, m: int, n: int, k: int) -> Profile:
    a, b = operands(m, n, k, dtype)
    launch, given = record.launch_rule(m, n, k), record.arguments(a, b, record.blank(m, n, dtype))
    options = {"shared_bytes": launch.shared_bytes, "gpu": gpu_of(record)}
    return tw.profile(record.program(dtype), launch.grid, launch.block, given, **options)


#: How kernels read tiles that pack them, or have no asynchronous copies; the others do by these.
LOADED = {"tensor_core_bits": "ld.global", "turing": "ld.global", "turing_s8": "ld.global"}
#: What blocks of a kernel read beside tiles, in sectors: sums of the tiles that others share with them. All of the
#: others read tiles alone.
BESIDE = {
    "stream_k": lambda tiles, blocks, tile_sectors: blocks * tile_sectors,
    "split_k": lambda tiles, blocks, tile_sectors: blocks * tile_sectors * (blocks > tiles),
}


def test_every_kernel_that_splits_k_says_what_it_reads_beside_tiles() -> None:
    assert {record.name for record in RECORDS if record.split} == {*BESIDE}


@pytest.mark.parametrize("k", [256, pytest.param(1024, marks=VOLUME)])
@pytest.mark.parametrize(("record", "dtype"), INSTRUMENTED)
def test_copies_read_each_sector_once_and_tiles_have_no_conflicts(record: Record, dtype: str, k: int) -> None:
    m, n = 128 * record.cluster, 256
    seen = profiled(record, dtype, m, n, k)
    tiles = (m // record.tile[0]) * (n // record.tile[1])
    size = record.planes.copied if record.planes else operands(1, 1, 1, dtype)[0].itemsize
    opcode = LOADED.get(record.name, "cp.async")
    copied = sum(site.counts.global_loads.sectors for site in seen.sites if site.opcode.startswith(opcode))
    assert copied == tiles * k * (record.tile[0] + record.tile[1] // record.cluster) * size // 32
    beside = BESIDE.get(record.name, lambda *_: 0)
    of_sums = beside(tiles, math.prod(seen.grid), record.tile[0] * record.tile[1] * 4 // 32)
    assert seen.totals.global_loads.sectors - copied == of_sums
    assert seen.totals.global_loads.sectors == seen.totals.global_loads.ideal_sectors
    assert seen.totals.in_shared.excess_wavefronts == 0


def targets(record: Record) -> list[tuple[int, int]]:
    """The generations whose programs differ: one for a kernel of one family, else those from its first on."""
    return [record.cc] if record.family else sorted({record.cc, *(cc for cc in TARGETS if cc > record.cc)})


TARGETS = [(8, 0), (9, 0), (12, 0)]
ASSEMBLED = [
    pytest.param(
        *case.values, cc, id=f"{case.id}-{cc[0]}.{cc[1]}",
        marks=[] if case.id == "tensor_core-float16" or (cc == case.values[0].cc and not case.marks) else [VOLUME],
    )
    for case in CASES for cc in targets(case.values[0])
]  # fmt: skip


@pytest.mark.parametrize(("record", "dtype", "cc"), ASSEMBLED)
def test_the_assembler_keeps_all_in_registers(record: Record, dtype: str, cc: tuple[int, int]) -> None:
    program = record.program(dtype, cc)
    resources = program.resources()
    assert f".target sm_{cc[0]}{cc[1]}{'a' * (record.family and cc >= (9, 0))}\n" in program.ptx
    assert resources.spill_store_bytes == resources.spill_load_bytes == resources.stack_bytes == 0
    assert 2 * resources.shared_bytes <= 100 * 1024  # two blocks fit the smallest multiprocessor of these
    assert resources.shared_bytes + record.shared_bytes <= tw.machine.gpu(gpu_of(record)).shared_per_block_optin_bytes


def test_three_products_are_as_good_as_float32_and_one_is_not() -> None:
    a, b = operands(64, 64, 512, "float32", seed=3)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = {name: np.abs(product(catalogue.find(name), a, b) - exact).max() for name in
              ("tensor_core_tf32", "tensor_core_tf32x3", "hopper_tf32x3", "warp_tiled")}  # fmt: skip
    for name in ("tensor_core_tf32x3", "hopper_tf32x3"):
        assert errors[name] < errors["warp_tiled"]
        assert errors["tensor_core_tf32"] > 100 * errors[name]


def of_all_bits(extents: tuple[int, int], dtype: str, seed: int) -> np.ndarray:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.random.default_rng(seed).integers(least, most, extents, dtype, endpoint=True)


#: Kernels that add bytes, or make integers of products of bytes.
OF_WHOLE = [
    pytest.param(record, dtype, id=f"{record.name}-{dtype}", marks=[VOLUME] if dtype[0] != "i" else [])
    for record in RECORDS if record.tensor == "s8" for dtype in record.dtypes
]  # fmt: skip


@pytest.mark.parametrize(("record", "dtype"), OF_WHOLE)
def test_integers_of_all_bits_are_multiplied_modulo_their_width(record: Record, dtype: str) -> None:
    a, b = of_all_bits((70, 300), dtype, 1), of_all_bits((300, 33), dtype, 2)
    a[:3], b[:, :3] = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert np.array_equal(product(record, a, b), a @ b)


def test_each_pair_of_digits_counts_at_its_place() -> None:
    """Operands with one digit each, over more than a tile of k: what one product of bytes adds."""
    record, digits = catalogue.find("hopper_digits"), np.uint32(1) << np.arange(0, 32, 8, dtype=np.uint32)
    a, b = np.zeros((4, 200), np.uint32), np.zeros((200, 4), np.uint32)
    a[:, 150], b[150] = 3 * digits, 5 * digits
    assert np.array_equal(product(record, a, b), np.multiply.outer(3 * digits, 5 * digits))


def test_planes_of_float32_add_up_to_it() -> None:
    record, random = catalogue.find("hopper_tf32x3"), np.random.default_rng(9)
    assert record.planes is not None
    x = (random.standard_normal((40, 50)) * np.exp2(random.integers(-90, 90, (40, 50)))).astype(np.float32)
    big, small = record.planes.split(x)
    assert not (np.stack([big, small]).view(np.uint32) & 0x1FFF).any(), "tf32 has 13 bits less"
    assert (np.abs(big.astype(np.float64) + small - x) <= 2.0**-23 * np.abs(x)).all()
    assert np.isnan(record.planes.split(np.array([[np.inf, np.nan]], np.float32))[1]).all()
    most = np.array([[np.finfo(np.float32).max, -3.4028e38]], np.float32)
    assert (np.abs(record.planes.split(most).astype(np.float64).sum(0) - most) <= 2.0**-23 * np.abs(most)).all()


def test_a_bound_refuses_what_lies_beyond_it() -> None:
    a, b = np.ones((1, 64), np.float32), np.ones((64, 1), np.float32)
    bound = Bound(1, 16)
    reach = np.float32(80 * 2**-23 * 64)
    for error, wrong in ((0.0, 0), (0.99, 0), (1.01, 1), (-0.99, 0), (-1.01, 1)):
        assert bound.outside(np.full((1, 1), 64 + np.float32(error) * reach, np.float32), a, b) == wrong, error
    assert bound.outside(np.full((1, 1), np.nan, np.float32), a, b) == 1
    assert bound.outside(np.full((1, 2), 64, np.float32), a, b) == 1
    a[0, 0] = np.nan
    assert bound.outside(np.full((1, 1), np.nan, np.float32), a, b) == 0
    assert bound.outside(np.full((1, 1), 64, np.float32), a, b) == 1


#: Other instances of the kernels of warpgroups: the record, the entry, its tile, its threads and its stages.
WARPGROUPS = [
    pytest.param("hopper", "hopper<__nv_bfloat16, 1, 128, 4, false, false>", (64, 128), 256, 4, marks=VOLUME),
    ("hopper_tt", "hopper<__nv_bfloat16, 1, 128, 4, true, true>", (64, 128), 256, 4),
    pytest.param("hopper", "hopper<__half, 2, 128, 3, false, false>", (128, 128), 384, 3, marks=VOLUME),
]


@pytest.mark.parametrize(("name", "entry", "tile", "threads", "stages"), WARPGROUPS)
def test_blocks_take_one_tile_after_another(
    name: str, entry: str, tile: tuple[int, int], threads: int, stages: int
) -> None:
    record, (m, n, k) = catalogue.find(name), (1100, 300, 70)  # of 64 rows more than a group of tiles, and ragged
    a, b = operands(m, n, k, "float16" if "half" in entry else "bfloat16", seed=6)
    program = Program.from_cuda(
        Path(catalogue.__file__).with_name("hopper.cu"), entry, (9, 0), ["--gpu-architecture=compute_90a"]
    )
    shared_bytes, expected = stages * (128 * sum(tile) + 16), product(catalogue.find("hopper"), a, b)
    assert record.wrong_elements(expected, a, b) == 0
    for blocks in (1, 7):  # tiles in turns, the last of which not all blocks have
        c = np.full((m, n), 77, a.dtype)
        given = record.arguments(a, b, c)
        simt.launch(program, blocks, threads, given, shared_bytes)
        assert same_bits(c, expected), blocks
    c = np.zeros((130, 300), a.dtype)
    given = record.arguments(a[:130], b, c)
    assert tw.check(program, 2, threads, given, shared_bytes=shared_bytes) == ()


def test_a_gpu_of_another_generation_is_refused() -> None:
    record = catalogue.find("hopper")
    for cc in ((8, 9), (10, 0)):
        with pytest.raises(ValueError, match=rf"'hopper' needs compute capability 9.0 \(got {cc[0]}.{cc[1]}\)"):
            record.program("float16", cc)
    assert record.unfit((9, 0)) == ""


def test_a_gpu_without_asynchronous_copies_is_refused() -> None:
    record = catalogue.find("tensor_core")
    with pytest.raises(ValueError, match=r"'tensor_core' needs compute capability 8.0 or newer \(got 7.5\)"):
        record.program("float16", (7, 5))
    a, b = operands(16, 16, 16, "float16")
    rung = tw.ladder.climb(a, b, records=[record], gpu="t4").rungs[0]
    assert rung.verified is None
    assert "needs compute capability 8.0" in rung.note


def test_sums_of_split_k_do_not_depend_on_which_block_comes_last() -> None:
    record = catalogue.find("split_k")
    a, b = operands(70, 130, 1700, "float16", seed=4)
    launch = record.launch_rule(70, 130, 1700)
    assert launch.grid == (3, 2, 4)
    found = []
    for seed in range(4):
        c = np.zeros((70, 130), np.float16)
        given = record.arguments(a, b, c)
        simt.launch(record.program("float16"), launch.grid, launch.block, given, seed=seed)
        assert not given[-1].any()  # the counters are ready for another launch
        found.append(c)
    assert all(same_bits(c, found[0]) for c in found)
    assert record.wrong_elements(found[0], a, b) == 0
    # more blocks than steps of k: some have nothing to add
    c = np.zeros((70, 130), np.float16)
    given = record.arguments(a[:, :70], b[:70], c)
    work = np.empty(8 * 6 * 64 * 64, np.float32)
    simt.launch(record.program("float16"), (3, 2, 8), launch.block, (*given[:9], work, given[10]))
    assert record.wrong_elements(c, a[:, :70], b[:70]) == 0


@pytest.mark.volume
def test_stream_k_is_predicted_by_its_first_block() -> None:
    """Two blocks a multiprocessor with as many steps each: about the time of `tensor_core`, whose last wave is full.

    Its loop has the instructions that add up sums besides.
    """
    product = Product(2048, 2048, 2048, "float16")
    times = [
        predict_product(catalogue.find(name), product, tw.machine.gpu("h100"), changes=False).seconds
        for name in ("stream_k", "tensor_core")
    ]
    assert 0.6 < times[0] / times[1] < 1.3


@pytest.mark.parametrize("k", [1000, 5000])
def test_split_k_is_predicted_as_its_own_launch_is(k: int) -> None:
    """Each block has a part of k: 2 of them share it at 1,000, and 8 at 5,000, which is more than is counted."""
    record, gpu = catalogue.find("split_k"), tw.machine.gpu("a100")
    a, b = (np.zeros(shape, np.float16) for shape in ((128, k), (k, 128)))
    shape = record.launch_rule(128, 128, k)
    given = record.arguments(a, b, record.blank(128, 128, "float16"))
    whole = predict(record.program("float16", (8, 0)), shape.grid, shape.block, given, gpu="a100")
    scaled = predict_product(record, Product(128, 128, k, "float16"), gpu, changes=False)
    assert scaled.seconds == pytest.approx(whole.seconds, rel=0.15)


def test_blocks_of_stream_k_share_tiles_and_add_in_the_order_of_k() -> None:
    record, (m, n, k) = catalogue.find("stream_k"), (150, 300, 200)
    a, b = operands(m, n, k, "bfloat16", seed=7)
    program, tiles, steps = record.program("bfloat16"), 2 * 3, -(-200 // 32)
    assert record.launch_rule(m, n, k).grid == (tiles * steps, 1, 1)
    assert record.launch_rule(4096, 4096, 4096).grid == (record.resident, 1, 1)
    for blocks in (1, 4, 17, tiles * steps):  # none shared, some, most, a step each
        found = []
        for seed in range(2):
            c = np.full((m, n), 77, a.dtype)
            given = record.arguments(a, b, c)
            assert len(given[9]) >= 2 * blocks * 128 * 128
            simt.launch(program, blocks, math.prod(record.block), given, seed=seed)
            assert not given[10].any()  # the counters are ready for another launch
            found.append(c)
        assert same_bits(*found), blocks
        assert record.wrong_elements(found[0], a, b) == 0, blocks


@pytest.mark.volume
@pytest.mark.parametrize(
    ("file", "missing"),
    [
        ("stream_k.cu", ""),
        ("stream_k.cu", "__threadfence();  // other blocks see the sums"),
        ("tiles.cuh", "__syncthreads();  // the next step's copies"),
    ],
)
def test_nothing_is_found_in_stream_k_but_where_an_order_is_missing(file: str, missing: str, tmp_path: Path) -> None:
    a, b = operands(150, 300, 200, "float16")
    folder = shutil.copytree(Path(catalogue.__file__).parent, tmp_path / "kernels")
    text = (folder / file).read_text()
    assert missing in text
    (folder / file).write_text(text.replace(missing, "//") if missing else text)
    program = Program.from_cuda(folder / "stream_k.cu", "stream_k<__half, 128, 128, 32, 64, 64, 3>", (9, 0))
    given = catalogue.find("stream_k").arguments(a, b, np.zeros((150, 300), a.dtype))
    assert bool(tw.check(program, 4, 128, given)) == bool(missing)


def test_all_four_transpositions_are_read_without_a_copy() -> None:
    record = catalogue.find("transposed")
    a, b = operands(150, 140, 75, "bfloat16", seed=8)
    expected = product(catalogue.find("tensor_core"), a, b)
    for turned in range(4):
        x = np.asfortranarray(a) if turned & 1 else a
        y = np.asfortranarray(b) if turned & 2 else b
        given = record.arguments(x, y, np.zeros((150, 140), a.dtype))
        assert given[0] is x
        assert given[1] is y
        leading = [150 if turned & 1 else 75, 75 if turned & 2 else 140, 140]
        assert [int(size) for size in given[6:]] == [*leading, turned]
        assert same_bits(product(record, x, y), expected), turned
    view = np.asfortranarray(a)[3:131:2]  # neither rows nor columns lie side by side
    assert same_bits(product(record, view, b), product(record, view.copy(), b))


#: Kernels that read operands by columns, and which of them: `transposed` those that are, others those they are for.
TURNED = [
    pytest.param(name, by_columns, marks=VOLUME)
    for name, by_columns in (
        *(("transposed", turned) for turned in itertools.product((False, True), repeat=2)),
        *((record.name, record.columns) for record in RECORDS if any(record.columns) and not record.planes),
    )
]


@pytest.mark.parametrize(("name", "by_columns"), TURNED)
def test_turned_tiles_are_read_without_conflicts_or_a_copy(name: str, by_columns: tuple[bool, bool]) -> None:
    record, dtype = catalogue.find(name), catalogue.find(name).dtypes[-1]
    (m, n), k = (128, max(128, record.tile[1])), 128
    a, b = (np.asfortranarray(x) if of else x for x, of in zip(operands(m, n, k, dtype), by_columns, strict=True))
    launch, given = record.launch_rule(m, n, k), record.arguments(a, b, record.blank(m, n, dtype))
    assert all(np.shares_memory(x, getattr(y, "array", y)) for x, y in zip((a, b), given, strict=False))
    program, more = record.program(dtype), {"shared_bytes": launch.shared_bytes, "gpu": gpu_of(record)}
    assert tw.check(program, launch.grid, launch.block, given, **more) == ()
    seen = tw.profile(program, launch.grid, launch.block, given, **more).totals
    assert seen.in_shared.excess_wavefronts == 0
    assert seen.global_loads.sectors == (a.size + b.size) * a.itemsize // 32


def test_nine_products_lose_no_bit_of_an_operand() -> None:
    record, unit = catalogue.find("tensor_core_bf16x9"), np.eye(16, dtype=np.float32)
    random = np.random.default_rng(9)
    b = (random.standard_normal((16, 24)) * np.exp2(random.integers(-40, 40, (16, 24)))).astype(np.float32)
    assert same_bits(product(record, unit, b), b)
    assert same_bits(product(record, np.ascontiguousarray(b.T), unit), np.ascontiguousarray(b.T))
    a, b = operands(40, 50, 300, "float32", seed=9)
    assert record.wrong_elements(product(record, a, b), a, b) == 0


def test_nothing_is_found_where_blocks_share_tiles() -> None:
    record = catalogue.find("split_k")
    a, b = operands(70, 130, 1100, "float16")
    c, launch = np.zeros((70, 130), np.float16), record.launch_rule(70, 130, 1100)
    assert tw.check(record.program("float16"), launch.grid, launch.block, record.arguments(a, b, c)) == ()


#: Exponents of operands, from the least to the largest: what sums lose depends on how far apart they are.
EXPONENTS = [(-3, 3), (-14, 7), (-24, 15), (-60, 60), (-126, 0)]


@pytest.mark.volume
@pytest.mark.parametrize(("record", "dtype"), [case for case in CASES if case.values[0].bound])  # type: ignore[attr-defined]
def test_every_generation_s_sums_are_within_the_bound(record: Record, dtype: str) -> None:
    random, of_gpus, most_of_dtype = np.random.default_rng(5), [], element(dtype).largest
    gpus = (gpu_of(record),) if record.family else ("a100" if record.cc < (8, 9) else "l40s", "h100", "b200")
    for least, most in EXPONENTS:
        a, b = (
            (random.choice([-1, 1], s) * random.uniform(1, 2, s) * np.exp2(random.integers(least, most, s)))
            .clip(-most_of_dtype, most_of_dtype)
            .astype(element(dtype).numpy)
            for s in ((64, 100), (100, 64))
        )
        for gpu in gpus:
            c = product(record, a, b, gpu=gpu)
            assert record.wrong_elements(c, a, b) == 0, (gpu, least, most)
            of_gpus.append(c)
    # the first two's bits, which bfloat16 is too coarse to tell apart
    pairs = zip(of_gpus[:: len(gpus)], of_gpus[min(1, len(gpus) - 1) :: len(gpus)], strict=True)
    assert all(same_bits(*pair) for pair in pairs) == (record.family or dtype == "bfloat16")


@pytest.mark.parametrize(
    ("name", "dtype", "gpu"),
    [
        pytest.param(record.name, dtype, gpu, marks=[] if (gpu, dtype) == quick else [VOLUME])
        for record, quick in (
            (catalogue.find("tensor_core_fp8"), ("l40s", "float8_e4m3fn")),
            (catalogue.find("hopper_fp8"), ("h100", "float8_e5m2")),
        )
        for gpu in dict.fromkeys((quick[0], "h100")) for dtype in record.dtypes
    ],
)  # fmt: skip
def test_long_sums_of_few_bits_stay_within_the_bound(name: str, dtype: str, gpu: str) -> None:
    """Of 8-bit floats, 8.9 keeps 13 bits, as `wgmma` does: a sum of all of k would lose what sums of tiles do not."""
    record, random = catalogue.find(name), np.random.default_rng(10)
    a, b = (random.uniform(1, 2, extents).astype(element(dtype).numpy) for extents in ((8, 4096), (4096, 8)))
    assert record.wrong_elements(product(record, a, b, gpu=gpu), a, b) == 0


def test_subnormals_are_aligned_as_normal_numbers_are() -> None:
    """The exponent of one product of a subnormal cuts off others: by more than if it were counted as what it is."""
    record, e4m3, of_normals = catalogue.find("tensor_core_fp8"), element("float8_e4m3fn").numpy, 2**-23 * 73728
    a = np.full((1, 64), 1.875 * 2**-6).astype(e4m3)
    b = a.T.copy()
    a[0, ::16], b[::16] = 2**-9, 256
    exact = a.astype(np.float64) @ b.astype(np.float64)
    found = product(record, a, b, gpu="l40s")
    assert abs(found - exact)[0, 0] > of_normals * exact[0, 0]
    assert record.wrong_elements(found, a, b) == 0


#: (m, n, k): edges of rows, columns and steps, and one element of many steps.
OF_BITS = [
    pytest.param(*shape, marks=[VOLUME] if max(shape) > 4000 else [])
    for shape in ((129, 257, 65), (1, 1, 4096), (130, 70, 4099))
]


@pytest.mark.parametrize(("m", "n", "k"), OF_BITS)
@pytest.mark.parametrize("algebra", [None, "or-and", "xor-and"])
def test_booleans_are_multiplied_as_numpy_does(algebra: str | None, m: int, n: int, k: int) -> None:
    random, asked = np.random.default_rng(11), {"device": "simulated:h100", "algebra": algebra or "plus-times"}
    a, b = (random.random(extents) < 0.6 / np.sqrt(k) for extents in ((m, k), (k, n)))
    found = np.where(a @ b, 1, 0) if algebra != "xor-and" else a.astype(np.int64) @ b % 2
    assert "tensor_core_bits" in str(tw.plan(a.shape, b.shape, "bool", **asked))
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b)):
            c = tw.matmul(x, y, **asked)
            assert c.dtype == np.bool_
            assert np.array_equal(c, found)
    assert 0 < found.mean() < 1 or m == 1


def test_bits_are_for_algebras_that_they_have_instructions_of() -> None:
    record, shape = catalogue.find("tensor_core_bits"), (200, 200)
    with pytest.raises(ValueError, match=r"'tensor_core_bits' has or-and, xor-and only \(got min-max\)"):
        record.program("bool", algebra=semiring("min-max", "bool"))
    alike = tw.Algebra(lambda x, y: x & y, lambda x, y: x | y, zero=True, name="xor-and")  # of this name alone
    for algebra, device in ((alike, "h100"), ("min-max", "h100"), ("or-and", "t4")):
        assert "semiring" in str(tw.plan(shape, shape, "bool", algebra=algebra, device=device))
    random = np.random.default_rng(12)
    a, b = random.random((40, 50)) < 0.9, random.random((50, 30)) < 0.9
    c = tw.matmul(a, b, algebra=alike, device="simulated:h100")
    assert np.array_equal(c, (a[:, :, None] | b).all(axis=1))

"""Every kernel of the catalogue, compiled, run on the simulated GPU or an OpenCL device, and compared with `==`."""

from __future__ import annotations

import pytest
from family import gpu_of

from tilewright import ladder
from tilewright.errors import MemoryAccessError
from tilewright.multiply.kernels import catalogue
from tilewright.show.ladder.climber import mismatches

#: (m, n, k): single, odd, around a warp, whole tiles, oblong, and large enough for many blocks.
SHAPES = [(1, 1, 1), (7, 9, 8), (31, 33, 32), (64, 64, 64), (100, 37, 61), (256, 256, 256)]
TRUSTED = [r for r in catalogue.records() if not r.published]
#: Dtypes that differ in no step of some kernels from others.
LATER = ("int8", "int16", "uint8", "uint16", "uint32", "uint64")
PUBLISHED = catalogue.find("tiled_published")


def later(record: catalogue.Record, dtype: str) -> bool:
    """Whether a kernel is tried with a dtype by `make volume` alone.

    Those of tensor cores are long to compile; `tests/unit/multiply/kernels/test_tensor_cores.py` tries one of each
    template.
    """
    alike = record.name in ("semiring", "opencl_tiled", "opencl_register_tiled") and dtype in LATER
    return alike or record.bound is not None


@pytest.mark.parametrize(
    ("record", "dtype"),
    [
        pytest.param(r, d, id=f"{r.name}-{d}", marks=[pytest.mark.volume] if later(r, d) else [])
        for r in TRUSTED
        for d in r.dtypes
    ],
)
def test_every_trusted_kernel_gives_the_product_that_it_states(
    record: catalogue.Record, dtype: str, request: pytest.FixtureRequest
) -> None:
    if record.backend == "opencl":
        request.getfixturevalue("opencl_device")
    assert record.order == ("fma" if record.bound is None else "tensor-core")
    for shape in SHAPES:
        a, b = ladder.operands(*shape, dtype, seed=sum(shape))
        assert record.wrong_elements(ladder.multiply(record, a, b, gpu=gpu_of(record)), a, b) == 0, shape


@pytest.mark.parametrize("shape", SHAPES[:5], ids=lambda s: "x".join(map(str, s)))
def test_the_published_naive_kernel_keeps_its_own_order(shape: tuple[int, int, int]) -> None:
    record = catalogue.find("naive_published")
    a, b = ladder.operands(*shape, "float32", seed=5)
    assert mismatches(ladder.multiply(record, a, b), record.reference(a, b)) == 0


def test_the_published_tiles_are_right_on_multiples_and_wrong_off_them() -> None:
    record = catalogue.find("tiled_published")
    a, b = ladder.operands(32, 32, 32, "float32")
    assert mismatches(ladder.multiply(record, a, b), record.reference(a, b)) == 0
    # the grid does not match K: too few steps
    a, b = ladder.operands(32, 32, 64, "float32")
    assert mismatches(ladder.multiply(record, a, b), record.reference(a, b)) > 0
    # off the multiples the guard admits threads that read out of bounds or make wrong sums
    a, b = ladder.operands(31, 33, 32, "float32")
    rung = ladder.climb(a, b, records=[record]).rungs[0]
    assert rung.verified is False


def test_published_tiles_off_multiples_are_shown_failing_on_every_such_shape() -> None:
    record = catalogue.find("tiled_published")
    for shape in [(7, 9, 8), (31, 33, 32), (100, 37, 61)]:
        a, b = ladder.operands(*shape, "float32")
        try:
            wrong = mismatches(ladder.multiply(record, a, b), record.reference(a, b))
        except MemoryAccessError as error:
            assert "tiled_published" in str(error)
        else:
            assert wrong > 0


@pytest.mark.parametrize("name", ["tiled", "global_memory"])
def test_one_array_may_be_both_operands(name: str) -> None:
    record = catalogue.find(name)
    a, _ = ladder.operands(33, 33, 33, "float32")
    assert mismatches(ladder.multiply(record, a, a), record.reference(a, a)) == 0


def test_s7_to_the_transaction() -> None:
    """S7: width 32, block (32, 32), grid (1, 1): 5,120 load and 128 store transactions."""
    a, b = ladder.operands(32, 32, 32, "int32")
    rung = ladder.climb(a, b, records=ladder.select(catalogue.records(), ["S6"])).rungs[0]
    assert (rung.grid, rung.block) == ((1, 1, 1), (32, 32, 1))
    assert rung.counts.global_load_sectors == 5_120
    assert rung.counts.global_store_sectors == 128
    assert rung.verified


def test_s11_reads_fewer_wavefronts_with_more_results() -> None:
    """S11: 2 + 1 load wavefronts a step for two results, against 1 + 1 for one; n + 1 for n results."""
    a, b = ladder.operands(32, 32, 32, "float32")
    for rung in ladder.climb(a, b, records=ladder.select(catalogue.records(), ["S11"])).rungs:
        results = int(rung.name.removeprefix("results_"))
        warps = 32 // results
        assert rung.counts.shared_bank_conflicts == 0
        # a compiler may read a row of A's tile four elements at a time, never more than one by one
        loads = rung.counts.shared_load_wavefronts
        assert loads is not None
        assert warps * 32 < loads <= warps * 32 * (results + 1)


def test_a_climb_shows_the_published_tiles_failing_off_multiples() -> None:
    """S2: at a shape where the specimen is right, the same climb shows that it is not off the multiples."""
    a, b = ladder.operands(32, 32, 32, "float32")
    naive, tiled = ladder.climb(a, b, records=[catalogue.find("naive_published"), PUBLISHED]).rungs
    assert tiled.verified
    assert tiled.off_multiples is not None
    assert "out of bounds global store" in tiled.off_multiples.error
    assert "tiled_published.py:48" in tiled.off_multiples.error
    assert naive.off_multiples == ladder.OffMultiples(31, 33, 32, mismatches=0)

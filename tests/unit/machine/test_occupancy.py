import ctypes
import dataclasses
import importlib.util
import itertools
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.errors import ArgumentValueError
from tilewright.machine.gpu import gpu, gpus
from tilewright.machine.occupancy import occupancy

#: The header's limiting factors, in its bits' order.
FACTORS = ("warps", "registers", "shared", "blocks", "barriers")
INT_MAX = 2**31 - 1

#: One product of each compute capability; the limits depend on nothing else.
ONE_EACH = {record.compute_capability: record for record in gpus().values()}


def header_folder():
    """Where cuda_occupancy.h is: in the runtime wheel, or in an installed toolkit."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(root) / "cu13" / "include" for root in (spec.submodule_search_locations or ())] if spec else []
    folders += [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
    return next((folder for folder in folders if (folder / "cuda_occupancy.h").exists()), None)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The vendor's calculator: (gpu, registers, shared, block, barriers) -> (blocks, limiters, limits)."""
    folder, compiler = header_folder(), shutil.which("cc")
    if folder is None or compiler is None:
        pytest.skip("needs cuda_occupancy.h (the gpu extra brings it) and a C compiler")
    library = tmp_path_factory.mktemp("occupancy") / "reference.so"
    source = Path(__file__).with_name("occupancy_reference.c")
    subprocess.run([compiler, "-O1", "-w", "-shared", "-fPIC", f"-I{folder}", source, "-o", library], check=True)
    function = ctypes.CDLL(str(library)).reference
    out = (ctypes.c_int * 7)()

    def call(record, registers, shared, block, barriers=0):
        status = function(
            *record.compute_capability,
            record.launch.threads_per_block,
            record.threads_per_multiprocessor,
            record.registers_per_block,
            record.registers_per_multiprocessor,
            record.launch.shared_per_block_bytes,
            record.shared_per_multiprocessor_bytes,
            record.shared_per_block_optin_bytes,
            record.shared_reserved_bytes,
            registers,
            shared,
            block,
            barriers,
            out,
        )
        assert status == 0
        limiters = tuple(name for bit, name in enumerate(FACTORS) if out[1] >> bit & 1)
        counted = FACTORS if barriers and record.compute_capability >= (9, 0) else FACTORS[:-1]
        limits = {name: None if out[2 + i] == INT_MAX else out[2 + i] for i, name in enumerate(counted)}
        return out[0], limiters, limits

    return call


def check(reference, record, registers, shared, block, barriers=0):
    ours = occupancy(
        record, registers_per_thread=registers, shared_bytes=shared, block_threads=block, barriers=barriers
    )
    blocks, limiters, limits = reference(record, registers, shared, block, barriers)
    if "barriers" in limiters:
        # The header names barriers beside what limited before they were counted, even where they allow fewer blocks.
        limiters = tuple(name for name in limiters if limits[name] == blocks)
    case = (registers, shared, block, barriers)
    assert (ours.active_blocks, ours.limiters, dict(ours.limits)) == (blocks, limiters, limits), case


each = pytest.mark.parametrize(
    "record", ONE_EACH.values(), ids=lambda record: "{}.{}".format(*record.compute_capability)
)
BLOCKS = sorted({1, 2, 31, 33, 63, 97, 1000, 1023, 1025, 2048, *range(32, 1025, 32)})


@each
def test_agrees_over_blocks_and_registers(reference, record):
    for block, registers in itertools.product(BLOCKS, range(256)):
        check(reference, record, registers, 4096, block)


@each
def test_agrees_over_shared_memory(reference, record):
    top = record.shared_per_multiprocessor_bytes + 2048
    edges = [
        0,
        1,
        127,
        128,
        129,
        255,
        256,
        257,
        record.launch.shared_per_block_bytes,
        record.shared_per_block_optin_bytes,
    ]
    sizes = {*range(0, top, 512), *(max(0, edge + step) for edge in edges for step in (-1, 0, 1))}
    for block, shared in itertools.product((1, 32, 100, 256, 1024), sorted(sizes)):
        check(reference, record, 32, shared, block)


@each
def test_agrees_on_random_kernels(reference, record):
    rng = random.Random(record.key)
    for _ in range(4000):
        shared = rng.choice([0, rng.randrange(8192), rng.randrange(record.shared_per_multiprocessor_bytes)])
        check(reference, record, rng.randrange(256), shared, rng.randrange(1, 1100), rng.randrange(17))


def test_agrees_where_a_block_may_take_half_the_registers(reference):
    """As on embedded GPUs; only there does the hardware's check by whole partitions matter."""
    record = dataclasses.replace(gpu("a10"), registers_per_block=32768)
    for block, registers in itertools.product(BLOCKS, range(256)):
        check(reference, record, registers, 0, block)


def test_known_cases():
    """Worked by hand from the guide's table, so that something is tested where the header is not."""
    t4, a100 = gpu("t4"), gpu("a100")
    full = occupancy(t4, registers_per_thread=64, shared_bytes=0, block_threads=256)
    assert (full.active_blocks, full.fraction, full.limiter) == (4, 1.0, "warps, registers")
    assert full.limits["shared"] is None
    tile = occupancy(a100, registers_per_thread=32, shared_bytes=40 * 1024, block_threads=128)
    assert (tile.active_blocks, tile.active_warps, tile.fraction, tile.limiter) == (4, 16, 0.25, "shared")
    fat = occupancy(a100, registers_per_thread=255, shared_bytes=0, block_threads=512)
    assert (fat.active_blocks, fat.fraction, fat.limiter) == (0, 0.0, "registers")
    small = occupancy(a100, registers_per_thread=16, shared_bytes=0, block_threads=32)
    assert (small.active_blocks, small.fraction, small.limiter) == (32, 0.5, "blocks")
    assert "barriers" not in small.limits


def test_barriers():
    rtx5090 = gpu("rtx5090")
    many = occupancy(rtx5090, registers_per_thread=16, shared_bytes=0, block_threads=64, barriers=8)
    assert (many.active_blocks, many.limiter, many.limits["barriers"]) == (3, "barriers", 3)
    older = occupancy(gpu("a100"), registers_per_thread=16, shared_bytes=0, block_threads=64, barriers=8)
    assert "barriers" not in older.limits


def test_wrong_numbers():
    h100 = gpu("h100")
    with pytest.raises(ArgumentValueError, match=r"`block_threads` must be at least 1 \(got 0\)"):
        occupancy(h100, registers_per_thread=1, shared_bytes=0, block_threads=0)
    with pytest.raises(ArgumentValueError, match=r"`shared_bytes` must not be negative \(got -4\)"):
        occupancy(h100, registers_per_thread=1, shared_bytes=-4, block_threads=32)

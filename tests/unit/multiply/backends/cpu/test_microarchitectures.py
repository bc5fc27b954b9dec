"""Blocks by microarchitecture: each record fits its caches, and none changes a bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.multiply.backends.cpu.contexts import KernelKey, tile_of
from tilewright.multiply.backends.cpu.microarchitectures import (
    MICROARCHITECTURES,
    UNKNOWN,
    Microarchitecture,
    of_host,
)

#: A product with another host's blocks.
CHILD = """
import sys
from dataclasses import replace
import numpy as np
import tilewright as tw
from tilewright.multiply.backends.cpu import contexts
from tilewright.multiply.backends.cpu.microarchitectures import of_host

record = replace(of_host("znver3"), packed_bytes=int(sys.argv[1]))
contexts.of_host = lambda name: record
a, b = np.load(sys.argv[2])["a"], np.load(sys.argv[2])["b"]
assert contexts.tile_of(contexts.KernelKey(*["float32"] * 3, "float", "fma", 32)).nc == int(sys.argv[4])
np.save(sys.argv[3], tw.matmul(a, b))
"""


@pytest.mark.parametrize("host", [*MICROARCHITECTURES, UNKNOWN], ids=lambda host: host.title)
def test_blocks_fit_the_caches_or_were_timed_elsewhere(host: Microarchitecture) -> None:
    assert host.packed_bytes <= (host.l2_bytes if host.measured else 1 << 20)
    assert 6 * host.kc * 4 * 2 <= host.l1_bytes  # six rows of A, and the same amount of B
    assert host.source


def test_a_name_means_one_record() -> None:
    names = [name for host in MICROARCHITECTURES for name in host.names]
    assert len(names) == len(set(names))
    assert all(of_host(name) in MICROARCHITECTURES for name in names)
    assert of_host("") is UNKNOWN


@pytest.mark.parametrize(("packed_bytes", "columns"), [(128 << 10, 64), (256 << 10, 128)])
def test_other_blocks_give_the_same_bits(packed_bytes: int, columns: int, tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    a = random.standard_normal((50, 1300)).astype(np.float32)
    b = random.standard_normal((1300, 700)).astype(np.float32)
    np.savez(tmp_path / "in.npz", a=a, b=b)
    arguments = [str(packed_bytes), str(tmp_path / "in.npz"), str(tmp_path / "c.npy"), str(columns)]
    environment = os.environ | {"TILEWRIGHT_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", CHILD, *arguments], env=environment, check=True)
    assert (np.load(tmp_path / "c.npy") == tw.matmul(a, b)).all()


def test_a_tile_has_columns_however_small_the_cache() -> None:
    assert tile_of(KernelKey(*["float64"] * 3, "double", "fma", 64)).nc >= 32

"""The benchmark that estimates products on clusters: bytes and times by hand, and never less than the lower bound."""

from __future__ import annotations

import pytest
from placement import WAYS, Cluster, estimate

EDGE = 4096


def test_one_worker_with_room_reads_each_operand_once() -> None:
    found = estimate((EDGE,) * 3, Cluster(1, 1 << 40, flops_per_s=1e12), 1, 1, False)
    assert (found.tiles, found.read_bytes, found.written_bytes) == (1, 8 * EDGE**2, 4 * EDGE**2)
    assert found.bounds_s["arithmetic"] == pytest.approx(2 * EDGE**3 / 1e12)
    assert found.bounds_s["links"] == pytest.approx(8 * EDGE**2 / 1.25e9)
    assert (found.limit, found.seconds) == ("arithmetic", found.bounds_s["arithmetic"])


def test_layers_write_their_sums_and_one_reads_them() -> None:
    whole, layers = (estimate((EDGE,) * 3, Cluster(1, 1 << 40), count, 1, False) for count in (1, 4))
    sums = 3 * 4 * EDGE**2
    assert layers.written_bytes == whole.written_bytes + sums and layers.read_bytes >= whole.read_bytes + sums


def test_storage_limits_many_workers_unless_they_pass_panels_on() -> None:
    cluster = Cluster(1000, storage_bytes_per_s=2e10)
    assert estimate((10**6,) * 3, cluster, 1, 4, False).limit == "storage"
    assert estimate((10**6,) * 3, cluster, 1, 4, True).limit == "arithmetic"


@pytest.mark.parametrize(("workers", "memory_bytes"), [(1, 10**9), (10, 10**9), (10, 16 * 10**9), (1000, 10**9)])
def test_no_way_moves_less_than_the_bound(workers: int, memory_bytes: int) -> None:
    for way in WAYS.values():
        found = estimate((200_000, 100_000, 300_000), Cluster(workers, memory_bytes), *way)
        assert found.read_bytes + found.written_bytes >= found.least_bytes > 0

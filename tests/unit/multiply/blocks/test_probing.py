"""Short measurements of the storage's rates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.multiply.blocks import probing
from tilewright.multiply.blocks.probing import _read_rate
from tilewright.multiply.blocks.stores import MemoryStore


class _Slow(MemoryStore):
    """Reads whole chunks at this many bytes a second, except for one slow read."""

    def __init__(self, shape: tuple[int, ...], chunks: tuple[int, int], rate: float) -> None:
        super().__init__(np.zeros(shape, np.float32), "slow")
        self.chunks, self.rate = (*(1,) * (len(shape) - 2), *chunks), rate
        self.reads, self.clock_s = 0, 0.0

    def read(self, at: tuple[int, ...], rows: slice, columns: slice, into: Any) -> None:
        self.reads += 1
        assert into.nbytes <= 4 << 20
        sides = []
        for part, chunk, extent in zip((rows, columns), (1, *self.chunks)[-2:], (1, *self.shape)[-2:], strict=True):
            assert 0 <= part.start < part.stop <= extent
            sides.append(min(-(-part.stop // chunk) * chunk, extent) - part.start // chunk * chunk)
        self.clock_s += sides[0] * sides[1] * 4 / self.rate + (0.5 if self.reads == 1 else 0)


@pytest.mark.parametrize("shape", [(3000, 3000), (2, 5, 900_000), (900_000, 5), (4_000_000,)], ids=str)
@pytest.mark.parametrize("chunks", [(1, 1), (700, 900)], ids=str)
def test_a_slow_read_does_not_count(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], chunks: tuple[int, int]
) -> None:
    store = _Slow(shape, chunks if len(shape) > 1 else (1, 1), 1e8)
    monkeypatch.setattr(probing, "time", SimpleNamespace(perf_counter=lambda: store.clock_s))
    assert _read_rate(store) == pytest.approx(1e8)
    assert 3 <= store.reads <= 5

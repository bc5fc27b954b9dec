"""Places of rows with gaps, against NumPy's strides."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.simulate.events import GLOBAL_BASE
from tilewright.simulate.row_gaps import RowGaps, suits


@pytest.mark.parametrize("shape", [(6,), (1, 1), (3, 5), (2, 3, 4), (2, 1, 3, 7)])
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16", "V12"])
def test_elements_and_gaps_share_the_span_between_them(shape, dtype):
    rows = RowGaps(shape, np.dtype(dtype).itemsize)
    memory = np.zeros(rows.span_bytes, np.uint8)
    np.ndarray((*shape, rows.item_bytes), np.uint8, memory.data, 0, (*rows.strides, 1))[...] += 1
    rows.gaps(GLOBAL_BASE).of(memory)[...] += 2
    assert set(memory.tolist()) == {1, 2}
    assert memory.tolist().count(1) == np.prod(shape) * rows.item_bytes
    assert rows.gap_bytes >= 256
    assert rows.gap_bytes % rows.item_bytes == 0


def test_arrays_with_no_rows_or_too_many_are_left_alone():
    assert suits((4, 4), 8)
    assert not suits((16,), 8)
    assert not suits((4, 0), 8)
    assert not suits((1 << 20, 1), 8)

"""The states of large allocations: right at every byte, and memory only for what is used."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tilewright.errors import OutOfMemoryError
from tilewright.observe.instruments.shadow.cells import FREE, FREED, READABLE, WRITABLE
from tilewright.observe.instruments.shadow.states import States
from tilewright.simulate.events import GLOBAL_BASE
from tilewright.simulate.machine.host_memory import resident_bytes

LARGE = 40 << 30


@pytest.mark.skipif(sys.platform != "linux", reason="other systems map no filled pages")
def test_a_large_allocation_takes_memory_for_what_is_used() -> None:
    states, start, before = States(LARGE + (1 << 20)), GLOBAL_BASE + 256, resident_bytes()
    states.allocated(start, LARGE, 512)
    states.host_wrote(start + 1000, 4)
    around = [start - 1, start, start + 1000, start + 1004, start + LARGE // 2, start + LARGE - 1, start + LARGE]
    found = [int(states.bytes_[at - GLOBAL_BASE]) for at in around]
    assert found == [FREE, WRITABLE, WRITABLE | READABLE, WRITABLE, WRITABLE, WRITABLE, FREE]
    states.freed(start, LARGE)
    assert [int(states.bytes_[at - GLOBAL_BASE]) for at in around] == [FREE, *[FREED] * 5, FREE]
    states.allocated(start, 1 << 20, 512)
    assert states.bytes_[256 : 256 + (1 << 20)].tolist() == [WRITABLE] * (1 << 20)
    assert np.all(states.bytes_[256 + (1 << 20) :][:512] == FREE)
    assert resident_bytes() - before < 256 << 20


def test_states_of_memory_that_is_used_again_are_refused_if_the_host_has_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.observe.instruments.shadow.states.refused", lambda size: f"{size} are too many")
    with pytest.raises(OutOfMemoryError, match="100 are too many"):
        States(1 << 20).allocated(GLOBAL_BASE, 100)

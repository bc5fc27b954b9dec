"""Instruments of a launch: each gets its own code and its own result."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

from tilewright.errors import LaunchError
from tilewright.instruments import Coalescing
from tilewright.simulate.events import Handler, Site

BODY = "ld.global.u32 %r1, [%at]; add.u32 %r1, %r1, 1; st.global.u32 [%at], %r1;"


class Only(Coalescing):
    """Counts one kind of access."""

    def __init__(self, access: str) -> None:
        super().__init__()
        self.access = access

    def handler(self, site: Site, offsets: tuple[int, ...] | None = None) -> Handler | None:
        return super().handler(site, offsets) if site.access == self.access else None


class Whole(Only):
    """Holds an object that cannot be pickled."""

    def __init__(self, access: str) -> None:
        super().__init__(access)
        self.unlike = lambda: access


@pytest.mark.parametrize("kind", [Only, Whole])
def test_an_instrument_s_wants_are_part_of_the_translation(kind: type[Only]) -> None:
    for access in ("load", "store", "load"):
        out = np.zeros(32, np.int32)
        rows = run(kernel(BODY), out, instruments=[kind(access)]).results["coalescing"].rows
        assert [row.site.access for row in rows] == [access]


def test_two_instruments_of_one_name_are_refused() -> None:
    with pytest.raises(LaunchError, match="coalescing, coalescing"):
        run(kernel(BODY), np.zeros(32, np.int32), instruments=[Coalescing(), Only("load")])


def test_two_instruments_of_one_kind_may_have_two_names() -> None:
    load, store = Only("load"), Only("store")
    store.name = "stores"
    results = run(kernel(BODY), np.zeros(32, np.int32), instruments=[load, store]).results
    assert results["coalescing"].total("load", "sectors") == results["stores"].total("store", "sectors") == 4
    assert results["coalescing"].total("store", "sectors") == 0

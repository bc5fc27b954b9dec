"""A user's own instrument, written in C beside a module outside the package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from ptx_kernels import kernel, run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="`make runtime` installs the compiler"
)

IN_C = """
#include "simulate/runtime/instrument.h"

TW_INLINE void tw_upper_access(TW_WHERE, uint32_t mask, const tw_u64_lanes *addresses, uint32_t bytes)
{
    uint64_t *limit = launch;
    counters[0] += tw_lane_count(mask & tw_where64(*addresses - GLOBAL_BASE >= *limit));
}
"""
IN_PYTHON = """
from pathlib import Path

import numpy as np

from tilewright.ground.native.bitcode import bitcode
from tilewright.simulate.events import EventKind, Handler, Instrument, Storage


class Upper(Instrument):
    name, slots = "upper", 1

    def __init__(self, limit):
        self.limit = limit

    def handler(self, site, offsets=None):
        if site.kind is EventKind.ACCESS and site.space == "global":
            return Handler("tw_upper_access", needs=(bitcode(Path(__file__).with_name("upper.c")),))

    def begin(self, facts):
        return Storage(launch=np.array([self.limit], np.uint64))

    def collect(self, sites, counters):
        return [(site.access, int(count)) for site, count in zip(sites, counters[:, 0])]
"""


def compiled(folder: Path, text: str) -> None:
    from tilewright.ground.native.clang import main
    from tilewright.simulate.events import GLOBAL_BASE

    (folder / "upper.c").write_text(text.replace("GLOBAL_BASE", f"{GLOBAL_BASE}u"))
    main([str(folder / "upper.c")])


@pytest.fixture
def upper(tmp_path: Path) -> Iterator[ModuleType]:
    """The instrument's module, compiled."""
    compiled(tmp_path, IN_C)
    (tmp_path / "upper_in_c.py").write_text(IN_PYTHON)
    sys.path.insert(0, str(tmp_path))
    yield importlib.import_module("upper_in_c")
    sys.path.remove(str(tmp_path))
    del sys.modules["upper_in_c"]


BODY = "ld.global.u32 %r1, [%at]; add.u32 %r1, %r1, 1; st.global.u32 [%at], %r1;"


def test_it_counts(upper: ModuleType) -> None:
    out = np.zeros(32, np.int32)
    everything = run(kernel(BODY), out, instruments=[upper.Upper(0)])
    assert everything.results["upper"] == [("load", 32), ("store", 32)]
    assert (out == 1).all()
    nothing = run(kernel(BODY), out, instruments=[upper.Upper(1 << 40)])
    assert nothing.results["upper"] == [("load", 0), ("store", 0)]


def test_an_edit_of_the_c_is_another_translation(upper: ModuleType, tmp_path: Path) -> None:
    out = np.zeros(32, np.int32)
    run(kernel(BODY), out, instruments=[upper.Upper(0)])
    from tilewright.ground.native.bitcode import bitcode
    from tilewright.simulate.run import kernels

    compiled(tmp_path, IN_C.replace("tw_lane_count(", "2 * tw_lane_count("))
    bitcode.cache_clear()  # as in a fresh process
    kernels._text_of.cache_clear()
    again = run(kernel(BODY), out, instruments=[upper.Upper(0)])
    assert again.results["upper"] == [("load", 64), ("store", 64)]

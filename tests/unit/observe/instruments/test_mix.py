import random
import subprocess
import sys

import numpy as np
import pytest

from tilewright import instruments
from tilewright.instruments import Mix
from tilewright.simulate.events import EventKind, Instrument, Site

from .handlers import FULL, Harness, site


def line(number, instructions, source=""):
    steps = tuple((number + i, "mov.b32", source) for i in range(instructions))
    return Site(EventKind.RUN, number, source, "mov.b32", instructions, steps=steps)


def test_handler_counts_runs_and_lanes():
    harness = Harness(Mix())
    rng = random.Random(1)
    masks = [FULL, 1, 1 << 31, *(rng.getrandbits(32) for _ in range(100))]
    for mask in masks:
        assert harness.run(mask) == [1, bin(mask).count("1")]
    assert harness.counters.tolist() == [[len(masks), sum(bin(mask).count("1") for mask in masks)]]


def test_totals_and_lines():
    sites = [line(10, 5, "k.py:3"), line(20, 2), line(30, 3, "k.py:3")]
    result = Mix().collect(sites, np.array([[2, 64], [100, 1600], [1, 1]], np.uint64))
    assert result.warp_instructions == 2 * 5 + 100 * 2 + 3
    assert result.thread_instructions == 64 * 5 + 1600 * 2 + 3
    assert result.lane_efficiency == (320 + 3200 + 3) / (32 * 213)
    assert result.active_lanes == result.lane_efficiency * 32
    assert list(result.lines().items()) == [("ptx:20", 100), ("ptx:21", 100), ("k.py:3", 13)]


def test_nothing_ran():
    result = Mix().collect([line(1, 4)], np.zeros((1, 2), np.uint64))
    assert result.warp_instructions == result.thread_instructions == 0
    assert result.lane_efficiency == 0.0


def test_which_sites():
    assert isinstance(Mix(), Instrument)
    assert Mix().handler(line(1, 1)) is not None
    assert Mix().handler(site()) is None


def test_symbols_belong_to_one_instrument():
    wanted = (Site(EventKind.RUN, 1, "", "mov.b32"), site(), site("shared"))
    handlers = [getattr(instruments, n)().handler(s) for n in ("Mix", "Coalescing", "Banks") for s in wanted]
    symbols = [handler.symbol for handler in handlers if handler is not None]
    assert sorted(symbols) == ["tw_banks_access", "tw_coalescing_global", "tw_mix_run"]
    assert all(f"@{h.symbol}(" in h.text or h.needs for h in handlers if h is not None)


def test_names_are_imported_on_first_use():
    check = (
        "import sys, tilewright.instruments as i; assert 'tilewright.observe.instruments.mix' not in sys.modules; "
        "assert i.Mix().name == 'mix'; assert 'tilewright.observe.instruments.mix' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
    assert set(instruments.__all__) <= set(dir(instruments))
    with pytest.raises(AttributeError, match=r"\(public names: Banks"):
        instruments.Nothing  # noqa: B018

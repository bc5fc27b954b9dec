"""Turns of contenders, with a clock that only contenders and the host move: order, calls a sample, caches, medians."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from tilewright.show.rates import turns as rates_turns
from tilewright.show.rates.turns import Host, Ready, Spread, turns

NOTHING = np.zeros(0)


class Bench:
    """A clock, and a log: a letter a call, `.` when the host comes to rest, `~` when caches are emptied."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log = ""
        self.others = 0.0  # seconds of other processes

    def host(self) -> Host:
        return Host(lambda: self.now, lambda: self.others, lambda: self.note("."), lambda: self.note("~"))

    def note(self, letter: str) -> None:
        self.log += letter

    def contender(self, letter: str, seconds: Sequence[float], *, own: bool = False) -> Ready:
        """A contender whose calls take these times in turn."""
        taken = self._taken(letter, seconds)

        def call() -> float:
            took = next(taken)
            self.now += 10.0 if own else took  # the host's clock is not asked where the device has one
            return took

        return Ready(call, lambda: NOTHING, call if own else None)

    def _taken(self, letter: str, seconds: Sequence[float]) -> Iterator[float]:
        while True:
            for one in seconds:
                self.note(letter)
                yield one


def test_contenders_take_turns_and_each_turn_begins_with_another_one() -> None:
    bench = Bench()
    found = turns([bench.contender("a", [0.25]), bench.contender("b", [0.5])], 3, host=bench.host())
    assert (found.samples, found.disturbed) == (((0.25,) * 3, (0.5,) * 3), False)
    assert bench.log == "ab" "ab" ".a.b" ".b.a" ".a.b"  # warmed up, counted, then three turns  # fmt: skip


def test_a_sample_of_short_calls_is_their_mean_after_more_of_them() -> None:
    bench, seconds = Bench(), 2**-13
    (found,) = turns([bench.contender("a", [seconds])], 1, host=bench.host()).samples
    assert found == (seconds,)
    warmed, _, sample = bench.log.partition(".")
    assert len(warmed) == math.ceil(rates_turns.WARM_SECONDS / seconds) + 1  # one says how many a sample has
    assert len(sample) == 11 * round(rates_turns.SAMPLE_SECONDS / seconds)


def busy_in(bench: Bench, turns_: set[int]) -> Ready:
    """A contender of a quarter of a second; other processes work during some calls. Two calls come before the turns."""
    number = [-3]

    def call() -> float:
        number[0] += 1
        busy = number[0] in turns_
        bench.now += 0.25
        bench.others += 0.2 * busy
        return 0.25 + max(0, number[0])

    return Ready(call, lambda: NOTHING, call)


def test_turns_in_which_others_worked_are_repeated() -> None:
    bench = Bench()
    found = turns([busy_in(bench, {0, 2})], 3, host=bench.host())
    assert (found.samples, found.disturbed) == (((1.25, 3.25, 4.25),), False)


def test_turns_are_repeated_a_limited_number_of_times() -> None:
    bench = Bench()
    found = turns([busy_in(bench, set(range(100)) - {4})], 3, host=bench.host())
    assert (found.samples, found.disturbed) == (((4.25, 0.25, 1.25),), True)
    bench = Bench()
    turns([busy_in(bench, set(range(1000)))], 100, host=bench.host())
    assert bench.now == pytest.approx(0.5 + 100 * 0.25 + rates_turns.AGAIN_SECONDS)
    bench = Bench()
    turns([busy_in(bench, set(range(1000)))], 2, host=bench.host())
    assert bench.now == pytest.approx(0.5 + 4 * 0.25)


def test_caches_are_emptied_before_each_product() -> None:
    bench = Bench()
    turns([bench.contender("a", [0.001])], 3, cold=True, host=bench.host())
    assert bench.log.partition(".")[2] == "~a.~a.~a"


def test_a_device_s_own_clock_counts() -> None:
    bench = Bench()
    (found,) = turns([bench.contender("a", [0.003], own=True)], 2, host=bench.host()).samples
    assert found == pytest.approx([0.003] * 2)


def test_one_outlier_does_not_move_the_median_and_quartiles_show_noise() -> None:
    quiet = Spread.of([1.0, 1.01, 1.02, 1.01, 9.0])
    assert (quiet.median, quiet.noisy) == (1.01, False)
    assert Spread.of([1.0, 1.2, 1.0, 1.2, 1.1]).noisy


@pytest.mark.parametrize(("spread", "noisy"), [((1.0, 0.96, 1.05), False), ((1.0, 0.95, 1.06), True)])
def test_noise_begins_at_a_tenth(spread: tuple[float, float, float], noisy: bool) -> None:
    assert Spread(*spread).noisy == noisy


def test_the_host_comes_to_rest_when_its_threads_do(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([0.0, 0.02, 0.02, 0.04, 0.04, 0.0401])
    slept: list[float] = []
    monkeypatch.setattr(rates_turns.time, "process_time", lambda: next(used))
    monkeypatch.setattr(rates_turns.time, "sleep", slept.append)
    Host().settle()
    assert len(slept) == 3


def test_eviction_reads_more_than_the_largest_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates_turns, "last_level_bytes", lambda: 1 << 20)
    evict: Callable[[], None] = Host().evict
    evict()
    memory = evict._memory  # type: ignore[attr-defined]
    assert memory.nbytes > 1 << 20
    evict()
    assert evict._memory is memory  # type: ignore[attr-defined]

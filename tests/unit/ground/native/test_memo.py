"""Objects that exist once: threads that ask at the same time get the same one, and failures leave nothing behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from tilewright.ground.native.memo import Memo, bounded, memo


def at_once(work: Callable[[int], object], threads: int = 16) -> list[object]:
    """Results of a function on several threads that begin together."""
    begin, results = threading.Barrier(threads), [None] * threads

    def run(number: int) -> None:
        begin.wait()
        results[number] = work(number)

    crew = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return results


def test_sixteen_threads_get_one_object_made_once() -> None:
    made = []

    @memo
    def table() -> list[int]:
        time.sleep(0.01)
        made.append(1)
        return [1]

    assert len({id(found) for found in at_once(lambda _: table())}) == 1
    assert len(made) == 1


def test_other_keys_do_not_wait_for_each_other() -> None:
    meeting = threading.Barrier(4, timeout=10)

    @bounded(8)
    def passed(number: int) -> int:
        meeting.wait()
        return number

    assert at_once(passed, 4) == [0, 1, 2, 3]


def test_if_making_fails_the_next_thread_tries() -> None:
    tries = iter([ZeroDivisionError(), KeyboardInterrupt(), None])
    results = Memo[str]()

    def make() -> str:
        error = next(tries)
        if error is not None:
            raise error
        return "made"

    for kind in (ZeroDivisionError, KeyboardInterrupt):
        with pytest.raises(kind):
            results.get("key", make)
    assert results.get("key", make) == "made"
    assert results.get("key", lambda: "again") == "made"


def test_the_oldest_results_are_dropped_and_all_can_be() -> None:
    calls = []

    @bounded(2)
    def noted(number: int, *, sign: int = 1) -> int:
        calls.append(number)
        return sign * number

    assert [noted(1), noted(2), noted(3), noted(3, sign=-1), noted(3)] == [1, 2, 3, -3, 3]
    noted.cache_clear()  # type: ignore[attr-defined]
    assert noted(3) == 3
    assert calls == [1, 2, 3, 3, 3]


def test_an_object_may_be_requested_while_it_is_made() -> None:
    """A signal handler may do so: it gets its own object, because it would wait for itself."""
    depth = []

    @memo
    def nested() -> int:
        depth.append(1)
        return nested() if len(depth) == 1 else 7

    assert nested() == 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="not run: this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    results = Memo[int]()
    making, may_end = threading.Event(), threading.Event()
    thread = threading.Thread(target=results.get, args=("key", lambda: (making.set(), may_end.wait(), 1)[2]))
    thread.start()
    assert making.wait(10)
    if not (child := os.fork()):
        signal.alarm(10)
        os._exit(results.get("key", lambda: 42))
    may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert results.peek("key") == 1

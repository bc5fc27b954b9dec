"""The pool of threads: every record is run once, by all free threads, for any number of callers."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

from tilewright.multiply.backends.cpu.pool import ASLEEP, JOB, NEXT, SLOTS, WORKING, Crew, _Crews

#: void work(ptr record, ptr scratch, ptr a, ptr b, ptr out, ptr more)
WORK = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)

ARRAYS = (11, 22, 33, 44)


class Task:
    """A job in Python that counts its records, and notes the threads that ran them."""

    def __init__(self, records: int, threads: int, seconds: float = 0.0) -> None:
        self.done = np.zeros(records, np.int64)
        self.scratch = np.zeros(threads, np.int64)
        self.threads: set[int] = set()
        self.seconds = seconds
        self.function = WORK(self.work)
        self.words = np.zeros(JOB.size // 8 + 8, np.int64)
        self.address = self.words.ctypes.data + -self.words.ctypes.data % 64
        head = (ctypes.cast(self.function, ctypes.c_void_p).value or 0, self.done.ctypes.data, 8)
        job = (*head, self.scratch.ctypes.data, 8, *ARRAYS, records, 0, 0, 0)
        JOB.pack_into((ctypes.c_char * JOB.size).from_address(self.address), 0, *job)

    def word(self, index: int) -> int:
        return ctypes.c_int64.from_address(self.address + 8 * index).value

    def work(self, record: int, scratch: int, *arrays: int) -> None:
        assert arrays == ARRAYS
        self.threads.add(threading.get_ident())
        ctypes.c_int64.from_address(record).value += 1
        ctypes.c_int64.from_address(scratch).value += 1
        time.sleep(self.seconds)


@pytest.mark.parametrize(("records", "threads"), [(1, 1), (1, 4), (2, 2), (100, 2), (37, 5)])
def test_every_record_is_run_once(records: int, threads: int) -> None:
    task = Task(records, threads)
    Crew().run(task.address, threads)
    assert (task.done == 1).all()
    assert task.scratch.sum() == records
    assert task.word(WORKING) == 0
    assert task.word(NEXT) >= records
    assert 1 <= task.word(SLOTS) <= threads
    assert len(task.threads) <= threads


def test_threads_work_at_the_same_time_each_with_its_own_scratch() -> None:
    task = Task(8, 4, seconds=0.2)
    start = time.perf_counter()
    Crew().run(task.address, 4)
    assert time.perf_counter() - start < 1.2  # alone: 1.6 s
    assert len(task.threads) >= 2
    assert np.count_nonzero(task.scratch) == len(task.threads)


def test_a_caller_never_waits_for_workers_that_are_busy() -> None:
    crew = Crew()
    slow, quick = Task(2, 2, seconds=2), Task(6, 2)
    other = threading.Thread(target=crew.run, args=(slow.address, 2))
    other.start()
    while len(slow.threads) < 2:
        time.sleep(0.001)
    start = time.perf_counter()
    crew.run(quick.address, 2)
    assert time.perf_counter() - start < 1.5
    assert quick.threads == {threading.get_ident()}
    other.join()
    assert (quick.done == 1).all()
    assert (slow.done == 1).all()


def test_sleeping_workers_are_woken() -> None:
    crew = Crew()
    first = Task(4, 2, seconds=0.01)  # kept alive: the job uses its memory
    crew.run(first.address, 2)
    for _ in range(500):
        if crew.mailbox(0) == ASLEEP:
            break
        time.sleep(0.01)
    assert crew.mailbox(0) == ASLEEP
    task = Task(4, 2, seconds=0.05)
    crew.run(task.address, 2)
    assert len(task.threads) == 2


def test_many_callers_at_the_same_time() -> None:
    crew = Crew()
    tasks = [Task(25, 3) for _ in range(24)]

    def call(mine: list[Task]) -> None:
        for task in mine:
            crew.run(task.address, 3)

    callers = [threading.Thread(target=call, args=(tasks[i::8],)) for i in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
        assert not caller.is_alive()
    assert all((task.done == 1).all() for task in tasks)


def test_work_goes_on_without_a_worker_that_cannot_start_and_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    crew, start = Crew(), threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    task = Task(20, 3)
    crew.run(task.address, 3)
    assert (task.done == 1).all() and len(task.threads) == 1
    monkeypatch.setattr(threading.Thread, "start", start)
    task = Task(20, 3, 0.01)
    crew.run(task.address, 3)
    assert (task.done == 1).all() and len(task.threads) == 3
    assert len(crew._gates) == len(crew._threads) == 2


def test_first_calls_at_the_same_time_get_one_crew() -> None:
    crews, barrier, found = _Crews(), threading.Barrier(8), []

    def first() -> None:
        barrier.wait()
        found.append(crews())

    threads = [threading.Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(x) for x in found}) == 1

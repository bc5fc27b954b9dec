"""Ctrl-C where it must not interrupt, and where Python would lose it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.ground.native import secure_files
from tilewright.ground.native.interrupts import DeferredSigint, Postponed, hidden, none_lost


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_postponed_interrupt_is_raised_at_the_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt):
        with DeferredSigint() as interrupt:
            assert not interrupt.came
            ctrl_c()
            ctrl_c()
            done.append(interrupt.came)
        done.append("not here")
    assert done == [True]
    with pytest.raises(KeyboardInterrupt):
        ctrl_c()


def test_postponed_twice_it_is_raised_after_the_outer_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), DeferredSigint():
        with DeferredSigint():
            ctrl_c()
        done.append("between")
    assert done == ["between"]


def test_an_error_inside_is_the_interrupts_context() -> None:
    with pytest.raises(KeyboardInterrupt) as error, DeferredSigint():
        ctrl_c()
        raise ZeroDivisionError
    assert isinstance(error.value.__context__, ZeroDivisionError)


def test_other_threads_are_left_alone() -> None:
    handler = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with DeferredSigint() as interrupt:
            seen.append((interrupt.came, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, handler)]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_a_handler_that_raises_nothing_stays_as_it_is(handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with DeferredSigint() as interrupt:
            ctrl_c()
            assert not interrupt.came
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


class _Struck:
    def __del__(self) -> None:
        ctrl_c()


def _finalizer() -> None:
    thing = _Struck()
    del thing


def _weak_reference() -> None:
    class Thing: ...

    thing = Thing()
    reference = weakref.ref(thing, lambda _: ctrl_c())
    del thing
    assert reference() is None


def _callback() -> None:
    ctypes.CFUNCTYPE(None)(ctrl_c)()


def _generator() -> None:
    def numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            ctrl_c()

    found = numbers()
    next(found)
    del found


@pytest.mark.parametrize("place", [_finalizer, _weak_reference, _callback, _generator])
def test_an_interrupt_that_python_would_only_print_is_raised_again(
    place: Callable[[], None], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), none_lost():
        place()
        for _ in range(500):  # it comes between two instructions, and wakes no sleeping thread
            time.sleep(0.01)
    assert capfd.readouterr() == ("", "")


def test_a_postponed_interrupt_is_raised_after_a_callback_of_c() -> None:
    def called() -> int:
        with Postponed():
            ctrl_c()
            return 7

    with pytest.raises(KeyboardInterrupt):
        assert called() == 7
        for _ in range(500):
            time.sleep(0.01)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer versions let it through as it is")
def test_an_interrupt_during_the_creation_of_a_class_is_found() -> None:
    class Named:
        def __set_name__(self, owner: type, name: str) -> None:
            ctrl_c()

    with pytest.raises(RuntimeError) as error:
        type("Made", (), {"named": Named()})
    assert isinstance(hidden(error.value), KeyboardInterrupt)
    assert hidden(RuntimeError("of another kind")) is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_errors_of_finalizers_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    class Thing:
        def __del__(self) -> None:
            raise ZeroDivisionError

    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: shown.append(about.exc_type))
    hook = sys.unraisablehook
    with none_lost():
        thing = Thing()
        del thing
    assert shown == [ZeroDivisionError]
    assert sys.unraisablehook is hook


@pytest.mark.parametrize("moment", ["fchmod", "fdopen", "replace"])
def test_ctrl_c_leaves_no_half_written_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    owner: Any = Path if moment == "replace" else os
    real = getattr(owner, moment)

    def interrupted(*arguments: Any) -> Any:
        ctrl_c()
        return real(*arguments)

    monkeypatch.setattr(owner, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        secure_files.write(tmp_path / "entry", b"all of it")
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]
    assert (tmp_path / "entry").read_bytes() == b"all of it"


def test_ctrl_c_leaves_no_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = secure_files.temporary_folder

    def interrupted() -> Path:
        made = real()
        ctrl_c()
        return made

    monkeypatch.setattr(secure_files, "temporary_folder", interrupted)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt), secure_files.working_folder():
        pytest.fail("it was to strike before")
    assert list(tmp_path.iterdir()) == []

"""Progress in one line: `translating fast_matmul ... 3 s`."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from tilewright.ground import progress as waiting
from tilewright.ground.progress import Activity
from tilewright.simulate.machine.sizes import duration_text

#: Seconds after which a line shows an activity.
PATIENCE_SECONDS = 1.0
#: Seconds between lines in a pipe or a log.
LINES_SECONDS = 30.0
_REWRITE_SECONDS = 0.25
#: Seconds of waiting for a launch after which a line adds the hint.
_HINT_SECONDS = 30.0
_LEAST_SHARE = 0.01  # done, before the rest is estimated

Show = Callable[[str], object]


class StatusLine:
    """Watches activities and shows long ones, from its own thread.

    `show` takes a line of text, or "" if no activity is left. An activity is shown after `first_seconds`, and then
    every `every_seconds`. `hint` says what a user can do about a launch that does not end.
    """

    def __init__(self, show: Show, first_seconds: float, every_seconds: float, hint: str = "") -> None:
        self._show = show
        self._hint = hint
        self._first, self._every = first_seconds, every_seconds
        self._lock = threading.Lock()
        self._works: list[Activity] = []
        self._shown = False
        self._process = os.getpid()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show_long, name="tilewright-status", daemon=True)

    def started(self, work: Activity) -> None:
        """Remember it."""
        with self._lock:
            self._works.append(work)

    def ended(self, work: Activity) -> None:
        """Forget an activity; after the last one, clear the line before the program continues."""
        with self._lock:
            self._works = [w for w in self._works if w is not work]
            if not self._works:
                self._clear()

    def __enter__(self) -> StatusLine:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if os.getpid() != self._process:  # a forked child lacks the thread, and may have inherited its lock
            return
        self._over.set()
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        if self._shown:
            self._shown = False
            self._write("")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader closed the pipe, or the stream is closed
            self._show(text)

    def _show_long(self) -> None:
        tick = min(_REWRITE_SECONDS, self._first, self._every)
        shown_s = -self._every
        while not self._over.wait(tick):
            now = time.monotonic()
            with self._lock:
                if self._over.is_set() or now - shown_s < self._every:
                    continue
                text = line(self._works, now, self._first, self._hint)
                if text:
                    shown_s, self._shown = now, True
                    self._write(text)


def line(works: Sequence[Activity], now_s: float, patience_seconds: float = PATIENCE_SECONDS, hint: str = "") -> str:
    """The line for current activities: the longest one, and in brackets the latest within it; "" while they are short.

    >>> line([Activity("running", "tiled", 4096, "blocks", lambda: 1024, began_s=0.0)], 12.0)
    'running tiled ... 12 s, 1,024 of 4,096 blocks, about 36 s left'
    >>> line([Activity("running", "spins", launch=True, began_s=0.0)], 31.0, hint="Ctrl-C stops it")
    'running spins ... 31 s; Ctrl-C stops it'
    """
    long = [work for work in works if now_s - work.began_s >= patience_seconds]
    if not long:
        return ""
    text = _text(long[0], now_s)
    last = works[-1]
    if last is not long[0] and last in long:
        text += f" ({_text(last, now_s)})"
    elif last is not long[0]:
        text += f" ({last.doing} {last.what})"
    asked = hint and (long[0].launch or last.launch) and now_s - long[0].began_s >= _HINT_SECONDS
    return f"{text}; {hint}" if asked else text


def _text(work: Activity, now_s: float) -> str:
    seconds = now_s - work.began_s
    text = f"{work.doing} {work.what}".rstrip() + f" ... {duration_text(seconds)}"
    share = work.share()
    if work.done is None or not work.parts:
        return text
    amount = f"{min(work.done(), work.parts):,} of {work.parts:,} {work.unit}" if work.unit else f"{100 * share:.0f} %"
    left = f", about {duration_text(seconds * (1 - share) / share)} left" if _LEAST_SHARE <= share < 1 else ""
    rate = f", {share * work.flops / seconds / 1e9:,.3g} GFLOPS" if work.flops and seconds else ""
    return f"{text}, {amount}{rate}{left}"


@contextlib.contextmanager
def progress(show: Show | None = None, *, hint: str = "Ctrl-C shows where it is") -> Iterator[None]:
    """Show activities over a second within the context: translating a kernel, a launch, a product, the ladder.

    Without it, a program that uses Tilewright is never written to: a library is silent unless it is asked. The command
    line asks for itself.

    Parameters
    ----------
    show : callable, optional
        Is given each line as text, once a second, and "" when the wait is over; `logging.getLogger("mine").info` for
        one. It is called from a thread of its own. By default a line on standard error that is written over, on a
        terminal and in a notebook; in a pipe a line every half a minute.
    hint : str
        What a user can do about a launch that does not end, which a line adds after half a minute.

    Yields
    ------
    None

    Examples
    --------
    >>> import numpy as np
    >>> import tilewright as tw
    >>> with tw.progress():
    ...     c = tw.matmul(np.eye(2), np.eye(2))
    """
    stream = sys.stderr
    if show is not None:
        status = StatusLine(show, PATIENCE_SECONDS, PATIENCE_SECONDS, hint)
    elif stream is None:
        yield
        return
    elif rewrites(stream):
        status = StatusLine(_Rewritten(stream), PATIENCE_SECONDS, _REWRITE_SECONDS, hint)
    else:
        status = StatusLine(_printed(stream), LINES_SECONDS, LINES_SECONDS, hint)
    with status, waiting.watched(status):
        yield


def rewrites(stream: TextIO) -> bool:
    """Whether a line can be written over: on a terminal, and in a notebook's output."""
    try:
        terminal = stream.isatty()
    except (OSError, ValueError):  # closed
        terminal = False
    return terminal or type(stream).__module__.startswith("ipykernel")


class _Rewritten:
    """A line that is written over by the next, with blanks alone: every terminal and notebook understands that."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._length = 0

    def __call__(self, text: str) -> None:
        text = text[: self._width() - 1]
        self._stream.write("\r" + text.ljust(self._length) + ("" if text else "\r"))
        self._stream.flush()
        self._length = len(text)

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):  # a notebook's
            return 80


def _printed(stream: TextIO) -> Show:
    def show(text: str) -> None:
        if text:
            stream.write(text + "\n")
            stream.flush()

    return show

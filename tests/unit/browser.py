"""A real browser without a window, driven by its own protocol over pipes: no driver program, no port, no library.

Source: Chrome DevTools Protocol, tip of tree; `--remote-debugging-pipe` reads messages from file descriptor 3 and
writes them to 4, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Keys in the protocol's terms.
KEYS = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9, "Enter": 13, "Home": 36, "End": 35}
WAIT_SECONDS = 60


def found() -> str | None:
    """The browser's program, if one of the usual names is on the path."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One page of a running browser."""

    def __init__(self, to: int, source: int) -> None:
        self._to, self._source = to, source
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **values: Any) -> dict[str, Any]:
        """Send the browser a request; returns its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + WAIT_SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._source], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser did not answer for {WAIT_SECONDS} s"
            piece = os.read(self._source, 1 << 20)
            assert piece, "the browser has ended"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, path: Path, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Load a file in a window of this width, and wait until it is drawn."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", media=media, features=features)
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        until = time.monotonic() + WAIT_SECONDS
        while not self.run(f"document.readyState === 'complete' && location.href === '{path.as_uri()}'"):
            assert time.monotonic() < until, "the page did not load"
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def run(self, code: str) -> Any:
        """The value of an expression in the page, a promise's when it is kept."""
        answer = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key."""
        values = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        self.send("Input.dispatchKeyEvent", type="rawKeyDown", **values)
        self.send("Input.dispatchKeyEvent", type="keyUp", **values)

    def picture(self) -> bytes:
        """The whole page as PNG."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        """The printed page."""
        return base64.b64decode(self.send("Page.printToPDF")["data"])

    @property
    def complaints(self) -> list[str]:
        """The page's console errors and warnings, its exceptions, and its attempts to load."""
        said = []
        for event in self.events:
            method, values = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                said.append(values["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
                said.append(str([one.get("value") for one in values["args"]]))
            elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
                said.append(values["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not values["request"]["url"].startswith(("file:", "about:")):
                said.append(f"loads {values['request']['url']}")
        return said


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """A browser that keeps its files in a folder, and ends with the block."""
    program = found()
    assert program is not None
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()

    def pipes() -> None:  # in the child: 3 is read and 4 is written; neither may be one of the pipes' own numbers
        reads, writes = os.dup(to_browser), os.dup(from_browser)
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    browser = subprocess.Popen(
        [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
        preexec_fn=pipes,  # noqa: PLW1509
    )  # fmt: skip
    try:
        os.close(to_browser)
        os.close(from_browser)
        yield Page(from_us, to_us)
    finally:
        browser.terminate()
        browser.wait(WAIT_SECONDS)
        os.close(from_us)
        os.close(to_us)

"""Settings of all tests: a separate translation cache, and reasons for tests of devices that did not run."""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A slow or busy host is no failure; what is random is printed by Hypothesis and can be replayed.
settings.register_profile("tilewright", deadline=None, print_blob=True)
settings.load_profile("tilewright")

# A shell that is not interactive starts jobs in the background with Ctrl-C ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def translation_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache that starts empty, so that tests translate with the code as it is; xdist's workers share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "translations"
    before = os.environ.get("TILEWRIGHT_CACHE_DIR")
    os.environ["TILEWRIGHT_CACHE_DIR"] = str(folder)
    yield folder
    if before is None:
        del os.environ["TILEWRIGHT_CACHE_DIR"]
    else:
        os.environ["TILEWRIGHT_CACHE_DIR"] = before


@pytest.fixture(scope="session", autouse=True)
def quick_code_lasts() -> Iterator[None]:
    """Kernels of tests stay in quick code, as they end before better code would help; test_tiers.py sets its own."""
    from tilewright.simulate.run import kernels

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(kernels, "WORTH_SECONDS", 10.0)
        yield


@pytest.fixture(scope="session")
def opencl_device() -> Any:
    """This machine's first OpenCL device; tests are skipped, with the reason, where there is none."""
    from tilewright.errors import DeviceError, MissingExtraError
    from tilewright.multiply.backends.opencl import choose

    try:
        found = choose("opencl")
    except (DeviceError, MissingExtraError) as error:
        pytest.skip(f"not run: {error}")
    if found.platform.startswith("Portable") and shutil.which("ld") is None:
        pytest.skip("not run: PoCL links its kernels with `ld`, which is not installed")
    return found


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """In a fresh clone xdist's workers collect in turn, so the others find what the first has compiled."""
    if "PYTEST_XDIST_WORKER" not in os.environ or (session.config.rootpath / ".pytest_cache").exists():
        return (yield)
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return (yield)


def pytest_collection_finish() -> None:
    """Garbage collection ignores collected tests, which live as long as the session, and examines the rest rarely.

    Python's own thresholds have it examine all modules and reports again and again: a tenth of the suite's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a GPU, tests marked `hardware` are reported as skipped. A test's name must be the same in all workers."""
    if addresses := [item.nodeid for item in items if re.search("<.* at 0x", item.nodeid)]:
        raise pytest.UsageError(f"a test's name must hold no address (got {addresses[0]}); give its parameter an id")
    marked = [item for item in items if item.get_closest_marker("hardware")]
    if not marked:
        return
    from tilewright.multiply.backends.cuda import device

    if not device.available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="not run: no NVIDIA GPU and driver here"))

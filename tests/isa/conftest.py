"""Settings of all tests of instructions: the level of their launches' code, and its host."""

from __future__ import annotations

from collections.abc import Iterator

import levels
import narrow_hosts
import pytest


@pytest.fixture(scope="module", autouse=True)
def level_and_host() -> Iterator[None]:
    """Set both as in `levels`."""
    with pytest.MonkeyPatch.context() as patch, levels.launches(optimised=not levels.SWAPPED):
        narrow_hosts.use_host(patch.setattr, levels.HOST)
        yield

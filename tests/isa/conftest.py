"""What all tests of instructions share: the level of their launches' code, and the host that it is for."""

from __future__ import annotations

from collections.abc import Iterator

import levels
import narrow_hosts
import pytest


@pytest.fixture(scope="module", autouse=True)
def level_and_host() -> Iterator[None]:
    """As `levels` says."""
    with pytest.MonkeyPatch.context() as patch, levels.launches(optimised=not levels.SWAPPED):
        narrow_hosts.use_host(patch.setattr, levels.HOST)
        yield

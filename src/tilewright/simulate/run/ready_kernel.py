"""A kernel ready to run."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tilewright.ground.native.compiler import Library
from tilewright.simulate.translate.translation import Translation


@dataclass(frozen=True)
class ReadyKernel:
    """A kernel as machine code in this process."""

    translation: Translation
    library: Library
    cached: bool
    seconds: float

    @functools.cached_property
    def address(self) -> int:
        """Host address of the warp function."""
        return self.library.addresses[self.translation.symbol]

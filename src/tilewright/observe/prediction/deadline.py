"""The time limit of a prediction."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from tilewright.errors import LimitError
from tilewright.simulate.launch_request import Limits


@dataclass(frozen=True, slots=True)
class Deadline:
    """A number of host seconds from now on.

    >>> Deadline().left()
    inf
    """

    seconds: float = math.inf
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, limits: Limits | None) -> Deadline:
        """From a launch's limits: a prediction may take as long as its run."""
        return cls() if limits is None or limits.seconds is None else cls(float(limits.seconds))

    def left(self) -> float:
        """Seconds left, not negative."""
        return max(0.0, self.began + self.seconds - time.monotonic())

    def check(self) -> None:
        """Raise LimitError if none are left."""
        if not self.left():
            raise LimitError(
                f"a prediction must finish within {self.seconds:g} s (took longer); raise `limits.seconds`, or "
                "predict a simpler kernel"
            )

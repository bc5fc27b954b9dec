"""How long a prediction may take."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from tilewright.errors import LimitError
from tilewright.simt.run.limits import Limits


@dataclass(frozen=True, slots=True)
class Deadline:
    """So many seconds of the host from now on.

    Examples
    --------
    >>> Deadline().left()
    inf
    """

    seconds: float = math.inf
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, limits: Limits | None) -> Deadline:
        """That of a launch's limits: as long as its run may take."""
        return cls() if limits is None or limits.seconds is None else cls(float(limits.seconds))

    def left(self) -> float:
        """Seconds, not negative."""
        return max(0.0, self.began + self.seconds - time.monotonic())

    def check(self) -> None:
        """Raise LimitError where none are left."""
        if not self.left():
            raise LimitError(
                f"a prediction must be made within {self.seconds:g} s (took longer); raise `limits.seconds`, or "
                "predict a simpler kernel"
            )

"""Instruments: observers of a simulated run. Each subscribes to events, counts in LLVM, and returns frozen records.

An instrument never changes what a kernel computes, and a run without it has no code for it. Instruments import
:mod:`tilewright.simulate.events`; the machine does not import instruments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.ground.lazy_exports import publish

if TYPE_CHECKING:
    from tilewright.observe.instruments.banks import Banks as Banks, BanksResult as BanksResult
    from tilewright.observe.instruments.coalescing import (
        Coalescing as Coalescing,
        CoalescingResult as CoalescingResult,
    )
    from tilewright.observe.instruments.divergence import (
        Divergence as Divergence,
        DivergenceResult as DivergenceResult,
    )
    from tilewright.observe.instruments.mix import Mix as Mix, MixResult as MixResult

publish(
    __name__,
    {
        "banks": "Banks BanksResult",
        "coalescing": "Coalescing CoalescingResult",
        "divergence": "Divergence DivergenceResult",
        "mix": "Mix MixResult",
    },
)

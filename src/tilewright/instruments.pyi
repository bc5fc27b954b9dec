"""For type checkers: the names of `tilewright.instruments`."""

from tilewright.observe.instruments import (
    Banks as Banks,
    BanksResult as BanksResult,
    Coalescing as Coalescing,
    CoalescingResult as CoalescingResult,
    Divergence as Divergence,
    DivergenceResult as DivergenceResult,
    Mix as Mix,
    MixResult as MixResult,
)

"""Reads of device memory by torch's operations: of elements that nobody wrote they are findings, as copies are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.simulate.device.internal_code import source_line

if TYPE_CHECKING:
    from tilewright.simulate.device.gpu import SimulatedGpu
    from tilewright.simulate.observer import ArgumentFact

#: Operations that move elements or choose among them, without computing with them; others end in one of `_ENDS`. In
#: place, with `_` at the end, they write their first argument without reading it.
_MOVES = frozenset(
    "_copy_from _copy_from_and_resize _index_put_impl _pin_memory block_diag cat clone constant_pad_nd contiguous copy "
    "diag_embed embedding flip gather index index_fill index_put index_select lift_fresh masked_fill masked_select put "
    "repeat repeat_interleave roll rot90 scatter select_backward slice_backward stack take tril triu where".split()
)
_ENDS = ("_copy", "_like", "_scatter")
#: Others that do so in place: they fill it, or change what it is a tensor of.
_FILLS = frozenset(
    "_foreach_zero bernoulli cauchy exponential fill fill_diagonal geometric log_normal normal random resize "
    "resize_as set uniform zero".split()
)


def are_read(name: str) -> bool:
    """Whether an operation computes with the elements of its arguments.

    >>> are_read("sum"), are_read("clone"), are_read("copy_"), are_read("zeros_like"), are_read("new_empty")
    (True, False, False, False, False)
    """
    return not (_moves(name.removesuffix("_")) or name.startswith(("new_", "empty")))


def is_updated(name: str) -> bool:
    """Whether an operation reads what it writes.

    >>> is_updated("add_"), is_updated("zero_"), is_updated("mm")
    (True, False, False)
    """
    stem = name.removesuffix("_")
    return stem != name and not _moves(stem) and stem not in _FILLS


def _moves(stem: str) -> bool:
    return stem in _MOVES or stem.endswith(_ENDS)


def report(gpu: SimulatedGpu, facts: Iterable[ArgumentFact]) -> None:
    """Tell observers that an operation reads tensors."""
    line = source_line()
    for fact in facts:
        for observer in gpu.observers:
            observer.host_reads(fact, line)

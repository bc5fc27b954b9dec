"""Reads of device memory by torch's operations: of elements that nobody wrote they are findings, as copies are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.simulate.device.internal_code import source_line

if TYPE_CHECKING:
    from tilewright.simulate.device.gpu import SimulatedGpu
    from tilewright.simulate.observer import ArgumentFact

#: Operations that move elements or choose among them, without computing with them.
_MOVES = frozenset(
    "_copy_from _copy_from_and_resize _pin_memory _to_copy block_diag cat clone constant_pad_nd contiguous copy "
    "diag_embed diagonal_scatter embedding expand_copy flip gather index index_copy index_put index_select "
    "lift_fresh lift_fresh_copy masked_fill masked_scatter masked_select narrow_copy permute_copy put repeat "
    "repeat_interleave roll rot90 scatter select_backward select_scatter slice_backward slice_scatter split_copy "
    "split_with_sizes_copy stack take tril triu unfold_copy view_copy where".split()
)
#: Operations that write their first argument without reading it; others that end in `_` read it.
_FILLS = frozenset(
    "_foreach_copy_ _foreach_zero_ _index_put_impl_ bernoulli_ cauchy_ copy_ exponential_ fill_ fill_diagonal_ "
    "geometric_ index_copy_ index_fill_ index_put_ log_normal_ masked_fill_ masked_scatter_ normal_ put_ random_ "
    "resize_ resize_as_ scatter_ set_ tril_ triu_ uniform_ zero_".split()
)


def are_read(name: str) -> bool:
    """Whether an operation computes with the elements of its arguments.

    >>> are_read("sum"), are_read("clone"), are_read("zeros_like"), are_read("new_empty")
    (True, False, False, False)
    """
    return not (name in _MOVES or name.endswith("_like") or name.startswith(("new_", "empty")))


def is_updated(name: str) -> bool:
    """Whether an operation reads what it writes.

    >>> is_updated("add_"), is_updated("zero_"), is_updated("mm")
    (True, False, False)
    """
    return name.endswith("_") and name not in _FILLS


def report(gpu: SimulatedGpu, facts: Iterable[ArgumentFact]) -> None:
    """Tell observers that an operation reads tensors."""
    line = source_line()
    for fact in facts:
        for observer in gpu.observers:
            observer.host_reads(fact, line)

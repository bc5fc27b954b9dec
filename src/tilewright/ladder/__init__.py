"""The ladder: every kernel of the catalogue, from three loops to many results a thread, run and compared.

`matrices` makes and checks operands, `choice` picks records, a `climber` runs one record on one machine, `climbing`
runs them all, and `rung` holds what they found.
"""

from __future__ import annotations

from tilewright.ladder.choice import choose, select
from tilewright.ladder.climbing import climb, climb_dtypes, multiply
from tilewright.ladder.matrices import check_operands, operands
from tilewright.ladder.rung import Climb, Counts, Footprint, Machine, OffMultiples, Product, Rung

__all__ = [
    "Climb",
    "Counts",
    "Footprint",
    "Machine",
    "OffMultiples",
    "Product",
    "Rung",
    "check_operands",
    "choose",
    "climb",
    "climb_dtypes",
    "multiply",
    "operands",
    "select",
]

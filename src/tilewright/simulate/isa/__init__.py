"""The instruction table: one row for each family of PTX forms, in the manual's notation.

Each module of this package holds the rows of one chapter in a module constant `rows`; :func:`table` joins them.
"""

from __future__ import annotations

import importlib

from tilewright.ground.native.memo import memo
from tilewright.simulate.isa.roles import Role, role_of
from tilewright.simulate.isa.table import Form, Linear, Row, Table, lower

#: Modules with rows, in the order of the manual's chapter 9.
MODULES = (
    "integer",
    "integer_bits",
    "integer_carry",
    "float",
    "half",
    "extrema",
    "approximate",
    "compare",
    "logic",
    "video",
    "move",
    "convert",
    "convert_packed",
    "memory",
    "copies",
    "matrix_moves",
    "wmma",
    "tensor_copies",
    "tensor_maps",
    "textures",
    "atomic",
    "control",
    "stack",
    "barrier",
    "mbarrier",
    "bulk",
    "stores",
    "reductions",
    "cluster",
    "warp",
    "shuffle",
    "matrix",
    "matrix_sparse",
    "matrix_scaled",
    "warpgroup",
    "tensor_memory",
    "tensor_products",
)


@memo
def table() -> Table:
    """Every row, joined. Built once; treat it as read-only."""
    joined = Table()
    for name in MODULES:
        for row in importlib.import_module(f"{__name__}.{name}").rows.rows:
            joined.add(row)
    return joined


__all__ = ["MODULES", "Form", "Linear", "Role", "Row", "Table", "lower", "role_of", "table"]

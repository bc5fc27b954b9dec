"""Changes of tensor maps by kernels, and copies of them (PTX ISA 9.7.9.27, tensormap.replace; 9.7.13, cp_fenceproxy).

Fields are checked where a copy uses the map. A meaning of kind `map` returns the runtime's number of the field.
"""

from __future__ import annotations

import functools

from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.state import MAP_FIELDS

rows = Table()

#: The assembler crashes on other orders of these names.
_ALL = 8
_replace = functools.partial(
    rows.row,
    section="9.7.9.27",
    kind="map",
    cost="memory",
    fixed=_ALL,
    space="global shared::cta",
    types={"b": "b64", "ord": "u32"},
    note="fields are checked where a copy uses the map",
)
_word = functools.partial(_replace, types={"b": "b32", "ord": "u32"})


@_replace("tensormap.replace.tile.field{.space}.b1024.b64 [a], b;", field="global_address")
@_replace("tensormap.replace.tile.field{.space}.b1024.b64 [a], ord, b;", field="global_stride")
@_word(
    "tensormap.replace.tile.field{.space}.b1024.b32 [a], b;",
    field="rank elemtype interleave_layout swizzle_mode fill_mode",
)
@_word("tensormap.replace.tile.field{.space}.b1024.b32 [a], ord, b;", field="box_dim global_dim element_stride")
def replaced(form: Form) -> int:
    """The number of the field."""
    return MAP_FIELDS[form["field"]]


@_word(
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.scope.sync.aligned [to], [from], size;",
    types={"size": "u32"},
    scope="cta cluster gpu sys",
    space="",
    note="the map is copied at once",
)
def copied(form: Form) -> int:
    """The number that means all fields."""
    return 0

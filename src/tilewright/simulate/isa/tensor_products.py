"""Products in tensor memory, issued by one thread: A in shared or tensor memory, B in shared, D in tensor memory.

Source: PTX ISA, 9.7.16.10 (tcgen05.mma, tcgen05.mma.ws). A register, the instruction descriptor, holds what the names
of other products state: shape, types, signs and transposition. The machine multiplies when a product is issued.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilewright.simulate.isa.table import Form, Table
from tilewright.simulate.isa.tensor_memory import ALL, GROUPS
from tilewright.simulate.state import KINDS, PRODUCTS

rows = Table()

_TYPES = {
    **dict.fromkeys(("to", "instruction", "off", "sa", "sb", "meta"), "b32"),
    "a": "b32|b64",
    "b": "b64",
    "adds": "pred",
    "zeros": "b64",
}
_A = "collector::a::fill collector::a::use collector::a::lastuse collector::a::discard"
_B = " ".join(f"collector::b{i}::{does}" for i in range(4) for does in ("fill", "use", "lastuse", "discard"))


def _counts(form: Form) -> Mapping[str, int]:
    """Words of the mask of lanes of tensor memory that are not written, for each block."""
    return {"off": 8 if form["group"] == "cta_group::2" else 4}


def product(form: Form) -> tuple[int, int]:
    """The number of a product's kind, and the bits of the name's other parts."""
    fine = form["scales"] in ("block16", "scale_vec::4X")
    does = (form["group"] == "cta_group::2") * PRODUCTS["pair"] + form.has("ws") * PRODUCTS["stationary"]
    does += form.has("sp") * PRODUCTS["sparse"]
    return KINDS[form["of"].removeprefix("kind::")], does + fine * PRODUCTS["block16"]


_product = functools.partial(
    rows.row,
    kind="tensor_product",
    cost="tensor",
    types=_TYPES,
    fixed=ALL,
    note="complete when it is issued; the bits are those of the launch's GPU",
)
_MATRICES = "[to], {[}a{]}, b"
_of = functools.partial(_product, group=GROUPS, collector=_A, counts=_counts)
for _words, _also, _section in (("", "", "9.7.16.10.9.1"), (".sp", ", [meta]", "9.7.16.10.9.2")):
    _name, _rest = f"tcgen05.mma{_words}.group.of{{.collector}} {_MATRICES}{_also}", "instruction{, off}, adds"
    _of(f"{_name}, {_rest}{{, shrinks}};", section=_section, of="kind::f16 kind::tf32")(product)
    _of(f"{_name}, {_rest};", section=_section, of="kind::f8f6f4 kind::i8")(product)
_scaled = functools.partial(_product, section="9.7.16.10.9.1", group=GROUPS, collector=_A)
for _kind, _scales in (("kind::mxf8f6f4", "{.scales}"), ("kind::mxf4", "{.scales}"), ("kind::mxf4nvf4", ".scales")):
    _blocks = {"kind::mxf8f6f4": "scale_vec::1X block32", "kind::mxf4": "scale_vec::2X block32"}
    _scaled(
        f"tcgen05.mma.group.of.block_scale{_scales}{{.collector}} {_MATRICES}, instruction, [sa], [sb], adds;",
        of=_kind,
        scales=_blocks.get(_kind, "scale_vec::2X scale_vec::4X block16 block32"),
    )(product)
for _words, _also, _section in ((".ws", "", "9.7.16.10.9.3"), (".ws.sp", ", [meta]", "9.7.16.10.9.4")):
    _product(
        f"tcgen05.mma{_words}.group.of{{.collector}} {_MATRICES}{_also}, instruction, adds{{, zeros}};",
        section=_section,
        group="cta_group::1",
        of="kind::f16 kind::tf32 kind::f8f6f4 kind::i8",
        collector=_B,
    )(product)

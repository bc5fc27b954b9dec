"""The handlers of mbarriers and bulk copies: the constants of each instruction, and a call of C."""

from __future__ import annotations

from pathlib import Path

from tilewright.ground.native.bitcode import bitcode
from tilewright.observe.instruments.shadow import accesses, cells
from tilewright.simulate.events import CFunction, EventKind, Handler, Site
from tilewright.simulate.isa import Form, table

_FILES = ("mbarriers.c", "bulk.c", "origins.c", "products.c", "descriptors.c")
_PARTS = (*(bitcode(Path(__file__).with_name(name)) for name in _FILES), *accesses.PARTS)
_CHANGE = CFunction("tw_shadow_mbarrier", EventKind.MBARRIER, _PARTS)
_BULK = CFunction("tw_shadow_bulk", EventKind.BULK, _PARTS)
_BULK_WAIT = CFunction("tw_shadow_bulk_wait", EventKind.BULK_WAIT, _PARTS)
_TENSOR = CFunction("tw_shadow_tensor", EventKind.TENSOR, _PARTS)
#: How a reducing copy accesses its destination: atomically, element by element.
_COMBINES = cells.READS | cells.WRITES | cells.STRONG
#: Events with one handler each.
_PLAIN = {
    EventKind.EXIT: "tw_shadow_mbarrier_exit",
    EventKind.BULK_COMMIT: "tw_shadow_bulk_commit",
    EventKind.FENCE: "tw_shadow_proxy_fence",
}
#: Events of products of a warpgroup.
_PRODUCTS = {
    EventKind.ACCESS: "tw_shadow_product",
    EventKind.COMMIT: "tw_shadow_product_commit",
    EventKind.WAIT: "tw_shadow_product_wait",
    EventKind.DESCRIPTOR: "tw_shadow_descriptor",
}
#: The operation of an instruction, by a word of its name; all others count bytes.
_DOES = {
    "init": cells.MAKES,
    "inval": cells.ENDS,
    "arrive": cells.ARRIVES,
    "arrive_drop": cells.ARRIVES,
    "test_wait": cells.TESTS,
    "try_wait": cells.TESTS,
    "commit": cells.ARRIVES,
}
_HOW = {"relaxed": cells.RELAXED, "parity": cells.OF_PARITY, "expect_tx": cells.EXPECTS, "async": cells.OF_COPIES}


def has_event(form: Form | None) -> bool:
    """Whether an instruction has an event of its own, which has more data than its accesses.

    >>> [has_event(table().find(name)) for name in ("mbarrier.init.b64", "bar.sync", "frobnicate")]
    [True, False, False]
    """
    kinds = ("mbarrier", "await", "bulk", "tensor", "counted", "fill")
    return form is not None and (form.row.kind in kinds or (form.row.kind == "columns" and form.has("commit")))


#: Handlers of instructions of tensor memory that access shared memory.
_COLUMNS = {"columns": "tw_shadow_allocated", "tensor_product": "tw_shadow_operands"}


def columns_handler(form: Form) -> Handler | None:
    """The handler of an access of shared memory by an instruction of tensor memory; None for other instructions."""
    symbol = None if form.has("cp") else _COLUMNS.get(form.row.kind)
    return Handler(symbol, needs=_PARTS) if symbol else None


def is_product(form: Form | None) -> bool:
    """Whether an instruction is a product of shared memory, or commits or awaits groups of products.

    >>> [is_product(table().find(name)) for name in ("wgmma.commit_group.sync.aligned", "cp.async.commit_group")]
    [True, False]
    """
    return form is not None and form.name.startswith("wgmma.")


def handler(site: Site) -> Handler | None:
    """The handler of an event of mbarriers, bulk copies or products, of a proxy fence, or of the end of lanes."""
    if site.kind in _PLAIN:
        return Handler(_PLAIN[site.kind], needs=_PARTS)
    form = table().find(site.opcode)
    if form is None:
        return None
    if is_product(form):
        return Handler(_PRODUCTS[site.kind], needs=_PARTS) if site.kind in _PRODUCTS else None
    if site.kind is EventKind.BULK:
        sides = cells.TO_GLOBAL if form.has("bulk_group") else cells.FROM_GLOBAL if form.has("global") else 0
        sides |= cells.FROM_REGISTERS * (form.row.kind in ("counted", "fill"))
        sides |= cells.IS_TENSOR * form.has("tensor") | cells.COMBINES * bool(form["op"])
        return _BULK.handler(f"tw.memory.bulk.{sides}", [f"i32 {sides}"])
    if site.kind is EventKind.BULK_WAIT:
        read = int(form.has("read"))
        return _BULK_WAIT.handler(f"tw.memory.bulk_wait.{read}", [f"i32 {read}"])
    if site.kind is EventKind.TENSOR:
        does = {"store": cells.WRITES, "load": cells.READS}.get(site.access, _COMBINES)
        return _TENSOR.handler(f"tw.memory.tensor.{does}", [f"i32 {does}"])
    # without .noinc, an arrival of copies first adds one to the count, which it then takes away
    nothing = form.has("async") and not form.has("noinc")
    does = cells.COUNTS if nothing else next((number for word, number in _DOES.items() if form.has(word)), cells.COUNTS)
    does |= sum(bit for word, bit in _HOW.items() if form.has(word))
    return _CHANGE.handler(f"tw.memory.mbarrier.{does}", [f"i32 {does}"])

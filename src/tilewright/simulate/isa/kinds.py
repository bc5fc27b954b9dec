"""Kinds of rows, and the units that execute instructions: values of a row's fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Kind:
    """How the instructions of a kind of rows are placed."""

    placed: str  #: Who places them, and how the row's meaning is called.
    #: Their memory access: "move" loads if it has a result and stores if not, "store" is atomic with an operation.
    access: Literal["", "move", "store", "atomic", "copy"] = ""
    #: Whether results are uniform if the operands are; False: they may differ; None: the kind does not say.
    uniform: bool | None = None
    pure: bool = False  #: Whether they only write registers: they neither access memory nor wait.
    #: How many times fewer instructions a warp's turn has if it executes one, so that limits and Ctrl-C take effect in
    #: time. A warp's `mma` takes the host 0.1 to 6 us (`benchmarks/tensor_cores.py`), and longer for results that are
    #: not finite.
    slowness: int = 1


#: Kinds of rows, by name.
KINDS = {
    "lane": Kind("each lane by itself: emit(code, form, *sources) returns a value or a tuple of values", pure=True),
    "carry": Kind("as lane, with the carry flag as last source and as last result", uniform=True, pure=True),
    "warp": Kind("across lanes: emit(code, form, mask, *sources); mask has one bit for each executing lane"),
    "atomic": Kind(
        "one lane after another: emit(code, form, pointer, *sources) returns the old values", "atomic", uniform=False
    ),
    "memory": Kind("loads and stores, placed by translate.access", "move"),
    "copy": Kind("from one place of memory to another, placed by translate.copies", "copy"),
    "warpgroup": Kind(
        "as matrix, for a warpgroup; descriptors give the operands in shared memory", uniform=False, slowness=4_000
    ),
    "columns": Kind("allocation of tensor memory and moves there, placed by translate.tensor_memory", uniform=False),
    "tensor_product": Kind("a thread's product in tensor memory, placed by translate.tensor_products", slowness=20_000),
    "tensor": Kind("a copy of a box of a tensor, placed by translate.tensor_copies", slowness=1_000),
    "texture": Kind("a read of a texture, placed by translate.textures", uniform=False),
    "surface": Kind("a read or write of a surface, placed by translate.textures", uniform=False),
    "map": Kind("a change of a tensor map, placed by translate.tensor_maps: emit(form) returns the field's number"),
    "barrier": Kind("placed by translate.graph, which ends blocks there, and by the runtime", uniform=True),
    "cluster": Kind("an arrival at the barrier of the cluster, placed by translate.barriers"),
    "mbarrier": Kind("barriers in shared memory, placed by translate.mbarriers", "atomic", uniform=False),
    "bulk": Kind("one thread's copy of many bytes, placed by translate.bulk", "copy", slowness=1_000),
    "counted": Kind(
        "stores and reductions to shared memory that an mbarrier counts, placed by translate.stores", "store"
    ),
    "fill": Kind("zeros that one thread stores in shared memory, placed by translate.stores", "store", slowness=1_000),
    "bulk_group": Kind("groups of such copies; only instruments use them"),
    "await": Kind("a test of such a barrier's phase; one that fails ends the warp's turn", "atomic", uniform=True),
    "control": Kind("branches, calls and exits, placed by translate.graph and translate.calls", uniform=False),
    "stack": Kind("memory on a thread's stack, placed by translate.stack", uniform=True),
    "cvta": Kind("an address into or out of a state space's window", pure=True),
    "isspacep": Kind("whether an address is in a state space's window", uniform=True, pure=True),
    "fence": Kind("an order of memory accesses"),
    "group": Kind("groups of asynchronous copies or products; only instruments use them"),
    "policy": Kind("a cache policy; always 0, as no access uses it", uniform=True),
    "rows": Kind("moves of matrices in shared memory by rows, placed by translate.matrix_moves", "move", uniform=False),
    "fragment": Kind(
        "moves between a matrix in memory and a warp's fragment, placed by translate.fragments", "move", uniform=False
    ),
    "product": Kind(
        "emit(form) returns the `mma` products that a product of fragments consists of", uniform=False, slowness=1_000
    ),
    "matrix": Kind(
        "a whole warp with lists of registers: emit(form) returns a runtime function and the form's numbers",
        uniform=False,
        slowness=1_000,
    ),
    "nothing": Kind("no effect here", pure=True),
}
#: Units that execute instructions.
COSTS = ("integer", "half", "float", "double", "transcendental", "convert", "memory", "control", "warp", "tensor")

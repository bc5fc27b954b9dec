"""Kinds of rows, and the units that execute instructions: values of a row's fields."""

from __future__ import annotations

#: Kinds of rows, and who places their instructions.
KINDS = {
    "lane": "each lane by itself: emit(code, form, *sources) returns a value or a tuple of values",
    "carry": "as lane, with the carry flag as last source and as last result",
    "warp": "across lanes: emit(code, form, mask, *sources); mask has one bit for each executing lane",
    "atomic": "one lane after another: emit(code, form, pointer, *sources) returns the old values",
    "memory": "loads and stores, placed by translate.access",
    "copy": "from one place of memory to another, placed by translate.copies",
    "warpgroup": "as matrix, for a warpgroup; descriptors give the operands in shared memory",
    "columns": "allocation of tensor memory and moves there, placed by translate.tensor_memory",
    "tensor_product": "a thread's product in tensor memory, placed by translate.tensor_products",
    "tensor": "a copy of a box of a tensor, placed by translate.tensor_copies",
    "texture": "a read of a texture, placed by translate.textures",
    "surface": "a read or write of a surface, placed by translate.textures",
    "map": "a change of a tensor map, placed by translate.tensor_maps: emit(form) returns the field's number",
    "barrier": "placed by translate.graph, which ends blocks there, and by the runtime",
    "cluster": "an arrival at the barrier of the cluster, placed by translate.barriers",
    "mbarrier": "barriers in shared memory, placed by translate.mbarriers",
    "bulk": "one thread's copy of many bytes, placed by translate.bulk",
    "counted": "stores and reductions to shared memory that an mbarrier counts, placed by translate.stores",
    "fill": "zeros that one thread stores in shared memory, placed by translate.stores",
    "bulk_group": "groups of such copies; only instruments use them",
    "await": "a test of such a barrier's phase; one that fails ends the warp's turn",
    "control": "branches, calls and exits, placed by translate.graph and translate.calls",
    "stack": "memory on a thread's stack, placed by translate.stack",
    "cvta": "an address into or out of a state space's window",
    "isspacep": "whether an address is in a state space's window",
    "fence": "an order of memory accesses",
    "group": "groups of asynchronous copies or products; only instruments use them",
    "policy": "a cache policy; always 0, as no access uses it",
    "rows": "moves of matrices in shared memory by rows, placed by translate.matrix_moves",
    "fragment": "moves between a matrix in memory and a warp's fragment, placed by translate.fragments",
    "product": "emit(form) returns the `mma` products that a product of fragments consists of",
    "matrix": "a whole warp with lists of registers: emit(form) returns a runtime function and the form's numbers",
    "nothing": "no effect here",
}
#: How many times fewer instructions a warp's turn has if it executes one of these kinds, so that limits and Ctrl-C take
#: effect in time. A warp's `mma` takes the host 0.1 to 6 us (`benchmarks/tensor_cores.py`), and longer for results that
#: are not finite.
SLOWNESS = {
    "matrix": 1_000,
    "product": 1_000,
    "bulk": 1_000,
    "tensor": 1_000,
    "fill": 1_000,
    "warpgroup": 4_000,
    "tensor_product": 20_000,
}
#: Units that execute instructions.
COSTS = ("integer", "half", "float", "double", "transcendental", "convert", "memory", "control", "warp", "tensor")

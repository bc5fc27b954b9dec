"""Kinds of rows, and the units that execute instructions: what a row of the table may say of itself."""

from __future__ import annotations

#: Kinds of rows, and who places their instructions.
KINDS = {
    "lane": "each lane for itself: emit(code, form, *sources) gives a value or a tuple of values",
    "carry": "as lane, with the carry flag as last source and as last result",
    "warp": "across lanes: emit(code, form, mask, *sources), mask having a bit for each executing lane",
    "atomic": "one lane after another: emit(code, form, pointer, *sources) gives the old values",
    "memory": "loads and stores, placed by translate.access",
    "copy": "from one place of memory to another, placed by translate.copies",
    "warpgroup": "as matrix, of a warpgroup, whose other operands lie in shared memory, where descriptors say",
    "columns": "tensor memory: its columns, and what moves there, placed by translate.tensor_memory",
    "tensor_product": "a thread's product in tensor memory, placed by translate.tensor_products",
    "tensor": "a copy of a box of a tensor, placed by translate.tensor_copies",
    "texture": "a read of a texture, placed by translate.textures",
    "surface": "a read or write of a surface, placed by translate.textures",
    "map": "a change of a tensor map, placed by translate.tensor_maps: emit(form) gives the field",
    "barrier": "placed by translate.graph, which ends blocks there, and by the runtime",
    "cluster": "an arrival at the barrier of the cluster, placed by translate.barriers",
    "mbarrier": "barriers in shared memory, placed by translate.mbarriers",
    "bulk": "one thread's copy of many bytes, placed by translate.bulk",
    "counted": "registers stored in shared memory, or combined with it, which an mbarrier counts, by translate.stores",
    "fill": "one thread's zeros in shared memory, placed by translate.stores",
    "bulk_group": "groups of such copies, of which instruments alone take notice",
    "await": "a test of such a barrier's phase; one that fails ends the warp's turn",
    "control": "branches, calls and exits, placed by translate.graph and translate.calls",
    "stack": "memory on a thread's stack, placed by translate.stack",
    "cvta": "an address into or out of a state space's window",
    "isspacep": "whether an address lies in a state space's window",
    "fence": "an order of memory accesses",
    "group": "groups of asynchronous copies or products, of which instruments alone take notice",
    "policy": "a cache policy, of which no access here takes notice: 0",
    "rows": "matrices in shared memory by their rows, placed by translate.matrix_moves",
    "fragment": "a matrix in memory and a fragment of a warp, placed by translate.fragments",
    "product": "emit(form) gives the products of `mma` that a product of fragments consists of",
    "matrix": "a warp together, lists of registers: emit(form) gives a function of the runtime and the form's numbers",
    "nothing": "no effect here",
}
#: Units that execute instructions.
COSTS = ("integer", "half", "float", "double", "transcendental", "convert", "memory", "control", "warp", "tensor")

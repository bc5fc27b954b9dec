// Tensor memory under check: what the parts of `tensor_memory.c` keep of a block, and the kinds of findings.

#ifndef TILEWRIGHT_INSTRUMENTS_TENSOR_MEMORY_H
#define TILEWRIGHT_INSTRUMENTS_TENSOR_MEMORY_H

#include "shadow/records.h"

enum {
    // Kinds of findings.
    TW_TENSOR_EARLY = 1,    // a product or copy that is read may not have ended
    TW_TENSOR_STORED = 2,   // nor a store of registers
    TW_TENSOR_UNSET = 3,    // nobody has written what is read
    TW_TENSOR_CHANGED = 4,  // shared memory changes that a product or copy may still read
    TW_TENSOR_OVER = 5,     // tensor memory changes that a product may still read or write

    // Who wrote a cell.
    TW_BY_NOBODY = 0,
    TW_BY_PRODUCT = 1,
    TW_BY_COPY = 2,
    TW_BY_STORE = 3,

    TW_TENSOR_WARPS = 32,
    TW_TENSOR_COMMITS = 64,  // at most, whose mbarriers no thread has seen complete
    TW_TENSOR_HALVES = 8,           // of 16 lanes
    TW_CELLS = 4096,         // halves by columns
    TW_TENSOR_UNIT_BYTES = 16,
};

// A use of tensor memory or of a unit of shared memory: `number` counts what its warp has issued, from 1.
struct tw_use {
    uint32_t number;
    uint32_t who;  // the instruction's row << 8, its warp << 2, and what it is
};

// An mbarrier that completes when what a warp had issued by then is complete.
struct tw_commit {
    uint32_t place;  // one more than its offset; 0: free
    uint32_t phase;  // after which it has
    uint32_t warp;
    uint32_t number;
};

struct tw_tensor_block {
    uint32_t issued[TW_TENSOR_WARPS];  // products and copies of each warp, and those that are known to have ended
    uint32_t ended[TW_TENSOR_WARPS];
    uint32_t stores[TW_TENSOR_WARPS];  // the same of stores
    uint32_t stored[TW_TENSOR_WARPS];
    struct tw_commit commits[TW_TENSOR_COMMITS];
    struct tw_use writes[TW_CELLS];
    struct tw_use reads[TW_CELLS];
    struct tw_use units[];  // of shared memory, read by products and copies
};

struct tw_tensor_launch {
    struct tw_found found;
    uint64_t units;  // of a block's shared memory
};

#endif

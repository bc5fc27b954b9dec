// What `Convergence` keeps and reports.

#ifndef TILEWRIGHT_CONVERGENCE_H
#define TILEWRIGHT_CONVERGENCE_H

#include <stdint.h>

enum {
    // Kinds of records. Members: a caller that the mask does not name; a lane that it names and that does not come.
    TW_DIVERGENT = 1,
    TW_LEFT = 2,
    TW_NOT_NAMED = 3,
    TW_NOT_THERE = 4,
    TW_NOT_TOGETHER = 5,
    TW_NOT_ALL_WARPS = 6,

    TW_KNOWN_BARRIERS = 1024,  // of a block, the first
    TW_MISSED = 64,  // barriers that one thread is said to have missed, at most: loops come to the same few again
    TW_BLOCK_THREADS = 1024,
    TW_BLOCK_WARPS = 32,
    TW_GROUP_WARPS = 4,  // of a warpgroup
    TW_PRODUCTS = 8,     // that are counted apart; of more, those whose rows agree modulo this count together
};

// The present barrier of a warp: the lanes that have come to it, and where the last of them did.
struct tw_coming {
    uint32_t lanes;
    uint32_t row;
};

// A product of warpgroups: the instruction, and how often each warp has executed it.
struct tw_product {
    uint32_t row;
    uint32_t times[TW_BLOCK_WARPS];
};

// A block's memory.
struct tw_convergence {
    uint32_t ended;                    // warps
    uint32_t came[TW_BLOCK_THREADS];   // how many barriers each thread has come to
    uint32_t rows[TW_KNOWN_BARRIERS];  // the instruction of each barrier
    struct tw_coming coming[TW_BLOCK_WARPS];
    struct tw_product products[TW_PRODUCTS];
};

#endif

// What shuffles.py and shuffles.c share.

#ifndef TILEWRIGHT_SHUFFLES_H
#define TILEWRIGHT_SHUFFLES_H

#include "simulate/runtime/instrument.h"

enum {
    TW_CHAINS = 8,  // of a kernel that are followed
    TW_UNDEFINED = 1,  // the kind of record

    // How a shuffle finds the lane to read from.
    TW_UP = 0,
    TW_DOWN = 1,
    TW_BFLY = 2,
    TW_IDX = 3,
};

// Of a warp, the lanes that hold something undefined, and the shuffle that was the first.
struct tw_chain_lanes {
    uint32_t lanes;
    uint32_t row;
};

struct tw_chain {
    struct tw_chain_lanes of[TW_LANES];
};

// A block's memory.
struct tw_chains {
    struct tw_chain chains[TW_CHAINS];
};

#endif

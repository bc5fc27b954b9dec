// What addresses.py and addresses.c share.

#ifndef TILEWRIGHT_ADDRESSES_H
#define TILEWRIGHT_ADDRESSES_H

#include "simulate/runtime/instrument.h"

// What one warp did once: an access with the address of each lane, or that it came to a barrier.
struct tw_address_record {
    uint64_t block;  // of the grid
    uint32_t warp;   // of the block
    uint32_t row;    // which instruction
    uint32_t mask;   // lanes concerned
    uint32_t spare;
    uint64_t addresses[32];  // one a lane; of a barrier nothing
};

// A launch's memory; the records are after it.
struct tw_address_records {
    uint64_t taken;   // records that were wanted
    uint64_t rooms;   // that there is room for
    uint64_t blocks;  // of the grid, from the first, that are recorded
    uint64_t spare;
};

#endif

// What touched.py and touched.c share.

#ifndef TILEWRIGHT_TOUCHED_H
#define TILEWRIGHT_TOUCHED_H

#include "simulate/runtime/instrument.h"

enum {
    // What an access does: bits.
    TW_TOUCHED_READS = 1,
    TW_TOUCHED_WRITES = 2,
};

// A launch's memory.
struct tw_touched {
    uint64_t base;    // device address at which global memory begins
    uint64_t bytes;   // of it in use
    uint8_t *reads;   // a byte for each of them: 1 where it was read
    uint8_t *writes;
};

// Neighbouring bytes that an access of all lanes touches.
struct tw_touched_run {
    uint64_t strides;  // between the base and these bytes
    uint64_t ahead;    // and so many bytes
    uint64_t bytes;
};

#endif

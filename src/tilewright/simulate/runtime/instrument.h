// What an instrument's handlers are given; `simulate/events.py` says when each event is called, and with what.

#ifndef TILEWRIGHT_SIMT_INSTRUMENT_H
#define TILEWRIGHT_SIMT_INSTRUMENT_H

#include "lanes.h"
#include "records.h"

// The parameters that every handler begins with: the block's and the warp's record, the instrument's own memory of the
// launch and of the block, its counters of the site, and the site's number among them. A handler writes only to the
// last four.
#define TW_WHERE                                                                                                    \
    const struct tw_slot *slot, const struct tw_warp *warp, void *launch, void *block, uint64_t *counters, uint32_t row

enum {
    TW_VALUES_STRIDE_BYTES = 256,  // between the elements of a vector access, and between operands, in `values`
};

// For handlers of a few instructions, called often: it becomes part of the kernel.
#ifdef __clang__
#define TW_INLINE __attribute__((always_inline))
#else
#define TW_INLINE
#endif

#endif

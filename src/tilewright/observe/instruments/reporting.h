// What instruments that report first places share: a launch's memory begins with `struct tw_found`.

#ifndef TILEWRIGHT_REPORTING_H
#define TILEWRIGHT_REPORTING_H

#include "observe/instruments/shadow/records.h"
#include "simulate/runtime/instrument.h"

// Reports the lowest of some lanes, once.
static inline void tw_report(struct tw_found *found, const struct tw_slot *slot, const struct tw_warp *warp,
                             uint32_t kind, uint32_t row, uint32_t lanes)
{
    tw_found_at(found, kind, row, slot->block << 10 | (warp->index * TW_LANES + tw_first_lane(lanes)));
}

// The lanes that a warp began with.
static inline uint32_t tw_initial(const struct tw_found *found, const struct tw_warp *warp)
{
    uint64_t left = found->threads - warp->index * TW_LANES;
    return left < TW_LANES ? (1u << left) - 1 : UINT32_MAX;
}

// A source operand of 32 bits, as handlers of a VALUE are given it.
static inline tw_u32_lanes tw_operand(const char *values, uint32_t operand)
{
    typedef uint64_t wide __attribute__((vector_size(256), aligned(8)));
    return __builtin_convertvector(*(const wide *)(values + operand * TW_VALUES_STRIDE_BYTES), tw_u32_lanes);
}

#endif

// How many branches warps execute, and at how many of them their lanes part.

#include "simulate/runtime/instrument.h"

TW_INLINE void tw_divergence_branch(TW_WHERE, uint32_t mask, uint32_t taken)
{
    counters[0]++;
    counters[1] += taken != 0 && taken != mask;
    counters[2] += tw_lane_count(mask);
    counters[3] += tw_lane_count(taken);
}

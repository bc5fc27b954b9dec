// How many instructions ran, and with how many lanes.

#include "simulate/runtime/instrument.h"

void tw_mix_run(TW_WHERE, uint32_t mask)
{
    counters[0]++;
    counters[1] += tw_lane_count(mask);
}

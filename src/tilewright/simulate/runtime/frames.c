// Frames of called functions, in each thread's local memory.

#include "runtime.h"

// Copy an argument for one lane of the set after another. What it overlaps may be its own source.
void tw_copy(char *local, uint64_t to, uint64_t from, uint64_t bytes, uint64_t lane_stride, uint32_t lanes)
{
    for (uint32_t left = lanes; left; left = tw_other_lanes(left)) {
        char *own = local + tw_first_lane(left) * lane_stride;
        __builtin_memmove(own + to, own + from, bytes);
    }
}
